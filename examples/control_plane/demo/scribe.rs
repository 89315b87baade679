//! The witness of an instance in a story: it writes down the instance's history.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use nats_elect::FencingToken;

use super::args::Sabotage;
use super::history::{Event, Writer};
use crate::app::{Role, Witness};
use crate::clock::Moment;

/// Writes one instance's history, and falsifies it on demand.
pub struct Scribe {
    writer: Arc<Writer>,
    /// The start of each term's current piece of work.
    starts: Mutex<BTreeMap<(Role, FencingToken), Moment>>,
    sabotage: Option<Sabotage>,
}

impl Scribe {
    /// Appends to the file at `path`.
    pub fn open(instance: &str, path: &Path, sabotage: Option<Sabotage>) -> io::Result<Self> {
        Ok(Self {
            writer: Arc::new(Writer::open(instance, path)?),
            starts: Mutex::default(),
            sabotage,
        })
    }

    /// A new piece of work starts now. Returns the start of the one before.
    fn starts(&self, role: Role, token: FencingToken) -> Option<Moment> {
        let mut starts = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
        starts.insert((role, token), Moment::now())
    }

    /// The token to write down.
    fn written(&self, token: FencingToken) -> FencingToken {
        match self.sabotage {
            Some(Sabotage::Token) => FencingToken {
                epoch: token.epoch,
                sequence: u64::MAX - token.sequence,
            },
            _ => token,
        }
    }
}

impl Witness for Scribe {
    fn started(&self, metrics: &str) {
        let metrics = metrics.to_owned();
        self.writer.write(Event::Started { metrics });
    }

    fn began(&self, role: Role, token: FencingToken) {
        let fencing_token = self.written(token);
        self.writer.write(Event::Leading {
            role,
            fencing_token,
        });
        self.starts(role, token);
    }

    fn worked(&self, role: Role, token: FencingToken, result: String) {
        let end = Moment::now();
        self.writer.write(Event::Work {
            role,
            fencing_token: self.written(token),
            start: self.starts(role, token).unwrap_or(end),
            end,
            result,
        });
    }

    fn ended(&self, role: Role, token: FencingToken) {
        let fencing_token = self.written(token);
        self.writer.write(Event::Ended {
            role,
            fencing_token,
        });
        if self.sabotage == Some(Sabotage::Overlap) {
            tokio::spawn(work_on(Arc::clone(&self.writer), role, fencing_token));
        }
    }

    fn sees(&self, role: Role, leader: Option<&str>) {
        let leader = leader.map(str::to_owned);
        self.writer.write(Event::Sees { role, leader });
    }

    fn stopped(&self) {
        self.writer.write(Event::Stopped);
    }
}

/// Sabotage: the mistake of an application that spawns its work and forgets about it.
async fn work_on(writer: Arc<Writer>, role: Role, fencing_token: FencingToken) {
    for n in 0..200 {
        let start = Moment::now();
        tokio::time::sleep(role.effort()).await;
        writer.write(Event::Work {
            role,
            fencing_token,
            start,
            end: Moment::now(),
            result: role.result(fencing_token, n),
        });
    }
}
