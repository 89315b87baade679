//! The command `nats-elect`, as people and scripts meet it.

mod candidates;
mod check;
mod choosing;
#[cfg(unix)]
mod connecting;
mod create_bucket;
#[cfg(unix)]
mod day;
mod doctor;
mod documents;
mod domains;
mod end_lease;
mod fleet;
mod group;
mod grow;
mod history;
mod inspect;
mod ls;
#[path = "../../../../tests/support/markdown.rs"]
mod markdown;
#[cfg(unix)]
mod nagios;
mod orders;
mod output;
mod pair;
mod permissions;
mod reference;
mod retire;
#[cfg(unix)]
mod serve;
mod step_down;
#[cfg(unix)]
mod top;
#[cfg(unix)]
#[path = "../../../../tests/support/transcript.rs"]
mod transcript;
mod verify;
mod watch;

use std::io::Write;
use std::process::{Command, Output, Stdio};

/// What a command did.
struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// The command, with nothing of this process's settings.
fn nats_elect(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nats-elect"));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("NATS_") || name.starts_with("CLICOLOR") || name == "NO_COLOR" {
            command.env_remove(name);
        }
    }
    command
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .args(arguments)
        .stdin(Stdio::null());
    command
}

fn ended(command: &mut Command) -> Ended {
    of(command.output().expect("run nats-elect"))
}

fn with_stdin(command: &mut Command, text: &str) -> Ended {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start nats-elect");
    let mut stdin = child.stdin.take().expect("a pipe");
    // It may end without reading.
    let _ = stdin.write_all(text.as_bytes());
    drop(stdin);
    of(child.wait_with_output().expect("its end"))
}

fn of(output: Output) -> Ended {
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("text"),
        stderr: String::from_utf8(output.stderr).expect("text"),
    }
}
