//! The work of a role: numbered pieces in a file that all instances share.
//!
//! It stands for any system that does not know the leases and compares fencing tokens. Appending is
//! the only operation; a line counts unless one of a greater token stands before it. A leader
//! appends a line of its own token first, and reads where to go on only then: whatever an earlier
//! leader adds after that, because it was paused at the wrong moment, does not count.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use nats_elect::FencingToken;
use serde::{Deserialize, Serialize};

use ::drill::Moment;
use ::drill::journal::line_of;

/// Far more than two leaders append while one of them reads.
const TAIL: u64 = 64 * 1024;

/// One line of a ledger.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// When the writer was found to be a valid leader: the clock was read before that.
    pub at: Moment,
    pub token: FencingToken,
    /// The number of the piece of work; none for the line with which a leader begins.
    pub number: Option<u64>,
    pub instance: String,
}

/// Appends to the ledger of a role.
pub struct Ledger {
    path: PathBuf,
    file: File,
}

/// What a system that compares tokens makes of the lines, one after the other.
#[derive(Debug, Default)]
pub struct Replay {
    /// The greatest token so far, and the first line that had it.
    newest: Option<Entry>,
    last: u64,
}

/// What became of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// A leader began.
    Begun,
    /// The next piece of work.
    Counts,
    /// It has a token below that of an earlier line. `by` is when the leader of that one was valid.
    Refused { by: Moment },
    /// It counts, and so many numbers before it are missing.
    Skips(u64),
    /// It counts, and its number was there already.
    Repeats,
    /// Its token is new, and its leader did not begin.
    Unannounced,
}

impl Ledger {
    /// The ledger of a role in that folder.
    pub fn open(folder: &Path, role: &str) -> io::Result<Self> {
        let path = path_of(folder, role);
        let file = File::options().create(true).append(true).open(&path)?;
        Ok(Self { path, file })
    }

    /// Appends a line. Lines of several processes do not mix: each is one write. It begins with a
    /// line feed, since the line before may have been cut short.
    pub fn append(&mut self, entry: &Entry) -> io::Result<()> {
        let mut line = vec![b'\n'];
        line.extend(line_of(entry)?);
        self.file.write_all(&line)
    }

    /// Begins a term and returns the number of the last piece of work that counts.
    pub fn begin(&mut self, entry: &Entry) -> io::Result<u64> {
        self.append(entry)?;
        let mut file = File::open(&self.path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
        let mut tail = Vec::new();
        file.read_to_end(&mut tail)?;
        let mut replay = Replay::default();
        for line in parse(&tail) {
            if line.token == entry.token {
                break;
            }
            replay.rule(&line);
        }
        Ok(replay.last)
    }
}

impl Replay {
    /// Rules on the next line.
    pub fn rule(&mut self, entry: &Entry) -> Ruling {
        let newest = self.newest.as_ref();
        let is_new = newest.is_none_or(|newest| entry.token > newest.token);
        if let Some(newest) = newest.filter(|newest| entry.token < newest.token) {
            return Ruling::Refused { by: newest.at };
        }
        if is_new {
            self.newest = Some(entry.clone());
        }
        let Some(number) = entry.number else {
            return Ruling::Begun;
        };
        let last = std::mem::replace(&mut self.last, number);
        if is_new {
            Ruling::Unannounced
        } else if number > last + 1 {
            Ruling::Skips(number - last - 1)
        } else if number <= last {
            Ruling::Repeats
        } else {
            Ruling::Counts
        }
    }
}

/// The lines that are whole. A kill may cut any of them short.
pub fn parse(bytes: &[u8]) -> impl Iterator<Item = Entry> {
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
    bytes[..whole]
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
}

/// Where the ledger of a role is.
pub fn path_of(folder: &Path, role: &str) -> PathBuf {
    folder.join(format!("{role}.jsonl"))
}
