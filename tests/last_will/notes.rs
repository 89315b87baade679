//! When a process acted last: a stamp in a file, which outlives the process.

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
        self.write_in(0, act);
    }

    pub fn last(path: &Path) -> Stamp {
        Self::last_in(path, 0)
    }

    /// Each of several that act has a place of its own.
    pub fn write_in(&self, place: u32, act: Stamp) {
        let stamp = act.as_nanos().to_le_bytes();
        let written = self.0.write_all_at(&stamp, offset(place));
        written.expect("a note");
    }

    /// The zero of the clock if nobody acted there.
    pub fn last_in(path: &Path, place: u32) -> Stamp {
        let mut stamp = [0; 8];
        let file = File::open(path).expect("notes");
        // A process that was killed before it acted there may have left a shorter file.
        let read = file.read_at(&mut stamp, offset(place)).expect("a note");
        assert!(read == 0 || read == stamp.len(), "a note of {read} bytes");
        Stamp::from_nanos(u64::from_le_bytes(stamp))
    }
}

fn offset(place: u32) -> u64 {
    u64::from(place) * 8
}
