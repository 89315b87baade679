//! One member: its process with the real machine, its watch, its requests and its handlers.

use std::collections::BTreeMap;
use std::sync::Arc;

use nats_elect_core::assignment::{Epoch, Key, Value};
use nats_elect_core::member::{Member, Over, UnitId};
use nats_elect_core::{Moment, OpId, WriteOutcome};

use super::stream::{Entry, Stream};

/// A process that is not dead.
#[derive(Clone, Debug, Hash)]
pub struct Process {
    pub member: Member,
    pub requests: Vec<Request>,
    /// Answers that come after their requests were given up, or never.
    pub late: Vec<(Kind, OpId, WriteOutcome)>,
    pub handlers: BTreeMap<UnitId, Handler>,
    pub paused: bool,
    pub watch: Watch,
}

#[derive(Clone, Copy, Debug, Hash)]
pub struct Watch {
    /// It has shown all up to this sequence.
    pub position: u64,
    /// Of what was overwritten before this sequence it shows nothing.
    pub begun: u64,
    /// It has caught up when it has shown this sequence.
    pub target: Option<u64>,
    /// It is as slow as it likes.
    pub lags: bool,
}

impl Watch {
    pub const fn new(begun: u64, target: u64) -> Self {
        Self {
            position: 0,
            begun,
            target: Some(target),
            lags: false,
        }
    }

    /// What it shows next.
    pub fn next<'a>(&self, stream: &'a Stream) -> Option<&'a Arc<Entry>> {
        let passing = stream.passing.iter().filter(|it| it.sequence > self.begun);
        let all = stream.standing.values().chain(passing);
        let after = all.filter(|it| it.sequence > self.position);
        after.min_by_key(|it| it.sequence)
    }

    /// The same watch, told by what it shows next: two that go on alike are the same.
    pub fn normalise(&mut self, stream: &Stream) {
        let next = self.next(stream).map(|it| it.sequence);
        self.position = next.unwrap_or(stream.last + 1) - 1;
        let hides = |it: &Arc<Entry>| it.sequence <= self.begun && it.sequence > self.position;
        if !stream.passing.iter().any(hides) {
            self.begun = 0;
        }
    }
}

/// A request under way. Single reads and plans are answered at once.
#[derive(Clone, Debug, Hash)]
pub struct Request {
    pub op: OpId,
    pub asks: Asks,
}

#[derive(Clone, Debug, Hash)]
pub enum Asks {
    Collect,
    Write(Kind, Write),
}

/// By which input a write is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Beat,
    Other,
}

#[derive(Clone, Debug, Hash)]
pub struct Write {
    pub key: Key,
    pub over: Over,
    pub value: Value,
}

#[derive(Clone, Copy, Debug, Hash)]
pub struct Handler {
    pub epoch: Epoch,
    pub until: Moment,
    pub is_told: bool,
    /// It does not listen when it is told to end.
    pub is_deaf: bool,
}

impl Process {
    /// The handlers that act.
    pub fn acting(&self, now: Moment) -> impl Iterator<Item = (&UnitId, &Handler)> {
        self.handlers.iter().filter(move |(_, it)| now < it.until)
    }

    /// The handlers that were told to end, and listen.
    pub fn ending(&self) -> impl Iterator<Item = &UnitId> {
        let ending = self.handlers.iter().filter(|(_, it)| it.is_told);
        ending.filter_map(|(unit, it)| (!it.is_deaf).then_some(unit))
    }

    /// Whether its watch shows next that somebody lives, and nothing else.
    pub fn is_told_nothing(&self, stream: &Stream) -> bool {
        let next = self.watch.next(stream);
        next.is_some_and(|it| stream.tells_nothing(it, self.watch.position))
    }

    /// Something that its users must put right first keeps units from being run.
    pub fn is_troubled(&self) -> bool {
        self.paused || self.watch.lags || self.handlers.values().any(|it| it.is_deaf)
    }

    /// Whether something must happen to it before time goes on.
    pub fn is_urgent(&self, now: Moment, stream: &Stream) -> bool {
        let shows = !self.watch.lags && self.watch.next(stream).is_some();
        let is_due = self.member.wakeup().is_some_and(|at| at <= now);
        let ends = self.ending().next().is_some();
        !self.paused && (is_due || shows || ends || !self.requests.is_empty())
    }
}
