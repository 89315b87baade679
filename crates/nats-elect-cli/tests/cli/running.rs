//! Runs a command to its end.

use std::io::Write;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;
use std::{fs, io};

use nats_elect_testing::eventually;
use rustix::process::{Pid, Signal, kill_process};

use super::Ended;

/// No command takes as long by itself, on however busy a machine.
const LIMIT: Duration = Duration::from_secs(120);

/// How long what it printed is waited for once it was killed.
const LAST: Duration = Duration::from_secs(5);

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
    let output = told.recv_timeout(LIMIT).unwrap_or_else(|_| {
        let threads = threads(id);
        let _ = Command::new("kill").args(["-9", &id.to_string()]).status();
        // Another process may hold its pipes, and then there is no end of them.
        let said = told.recv_timeout(LAST);
        panic!("{command:?} hangs: {said:?}\n{threads:#?}");
    });
    let output = output.expect("its output");
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("text"),
        stderr: String::from_utf8(output.stderr).expect("text"),
    }
}

/// Returns what Linux tells of each thread of a process: its state, and what it waits for.
fn threads(id: u32) -> io::Result<Vec<String>> {
    let threads = fs::read_dir(format!("/proc/{id}/task"))?;
    let told = |thread: io::Result<fs::DirEntry>| {
        let path = thread?.path();
        let read = |file| fs::read_to_string(path.join(file)).unwrap_or_default();
        Ok(["stat", "wchan", "syscall"].map(read).join(" "))
    };
    threads.map(told).collect()
}

/// A process that goes on. It ends when this is dropped.
pub struct Process(pub Child);

impl Process {
    pub fn signal(&self, signal: Signal) {
        // It is not reaped before this is dropped or has exited.
        let _ = kill_process(Pid::from_child(&self.0), signal);
    }

    /// Kills it, as a power cut would if it left the rest alive.
    pub fn kill(&mut self) {
        self.0.kill().expect("kill");
        self.0.wait().expect("reap");
    }

    pub async fn exited(&mut self) -> ExitStatus {
        eventually(LIMIT, "the end of a process", async || {
            self.0.try_wait().expect("a child")
        })
        .await
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
