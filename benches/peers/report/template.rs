//! Text with gaps, and where it goes.

use std::path::Path;
use std::{fs, io};

/// Writes a page or a plot into the docs of this repository.
pub fn write(name: &str, text: &str) -> io::Result<()> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    fs::write(docs.join(name), text)?;
    eprintln!("written: docs/{name}");
    Ok(())
}

/// Puts each value where its name stands in double braces.
pub fn fill(template: &str, values: &[(&str, String)]) -> String {
    let mut text = template.to_owned();
    for (name, value) in values {
        let gap = format!("{{{{{name}}}}}");
        assert!(text.contains(&gap), "the template has no {gap}");
        text = text.replace(&gap, value.trim_end());
    }
    assert!(!text.contains("{{"), "nothing fills a gap of the template");
    text
}
