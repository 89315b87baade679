//! Ending a command and everything that it started.

#[cfg(target_os = "linux")]
use std::fs;
use std::io;
#[cfg(target_os = "linux")]
use std::path::Path;
use std::thread;
use std::time::Duration;

#[cfg(target_os = "linux")]
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
#[cfg(target_os = "linux")]
use rustix::process::{
    WaitId, WaitIdOptions, WaitOptions, getpid, kill_process, set_child_subreaper, waitid, waitpid,
};

/// Signals a command's group. That it is gone is no failure.
///
/// The group's leader must not have been reaped before: its number may be another group's by then.
pub fn signal_group(group: Pid, signal: Signal) {
    let _ = kill_process_group(group, signal);
}

/// Kills and reaps every child of this process but those to spare, until none is left. It blocks until the kernel has confirmed
/// each end: a command that can't be killed, for it waits for a dead disk, keeps its role from being freed.
///
/// Where there are subreapers the orphans of a command come to this process, also those that left its group.
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
            // At once: one that forks and exits, over and over, would have exited by the end of the reading.
            let _ = kill_process(child, Signal::KILL);
            let _ = waitpid(Some(child), WaitOptions::NOHANG);
        }
    });
    // What is hidden from this user would be seen by the kernel alone.
    read.is_ok() && ended && (!spared.is_empty() || has_no_child())
}

/// Elsewhere orphans are out of reach, and the command itself is killed and waited for by who started it.
#[cfg(not(target_os = "linux"))]
fn children_have_ended(_spared: &[Pid]) -> bool {
    true
}

#[cfg(target_os = "linux")]
fn has_no_child() -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(waitid(WaitId::All, options), Err(Errno::CHILD))
}

/// Reaps the orphans of a command that have ended, but not the command itself.
pub fn reap_orphans(command: Pid) {
    #[cfg(target_os = "linux")]
    let _ = for_children(|child| {
        if child != command {
            let _ = waitpid(Some(child), WaitOptions::NOHANG);
        }
    });
    #[cfg(not(target_os = "linux"))]
    let _ = command;
}

/// Becomes the parent of whatever a command leaves behind. Returns the children that this process has already: a shell that has
/// become this program may have had some.
pub fn adopt_orphans() -> io::Result<Vec<Pid>> {
    #[cfg(target_os = "linux")]
    {
        set_child_subreaper(Some(getpid()))?;
        let mut children = Vec::new();
        for_children(|child| children.push(child))?;
        Ok(children)
    }
    #[cfg(not(target_os = "linux"))]
    Ok(Vec::new())
}

/// Calls back for each child of this process, by what each process says of its parent. A child that there is at the beginning is
/// not missed: it stays until it is reaped.
#[cfg(target_os = "linux")]
fn for_children(mut found: impl FnMut(Pid)) -> io::Result<()> {
    let me = getpid();
    let number = me.as_raw_nonzero().get();
    if fs::read_link("/proc/self")? != Path::new(&number.to_string()) {
        return Err(io::Error::other(
            "/proc is not that of this process's namespace: mount it anew",
        ));
    }
    for process in fs::read_dir("/proc")? {
        let process = process?;
        let name = process.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let stat = match fs::read_to_string(process.path().join("stat")) {
            Ok(stat) => stat,
            // Gone meanwhile, or hidden.
            Err(error) if is_none_of_ours(&error) => continue,
            Err(error) => return Err(error),
        };
        // pid (name) state parent …, and the name may hold anything.
        let parent = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse::<i32>().ok());
        if parent == Some(number)
            && let Some(child) = Pid::from_raw(pid)
        {
            found(child);
        }
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn is_none_of_ours(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::NOENT | Errno::SRCH | Errno::ACCESS | Errno::PERM)
    )
}
