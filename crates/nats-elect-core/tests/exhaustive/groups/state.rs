//! All there is at one moment.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use nats_elect_core::Moment;
use nats_elect_core::group::UnitKey;

use super::fault::Fault;
use super::fingerprint;
use super::member::{Asks, Process};
use super::properties::{Broken, Witnessed};
use super::stream::Stream;
use crate::fault::Faults;

/// All there is. What is large and seldom changes is shared between states.
#[derive(Clone, Debug)]
pub struct State {
    /// What all clocks show: they run alike.
    pub now: Moment,
    pub stream: Arc<Stream>,
    /// The processes of all members; those that are missing are dead.
    pub members: Vec<Option<Arc<Process>>>,
    /// Writes of processes that died. They take effect at any later time, or never.
    pub ghosts: Vec<Asks>,
    pub faults: Faults<Fault>,
    /// How many epochs were claimed.
    pub epochs: u8,
    /// The token of the last term of each unit.
    pub tokens: BTreeMap<UnitKey, u64>,
    /// For how many ticks nothing has gone wrong, and not each unit has had an owner.
    pub unserved: u8,
    /// That has lasted for so long that all watches have begun anew.
    pub watched_anew: bool,
    /// True time, where it is bounded.
    pub time: u16,
    /// The promise that was broken on the way here.
    pub broken: Option<Broken>,
    /// What the last event was an example of; no part of the situation.
    pub witnessed: Witnessed,
}

impl State {
    /// The processes that are not dead, with their numbers.
    pub fn living(&self) -> impl Iterator<Item = (usize, &Process)> {
        let members = self.members.iter().enumerate();
        members.filter_map(|(index, it)| Some((index, it.as_deref()?)))
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(fingerprint::of(self));
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        fingerprint::of(self) == fingerprint::of(other)
    }
}
