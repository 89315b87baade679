//! All there is, and the true time under which it happens.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use nats_elect_core::config::{RoleConfig, RoleSettings};
use nats_elect_core::event::{Event, FailureKind};
use nats_elect_core::status::RoleState;
use nats_elect_core::{Failure, Input, Link, TermId};

use crate::bucket::ModelBucket;
use crate::chance::Chance;
use crate::checkers::{Checkers, Note, Violation};
use crate::fenced::Writers;
use crate::happening::{Happening, Shown};
use crate::liars::Liars;
use crate::monitor::Monitor;
use crate::network::Weather;
use crate::node::{Health, Node, Trouble};
use crate::peers::PeerMessage;
use crate::retiring::Retiring;
use crate::tally::Tally;
use crate::wills::Companions;

pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The settings that schedules start from: a lease of one second.
pub fn settings(change: impl FnOnce(&mut RoleConfig)) -> RoleSettings {
    let mut config = RoleConfig::default();
    config.ttl = ms(1000);
    change(&mut config);
    let mut settings = config.settings().expect("settings that obey the rules");
    settings.request_timeout = ms(80);
    // More orders of events than none at all.
    settings.claim_delay = ms(2);
    settings
}

/// The settings that schedules start from, with what no configuration sets.
pub fn tuned(change: impl FnOnce(&mut RoleSettings)) -> RoleSettings {
    let mut settings = settings(|_| {});
    change(&mut settings);
    settings
}

/// For how long no write is taken, and how its sender is told; nothing if it is not told.
#[derive(Clone, Copy, Debug)]
pub struct Refusing {
    pub until: Duration,
    pub told: Option<FailureKind>,
}

/// All there is.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "facts of their own")]
pub struct World {
    pub now: Duration,
    pub bucket: ModelBucket,
    pub nodes: Vec<Node>,
    /// What messages meet now,
    pub weather: Weather,
    /// and what they meet when no fault is at work.
    pub climate: Weather,
    pub storm_until: Duration,
    /// The stream has no leader until then.
    pub outage_until: Duration,
    /// No write is taken, while reads are answered.
    pub refusing: Option<Refusing>,
    /// By how much timers fire late.
    pub timer_lag: Range<Duration>,
    /// Watches show fence records.
    pub fences_watched: bool,
    /// Applications look at their terms all the time: a passed deadline is seen.
    pub readers: bool,
    /// No question of one instance to another arrives.
    pub deaf: bool,
    /// Clients that lie to the instances.
    pub liars: Option<Liars>,
    pub chance: Chance,
    /// What questions between instances meet.
    pub peer_chance: Chance,
    pub peers: Vec<PeerMessage>,
    /// Applications that write under their term's fence.
    pub writers: Option<Writers>,
    /// Where the key stands that they write.
    pub data: u64,
    /// What an operator is at who retires the role, and how many there were.
    pub retiring: Option<Retiring>,
    pub retirements: u64,
    pub companions: Companions,
    pub monitor: Monitor,
    pub tally: Tally,
    /// The first promise that was broken, if any.
    pub violation: Option<Violation>,
    /// A broken promise is reported instead of panicking at once.
    pub patient: bool,
    pub trace: bool,
    pub(crate) requests: u64,
    checkers: Option<Checkers>,
    queue: BTreeMap<(Duration, u64), Happening>,
    order: u64,
}

impl World {
    /// So many instances of one configuration, all started, in fair weather.
    pub fn new(seed: u64, instances: usize, settings: &RoleSettings) -> Self {
        Self::with(seed, ModelBucket::new(), vec![settings.clone(); instances])
    }

    pub fn with(seed: u64, bucket: ModelBucket, settings: Vec<RoleSettings>) -> Self {
        let mut world = Self::unstarted(seed, bucket, settings);
        for node in 0..world.nodes.len() {
            world.boot(node);
        }
        world
    }

    pub fn unstarted(seed: u64, bucket: ModelBucket, settings: Vec<RoleSettings>) -> Self {
        let nodes: Vec<_> = settings
            .into_iter()
            .enumerate()
            .map(|(i, settings)| Node::new(format!("node-{i}"), settings))
            .collect();
        Self {
            now: Duration::ZERO,
            bucket,
            checkers: Some(Checkers::new(nodes.len())),
            nodes,
            weather: Weather::fair(),
            climate: Weather::fair(),
            storm_until: Duration::ZERO,
            outage_until: Duration::ZERO,
            refusing: None,
            timer_lag: Duration::ZERO..Duration::ZERO,
            fences_watched: true,
            readers: true,
            deaf: false,
            liars: None,
            chance: Chance::new(seed),
            peer_chance: Chance::new(seed ^ 0x1e77_e500_0000_0000),
            peers: Vec::new(),
            writers: None,
            data: 0,
            retiring: None,
            retirements: 0,
            companions: Companions::new(seed),
            monitor: Monitor::prompt(seed),
            tally: Tally::default(),
            violation: None,
            patient: false,
            trace: std::env::var_os("SIM_TRACE").is_some(),
            requests: 0,
            queue: BTreeMap::new(),
            order: 0,
        }
    }

    pub fn schedule(&mut self, at: Duration, happening: Happening) {
        self.order += 1;
        self.queue.insert((at.max(self.now), self.order), happening);
    }

    /// Tells the checkers. The first broken promise is kept.
    pub fn tell(&mut self, note: &Note) {
        if let Note::HistoryLost { .. } = note {
            self.companions.history_lost = true;
        }
        if self.violation.is_some() {
            return;
        }
        let Some(mut checkers) = self.checkers.take() else {
            return;
        };
        let verdict = checkers.hear(self, note);
        self.checkers = Some(checkers);
        if let Err(violation) = verdict {
            assert!(self.patient, "{violation}");
            self.violation = Some(violation);
        }
    }

    /// A line for whoever looks into a failure.
    pub fn say(&self, node: usize, what: &str, detail: &impl std::fmt::Debug) {
        if self.trace {
            eprintln!("{:>13.6?} node-{node} {what} {detail:?}", self.now);
        }
    }

    /// Runs for so long.
    pub fn run(&mut self, time: Duration) {
        self.run_until(time, |_| false);
    }

    /// Runs until this holds, at most for so long. Returns when it held, counted from now.
    pub fn run_until(
        &mut self,
        limit: Duration,
        holds: impl Fn(&Self) -> bool,
    ) -> Option<Duration> {
        let start = self.now;
        let end = start + limit;
        loop {
            if self.violation.is_some() {
                return None;
            }
            if holds(self) {
                return Some(self.now - start);
            }
            match self.queue.first_key_value() {
                Some((&(at, _), _)) if at <= end => {
                    let ((at, _), happening) = self.queue.pop_first().expect("there is one");
                    self.now = at;
                    self.happen(happening);
                    self.look();
                }
                _ => {
                    self.now = end;
                    self.look();
                    return holds(self).then_some(limit);
                }
            }
        }
    }

    /// After each event: what holds at all times is looked at, and at the end of an instant also
    /// what timers of that instant may still put right.
    fn look(&mut self) {
        let over = self
            .queue
            .first_key_value()
            .is_none_or(|((at, _), _)| *at > self.now);
        self.tell(&Note::Moved { instant_over: over });
    }

    /// Runs until somebody leads; its index.
    pub fn await_leader(&mut self, limit: Duration) -> usize {
        self.run_until(limit, |world| world.leader().is_some());
        self.leader()
            .unwrap_or_else(|| panic!("no leader within {limit:?}"))
    }

    /// Runs until this one leads; how long that took.
    pub fn until_led_by(&mut self, node: usize, limit: Duration) -> Duration {
        let took = self.run_until(limit, |world| world.leader() == Some(node));
        took.unwrap_or_else(|| panic!("{node} does not lead within {limit:?}"))
    }

    /// Runs until another one leads; how long that took.
    pub fn until_led_by_another_than(&mut self, node: usize, limit: Duration) -> Duration {
        let another = |world: &Self| world.leader().is_some_and(|leader| leader != node);
        let took = self.run_until(limit, another);
        took.unwrap_or_else(|| panic!("no other leader within {limit:?}"))
    }

    pub fn leader(&self) -> Option<usize> {
        (0..self.nodes.len()).find(|&node| self.nodes[node].is_leader(self.now))
    }

    pub fn state(&self, node: usize) -> RoleState {
        self.nodes[node].state
    }

    pub fn term(&self, node: usize) -> TermId {
        *self.nodes[node].terms.keys().next_back().expect("a term")
    }

    pub fn told(&self, node: usize, what: impl Fn(&Event) -> bool) -> bool {
        self.nodes[node].events.iter().any(|(_, event)| what(event))
    }

    pub fn latency(&mut self) -> Duration {
        let latency = self.weather.latency.clone();
        self.stall() + self.chance.within(&latency)
    }

    /// By how much a message is held up.
    pub fn stall(&mut self) -> Duration {
        let stalled = self.weather.stalled;
        if stalled > 0 && self.chance.permille(stalled) {
            ms(500)
        } else {
            Duration::ZERO
        }
    }

    /// Removes what dies with a process.
    pub fn forget(&mut self, process: usize) {
        self.queue
            .retain(|_, happening| !happening.is_within(process));
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Wake { node, wake } => {
                if self.nodes[node].wake == wake {
                    self.input(node, Input::Tick);
                }
            }
            Happening::Arrive {
                node,
                op,
                request,
                answered,
                life,
            } => {
                let answered = answered.filter(|_| self.nodes[node].life == life);
                self.arrive(node, op, request, answered);
            }
            Happening::Reading(reading) => self.reading(reading),
            Happening::Answer { node, op, answer } => self.answer(node, op, answer),
            Happening::TimedOut { node, op, read } => self.timed_out(node, op, read),
            Happening::Watch { node, shown } => {
                let watcher = &self.nodes[node];
                if watcher.linked && watcher.wire.carries_answers() && watcher.watching {
                    let input = match shown {
                        Shown::Role(entry) => Input::Observed(entry),
                        Shown::Fence(fence) => Input::ObservedFence(fence),
                    };
                    self.input(node, input);
                }
            }
            Happening::Link { node } => self.link(node),
            Happening::OutageHeard { node } if self.nodes[node].told_lost => {}
            Happening::OutageHeard { node } => self.hear_of_outage(node),
            Happening::OutageLasts { node, since } => self.outage_lasts(node, since),
            Happening::GraceOver { node, since } => self.grace_over(node, since),
            Happening::Dies { node } => {
                self.crash(node);
                self.afflict(node, Trouble::Dead, ms(50));
            }
            Happening::HandlerEnds { node, term, end } => self.handler_ends(node, term, end),
            Happening::Health { node, term } => {
                let healthy = match self.nodes[node].health {
                    Health::Well => true,
                    Health::Ill => false,
                    Health::Flapping => self.chance.permille(500),
                };
                self.input(node, Input::Health { term, healthy });
            }
            Happening::PeerMessage { node, reply_to } => self.peer_message_arrives(node, reply_to),
            Happening::PeerReplied { node, id, answer } => {
                self.answer_arrives(node, id, answer);
            }
            Happening::Fenced(step) => self.fenced(step),
            Happening::Will { companion, stage } => self.will(companion, stage),
            Happening::Expire => self.expire(),
            Happening::Wipe { revision } => self.wipe(revision),
            Happening::Relief { node, trouble } => self.relieve(node, trouble),
            Happening::Calm => {
                if self.now >= self.storm_until {
                    self.weather = self.climate.clone();
                }
            }
            Happening::Fit => self.bucket.edit_max_age(None),
            Happening::Retire { retirement } => self.go_on_retiring(retirement),
            Happening::Return => {
                if !self.bucket.exists {
                    self.make_anew();
                }
            }
        }
    }

    /// The client is connected and has looked at the bucket. As the monitor does, it first tells of
    /// the bucket as it knew it, if its sequences are never used twice.
    pub fn link(&mut self, node: usize) {
        let now = self.now;
        let held_up = |node: &Node| {
            node.election.is_none()
                || node.wire != crate::network::Wire::Whole
                || node
                    .troubles
                    .get(&Trouble::Unlinked)
                    .is_some_and(|until| now < *until)
        };
        if held_up(&self.nodes[node]) {
            return;
        }
        self.connected_again(node);
        if !self.bucket.exists {
            let failure = Failure {
                kind: FailureKind::BucketMissing,
                detail: "no such bucket".to_owned(),
            };
            self.nodes[node].linked = false;
            self.input(node, Input::Link(Link::Unusable(failure)));
            // It is looked for again, slowly.
            self.schedule(now + ms(200), Happening::Link { node });
            return;
        }
        let known = self.nodes[node]
            .known
            .filter(|known| known.unique_sequences);
        if let Some(known) = known.filter(|_| !self.nodes[node].linked) {
            self.nodes[node].linked = true;
            self.input(node, Input::Link(Link::Up(known)));
            self.show_all(node);
            let at = self.now + self.latency() + self.latency();
            self.schedule(at, Happening::Link { node });
            return;
        }
        let made = self.bucket.made;
        let asked = std::mem::take(&mut self.nodes[node].asked_for_look);
        let same = self.nodes[node].known == Some(made) && self.nodes[node].linked;
        self.nodes[node].linked = true;
        self.nodes[node].known = Some(made);
        if !same || asked {
            self.input(node, Input::Link(Link::Up(made)));
        }
        self.show_all(node);
    }

    /// What stands there, in the order in which it was written.
    pub fn show_all(&mut self, node: usize) {
        let role = self
            .bucket
            .role()
            .cloned()
            .map(|it| (it.revision, Shown::Role(it)));
        let fence = self.bucket.fence().filter(|_| self.fences_watched);
        let fence = fence.map(|it| (it.revision, Shown::Fence(it)));
        let mut all: Vec<_> = role.into_iter().chain(fence).collect();
        all.sort_by_key(|(revision, _)| *revision);
        for (_, shown) in all {
            self.show(node, shown);
        }
    }
}
