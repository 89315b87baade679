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
use super::children::{all_are_seen, for_children, listed};

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
    let mut ended = true;
    let read = for_children(|child| {
        if !spared.contains(&child) {
            ended = false;
            // At once: one that forks and exits, over and over, would have exited by the end of the
            // reading.
            let _ = kill_process(child, Signal::KILL);
            let _ = waitpid(Some(child), WaitOptions::NOHANG);
        }
    });
    match read {
        // The last word is the kernel's, where nothing is to be spared.
        Ok(()) => ended && (!spared.is_empty() || has_no_child()),
        // And without `/proc` the only one. One that is reaped here may have left others: they are
        // seen the next time.
        Err(_) => {
            spared.is_empty() && matches!(waitpid(None, WaitOptions::NOHANG), Err(Errno::CHILD))
        }
    }
}

/// Elsewhere orphans are out of reach, and the command itself is killed and waited for by who
/// started it.
#[cfg(not(target_os = "linux"))]
fn children_have_ended(_spared: &[Pid]) -> bool {
    true
}

#[cfg(target_os = "linux")]
fn has_no_child() -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(waitid(WaitId::All, options), Err(Errno::CHILD))
}

/// Reaps the orphans of a command that have ended, but not the command itself. It is quick: where
/// it would take long to find them, they are left until the command ends.
pub fn reap_orphans(command: Pid) {
    #[cfg(target_os = "linux")]
    for child in listed().ok().flatten().unwrap_or_default() {
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
        all_are_seen()?;
        let mut children = Vec::new();
        for_children(|child| children.push(child))?;
        Ok(children)
    }
    #[cfg(not(target_os = "linux"))]
    Ok(Vec::new())
}
