//! When a process acted last: one stamp in a file, which outlives the process.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use crate::clock::Stamp;

/// The time between two acts.
pub const PACE: Duration = Duration::from_micros(200);

pub struct Notes(File);

impl Notes {
    pub fn at(path: &Path) -> Self {
        let file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .open(path);
        Self(file.expect("a file"))
    }

    pub fn write(&self, act: Stamp) {
        let stamp = act.as_nanos().to_le_bytes();
        self.0.write_all_at(&stamp, 0).expect("a note");
    }

    pub fn last(path: &Path) -> Stamp {
        let mut stamp = [0; 8];
        let file = File::open(path).expect("notes");
        file.read_exact_at(&mut stamp, 0).expect("a note");
        Stamp::from_nanos(u64::from_le_bytes(stamp))
    }
}
