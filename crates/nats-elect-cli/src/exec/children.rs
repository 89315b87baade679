//! The children of this process, as Linux tells them.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::path::Path;
use std::sync::OnceLock;

use rustix::io::Errno;
use rustix::process::{Pid, getpid};

/// Calls back for each child of this process, also for those that have ended and are not reaped.
/// One that there is at the beginning is not missed.
pub fn for_children(found: impl FnMut(Pid)) -> io::Result<()> {
    match listed()? {
        Some(children) => children.into_iter().for_each(found),
        None => scan(found)?,
    }
    Ok(())
}

/// The list of the first thread, opened before files may run out.
static FIRST_THREAD: OnceLock<File> = OnceLock::new();

/// Those of the first thread, as the kernel lists them, at the cost of one short file; nothing if it
/// was built without such lists (`PROC_CHILDREN`). None is hidden, and none is missed: a list is
/// exact as long as nothing is reaped while it is read, and children stay with their thread until
/// that ends. The first thread starts the guards, and the kernel gives it the orphans. A companion
/// has another thread, and so is none of them.
pub fn listed() -> io::Result<Option<Vec<Pid>>> {
    let listed = own_number().and_then(listed_of);
    listed.or_else(|error| match FIRST_THREAD.get() {
        Some(mut list) => {
            let mut children = String::new();
            list.rewind()?;
            list.read_to_string(&mut children)?;
            Ok(Some(pids(&children).collect()))
        }
        None => Err(error),
    })
}

fn listed_of(thread: i32) -> io::Result<Option<Vec<Pid>>> {
    match fs::read_to_string(format!("/proc/self/task/{thread}/children")) {
        Ok(list) => Ok(Some(pids(&list).collect())),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// By what each process of the machine says of its parent: as long as they are many.
fn scan(mut found: impl FnMut(Pid)) -> io::Result<()> {
    let me = own_number()?;
    for process in fs::read_dir("/proc")? {
        let process = process?;
        let name = process.file_name();
        let Some(child) = name.to_str().and_then(pid) else {
            continue;
        };
        let stat = match fs::read(process.path().join("stat")) {
            Ok(stat) => stat,
            Err(error) if is_gone(&error) || is_hidden(&error) => continue,
            Err(error) => return Err(error),
        };
        // pid (name) state parent …, and the name may hold anything.
        let parent = String::from_utf8_lossy(&stat)
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse::<i32>().ok());
        if parent == Some(me) {
            found(child);
        }
    }
    Ok(())
}

/// Fails where children could be missed, for the kernel does not list them and `/proc` hides
/// processes (`hidepid`).
pub fn all_are_seen() -> io::Result<()> {
    let me = own_number()?;
    if let Ok(list) = File::open(format!("/proc/self/task/{me}/children")) {
        FIRST_THREAD.get_or_init(|| list);
    }
    if listed()?.is_none() && fs::read("/proc/1/stat").is_err() {
        return Err(io::Error::other(
            "/proc hides processes: `exec` could not find and end the processes that the command starts",
        ));
    }
    Ok(())
}

fn own_number() -> io::Result<i32> {
    let me = getpid().as_raw_nonzero().get();
    if fs::read_link("/proc/self")? != Path::new(&me.to_string()) {
        return Err(io::Error::other(
            "/proc is of another process namespace: mount it again",
        ));
    }
    Ok(me)
}

fn pids(list: &str) -> impl Iterator<Item = Pid> {
    list.split_ascii_whitespace().filter_map(pid)
}

fn pid(number: &str) -> Option<Pid> {
    number.parse().ok().and_then(Pid::from_raw)
}

fn is_gone(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::NOENT | Errno::SRCH)
    )
}

fn is_hidden(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::ACCESS | Errno::PERM)
    )
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command};

    use super::*;

    fn sleeper(program: impl AsRef<OsStr>) -> Child {
        let mut command = Command::new(program);
        command.arg0("sleep").arg("60").spawn().unwrap()
    }

    #[test]
    fn both_ways_find_children_that_run_and_those_that_are_not_reaped_whatever_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let no_text = folder.path().join(OsStr::from_bytes(b") \xff"));
        symlink("/bin/sleep", &no_text).unwrap();
        let (mut runs, mut ended) = (sleeper(&no_text), sleeper("sleep"));
        ended.kill().unwrap();
        let both = [Pid::from_child(&runs), Pid::from_child(&ended)];

        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        let listed = listed_of(thread).unwrap().expect("lists in this kernel");
        let mut scanned = Vec::new();
        let scan = scan(|child| scanned.push(child));
        runs.kill().unwrap();
        runs.wait().unwrap();
        ended.wait().unwrap();

        scan.unwrap();
        assert!(both.iter().all(|child| listed.contains(child)));
        assert!(both.iter().all(|child| scanned.contains(child)));
    }
}
