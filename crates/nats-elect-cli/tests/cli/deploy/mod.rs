//! What `deploy` has to run the command: manifests, the Kustomize base, the image, and units.

mod base;
mod kubernetes;
mod systemd;
mod validator;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use nats_elect_testing::NatsServer;

/// The top of this repository.
fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file of this repository.
fn file(path: &str) -> String {
    let text = std::fs::read_to_string(top().join(path));
    text.unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The command on this machine, for this server.
fn nats_elect(server: &NatsServer) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nats-elect"));
    command
        .env("NATS_URL", server.url())
        .env("XDG_CONFIG_HOME", "/nonexistent");
    command
}

fn text_of(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!(
        "{}{}",
        String::from_utf8_lossy(out),
        String::from_utf8_lossy(err)
    )
}
