//! The subjects to look at, each with its time. They serve both the wakeup and the work, so nothing
//! that is due can be missed.

use std::collections::{BTreeMap, BTreeSet};

use super::epoch::Epoch;
use super::key::UnitKey;
use crate::moment::Moment;
use crate::name::GroupName;

/// Something to look at. Looking tells when to look again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Subject {
    Lease,
    Epoch(Epoch),
    Group(GroupName),
    Unit(UnitKey),
    /// The terms that end because this member leaves.
    Leaving,
    /// After all else, so that one plan is for all that has happened.
    Plan(GroupName),
}

/// Each subject has one time at most.
#[derive(Clone, Debug, Default)]
pub(super) struct Agenda {
    pub by_time: BTreeSet<(Moment, Subject)>,
    pub times: BTreeMap<Subject, Moment>,
}

impl Agenda {
    /// Notes when to look at a subject. An earlier time that it already has stays.
    pub fn note(&mut self, subject: Subject, at: Moment) {
        if let Some(before) = self.times.get(&subject).copied() {
            if before <= at {
                return;
            }
            self.by_time.remove(&(before, subject.clone()));
        }
        self.times.insert(subject.clone(), at);
        self.by_time.insert((at, subject));
    }

    /// Takes the earliest subject that is due.
    pub fn take_due(&mut self, now: Moment) -> Option<Subject> {
        let (at, _) = self.by_time.first()?;
        if now < *at {
            return None;
        }
        let (_, subject) = self.by_time.pop_first()?;
        self.times.remove(&subject);
        Some(subject)
    }

    /// When the first subject is due.
    pub fn next(&self) -> Option<Moment> {
        self.by_time.first().map(|(at, _)| *at)
    }
}
