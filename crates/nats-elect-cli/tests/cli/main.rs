//! The command `nats-elect`, as people and scripts meet it.

#[cfg(target_os = "linux")]
mod agent;
mod candidates;
mod check;
mod choosing;
#[cfg(unix)]
mod connecting;
mod create_bucket;
#[cfg(unix)]
mod day;
#[cfg(unix)]
#[path = "../../../../tests/support/debian.rs"]
mod debian;
#[cfg(unix)]
mod deploy;
mod doctor;
mod documents;
mod domains;
mod end_lease;
#[cfg(target_os = "linux")]
mod exec;
mod fleet;
mod group;
mod grow;
mod history;
mod inspect;
mod ls;
mod maps;
#[path = "../../../../tests/support/markdown.rs"]
mod markdown;
mod moving;
#[cfg(unix)]
mod nagios;
#[cfg(unix)]
mod openapi;
mod orders;
mod output;
mod pair;
mod permissions;
#[cfg(unix)]
#[path = "../../../../tests/it/prometheus/programs.rs"]
mod programs;
mod reference;
mod retire;
mod running;
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

use std::process::{Command, Stdio};

use running::run;

/// What a command did.
struct Ended {
    /// How it was called, and what it read.
    command: String,
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Ended {
    #[track_caller]
    fn assert_code(&self, code: i32) {
        let (command, told, complaint) = (&self.command, &self.stdout, &self.stderr);
        assert_eq!(self.code, Some(code), "{command}\n{told}{complaint}");
    }

    /// The same, which ended with this code.
    #[track_caller]
    fn with_code(self, code: i32) -> Self {
        self.assert_code(code);
        self
    }

    #[track_caller]
    fn says(&self, expected: &str) {
        let (command, told) = (&self.command, &self.stdout);
        assert!(told.contains(expected), "{command}\n{expected}: {told}");
    }

    #[track_caller]
    fn says_all<'a>(&self, expected: impl IntoIterator<Item = &'a str>) {
        for expected in expected {
            self.says(expected);
        }
    }

    #[track_caller]
    fn does_not_say(&self, unexpected: &str) {
        let told = &self.stdout;
        assert!(!told.contains(unexpected), "{unexpected}: {told}");
    }

    /// Whether it says this on its standard error.
    #[track_caller]
    fn complains(&self, expected: &str) {
        let (command, told) = (&self.command, &self.stderr);
        assert!(told.contains(expected), "{command}\n{expected}: {told}");
    }

    #[track_caller]
    fn complains_all<'a>(&self, expected: impl IntoIterator<Item = &'a str>) {
        for expected in expected {
            self.complains(expected);
        }
    }

    #[track_caller]
    fn does_not_complain(&self, unexpected: &str) {
        let told = &self.stderr;
        assert!(!told.contains(unexpected), "{unexpected}: {told}");
    }
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
    run(command, "")
}

fn with_stdin(command: &mut Command, text: &str) -> Ended {
    run(command.stdin(Stdio::piped()), text)
}
