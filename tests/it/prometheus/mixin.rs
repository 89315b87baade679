//! Renders the mixin.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

use super::debian::run;
use super::{deploy, pypi};

const PACKAGE: &str = "gojsonnet==0.22.0";
const EVALUATE: &str =
    "import _gojsonnet, sys; sys.stdout.write(_gojsonnet.evaluate_snippet('test', sys.argv[1]))";

/// Every rendered file, by its path from `deploy`.
pub fn rendered() -> BTreeMap<String, String> {
    serde_json::from_value(evaluate("render.jsonnet", "")).expect("texts")
}

/// A field of the mixin.
pub fn field(name: &str) -> Value {
    evaluate("mixin.libsonnet", &format!(".{name}"))
}

/// A field of the mixin as a fleet has it that wants these settings otherwise.
pub fn field_with(config: &str, name: &str) -> Value {
    evaluate(
        "mixin.libsonnet",
        &format!(" {{ _config+:: {config} }}.{name}"),
    )
}

fn evaluate(file: &str, rest: &str) -> Value {
    let file = deploy().join("prometheus/mixin").join(file);
    let source = format!("(import '{}'){rest}", file.display());
    let evaluated = pypi::fetched(PACKAGE).and_then(|library| {
        run(Command::new("python3")
            .env("PYTHONPATH", library)
            .args(["-c", EVALUATE, &source]))
    });
    let evaluated = evaluated.unwrap_or_else(|problem| {
        panic!("no rendering ({problem}): it takes Python 3 and the package {PACKAGE} from PyPI")
    });
    serde_json::from_str(&evaluated).expect("JSON")
}
