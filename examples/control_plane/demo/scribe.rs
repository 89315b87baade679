//! The witness of an instance in a story: it writes down what the instance does.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use drill::journal::{Event, Journal, What};
use nats_elect::Term;

use crate::app::{Role, Witness};

/// Writes one instance's journal.
pub struct Scribe {
    journal: Journal,
    /// The roles of which it sees a leader.
    seen: Mutex<BTreeSet<Role>>,
}

impl Scribe {
    /// Begins a journal.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self {
            journal: Journal::create(path)?,
            seen: Mutex::default(),
        })
    }

    fn note(&self, role: Role, term: &Term, what: What) {
        self.journal.note(role as u32, term, what);
    }
}

impl Witness for Scribe {
    fn began(&self, role: Role, term: &Term) {
        self.note(role, term, What::Began);
    }

    fn worked(&self, role: Role, term: &Term) {
        self.note(role, term, What::Working);
    }

    fn ended(&self, role: Role, term: &Term) {
        self.note(role, term, What::Ended);
    }

    fn sees(&self, role: Role, leader: Option<&str>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if leader.is_none() {
            seen.remove(&role);
            return;
        }
        seen.insert(role);
        if seen.len() == Role::ALL.len() {
            self.journal.write(Event::Joined);
        }
    }
}
