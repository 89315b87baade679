//! The guard: a process that kills the command when the lease is about to end, whatever has become
//! of `exec`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use nats_elect::limits::failed;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, getpid, getppid, kill_process, waitid,
};
use tokio::signal::unix::{SignalKind, signal};

use super::Instant;
use super::alarm::Alarm;
use super::frames::{Frames, receive_first};
use super::killing::{adopt_orphans, end_children, reap_orphans, signal_group};
use super::processes::this_program;
use crate::connect::runtime;
use crate::exit::Outcome;
use crate::reading::other_end;

/// Orphans that have ended are reaped so long after the first of them.
const SWEEP: Duration = Duration::from_secs(1);
/// How long `exec` may take to die after it has let go of the socket, and the time between two looks.
const DYING: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(1);
/// What tells the end of a command by a signal from its exit codes.
pub(super) const BY_SIGNAL: u64 = 1 << 32;

/// Starts the command once there is a lease to run it under, and ends with it. Standard input is
/// the socket to `exec`.
///
/// It must stay on the thread that it was called on, the process's first: the kernel ends the
/// command with the thread that started it.
///
/// If `exec` is dead then, its companion waits for the end of the command before it frees the role.
/// The guard tells it by the line `end`, through the first file that came over the socket.
pub fn guard(command: &[OsString], exec: Pid, end: Option<&str>) -> Outcome {
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let (first, files) = receive_first(&socket)?;
    let mut files = files.into_iter();
    let companion = end.and_then(|end| Some((end, File::from(files.next()?))));
    let stdin = files.next();
    let watched = runtime("the guard could not begin")?.block_on(async {
        let frames = Frames::new(socket)?;
        watch_over(command, frames, Instant(first), stdin).await
    });
    // Nothing of the command is left, on whatever way this came to its end.
    if let Some((end, mut companion)) = companion
        && is_dead(exec)
    {
        let _ = companion.write_all(format!("{end}\n").as_bytes());
    }
    watched?;
    Ok(0)
}

/// Whether `exec` is dead, which has let go of the socket. While it lives it may start the command
/// anew.
fn is_dead(exec: Pid) -> bool {
    if other_end(&io::stdin()).is_empty() {
        return false;
    }
    // Its files are closed a moment before its children get another parent.
    let until = Instant::now().plus(DYING);
    while getppid() == Some(exec) {
        if until.is_over() {
            return false;
        }
        thread::sleep(LOOK);
    }
    true
}

async fn watch_over(
    command: &[OsString],
    mut exec: Frames,
    first: Instant,
    stdin: Option<OwnedFd>,
) -> io::Result<()> {
    let _survived = survive()?;
    adopt_orphans()?;
    let mut changes = signal(SignalKind::child())?;
    let mut alarm = Alarm::at(first);
    if first.is_over() {
        return Ok(());
    }
    let me = getpid().as_raw_nonzero().get().to_string();
    let starter = this_program(&["exec-starter", &me], command)?
        .stdin(stdin.map_or_else(Stdio::null, Stdio::from))
        .spawn()
        .map_err(failed("no process for the command"))?;
    let group = Pid::from_child(&starter);
    let _end = EndCommand(group);
    tokio::select! {
        biased;
        () = alarm.rings() => return Ok(()),
        () = stands_still(group, &mut changes) => {}
    }
    if !exec.send(u64::from(group.as_raw_nonzero().get().unsigned_abs())) {
        return Ok(());
    }
    let mut runs = false;
    let (mut to_sweep, mut sweep) = (false, Alarm::at(first));
    while ended(group).is_none() {
        let received = tokio::select! {
            biased;
            until = exec.receive() => Poll::Ready(until),
            // If this process was paused, what it was told meanwhile counts.
            () = alarm.rings() => exec.receive_now(),
            () = sweep.rings(), if to_sweep => {
                to_sweep = false;
                reap_orphans(group);
                continue;
            }
            _ = changes.recv() => {
                if !to_sweep {
                    to_sweep = true;
                    sweep.set(Instant::now().plus(SWEEP));
                }
                continue;
            }
        };
        match received.map(|until| until.map(Instant)) {
            Poll::Ready(Some(until)) => {
                alarm.set(until);
                if !runs && !until.is_over() {
                    runs = true;
                    signal_group(group, Signal::CONT);
                }
            }
            // Nothing new, or nobody there any more.
            _ => break,
        }
    }
    // What it left behind goes with it, and at once, however long its own end may take.
    kill_command(group);
    end_children(&[group]);
    let end = loop {
        if let Some(end) = ended(group) {
            break end;
        }
        changes.recv().await;
    };
    end_children(&[group]);
    exec.send(end);
    // `exec` may still be about to signal the group: until it lets go the command is not reaped,
    // and its number nobody else's.
    while exec.receive().await.is_some() {}
    Ok(())
}

/// Kills the command's group, and the command itself, which may have left that.
fn kill_command(command: Pid) {
    signal_group(command, Signal::KILL);
    let _ = kill_process(command, Signal::KILL);
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

/// Survives the signals that a supervisor sends to all processes of a service. They are for `exec`,
/// which ends the command with grace. If `exec` dies while this process is paused, this process is
/// continued, so that it sees that.
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
struct EndCommand(Pid);

impl Drop for EndCommand {
    fn drop(&mut self) {
        // Nobody else reaps it, so this is still its number.
        kill_command(self.0);
        end_children(&[]);
    }
}
