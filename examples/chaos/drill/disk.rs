//! The disk of the NATS nodes, to be filled.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::PathBuf;

use rustix::fs::statvfs;

use super::Problem;

/// A file system of more bytes may be that of the machine, which nobody may fill.
const LARGEST: u64 = 1 << 30;

/// Whether the nodes keep their data on a small file system of its own: `TMPDIR` names it.
pub fn is_small() -> bool {
    std::env::var_os("TMPDIR").is_some()
        && statvfs(std::env::temp_dir())
            .is_ok_and(|disk| disk.f_blocks.saturating_mul(disk.f_frsize) <= LARGEST)
}

/// Fills it.
pub fn fill() -> Result<(), Problem> {
    if !is_small() {
        return Err("TMPDIR names no file system of at most 1 GiB".into());
    }
    let mut file = File::create(filler())?;
    let mut block = vec![0; 1 << 20];
    while !block.is_empty() {
        match file.write_all(&block) {
            Ok(()) => {}
            // What is left has room for less.
            Err(error) if error.kind() == ErrorKind::StorageFull => {
                block.truncate(block.len() / 2);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Makes room again.
pub fn free() -> io::Result<()> {
    match fs::remove_file(filler()) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

fn filler() -> PathBuf {
    std::env::temp_dir().join("nats-elect-chaos.filler")
}
