//! The guard: a process that kills the command when the lease is about to end, whatever has become of `exec`.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, getpid, waitid};
use tokio::signal::unix::{SignalKind, signal};

use super::Instant;
use super::alarm::Alarm;
use super::frames::{Frames, receive_first};
use super::killing::{adopt_orphans, end_children, signal_group};
use super::processes::this_program;

/// No lease lasts longer than an hour: a later end is garbage.
const LONGEST: Duration = Duration::from_secs(60 * 60);
/// What tells the end of a command by a signal from its exit codes.
pub(super) const BY_SIGNAL: u64 = 1 << 32;

/// Starts the command once there is a lease to run it under, and ends with it. Standard input is the socket to `exec`.
///
/// It must stay on the thread that it was called on, the process's first: the kernel ends the command with the thread that
/// started it.
pub fn guard(command: &[OsString]) -> io::Result<()> {
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let (first, stdin) = receive_first(&socket)?;
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(async {
            let exec = Frames::new(socket)?;
            watch_over(command, exec, Instant(first), stdin).await
        })
}

async fn watch_over(
    command: &[OsString],
    mut exec: Frames,
    first: Instant,
    stdin: Option<OwnedFd>,
) -> io::Result<()> {
    let _survived = survive()?;
    adopt_orphans();
    let mut changes = signal(SignalKind::child())?;
    let mut alarm = Alarm::at(first);
    if !is_ahead(first) {
        return Ok(());
    }
    let me = getpid().as_raw_nonzero().get().to_string();
    let starter = this_program(&["exec-starter", "--guard", &me], command)?
        .stdin(stdin.map_or_else(Stdio::null, Stdio::from))
        .spawn()?;
    let group = Pid::from_child(&starter);
    let _end = EndChildren;
    tokio::select! {
        biased;
        () = alarm.rings() => return Ok(()),
        () = stands_still(group, &mut changes) => {}
    }
    if !exec.send(u64::from(group.as_raw_nonzero().get().unsigned_abs())) {
        return Ok(());
    }
    let mut runs = false;
    while ended(group).is_none() {
        tokio::select! {
            biased;
            () = alarm.rings() => break,
            until = exec.receive() => match until.map(Instant) {
                Some(until) if is_ahead(until) => {
                    alarm.set(until);
                    if !runs {
                        runs = true;
                        signal_group(group, Signal::CONT);
                    }
                }
                // Garbage, a lease that is over, or nobody there any more.
                _ => break,
            },
            _ = changes.recv() => {}
        }
    }
    // What it left behind in its group goes with it: its leader is not reaped yet, so the group is still its own.
    signal_group(group, Signal::KILL);
    loop {
        if let Some(end) = ended(group) {
            exec.send(end);
            return Ok(());
        }
        changes.recv().await;
    }
}

/// Whether a point in time may be the end of a lease that still lasts.
fn is_ahead(until: Instant) -> bool {
    let now = Instant::now();
    now < until && until <= now.plus(LONGEST)
}

/// Waits until the starter waits, or has ended.
async fn stands_still(starter: Pid, changes: &mut tokio::signal::unix::Signal) {
    let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED;
    while look_at(starter, options).is_none() {
        changes.recv().await;
    }
}

/// How the command ended, if it did. It stays to be reaped: until then its number is nobody else's.
fn ended(command: Pid) -> Option<u64> {
    let status = look_at(command, WaitIdOptions::EXITED)?;
    Some(match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => u64::from(code.unsigned_abs()),
        (None, signal) => BY_SIGNAL | u64::from(signal.unwrap_or(0).unsigned_abs()),
    })
}

fn look_at(child: Pid, options: WaitIdOptions) -> Option<WaitIdStatus> {
    let options = options | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(child), options).ok().flatten()
}

/// What a supervisor sends to all processes of a service is for `exec`, which ends the command with grace. And if `exec` dies
/// while this process is paused, it goes on, to see that.
fn survive() -> io::Result<Vec<tokio::signal::unix::Signal>> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(Signal::CONT))?;
    [
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::hangup(),
        SignalKind::quit(),
        SignalKind::user_defined1(),
        SignalKind::user_defined2(),
        SignalKind::alarm(),
    ]
    .into_iter()
    .map(signal)
    .collect()
}

/// Nothing of the command is left when the guard ends, on whatever way.
struct EndChildren;

impl Drop for EndChildren {
    fn drop(&mut self) {
        end_children();
    }
}
