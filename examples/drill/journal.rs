//! What a process writes down: one file per process, one line per event.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use nats_elect::{FencedError, FencingToken, Term};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::Moment;

/// One line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record<T> {
    /// When it was written, or what it says was so. All processes read the same clock.
    pub at: Moment,
    /// What happened. Earlier versions of `sharded` call it so.
    #[serde(alias = "event")]
    pub what: T,
}

/// Something that happened to an instance that owns units: shards, or roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The process can own units, and knows who owns them.
    Joined,
    /// Something in a term of a unit.
    Term {
        /// The number of the unit. Earlier versions of `sharded` call it so.
        #[serde(alias = "shard")]
        unit: u32,
        /// The term's fencing token.
        token: FencingToken,
        /// Until when the term was sure to be valid: a lower bound of its lease's end, which the
        /// handler read then. `None` if the term was over.
        until: Option<Moment>,
        /// What it was.
        what: What,
    },
}

/// Something that happened in a term. A number is a counter's new value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// The handler began.
    Began,
    /// It is at work.
    Working,
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

/// Writes a journal. Unbuffered: a killed process loses at most the line that it is writing.
pub struct Journal(Mutex<File>);

impl Journal {
    /// Makes a new file: no process adds to the journal of another.
    pub fn create(path: &Path) -> io::Result<Self> {
        File::create_new(path).map(|file| Self(Mutex::new(file)))
    }

    /// Writes what happens now.
    pub fn write(&self, what: impl Serialize) {
        self.write_at(Moment::now(), what);
    }

    /// Writes what was so then.
    pub fn write_at(&self, at: Moment, what: impl Serialize) {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let line = line_of(&Record { at, what });
        if let Err(error) = line.and_then(|line| file.write_all(&line)) {
            // A journal with holes would be worth nothing.
            eprintln!("cannot write the journal: {error}");
            std::process::exit(3);
        }
    }

    /// Writes what happens in a term of a unit.
    pub fn note(&self, unit: u32, term: &Term, what: What) {
        // In this order. The process may stand still between any two of these, and the sum is never
        // later than the end of the lease.
        let at = Moment::now();
        let left = term.remaining();
        let event = Event::Term {
            unit,
            token: term.fencing_token(),
            until: (!left.is_zero()).then(|| at + left),
            what,
        };
        self.write_at(at, event);
    }

    /// The handler of a unit begins.
    pub fn begin<'a>(&'a self, unit: u32, term: &'a Term) -> Page<'a> {
        let page = Page {
            journal: self,
            unit,
            term,
        };
        page.write(What::Began);
        page
    }
}

/// Writes down what happens in one term of a unit. Its drop writes the end.
pub struct Page<'a> {
    journal: &'a Journal,
    unit: u32,
    term: &'a Term,
}

impl Page<'_> {
    /// This happens.
    pub fn write(&self, what: What) {
        self.journal.note(self.unit, self.term, what);
    }

    /// This count was not confirmed.
    pub fn failed(&self, count: u64, error: &FencedError) {
        let superseded = matches!(error, FencedError::Superseded { .. });
        self.write(if error.may_have_been_written() || superseded {
            What::Unclear(count)
        } else {
            What::Refused(count)
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
pub struct Tail<T> {
    path: PathBuf,
    offset: u64,
    lines: PhantomData<T>,
}

impl<T: DeserializeOwned> Tail<T> {
    /// The journal at `path`, which need not exist yet.
    pub const fn new(path: PathBuf) -> Self {
        Self {
            path,
            offset: 0,
            lines: PhantomData,
        }
    }

    /// The whole lines that were added since the last call. A kill may cut the last one short: it
    /// is left out.
    ///
    /// # Errors
    /// Fails if a whole line is not one of a journal.
    pub fn read(&mut self) -> io::Result<Vec<Record<T>>> {
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
        let lines = lines.map(serde_json::from_slice);
        Ok(lines.collect::<Result<_, _>>()?)
    }
}

/// A line of JSON in one piece, for one write.
pub fn line_of(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}
