//! All terms of all units, put together from the journals.

use std::collections::{BTreeMap, BTreeSet};

use nats_elect::FencingToken;

use crate::Moment;
use crate::journal::{Event, Record, What};

/// A term of a unit, as its process wrote it down.
#[derive(Clone, Debug)]
pub struct Term {
    /// Its fencing token.
    pub token: FencingToken,
    /// The number of the instance, from 0.
    pub instance: usize,
    /// Which of its processes, from 1.
    pub process: u32,
    /// When its handler began.
    pub began: Moment,
    /// When its handler ended. `None` if it runs, or was killed.
    pub ended: Option<Moment>,
    /// When its process last wrote of it while it was valid.
    pub seen: Moment,
    /// Until when the term could act at least. See [`last`](Self::last).
    valid_until: Moment,
    /// Whether it was still valid when its handler ended.
    pub ended_in_time: bool,
    /// The counts that were confirmed.
    pub confirmed: Vec<u64>,
    /// The counts that may have been stored.
    unclear: BTreeSet<u64>,
    /// The count that was sent last, until its answer.
    under_way: Option<u64>,
}

impl Term {
    /// The last moment at which the term could act, as far as its process wrote it down: the end of
    /// its handler. A handler that ended after the lease, because its process had stood still, or
    /// that never ended, because its process was killed, counts to the end of the lease as it was
    /// last seen. After that it could do nothing.
    pub fn last(&self) -> Moment {
        match self.ended {
            Some(ended) if self.ended_in_time => ended,
            Some(ended) => self.valid_until.min(ended),
            None => self.valid_until,
        }
    }

    /// Whether it could act at that moment, as far as its process wrote it down.
    pub fn owns_at(&self, moment: Moment) -> bool {
        self.began <= moment && self.last() >= moment
    }

    /// The counts that were sent, and had no answer that says what happened. A kill may have come
    /// before the answer.
    pub fn open(&self) -> impl Iterator<Item = u64> {
        self.unclear.iter().copied().chain(self.under_way)
    }
}

/// All terms.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// By unit, and in the order of their tokens.
    by_unit: BTreeMap<u32, BTreeMap<FencingToken, Term>>,
    /// Two terms with one token. There should be none.
    pub twice: Vec<(u32, FencingToken)>,
}

impl Terms {
    /// Takes a line of the journal of an instance's process.
    pub fn take(&mut self, instance: usize, process: u32, line: &Record<Event>) {
        let Event::Term {
            unit,
            token,
            until,
            what,
        } = line.what
        else {
            return;
        };
        let of_unit = self.by_unit.entry(unit).or_default();
        if what == What::Began {
            let term = Term {
                token,
                instance,
                process,
                began: line.at,
                ended: None,
                seen: line.at,
                valid_until: until.unwrap_or(line.at),
                ended_in_time: false,
                confirmed: Vec::new(),
                unclear: BTreeSet::new(),
                under_way: None,
            };
            if of_unit.insert(token, term).is_some() {
                self.twice.push((unit, token));
            }
            return;
        }
        let Some(term) = of_unit.get_mut(&token) else {
            return;
        };
        if let Some(until) = until {
            term.seen = term.seen.max(line.at);
            term.valid_until = term.valid_until.max(until);
        }
        match what {
            What::Began | What::Working => {}
            What::Sending(count) => term.under_way = Some(count),
            What::Counted(count) => {
                term.under_way = None;
                term.confirmed.push(count);
            }
            What::Refused(_) => term.under_way = None,
            What::Unclear(count) => {
                term.under_way = None;
                term.unclear.insert(count);
            }
            What::Ended => {
                term.ended = Some(line.at);
                term.ended_in_time = until.is_some();
            }
        }
    }

    /// The terms of a unit, in the order in which they began.
    pub fn of(&self, unit: u32) -> Vec<&Term> {
        let terms = self.by_unit.get(&unit).into_iter();
        let mut terms: Vec<_> = terms.flat_map(BTreeMap::values).collect();
        terms.sort_by_key(|term| term.began);
        terms
    }

    /// How many units each of so many instances owned at that moment.
    pub fn owned_at(&self, moment: Moment, instances: usize) -> Vec<usize> {
        let mut owned = vec![0; instances];
        for terms in self.by_unit.values() {
            if let Some(term) = terms.values().rfind(|term| term.owns_at(moment)) {
                owned[term.instance] += 1;
            }
        }
        owned
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Term> {
        self.by_unit.values().flat_map(BTreeMap::values)
    }
}
