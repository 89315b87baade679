//! The schemas of Kubernetes, and YAML as Python reads it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

use crate::deploy::text_of;

/// The validator and the schemas of many versions, from `PyPI`.
const VALIDATOR: &str = "kubernetes-validate==1.37.0";
/// Old and new versions of Kubernetes by which the manifests are valid.
pub const VERSIONS: [&str; 3] = ["1.27", "1.31", "1.37"];

/// A folder with the validator, fetched once.
fn validator() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(fetched)
}

fn fetched() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(VALIDATOR.replace("==", "-"));
    if folder.join("complete").exists() {
        return folder;
    }
    let fetch = |program: &[&str]| {
        Command::new(program[0])
            .args(&program[1..])
            .args(["install", "--quiet", "--upgrade", "--target"])
            .arg(&folder)
            .arg(VALIDATOR)
            .output()
            .map_or_else(
                |error| Err(format!("{program:?}: {error}")),
                |output| {
                    output
                        .status
                        .success()
                        .then_some(())
                        .ok_or(text_of(&output))
                },
            )
    };
    let pips: [&[&str]; 3] = [&["python3", "-m", "pip"], &["pip3"], &["pip"]];
    let problems: Vec<_> = pips.into_iter().map_while(|pip| fetch(pip).err()).collect();
    assert!(
        problems.len() < pips.len(),
        "the manifests can't be checked: {VALIDATOR} could not be had from PyPI (needs Python 3 with pip):\n{}",
        problems.join("\n")
    );
    std::fs::write(folder.join("complete"), "").expect("writable");
    folder
}

fn python(arguments: &[&str]) -> Command {
    let mut python = Command::new("python3");
    python.args(arguments).env("PYTHONPATH", validator());
    python
}

pub fn validate(manifest: &Path, version: &str) -> Output {
    python(&["-m", "kubernetes_validate", "--strict", "-k", version])
        .arg(manifest)
        .output()
        .expect("python3 was there")
}

/// The documents of a file in YAML.
pub fn documents(yaml: &str) -> Vec<Value> {
    let script =
        "import json, sys, yaml; json.dump(list(yaml.safe_load_all(sys.stdin)), sys.stdout)";
    let mut reading = python(&["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 was there");
    let mut input = reading.stdin.take().expect("a pipe");
    input.write_all(yaml.as_bytes()).expect("it reads");
    drop(input);
    let read = reading.wait_with_output().expect("its end");
    serde_json::from_slice(&read.stdout).expect("JSON")
}
