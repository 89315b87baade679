//! One process: its clock, its election, its terms and handlers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nats_elect_core::config::RoleSettings;
use nats_elect_core::event::Event;
use nats_elect_core::status::RoleState;
use nats_elect_core::{
    Bequest, Bucket, Candidate, Election, HandlerEnd, Input, Moment, OpId, Reply, RequestId, TermId,
};
use uuid::Uuid;

use crate::clock::Clock;
use crate::network::{Fate, Kind, Wire};

/// How an application's handler behaves.
#[derive(Clone, Copy, Debug)]
pub struct Handler {
    /// How long it winds down when asked to end; `None`: it does not listen.
    pub winds_down_in: Option<Duration>,
    /// How long an abort takes to reach it; `None`: it blocks its thread.
    pub aborts_in: Option<Duration>,
    /// It ends by itself.
    pub ends: Option<(Duration, HandlerEnd)>,
    /// What it spawned runs on for so long after its own end.
    pub lingers: Option<Duration>,
}

impl Default for Handler {
    fn default() -> Self {
        Self {
            winds_down_in: Some(Duration::from_millis(1)),
            aborts_in: Some(Duration::from_micros(100)),
            ends: None,
            lingers: None,
        }
    }
}

/// What a process's health checks say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    Well,
    Ill,
    Flapping,
}

/// A term as the driver and the application share it.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "facts of their own")]
pub struct SharedTerm {
    /// How its handler behaves.
    pub handler: Handler,
    pub lease: Moment,
    /// When the write that the lease rests on was sent.
    pub proved: Moment,
    pub acting: Option<Moment>,
    /// The deadline was set to "over", or read after it had passed.
    pub over: bool,
    pub acting_over: bool,
    pub running: bool,
    /// The handler itself is over, what it spawned is not.
    pub ending: bool,
    pub cancelled: bool,
    /// When it was aborted.
    pub aborted: Option<Duration>,
    pub overrun: bool,
    /// Revoked while its handler ran: it may run on for the scheduling allowance.
    pub revoked: Option<Duration>,
}

impl SharedTerm {
    pub fn is_valid(&self, now: Moment) -> bool {
        !self.over && now < self.lease
    }
}

/// A kind of trouble that ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    Paused,
    Wire,
    Unlinked,
    Unwatched,
    Dead,
    Sick,
}

/// One process.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "facts of their own")]
pub struct Node {
    pub settings: RoleSettings,
    pub candidate: Candidate,
    /// Nothing if the process is dead.
    pub election: Option<Election>,
    pub clock: Clock,
    pub handler: Handler,
    pub health: Health,
    /// Its processes die so long after they have come to lead.
    pub dies_after: Option<Duration>,
    /// The client knows that it is connected.
    pub linked: bool,
    /// When it lost its connection, while it has none, and whether the election has heard of that.
    pub lost_at: Option<Moment>,
    pub told_lost: bool,
    /// What its messages meet, unknown to the client.
    pub wire: Wire,
    pub watching: bool,
    pub paused: bool,
    /// It was asked to leave the election.
    pub leaving: bool,
    /// Until when each trouble lasts.
    pub troubles: BTreeMap<Trouble, Duration>,
    pub backlog: Vec<Input>,
    /// When the watch has shown the last of each kind of keys. It keeps no order between them.
    pub watched_until: [Duration; 2],
    pub terms: BTreeMap<TermId, SharedTerm>,
    pub in_flight: Option<OpId>,
    /// Requests that were not answered in time.
    pub unanswered: BTreeSet<u64>,
    /// The bucket as the process knows it.
    pub known: Option<Bucket>,
    /// Its election wants to be told of the bucket, whatever a look shows.
    pub asked_for_look: bool,
    pub wake: u64,
    /// How many processes it was so far.
    pub life: u64,
    /// What becomes of its next requests of a kind.
    pub plans: Vec<(Kind, Fate)>,
    pub writes: u64,
    /// What its companion was told of its term.
    pub told: Option<Bequest>,
    pub state: RoleState,
    pub events: Vec<(Duration, Event)>,
    pub replies: Vec<(RequestId, Reply)>,
    pub sent: Vec<(Duration, Kind)>,
    pub reopens: u32,
}

impl Node {
    pub fn new(id: String, settings: RoleSettings) -> Self {
        Self {
            candidate: Candidate {
                instance_id: id,
                incarnation: Uuid::nil(),
                first_beat: 0,
                paused: false,
                settings: settings.clone(),
            },
            settings,
            election: None,
            clock: Clock {
                offset: Duration::from_secs(1_000),
                ppm: 0,
            },
            handler: Handler::default(),
            health: Health::Well,
            dies_after: None,
            linked: false,
            lost_at: None,
            told_lost: false,
            wire: Wire::Whole,
            watching: true,
            paused: false,
            leaving: false,
            troubles: BTreeMap::new(),
            backlog: Vec::new(),
            watched_until: [Duration::ZERO; 2],
            terms: BTreeMap::new(),
            in_flight: None,
            unanswered: BTreeSet::new(),
            known: None,
            asked_for_look: false,
            wake: 0,
            life: 0,
            plans: Vec::new(),
            writes: 0,
            told: None,
            state: RoleState::Init,
            events: Vec::new(),
            replies: Vec::new(),
            sent: Vec::new(),
            reopens: 0,
        }
    }

    /// The process starts, as a new incarnation.
    pub fn boot(&mut self, incarnation: Uuid, now: Duration) {
        self.candidate.incarnation = incarnation;
        self.election = Some(Election::new(self.candidate.clone(), self.clock.at(now)));
        self.state = RoleState::Init;
        self.terms.clear();
        self.in_flight = None;
        self.unanswered.clear();
        self.paused = false;
        self.leaving = false;
        self.backlog.clear();
        self.wake += 1;
    }

    /// The process is killed: nothing in it runs any more.
    pub fn kill(&mut self) {
        self.election = None;
        self.life += 1;
        self.state = RoleState::Init;
        self.terms.clear();
        self.in_flight = None;
        self.unanswered.clear();
        self.known = None;
        self.linked = false;
        self.lost_at = None;
        self.told_lost = false;
        self.paused = false;
        self.backlog.clear();
        self.wake += 1;
    }

    /// The terms with a lease that its application may take for valid.
    pub fn valid_terms(&self, now: Duration) -> impl Iterator<Item = (TermId, &SharedTerm)> {
        let moment = self.clock.at(now);
        self.terms
            .iter()
            .filter(move |(_, term)| term.is_valid(moment))
            .map(|(id, term)| (*id, term))
    }

    pub fn is_leader(&self, now: Duration) -> bool {
        let moment = self.clock.at(now);
        self.terms.values().any(|term| {
            term.is_valid(moment)
                && !term.acting_over
                && term.acting.is_some_and(|acting| moment < acting)
        })
    }

    pub fn runs_handler(&self) -> bool {
        self.terms.values().any(|term| term.running)
    }

    pub fn planned(&mut self, kind: Kind) -> Option<Fate> {
        let index = self.plans.iter().position(|(of, _)| *of == kind)?;
        Some(self.plans.remove(index).1)
    }
}
