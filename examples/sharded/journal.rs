//! What a process writes down of its terms: one file per process, one line per event.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use nats_elect::{FencedError, FencingToken, Term};
use serde::{Deserialize, Serialize};

use super::clock::Moment;

/// One line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// When it was written. All processes read the same clock.
    pub at: Moment,
    pub event: Event,
}

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The process can own shards.
    Joined,
    /// Something in a term of a shard.
    Term {
        shard: u32,
        token: FencingToken,
        /// Until when the term was sure to be valid: a lower bound of its lease's end, which the
        /// handler read then. `None` if the term was over.
        until: Option<Moment>,
        what: What,
    },
}

/// Something that happened in a term. The number is the counter's new value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// The handler began.
    Began,
    /// It sends a count.
    Sending(u64),
    /// The count is confirmed.
    Counted(u64),
    /// The count was not stored.
    Refused(u64),
    /// The count may have been stored.
    Unclear(u64),
    /// The handler ended.
    Ended,
}

/// Writes a journal.
pub struct Journal {
    /// Unbuffered: a killed process loses at most the line that it is writing.
    file: Mutex<File>,
}

impl Journal {
    /// Appends to the file at `path`.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = File::options().create(true).append(true).open(path)?;
        Ok(Self {
            file: Mutex::new(file),
        })
    }

    /// A handler begins.
    pub fn begin<'a>(&'a self, term: &'a Term) -> Page<'a> {
        let page = Page {
            journal: self,
            term,
        };
        page.write(What::Began);
        page
    }

    /// Writes a line.
    pub fn write(&self, line: Line) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // A full disk shows as a journal with a hole, and the verdict says so.
        if let Ok(mut text) = serde_json::to_vec(&line) {
            text.push(b'\n');
            let _ = file.write_all(&text);
        }
    }
}

/// Writes down what happens in one term. Its drop writes the end.
pub struct Page<'a> {
    journal: &'a Journal,
    term: &'a Term,
}

impl Page<'_> {
    /// This count is about to be sent.
    pub fn sending(&self, count: u64) {
        self.write(What::Sending(count));
    }

    /// It is confirmed.
    pub fn counted(&self, count: u64) {
        self.write(What::Counted(count));
    }

    /// It is not confirmed.
    pub fn failed(&self, count: u64, error: &FencedError) {
        let superseded = matches!(error, FencedError::Superseded { .. });
        self.write(if error.may_have_been_written() || superseded {
            What::Unclear(count)
        } else {
            What::Refused(count)
        });
    }

    fn write(&self, what: What) {
        // In this order. The process may stand still between any two of these, and the sum is never
        // later than the end of the lease.
        let at = Moment::now();
        let left = self.term.remaining();
        self.journal.write(Line {
            at,
            event: Event::Term {
                shard: self.term.shard().unwrap_or(u32::MAX),
                token: self.term.fencing_token(),
                until: (!left.is_zero()).then(|| at + left),
                what,
            },
        });
    }
}

impl Drop for Page<'_> {
    fn drop(&mut self) {
        self.write(What::Ended);
    }
}

/// Reads a journal while it is written.
#[derive(Debug)]
pub struct Tail {
    path: PathBuf,
    offset: u64,
}

impl Tail {
    /// The journal at `path`, which need not exist yet.
    pub const fn new(path: PathBuf) -> Self {
        Self { path, offset: 0 }
    }

    /// The whole lines that were added since the last call. A kill may cut the last one short: it
    /// is left out.
    ///
    /// # Errors
    /// Fails if a whole line is not one of a journal.
    pub fn read(&mut self) -> io::Result<Vec<Line>> {
        let mut added = Vec::new();
        match File::open(&self.path) {
            Ok(mut file) => {
                file.seek(SeekFrom::Start(self.offset))?;
                file.read_to_end(&mut added)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let whole = added.iter().rposition(|byte| *byte == b'\n');
        added.truncate(whole.map_or(0, |last| last + 1));
        self.offset += added.len() as u64;
        let lines = added.split(|byte| *byte == b'\n');
        let lines = lines.filter(|line| !line.is_empty());
        Ok(lines
            .map(serde_json::from_slice)
            .collect::<Result<_, _>>()?)
    }
}
