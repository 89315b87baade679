//! The history that the instances write down: the verdict rests on nothing else.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use nats_elect::FencingToken;
use serde::{Deserialize, Serialize};

use crate::app::Role;
use crate::clock::Moment;

/// One line of a history.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// When it was written.
    pub at: Moment,
    /// Which instance wrote it.
    pub instance: String,
    /// Which process: an instance that comes back has another.
    pub pid: u32,
    #[serde(flatten)]
    pub event: Event,
}

/// Something that happened.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The instance stands for election.
    Started { metrics: String },
    /// It leads a role.
    Leading {
        #[serde(with = "RoleName")]
        role: Role,
        fencing_token: FencingToken,
    },
    /// It did something as the role's leader, from `start` to `end`.
    Work {
        #[serde(with = "RoleName")]
        role: Role,
        fencing_token: FencingToken,
        start: Moment,
        end: Moment,
        result: String,
    },
    /// Its handler has ended.
    Ended {
        #[serde(with = "RoleName")]
        role: Role,
        fencing_token: FencingToken,
    },
    /// It sees another leader, or none.
    Sees {
        #[serde(with = "RoleName")]
        role: Role,
        leader: Option<String>,
    },
    /// It has left every election.
    Stopped,
}

/// The roles as they are written.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Role", rename_all = "lowercase")]
enum RoleName {
    Scheduler,
    Network,
    Metrics,
}

/// Writes one instance's history.
pub struct Writer {
    instance: String,
    /// Unbuffered: a killed process loses at most the line that it is writing.
    file: Mutex<File>,
}

impl Writer {
    /// Appends to the file at `path`.
    pub fn open(instance: &str, path: &Path) -> io::Result<Self> {
        let file = File::options().create(true).append(true).open(path)?;
        Ok(Self {
            instance: instance.to_owned(),
            file: Mutex::new(file),
        })
    }

    /// Writes one line.
    pub fn write(&self, event: Event) {
        let record = Record {
            at: Moment::now(),
            instance: self.instance.clone(),
            pid: std::process::id(),
            event,
        };
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // A full disk shows as a history with a hole, and the verdict says so.
        if let Ok(mut line) = serde_json::to_vec(&record) {
            line.push(b'\n');
            let _ = file.write_all(&line);
        }
    }
}

/// Reads a history while it is written.
#[derive(Debug)]
pub struct Tail {
    path: PathBuf,
    offset: u64,
}

impl Tail {
    /// The history at `path`, which need not exist yet.
    pub const fn new(path: PathBuf) -> Self {
        Self { path, offset: 0 }
    }

    /// The whole lines that were added since the last call. A kill may cut one short: it is left
    /// out.
    pub fn read(&mut self) -> Vec<Record> {
        let mut added = Vec::new();
        let read = File::open(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.offset))?;
            file.read_to_end(&mut added)
        });
        if read.is_err() {
            return Vec::new();
        }
        let whole = added
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |last| last + 1);
        self.offset += whole as u64;
        added[..whole]
            .split(|byte| *byte == b'\n')
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect()
    }
}

/// All records of a story, in the order in which they were read.
#[derive(Debug, Default)]
pub struct History(pub Vec<Record>);

/// One piece of work.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    pub instance: &'a str,
    pub pid: u32,
    pub fencing_token: FencingToken,
    pub start: Moment,
    pub end: Moment,
    pub result: &'a str,
}

impl History {
    /// The work of a role, in order of its start.
    pub fn work(&self, wanted: Role) -> Vec<Work<'_>> {
        let mut work: Vec<_> = self
            .0
            .iter()
            .filter_map(|record| match &record.event {
                Event::Work {
                    role,
                    fencing_token,
                    start,
                    end,
                    result,
                } if *role == wanted => Some(Work {
                    instance: &record.instance,
                    pid: record.pid,
                    fencing_token: *fencing_token,
                    start: *start,
                    end: *end,
                    result,
                }),
                _ => None,
            })
            .collect();
        work.sort_by_key(|work| work.start);
        work
    }

    /// The first work of a role by another process than `pid`, begun after `after`.
    pub fn successor(&self, role: Role, pid: u32, after: Moment) -> Option<Work<'_>> {
        let mut work = self.work(role).into_iter();
        work.find(|work| work.pid != pid && work.start > after)
    }

    /// When the process's handler of a role ended, after `after`.
    pub fn ended(&self, pid: u32, wanted: Role, after: Moment) -> Option<Moment> {
        let ended =
            |record: &&Record| matches!(record.event, Event::Ended { role, .. } if role == wanted);
        self.of(pid)
            .filter(ended)
            .map(|record| record.at)
            .find(|at| *at > after)
    }

    /// When the process had seen somebody lead each of these roles, from `after` on.
    pub fn sees_all(&self, pid: u32, roles: &[Role], after: Moment) -> Option<Moment> {
        let first = |wanted: &Role| {
            let sees = |record: &&Record| match &record.event {
                Event::Sees { role, leader } => role == wanted && leader.is_some(),
                _ => false,
            };
            let mut times = self.of(pid).filter(sees).map(|record| record.at);
            times.find(|at| *at > after)
        };
        let seen: Option<Vec<_>> = roles.iter().map(first).collect();
        seen?.into_iter().max()
    }

    /// The process that an instance became when it started after `after`.
    pub fn started(&self, instance: &str, after: Moment) -> Option<u32> {
        let started = |record: &&Record| {
            record.instance == instance
                && record.at > after
                && matches!(record.event, Event::Started { .. })
        };
        self.0.iter().find(started).map(|record| record.pid)
    }

    /// Everything that a process wrote.
    pub fn of(&self, pid: u32) -> impl Iterator<Item = &Record> {
        self.0.iter().filter(move |record| record.pid == pid)
    }
}
