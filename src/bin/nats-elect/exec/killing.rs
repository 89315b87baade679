//! Ending a command and everything that it started.

use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, wait};

/// Signals a command's group. That it is gone is no failure.
///
/// The group's leader must not have been reaped before: its number may be another group's by then.
pub fn signal_group(group: Pid, signal: Signal) {
    let _ = kill_process_group(group, signal);
}

/// Kills and reaps every child of this process, until none is left. It blocks until the kernel has confirmed each end: a
/// command that can't be killed, for it waits for a dead disk, keeps its role from being freed.
///
/// Where there are subreapers the orphans of a command come to this process, also those that left its group.
pub fn end_children() {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => {
                kill_children();
                thread::sleep(Duration::from_millis(1));
            }
            Err(_) => return,
        }
    }
}

#[cfg(target_os = "linux")]
fn kill_children() {
    use rustix::process::kill_process;
    // Children are ours until we reap them: their numbers can't be anybody else's.
    for child in children() {
        let _ = kill_process(child, Signal::KILL);
    }
}

#[cfg(not(target_os = "linux"))]
fn kill_children() {}

/// Becomes the parent of whatever a command leaves behind.
pub fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
        tracing::warn!(%error, "processes that leave the command's group will be out of reach");
    }
}

/// This process's children, by what each process says of its parent.
#[cfg(target_os = "linux")]
fn children() -> Vec<Pid> {
    let me = rustix::process::getpid().as_raw_nonzero().get();
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let mut children = Vec::new();
    for process in processes.flatten() {
        let name = process.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let Ok(stat) = std::fs::read_to_string(process.path().join("stat")) else {
            continue;
        };
        // pid (name) state parent …, and the name may hold anything.
        let parent = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse::<i32>().ok());
        if parent == Some(me) {
            children.extend(Pid::from_raw(pid));
        }
    }
    children
}
