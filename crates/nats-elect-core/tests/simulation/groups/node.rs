//! One process: its clock, the elections of its epochs, its machine, and the handlers of its units.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nats_elect_core::config::RoleSettings;
use nats_elect_core::group::{Epoch, Group, GroupSettings, Identity, UnitKey};
use nats_elect_core::release::ReleaseSecret;
use nats_elect_core::{Bequest, Election, Moment, OpId, TermId};

use super::requests::Kind;
use super::watching::Watch;
use super::world::Happening;
use crate::clock::Clock;
use crate::network::{Fate, Wire};

/// How the handlers of an application behave.
#[derive(Clone, Copy, Debug)]
pub struct Handler {
    /// How long they wind down when asked to end. `None`: they do not listen.
    pub winds_down_in: Option<Duration>,
    /// How long an abort takes to reach them. `None`: they block their threads.
    pub aborts_in: Option<Duration>,
    /// They end by themselves.
    pub ends_by_itself: Option<Duration>,
}

impl Default for Handler {
    fn default() -> Self {
        Self {
            winds_down_in: Some(Duration::from_millis(1)),
            aborts_in: Some(Duration::from_micros(100)),
            ends_by_itself: None,
        }
    }
}

/// A term of a unit, as the driver and the application share it.
#[derive(Clone, Debug)]
pub struct SharedTerm {
    pub epoch: Epoch,
    pub until: Moment,
    pub revoked: bool,
    pub running: bool,
    pub cancelled: bool,
    pub handler: Handler,
}

impl SharedTerm {
    pub fn is_valid(&self, now: Moment) -> bool {
        self.running && !self.revoked && now < self.until
    }
}

/// One epoch of a process, and the election that keeps its lease.
#[derive(Debug)]
pub struct Keeper {
    pub epoch: Epoch,
    pub identity: Identity,
    pub election: Election,
    pub term: Option<TermId>,
    /// Its lease is renewed no more: no term begins under it.
    pub ending: bool,
    /// It was told to end.
    pub leaving: bool,
    pub wake: u64,
}

/// Whose request it is: an epoch's election, or the machine's.
pub type Sender = Option<Epoch>;

/// What runs while a process lives.
#[derive(Debug)]
pub struct Process {
    pub group: Group,
    pub wake: u64,
    /// The last one is that of the present epoch.
    pub keepers: Vec<Keeper>,
    pub watch: Option<Watch>,
    pub terms: BTreeMap<(UnitKey, u64), SharedTerm>,
    /// All epochs of this process.
    pub own: BTreeSet<Epoch>,
    /// Requests without an answer, and whether they were given up.
    pub requests: BTreeMap<(Sender, OpId), bool>,
    pub drains: bool,
}

/// A kind of trouble that ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    Paused,
    Wire,
    Unlinked,
    /// The bucket can't be used.
    Unusable,
    Dead,
}

/// A place where processes run, one after another.
#[derive(Debug)]
pub struct Node {
    pub settings: RoleSettings,
    pub group: GroupSettings,
    pub clock: Clock,
    /// It tells others that it takes no units until it has joined.
    pub tells_joined: bool,
    pub handler: Handler,
    /// How many processes there were.
    pub life: u64,
    pub process: Option<Process>,
    pub linked: bool,
    pub wire: Wire,
    pub paused: bool,
    pub backlog: Vec<Happening>,
    pub troubles: BTreeMap<Trouble, Duration>,
    /// What becomes of its next requests of a kind.
    pub plans: Vec<(Kind, Fate)>,
    /// What the companion of its process was told of the process's leases.
    pub told: BTreeMap<Identity, Bequest>,
}

impl Node {
    pub fn planned(&mut self, kind: Kind) -> Option<Fate> {
        let index = self.plans.iter().position(|(of, _)| *of == kind)?;
        Some(self.plans.remove(index).1)
    }

    pub fn present_epoch(&self) -> Option<Epoch> {
        Some(self.process.as_ref()?.keepers.last()?.epoch)
    }

    /// Whether its process may act under this epoch.
    pub fn has_lease(&self, epoch: Epoch, now: Duration) -> bool {
        let group = self.process.as_ref().map(|it| &it.group);
        let until = group.and_then(Group::lease_until);
        let is_own = group.and_then(Group::own_epoch) == Some(epoch);
        is_own && until.is_some_and(|until| self.clock.at(now) < until)
    }

    /// The units on which its application may act.
    pub fn valid_terms(&self, now: Duration) -> impl Iterator<Item = (&UnitKey, u64)> {
        let moment = self.clock.at(now);
        let terms = self.process.iter().flat_map(|process| &process.terms);
        terms
            .filter(move |(_, term)| term.is_valid(moment))
            .map(|((unit, sequence), _)| (unit, *sequence))
    }
}

impl Process {
    pub fn keeper(&mut self, epoch: Epoch) -> Option<&mut Keeper> {
        self.keepers.iter_mut().find(|keeper| keeper.epoch == epoch)
    }
}

/// An epoch that somebody claims, with what only its process knows.
#[derive(Clone, Copy, Debug)]
pub struct Claimed {
    pub epoch: Epoch,
    pub identity: Identity,
    pub secret: ReleaseSecret,
}
