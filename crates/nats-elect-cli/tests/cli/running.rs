//! Runs a command to its end.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;
use std::{fs, io};

use super::Ended;

/// No command takes as long by itself, on however busy a machine.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs the command with this on its stdin, if that is a pipe. A command that hangs is ended, and
/// the panic tells what it said and waited for.
pub fn run(command: &mut Command, stdin: &str) -> Ended {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start nats-elect");
    if let Some(mut pipe) = child.stdin.take() {
        // It may end without reading.
        let _ = pipe.write_all(stdin.as_bytes());
    }
    let id = child.id();
    let (tell, told) = channel();
    thread::spawn(move || tell.send(child.wait_with_output()));
    let mut hangs = None;
    let output = told.recv_timeout(LIMIT).unwrap_or_else(|_| {
        hangs = Some(threads(id).unwrap_or_else(|error| error.to_string()));
        let _ = Command::new("kill").args(["-9", &id.to_string()]).status();
        told.recv().expect("its output")
    });
    let output = output.expect("its output");
    let ended = Ended {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("text"),
        stderr: String::from_utf8(output.stderr).expect("text"),
    };
    if let Some(threads) = hangs {
        panic!(
            "{command:?} hangs.\n{threads}stdout: {}\nstderr: {}",
            ended.stdout, ended.stderr
        );
    }
    ended
}

/// What each thread of a process does, as Linux tells it.
fn threads(id: u32) -> io::Result<String> {
    let mut all = String::new();
    for thread in fs::read_dir(format!("/proc/{id}/task"))? {
        let path = thread?.path();
        let _ = write!(all, "{}:", path.display());
        for file in ["stat", "wchan", "syscall"] {
            let read = fs::read_to_string(path.join(file));
            let _ = write!(all, " {}", read.unwrap_or_default().trim());
        }
        all.push('\n');
    }
    Ok(all)
}
