//! A command with its guard, as `exec` sees them.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nats_elect::Term;
use nats_elect::last_will::line_of_end;
use nats_elect::limits::failed;
use rustix::process::{Pid, Signal};

use super::Instant;
use super::frames::{Frames, send_first};
use super::guard::BY_SIGNAL;
use super::killing::{end_children, signal_group};
use super::listener;
use super::processes::this_program;
use super::spared::Spared;

/// A guard that has not begun by then is paused, or the machine is far too busy.
const START_TIME: Duration = Duration::from_secs(10);

/// What to run, and with which additions to the environment.
#[derive(Clone, Debug)]
pub struct Program {
    pub command: Arc<[OsString]>,
    pub environment: Vec<(&'static str, String)>,
    /// Whether the command gets the standard input of `exec`. Several would take it from each other.
    pub has_stdin: bool,
    /// Children of this process that are none of the command's.
    pub spared: Spared,
    /// Through which a guard tells the companion that nothing of the command is left.
    pub last_will: Option<Arc<OwnedFd>>,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Exited(u8),
    Killed(u8),
    /// The guard was gone first. The command is killed.
    Unguarded,
}

impl End {
    /// As shells tell it.
    pub const fn code(self) -> u8 {
        match self {
            Self::Exited(code) => code,
            Self::Killed(signal) => 128_u8.saturating_add(signal),
            Self::Unguarded => 128 + 9,
        }
    }

    pub const fn is_success(self) -> bool {
        matches!(self, Self::Exited(0))
    }
}

/// A command that runs, or is about to, and its guard. When this is dropped nothing of them runs any
/// more, and nothing that they left behind.
#[derive(Debug)]
pub struct Guarded {
    guard: Child,
    frames: Frames,
    /// The command's process group, as soon as the guard has told it. Its leader is the command.
    group: Option<Pid>,
    spared: Spared,
}

impl Guarded {
    /// Starts the command of a term under a guard. `kill_at` tells, at each call, when the guard has
    /// to kill it at the latest. Also returns the command.
    ///
    /// It must be called on the process's first thread, which no process outlives.
    pub async fn start(
        program: &Program,
        term: &Term,
        kill_at: impl Fn() -> Instant,
    ) -> io::Result<(Self, Pid)> {
        let (ours, theirs) =
            UnixStream::pair().map_err(failed("no socket to the guard of the command"))?;
        let stdin = io::stdin();
        // A command in the background that reads the terminal would be stopped.
        let stdin = (program.has_stdin && !stdin.is_terminal()).then(|| stdin.as_fd());
        let last_will = program.last_will.as_ref().map(|it| it.as_fd());
        let handed: Vec<_> = last_will.into_iter().chain(stdin).collect();
        send_first(&ours, kill_at().0, &handed)?;
        // Its own parent is another process if this one has died before it looks.
        let exec = std::process::id().to_string();
        let mut words = vec!["exec-guard", &exec];
        let end = line_of_end(term.role(), term.fencing_token());
        words.extend(last_will.map(|_| &*end));
        let mut guarded = Self {
            frames: Frames::new(ours)?,
            guard: this_program(&words, &program.command)?
                .env_remove(listener::VARIABLE)
                .envs(program.environment.iter().cloned())
                .stdin(Stdio::from(OwnedFd::from(theirs)))
                .spawn()
                .map_err(failed("the guard of the command could not be started"))?,
            group: None,
            spared: program.spared.clone(),
        };
        guarded.spared.add(Pid::from_child(&guarded.guard));
        let group = tokio::time::timeout(START_TIME, guarded.frames.receive())
            .await
            .ok()
            .flatten()
            .and_then(|group| Pid::from_raw(i32::try_from(group).ok()?))
            .ok_or_else(|| io::Error::other("the guard ended before it started the command"))?;
        guarded.spared.add(group);
        guarded.group = Some(group);
        // From here on both know the group: the command may run.
        guarded.extend(kill_at());
        Ok((guarded, group))
    }

    /// Tells the guard a new end. A guard that can't be told kills at an earlier one.
    pub fn extend(&self, kill_at: Instant) {
        if !self.frames.send(kill_at.0) {
            tracing::warn!("the guard did not receive a longer lease");
        }
    }

    /// Signals the command's group.
    pub fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            signal_group(group, signal);
        }
    }

    /// How the command ended, when it has. Nothing is lost by dropping the future.
    pub async fn ended(&mut self) -> End {
        let low = |number: u64| u8::try_from(number & 0xff).unwrap_or(u8::MAX);
        match self.frames.receive().await {
            None => {
                self.signal(Signal::KILL);
                End::Unguarded
            }
            Some(end) if end & BY_SIGNAL != 0 => End::Killed(low(end)),
            Some(end) => End::Exited(low(end)),
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // The guard reaps the command only when this process is gone; and if the guard is gone, its
        // orphans are ours to reap. Either way this number is still the command's.
        self.signal(Signal::KILL);
        // It may be paused, so it is not asked.
        let _ = self.guard.kill();
        let _ = self.guard.wait();
        let guard = Pid::from_child(&self.guard);
        for ended in self.group.into_iter().chain([guard]) {
            self.spared.remove(ended);
        }
        end_children(&self.spared.list());
    }
}
