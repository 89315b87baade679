//! Lines of the docs that are copied from elsewhere in this repository.

use std::path::Path;

use super::file;
use super::markdown::blocks;

/// Text as its words: lines are broken anew where they are shown.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_statements_for_postgres_are_those_of_the_example() {
    let example = words(&file(Path::new("examples/fencing/fenced_postgres.rs")));
    let blocks = blocks(&file(Path::new("docs/fencing.md")));
    let statements: Vec<_> = blocks.iter().filter(|block| block.info == "sql").collect();
    assert_eq!(statements.len(), 2);
    for statement in statements {
        assert!(
            example.contains(&words(&statement.text)),
            "{}",
            statement.text
        );
    }
}

#[test]
fn the_exporter_has_the_version_that_is_tested() {
    let manifest = file(Path::new("Cargo.toml"));
    let shown = super::quick_start::block("docs/metrics.md", "toml");
    let exporter = shown
        .lines()
        .find(|line| line.starts_with("metrics-exporter"));
    let exporter = exporter.expect("the exporter");
    assert!(manifest.lines().any(|line| line == exporter), "{exporter}");
    let version = exporter.split('"').nth(1).expect("a version");
    let said = format!("With version {version} of the exporter");
    assert!(file(Path::new("docs/metrics.md")).contains(&said), "{said}");
}
