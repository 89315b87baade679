//! Configuration as the documentation shows it.

use std::path::Path;

use crate::{ended, markdown, nats_elect, with_stdin};

#[test]
fn every_configuration_in_the_docs_is_accepted_as_it_is_pasted() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut checked = 0;
    for page in std::fs::read_dir(docs).expect("the folder") {
        let page = page.expect("readable").path();
        if page.extension().is_none_or(|end| end != "md") {
            continue;
        }
        let text = std::fs::read_to_string(&page).expect("readable");
        for block in markdown::blocks(&text) {
            let is_manifest = block.text.contains("dependencies]");
            if block.info != "toml" || is_manifest {
                continue;
            }
            with_stdin(&mut nats_elect(&["check", "-"]), &block.text).assert_code(0);
            checked += 1;
        }
    }
    assert!(checked >= 2, "only {checked} were found");
}

#[test]
fn every_command_of_the_runbook_can_be_typed() {
    let runbook = include_str!("../../../../docs/runbook.md");
    let lines = runbook.lines().map(str::trim_start);
    let commands = lines.filter_map(|line| line.strip_prefix("$ nats-elect "));
    let mut tried = 0;
    for command in commands {
        let words = command.split('#').next().unwrap_or_default();
        let mut words: Vec<_> = words.split_whitespace().collect();
        if words
            .iter()
            .any(|it| it.contains(".toml") || it.contains(".txt") || *it == "FILE")
        {
            continue; // There is no such file here.
        }
        if matches!(
            words[..],
            ["end-lease" | "role", ..] | ["group", "grow", ..]
        ) {
            words.push("--yes");
        }
        words.extend(["--server", "nats://127.0.0.1:1", "--timeout", "1ms"]);
        let output = ended(&mut nats_elect(&words));
        // Nobody is there, which fails a check of `doctor`. A wrong command would end with 2.
        let code = if words[0] == "doctor" { 1 } else { 5 };
        output.assert_code(code);
        tried += 1;
    }
    assert!(tried > 30, "only {tried} were found");
}
