//! The rules and the dashboard in `deploy`, on a real Prometheus.
//!
//! Prometheus is `PROMETHEUS_BIN`, else the one on `PATH`, else Debian's package, unpacked below
//! `target/`; `promtool` is its neighbour. The mixin is rendered by the Python package `gojsonnet`.
//! Where one of them can't be had the tests fail and say why.

#[path = "../../support/debian.rs"]
mod debian;
mod expressions;
mod files;
mod fleet;
mod instance;
mod live;
#[path = "../../support/markdown.rs"]
mod markdown;
mod mixin;
mod programs;
mod promtool;
#[path = "../../support/pypi.rs"]
mod pypi;
mod server;

use std::path::PathBuf;

/// The folder `deploy` of this repository.
fn deploy() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("deploy")
}

/// A file of this repository.
fn file(path: &str) -> String {
    let whole = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&whole).unwrap_or_else(|error| panic!("{path}: {error}"))
}
