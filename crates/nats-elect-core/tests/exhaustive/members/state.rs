//! All there is at one moment, and when it is the same situation: see the fingerprints of roles. Here
//! these are names:
//!
//! - *True time.* All clocks show the same, and moments are taken relative to it.
//! - *Sequences and beats.* Their ranks count.
//! - *Epochs and incarnations.* Their ranks count, too: members go through epochs in their order.
//! - *Members.* All are alike, so they have no order.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use nats_elect_core::Moment;
use nats_elect_core::assignment::Epoch;
use nats_elect_core::member::UnitId;

use super::configuration::TICK;
use super::fault::Fault;
use super::process::{Process, Write};
use super::properties::{Broken, Witnessed};
use super::stream::Stream;
use crate::fault::Faults;
use crate::scribe::{Fold, Page, Ranks, Scribe};

/// All there is. What is large and seldom changes is shared between states.
#[derive(Clone, Debug)]
pub struct State {
    /// What all clocks show: they run alike.
    pub now: Moment,
    pub stream: Arc<Stream>,
    /// Those that are missing do not run.
    pub members: Vec<Option<Arc<Process>>>,
    /// Writes that were given up. They take effect at any later time, or never.
    pub ghosts: Vec<Write>,
    pub faults: Faults<Fault>,
    /// How many epochs were claimed, and how many processes started.
    pub epochs: u64,
    pub starts: u64,
    /// The token of the last term of each unit.
    pub tokens: BTreeMap<UnitId, u64>,
    /// Epochs that their own members told over.
    pub over: BTreeSet<Epoch>,
    /// For how many ticks nothing has gone wrong, and not each unit is run.
    pub idle: u8,
    /// The promise that was broken on the way here.
    pub broken: Option<Broken>,
    /// What the last event was an example of; no part of the situation.
    pub witnessed: Witnessed,
}

impl State {
    /// The processes that run, with their numbers.
    pub fn living(&self) -> impl Iterator<Item = (usize, &Process)> {
        let members = self.members.iter().enumerate();
        members.filter_map(|(index, it)| Some((index, it.as_deref()?)))
    }

    /// A process whose watch shows next that somebody lives, and nothing else.
    pub fn told_nothing(&self) -> Option<usize> {
        let is_told =
            |it: &Process| !it.paused && !it.watch.lags && it.is_told_nothing(&self.stream);
        let mut living = self.living();
        living.find_map(|(index, it)| is_told(it).then_some(index))
    }

    fn scribe(&self) -> Scribe {
        // No member looks further back than its longest wait, which is a lease of three ticks.
        Scribe::new(
            self.now,
            u64::try_from(4 * TICK.as_nanos()).expect("minutes"),
        )
    }

    /// A number for the situation. Two situations get the same by accident alone.
    fn fingerprint(&self) -> u64 {
        let page = |scribe: Scribe| Page::new(scribe.words, false);
        let mut common = self.scribe();
        (&self.stream.standing, &self.stream.passing).hash(&mut common);
        (&self.faults, &self.tokens, &self.over).hash(&mut common);
        (self.idle, self.broken).hash(&mut common);
        if self.faults.may(Fault::PutBack) {
            self.stream.first.hash(&mut common);
        }
        let common = page(common);
        let write = |it: &Write| {
            let mut scribe = self.scribe();
            it.hash(&mut scribe);
            page(scribe)
        };
        let process = |(_, it): (usize, &Process)| {
            let tells_nothing = it.is_told_nothing(&self.stream);
            let mut it = it.clone();
            it.watch.normalise(&self.stream);
            let mut scribe = self.scribe();
            (&it, tells_nothing).hash(&mut scribe);
            page(scribe)
        };
        let ghosts: Vec<_> = self.ghosts.iter().map(write).collect();
        let members: Vec<_> = self.living().map(process).collect();
        let ranks = Ranks::of(std::iter::once(&common).chain(&ghosts).chain(&members));
        let name = |rest| ranks.name(rest);
        let mut fold = Fold(members.len() as u64);
        common.fold(&mut fold, &ranks, &name);
        fold.mix(10, Page::sum(ghosts.iter(), &ranks, &name));
        fold.mix(11, Page::sum(members.iter(), &ranks, &name));
        fold.0
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.fingerprint());
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint() == other.fingerprint()
    }
}
