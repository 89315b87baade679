//! The rules of axe-core, which browsers check pages by for people with disabilities.

use std::fs;
use std::sync::OnceLock;

use serde_json::{Value, json};

use super::super::debian::Problem;
use super::super::pypi;
use super::devtools::Browser;

/// Has axe-core 4.12.1 in it. Python is there for other tests as well, and npm may not be.
const PACKAGE: &str = "axe-playwright-python==0.1.8";

/// What the rules say of the page as it is now. Panics if it breaks one.
#[track_caller]
pub fn check(browser: &Browser, what: &str) -> Value {
    browser.value(&format!("{};true", script()));
    let said = browser.value("axe.run(document, { resultTypes: ['violations', 'incomplete'] })");
    let rules = |kind: &str| said[kind].as_array().map_or(0, Vec::len);
    let told = json!({
        "page": what,
        "axe": said["testEngine"]["version"],
        "passes": rules("passes"),
        "violations": rules("violations"),
        "incomplete": rules("incomplete"),
        "inapplicable": rules("inapplicable"),
    });
    println!("{told}");
    assert_eq!(rules("violations"), 0, "{what}: {:#}", said["violations"]);
    // It can't judge the contrast of signs, which stand beside words of the same colour, and of the
    // timeline's labels.
    for rule in said["incomplete"].as_array().expect("rules") {
        assert_eq!(rule["id"], "color-contrast", "{what}: {rule:#}");
        for node in rule["nodes"].as_array().expect("nodes") {
            let why = &node["any"][0]["data"]["messageKey"];
            assert!(why == "nonBmp" || why == "imgNode", "{what}: {node:#}");
        }
    }
    assert!(rules("passes") > 20, "{what}: {told}");
    told
}

fn script() -> &'static str {
    static SCRIPT: OnceLock<String> = OnceLock::new();
    SCRIPT.get_or_init(|| {
        fetched().unwrap_or_else(|problem| {
            panic!("no axe-core ({problem}): it takes Python 3 and the package {PACKAGE} from PyPI")
        })
    })
}

fn fetched() -> Result<String, Problem> {
    let library = pypi::fetched(PACKAGE)?;
    let script = library.join("axe_playwright_python/axe.min.js");
    Ok(fs::read_to_string(script)?)
}
