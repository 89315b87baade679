//! README and docs keep what they show: links lead somewhere, and the quick start runs as it is
//! copied.
#![cfg(unix)]

mod benchmarks;
mod copied;
mod links;
#[path = "../support/markdown.rs"]
mod markdown;
mod quick_start;
#[allow(dead_code, reason = "the benchmark uses more of it")]
#[path = "../../benches/peers/report/mod.rs"]
mod report;
#[allow(dead_code, reason = "drills use more of it")]
#[path = "../../examples/drill/sample.rs"]
mod sample;
mod settings;

use std::path::{Path, PathBuf};

/// The top of this repository.
fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A file of this repository.
fn file(path: &Path) -> String {
    let text = std::fs::read_to_string(top().join(path));
    text.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All pages of this repository, below the top.
fn pages() -> Vec<PathBuf> {
    let (mut pages, mut folders) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(top().join(&folder)).expect("a folder") {
            let entry = entry.expect("readable");
            let path = folder.join(entry.file_name());
            let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
            if is_hidden || path == Path::new("target") || path == Path::new("fuzz/target") {
                continue;
            }
            if entry.file_type().expect("readable").is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}
