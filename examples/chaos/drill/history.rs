//! What each process writes down about itself.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use nats_elect::FencingToken;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::clock::Moment;

/// One line of a history.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record<T = What> {
    pub at: Moment,
    pub what: T,
}

/// What happened. Terms are numbered within their process.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// The first line: who this is, and the how-many-eth process of that name.
    Started { instance: String, process: u32 },
    /// The instance stands for election.
    Standing,
    /// A handler was started.
    Leading {
        term: u32,
        role: String,
        token: FencingToken,
    },
    /// The term was valid at that time: the clock was read before `Term::is_valid` was asked, and
    /// it said yes. Valid terms have been so since their start, and once they are not they never
    /// are again; so two such lines of a term tell that it was valid from the one to the other.
    Valid(u32),
    /// The term has entered its piece of work of this number in the role's ledger.
    Worked { term: u32, number: u64 },
    /// The handler has ended.
    Ended(u32),
    /// The instance has left every election.
    Stopped,
}

/// Writes the history of this process.
pub struct Writer(Mutex<File>);

impl Writer {
    /// Makes a new file: no process adds to the history of another.
    pub fn create(path: &Path) -> io::Result<Self> {
        File::create_new(path).map(|file| Self(Mutex::new(file)))
    }

    /// Writes what happens now.
    pub fn write(&self, what: impl Serialize) {
        self.write_at(Moment::now(), what);
    }

    /// Writes one line, unbuffered: a killed process loses at most the line that it is writing.
    pub fn write_at(&self, at: Moment, what: impl Serialize) {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let line = line_of(&Record { at, what });
        if let Err(error) = line.and_then(|line| file.write_all(&line)) {
            // A history with holes would be worth nothing.
            eprintln!("cannot write the history: {error}");
            std::process::exit(3);
        }
    }
}

/// A line of JSON in one piece, for one write.
pub fn line_of(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

/// The lines of a file that are whole. One that was cut short by a kill is left out.
pub fn read_lines<T: DeserializeOwned>(path: &Path) -> io::Result<Vec<T>> {
    fs::read(path).map(|bytes| parse(&bytes))
}

/// The lines that are whole.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Vec<T> {
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
    bytes[..whole]
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect()
}

/// A process's history, term by term.
pub fn tenures(records: &[Record]) -> Vec<Tenure> {
    let mut tenures: Vec<Tenure> = Vec::new();
    let mut who = (String::new(), 0);
    // By number: two handlers that start at one time may write in either order.
    let mut places = HashMap::new();
    for record in records {
        match &record.what {
            What::Started { instance, process } => who = (instance.clone(), *process),
            What::Leading { term, role, token } => {
                places.insert(*term, tenures.len());
                tenures.push(Tenure {
                    instance: who.0.clone(),
                    process: who.1,
                    role: role.clone(),
                    token: *token,
                    valid: None,
                    worked: Vec::new(),
                });
            }
            What::Valid(term) => {
                if let Some(place) = places.get(term) {
                    let tenure = &mut tenures[*place];
                    let (first, last) = tenure.valid.unwrap_or((record.at, record.at));
                    tenure.valid = Some((first.min(record.at), last.max(record.at)));
                }
            }
            What::Worked { term, number } => {
                if let Some(place) = places.get(term) {
                    tenures[*place].worked.push(*number);
                }
            }
            What::Standing | What::Ended(_) | What::Stopped => {}
        }
    }
    tenures
}

/// One term, as far as its history shows it.
#[derive(Clone, Debug)]
pub struct Tenure {
    pub instance: String,
    pub process: u32,
    pub role: String,
    pub token: FencingToken,
    /// The first and the last time at which it was seen to be valid.
    pub valid: Option<(Moment, Moment)>,
    /// The numbers of the work that it claims to have done.
    pub worked: Vec<u64>,
}
