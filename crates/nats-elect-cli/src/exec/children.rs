//! The children of this process, as Linux tells them.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::path::Path;
use std::sync::OnceLock;

use rustix::process::{Pid, getpid};

/// The list of the first thread, opened before files may run out.
static FIRST_THREAD: OnceLock<File> = OnceLock::new();

/// The children of the first thread, as the kernel lists them, also those that have ended and are
/// not reaped. None is missed: a list is exact as long as nothing is reaped while it is read, and
/// children stay with their thread until that ends. The first thread starts the guards, and the
/// kernel gives it the orphans. A companion has another thread, and so is none of them.
pub fn listed() -> io::Result<Vec<Pid>> {
    let mut list = FIRST_THREAD.get().ok_or(io::ErrorKind::NotFound)?;
    let mut children = String::new();
    list.rewind()?;
    list.read_to_string(&mut children)?;
    let pids = children.split_ascii_whitespace();
    let pids = pids.filter_map(|number| number.parse().ok().and_then(Pid::from_raw));
    Ok(pids.collect())
}

/// Opens the list. Fails where the kernel does not list children.
pub fn are_listed() -> io::Result<()> {
    let me = getpid().as_raw_nonzero().get().to_string();
    if fs::read_link("/proc/self")? != Path::new(&me) {
        return Err(io::Error::other(
            "/proc is of another process namespace: mount it again",
        ));
    }
    let list = File::open(format!("/proc/self/task/{me}/children")).map_err(|error| {
        io::Error::other(format!(
            "`exec` could not find and end the processes that the command starts: this kernel was built without CONFIG_PROC_CHILDREN ({error})"
        ))
    })?;
    FIRST_THREAD.get_or_init(|| list);
    Ok(())
}
