//! What `deploy` has to run the command: manifests, the Kustomize base, the image, and units.

mod base;
mod kubernetes;
mod systemd;
mod validator;

use std::path::{Path, PathBuf};
use std::process::Output;

/// The top of this repository.
fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file of this repository.
fn file(path: &str) -> String {
    let text = std::fs::read_to_string(top().join(path));
    text.unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn text_of(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!(
        "{}{}",
        String::from_utf8_lossy(out),
        String::from_utf8_lossy(err)
    )
}
