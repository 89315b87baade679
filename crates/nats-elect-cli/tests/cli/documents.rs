//! Configuration as the documentation shows it.

#[path = "../../../../tests/support/markdown.rs"]
mod markdown;

use std::path::Path;

use crate::{nats_elect, with_stdin};

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
            let output = with_stdin(&mut nats_elect(&["check", "-"]), &block.text);
            let place = page.display();
            assert_eq!(
                output.code,
                Some(0),
                "{place}: {}\n{}",
                block.text,
                output.stderr
            );
            checked += 1;
        }
    }
    assert!(checked >= 3, "only {checked} were found");
}
