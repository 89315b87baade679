//! Ending a command and everything that it started.

use std::io;
use std::thread;
use std::time::Duration;

#[cfg(target_os = "linux")]
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
#[cfg(target_os = "linux")]
use rustix::process::{
    WaitId, WaitIdOptions, WaitOptions, getpid, kill_process, set_child_subreaper, waitid, waitpid,
};
#[cfg(target_os = "linux")]
use tokio::signal::unix::{SignalKind, signal};

#[cfg(target_os = "linux")]
use super::children::{are_listed, listed};

/// Waits for the children of this thread alone, and not for a companion (`__WNOTHREAD`).
#[cfg(target_os = "linux")]
const OWN_THREAD: u32 = 0x2000_0000;

/// Signals a command's group. That it is gone is no failure.
///
/// The group's leader must not have been reaped before: its number may be another group's by then.
pub fn signal_group(group: Pid, signal: Signal) {
    let _ = kill_process_group(group, signal);
}

/// Kills and reaps every child of this process but those to spare, until none is left. It blocks
/// until the kernel has confirmed each end: a command that can't be killed, for it waits for a dead
/// disk, keeps its role from being freed.
///
/// Where there are subreapers the orphans of a command come to this process, also those that left
/// its group.
pub fn end_children(spared: &[Pid]) {
    while !children_have_ended(spared) {
        thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(target_os = "linux")]
fn children_have_ended(spared: &[Pid]) -> bool {
    if let Ok(children) = listed() {
        let mut ended = true;
        for child in children.into_iter().filter(|it| !spared.contains(it)) {
            ended = false;
            let _ = kill_process(child, Signal::KILL);
            let _ = waitpid(Some(child), WaitOptions::NOHANG);
        }
        // The last word is the kernel's, where nothing is to be spared.
        return ended && (!spared.is_empty() || has_no_child());
    }
    // And without `/proc` the only one.
    spared.is_empty() && has_no_child()
}

/// Elsewhere orphans are out of reach, and the command itself is killed and waited for by who
/// started it.
#[cfg(not(target_os = "linux"))]
fn children_have_ended(_spared: &[Pid]) -> bool {
    true
}

#[cfg(target_os = "linux")]
fn has_no_child() -> bool {
    let options = WaitIdOptions::EXITED
        | WaitIdOptions::NOHANG
        | WaitIdOptions::NOWAIT
        | WaitIdOptions::from_bits_retain(OWN_THREAD);
    matches!(waitid(WaitId::All, options), Err(Errno::CHILD))
}

/// Reaps the orphans of a command that have ended, but not the command itself.
pub fn reap_orphans(command: Pid) {
    #[cfg(target_os = "linux")]
    for child in listed().unwrap_or_default() {
        if child != command {
            let _ = waitpid(Some(child), WaitOptions::NOHANG);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = command;
}

/// Becomes the parent of whatever a command leaves behind. Returns the children that this process
/// has already: a shell that has become this program may have had some. Call it on a runtime.
pub fn adopt_orphans() -> io::Result<Vec<Pid>> {
    #[cfg(target_os = "linux")]
    {
        // If whoever started this process ignores it, children would go unreaped, and their numbers
        // be others'.
        let _handled = signal(SignalKind::child())?;
        set_child_subreaper(Some(getpid()))?;
        are_listed()?;
        listed()
    }
    #[cfg(not(target_os = "linux"))]
    Ok(Vec::new())
}
