//! Runs a command to its end.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
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
    let arguments: Vec<_> = command.get_args().map(|it| it.to_string_lossy()).collect();
    Ended {
        command: format!("nats-elect {}\n{stdin}", arguments.join(" ")),
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

/// The children of a process, each with the thread that started it.
#[cfg(target_os = "linux")]
pub fn children(of: u32) -> Vec<(String, Pid)> {
    let threads = fs::read_dir(format!("/proc/{of}/task"));
    let threads = threads.into_iter().flatten().flatten();
    let of_each = threads.flat_map(|thread| {
        let list = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        let name = thread.file_name().to_string_lossy().into_owned();
        let pids = list.split_whitespace().filter_map(|it| it.parse().ok());
        let pids: Vec<_> = pids.filter_map(Pid::from_raw).collect();
        pids.into_iter().map(move |pid| (name.clone(), pid))
    });
    of_each.collect()
}

/// Kills the companion of this process that runs this program.
#[cfg(target_os = "linux")]
pub fn kill_companion(program: &std::path::Path) {
    let words = program.to_str().expect("UTF-8");
    let companion = children(std::process::id()).into_iter().find(|(_, pid)| {
        let pid = pid.as_raw_nonzero();
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).starts_with(words)
    });
    let (_, companion) = companion.expect("a companion");
    kill_process(companion, Signal::KILL).expect("it lives");
}

/// A process that goes on. It ends when this is dropped.
pub struct Process(pub Child);

impl Process {
    pub fn signal(&self, signal: Signal) {
        // It is not reaped before this is dropped or has exited.
        let _ = kill_process(Pid::from_child(&self.0), signal);
    }

    /// The code with which it ends.
    pub fn code(&mut self) -> Option<i32> {
        self.0.wait().expect("its end").code()
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

/// A process that goes on, and what it says line by line.
pub struct Teller {
    pub process: Process,
    lines: Receiver<String>,
    told: Vec<String>,
}

impl Teller {
    /// Starts it. What it says on its standard output is read.
    pub fn of_stdout(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("start");
        let stdout = child.stdout.take().expect("a pipe");
        Self::reading(child, stdout)
    }

    /// Starts it. What it says on its standard error is read.
    pub fn of_stderr(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().expect("start");
        let stderr = child.stderr.take().expect("a pipe");
        Self::reading(child, stderr)
    }

    fn reading(child: Child, stream: impl Read + Send + 'static) -> Self {
        let (tell, lines) = channel();
        let said = BufReader::new(stream).lines().map_while(Result::ok);
        thread::spawn(move || said.for_each(|line| drop(tell.send(line))));
        Self {
            process: Process(child),
            lines,
            told: Vec::new(),
        }
    }

    /// The next line. It is waited for.
    #[track_caller]
    pub fn line(&mut self) -> String {
        let line = self.lines.recv_timeout(LIMIT).expect("a line");
        self.told.push(line.clone());
        line
    }

    /// Waits for a line with this text, and returns what follows it there.
    #[track_caller]
    pub fn tells(&mut self, text: &str) -> String {
        let from = self.told.len();
        while let Ok(line) = self.lines.recv_timeout(LIMIT) {
            self.told.push(line.clone());
            if let Some((_, rest)) = line.split_once(text) {
                return rest.to_owned();
            }
        }
        panic!("no {text:?} in {:#?}", &self.told[from..]);
    }

    /// Waits for the end, and returns the code and the lines that came until then.
    pub fn ended(&mut self) -> (Option<i32>, String) {
        let code = self.process.code();
        self.told.extend(self.lines.iter());
        (code, self.told.join("\n"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
