//! `nats-elect exec` as a process, and the guard that it started.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};

use nats_elect_testing::{NatsServer, eventually};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};

use crate::exec::TTL;
use crate::exec::command::{CONDUCT, Conduct, HISTORY, arguments};
use crate::exec::history::{History, Run};
use crate::fleet::SOON;
use crate::nats_elect;
use crate::running::Process;

pub struct Exec {
    pub id: String,
    process: Process,
}

/// `exec` for the role `worker`, without a command.
pub fn exec(id: &str, url: &str) -> Command {
    let mut exec = nats_elect(&["exec", "--role", "worker", "--create-bucket", "--id", id]);
    exec.args(["--server", url]).stdout(Stdio::null());
    exec
}

impl Exec {
    /// Runs the command that writes the history.
    pub fn start(id: &str, url: &str, history: &History, conduct: Conduct, more: &[&str]) -> Self {
        Self::start_telling(Stdio::inherit(), id, url, history, conduct, more)
    }

    /// As `start`, with another stderr.
    pub fn start_telling(
        stderr: Stdio,
        id: &str,
        url: &str,
        history: &History,
        conduct: Conduct,
        more: &[&str],
    ) -> Self {
        let ttl = format!("{}ms", TTL.as_millis());
        let ttl: &[&str] = if more.contains(&"--ttl") {
            &[]
        } else {
            &["--ttl", &ttl]
        };
        let child = exec(id, url)
            .args(ttl)
            .args(more)
            .arg("--")
            .args(arguments())
            .env(HISTORY, history.path())
            .env(CONDUCT, conduct.name())
            .stderr(stderr)
            .spawn()
            .expect("start exec");
        Self {
            id: id.to_owned(),
            process: Process(child),
        }
    }

    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    pub fn pid(&self) -> u32 {
        self.process.0.id()
    }

    /// The guard of the command that runs, if one does.
    pub fn guard(&self) -> Option<Pid> {
        Pid::from_raw(self.children()?.first()?.parse().ok()?)
    }

    /// The guard of a role's command.
    pub fn guard_of(&self, role: &str) -> Option<Pid> {
        let variable = format!("NATS_ELECT_ROLE={role}");
        let guard = self.children()?.into_iter().find(|child| {
            let environment = std::fs::read(format!("/proc/{child}/environ")).unwrap_or_default();
            let mut variables = environment.split(|byte| *byte == 0);
            variables.any(|it| it == variable.as_bytes())
        })?;
        Pid::from_raw(guard.parse().ok()?)
    }

    pub fn signal_guard(&self, signal: Signal) -> bool {
        self.guard()
            .is_some_and(|guard| kill_process(guard, signal).is_ok())
    }

    /// Kills a guard, and waits until `exec` has ended what that left behind: if both are killed at
    /// once, children of the command outlive them.
    pub async fn kills_guard_and_recovers(&self) {
        let Some(guard) = self.guard() else {
            return;
        };
        let _ = kill_process(guard, Signal::KILL);
        let guard = guard.as_raw_nonzero().to_string();
        eventually(SOON, "the end of what a guard left behind", async || {
            let children = self.children().unwrap_or_default();
            let recovered = children.iter().all(|child| {
                let words = std::fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
                let is_guard = words.split(|byte| *byte == 0).any(|it| it == b"exec-guard");
                is_guard && *child != guard
            });
            recovered.then_some(())
        })
        .await;
    }

    fn children(&self) -> Option<Vec<String>> {
        let pid = self.process.0.id();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
        Some(children.split_whitespace().map(str::to_owned).collect())
    }

    /// Has every further file refused to it.
    pub fn opens_no_more_files(&self) {
        let none = Rlimit {
            current: Some(0),
            maximum: Some(0),
        };
        prlimit(
            Some(Pid::from_child(&self.process.0)),
            Resource::Nofile,
            none,
        )
        .expect("a limit");
    }

    /// Kills it, as a power cut would if it left the rest alive.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Waits until its command has run for so long that another one that runs would have been seen.
    pub async fn runs(&self, history: &History) -> Run {
        history.run_of(&self.id).await
    }

    pub async fn exited(&mut self) -> ExitStatus {
        self.process.exited().await
    }

    pub async fn code(&mut self) -> i32 {
        let status = self.exited().await;
        status
            .code()
            .unwrap_or_else(|| -status.signal().unwrap_or(0))
    }
}

impl Drop for Exec {
    fn drop(&mut self) {
        self.signal_guard(Signal::CONT);
        self.signal(Signal::CONT);
    }
}

/// Has the leader of a role hand it over.
pub async fn step_down(server: &NatsServer, role: &str, to: &str) {
    let url = server.url();
    // The heir may not be there yet.
    eventually(SOON, "the handover", async || {
        let asked = nats_elect(&["step-down", role, "--to", to, "--server", &url]).output();
        asked.expect("step-down").status.success().then_some(())
    })
    .await;
}
