//! The folder that holds the servers' data.

use std::env;
use std::path::PathBuf;

/// A file system in memory that Linux mounts by default.
const MEMORY: &str = "/dev/shm";
/// Containers may have a small one, which the streams of a few servers would fill.
const ROOM: u64 = 1 << 30;

/// `TMPDIR` if it is set, else memory where there is room, else the system's temporary folder.
///
/// The data of a server outlives the server's process, and needs to outlive no more. On a disk, many
/// servers beside each other wait for its journal, some of them for seconds.
pub fn parent() -> PathBuf {
    if env::var_os("TMPDIR").is_none()
        && let Some(memory) = memory()
    {
        return memory;
    }
    env::temp_dir()
}

fn memory() -> Option<PathBuf> {
    let found = rustix::fs::statvfs(MEMORY).ok()?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let writable = rustix::fs::access(MEMORY, rustix::fs::Access::WRITE_OK).is_ok();
    (free >= ROOM && writable).then(|| PathBuf::from(MEMORY))
}
