//! The virtual clock and what happens under it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::bucket::ModelBucket;
use super::chance::Chance;
use super::network::Weather;
use super::node::Node;
use nats_elect::FencingToken;
use nats_elect::RoleState;
use nats_elect::internals::{Content, Entry};
use nats_elect::internals::{
    Failure, HandlerEnd, Input, Link, OpId, Snapshot, TermId, Write, WriteOutcome,
};
use nats_elect::{Event, FailureKind};
use nats_elect::{RoleConfig, RoleSettings};

pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The settings that tests start from: a lease of one second.
pub fn settings(change: impl FnOnce(&mut RoleConfig)) -> RoleSettings {
    let mut config = RoleConfig::default();
    config.ttl = ms(1000);
    config.request_timeout = Some(ms(80));
    // More orders of events than none at all.
    config.claim_delay = Some(ms(2));
    change(&mut config);
    config.settings().expect("settings that obey the rules")
}

/// A request on its way.
#[derive(Clone, Debug)]
pub enum Request {
    Write(Write),
    Read { check_bucket: bool },
}

#[derive(Clone, Debug)]
pub enum Answer {
    Write(WriteOutcome),
    Read(Result<Snapshot, Failure>),
}

/// Something that will happen.
#[derive(Clone, Debug)]
pub(super) enum Happening {
    Wake {
        node: usize,
        wake: u64,
    },
    Arrive {
        node: usize,
        op: OpId,
        request: Request,
        answered: Option<Duration>,
        life: u64,
    },
    Answer {
        node: usize,
        op: OpId,
        answer: Answer,
    },
    TimedOut {
        node: usize,
        op: OpId,
        read: bool,
    },
    Watch {
        node: usize,
        entry: Entry,
    },
    Link {
        node: usize,
    },
    HandlerEnds {
        node: usize,
        term: TermId,
        end: HandlerEnd,
    },
    Health {
        node: usize,
        term: TermId,
    },
    Expire,
}

impl Happening {
    /// Whether it dies with this process.
    const fn is_within(&self, process: usize) -> bool {
        match self {
            Self::Arrive { .. } | Self::Expire => false,
            Self::Wake { node, .. }
            | Self::Answer { node, .. }
            | Self::TimedOut { node, .. }
            | Self::Watch { node, .. }
            | Self::Link { node }
            | Self::HandlerEnds { node, .. }
            | Self::Health { node, .. } => *node == process,
        }
    }
}

/// What a test allows for itself, by name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allowed {
    /// Acknowledged writes are lost, or a fresh instance meets a recreated bucket: two leaders until the next renewal.
    pub two_leaders: bool,
    /// Acknowledged writes are lost: the order of tokens with them.
    pub token_order: bool,
}

/// All there is.
#[derive(Debug)]
pub struct World {
    pub now: Duration,
    pub bucket: ModelBucket,
    pub nodes: Vec<Node>,
    pub weather: Weather,
    pub allowed: Allowed,
    /// Applications look at their terms all the time: a passed deadline is seen.
    pub readers: bool,
    pub chance: Chance,
    pub last_token: Option<FencingToken>,
    pub(super) seed: u64,
    pub(super) trace: bool,
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
        Self {
            now: Duration::ZERO,
            bucket,
            nodes: settings
                .into_iter()
                .enumerate()
                .map(|(i, settings)| Node::new(format!("node-{i}"), settings))
                .collect(),
            weather: Weather::fair(),
            allowed: Allowed::default(),
            readers: true,
            chance: Chance::new(seed),
            last_token: None,
            seed,
            trace: std::env::var_os("ELECTION_TRACE").is_some(),
            queue: BTreeMap::new(),
            order: 0,
        }
    }

    pub(super) fn schedule(&mut self, at: Duration, happening: Happening) {
        self.order += 1;
        self.queue.insert((at.max(self.now), self.order), happening);
    }

    pub(super) fn is_instant_over(&self) -> bool {
        self.queue
            .first_key_value()
            .is_none_or(|((at, _), _)| *at > self.now)
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
            if holds(self) {
                return Some(self.now - start);
            }
            match self.queue.first_key_value() {
                Some((&(at, _), _)) if at <= end => {
                    let ((at, _), happening) = self.queue.pop_first().expect("just seen");
                    self.now = at;
                    self.happen(happening);
                    self.check();
                }
                _ => {
                    self.now = end;
                    self.check();
                    return holds(self).then_some(limit);
                }
            }
        }
    }

    /// Runs until somebody leads; its index.
    pub fn await_leader(&mut self, limit: Duration) -> usize {
        self.run_until(limit, |world| world.leader().is_some());
        self.leader()
            .unwrap_or_else(|| panic!("no leader within {limit:?} (seed {})", self.seed))
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

    /// The process starts, connects and watches.
    pub fn boot(&mut self, node: usize) {
        let incarnation = self.chance.uuid();
        let now = self.now;
        self.nodes[node].boot(incarnation, now);
        self.connect(node);
    }

    pub fn crash(&mut self, node: usize) {
        self.note(node, "is killed", &());
        self.nodes[node].kill();
        self.queue.retain(|_, happening| !happening.is_within(node));
    }

    /// The election's actor crashed: the process lives on, its handler was ended and its leases revoked, and a new machine
    /// goes on with the same incarnation.
    pub fn restart_actor(&mut self, node: usize) {
        self.crash(node);
        let now = self.now;
        let beats = self.nodes[node].nonces.len() as u64;
        self.nodes[node].candidate.first_beat = beats;
        let incarnation = self.nodes[node].candidate.incarnation;
        self.nodes[node].boot(incarnation, now);
        self.connect(node);
    }

    /// Connects after a moment.
    pub fn connect(&mut self, node: usize) {
        let at = self.now + self.latency();
        self.nodes[node].cut = false;
        self.schedule(at, Happening::Link { node });
    }

    pub fn disconnect(&mut self, node: usize) {
        self.nodes[node].linked = false;
        self.input(node, Input::Link(Link::Down));
    }

    pub fn pause(&mut self, node: usize) {
        self.note(node, "is paused", &());
        self.nodes[node].paused = true;
    }

    /// The process wakes up: its timer and what came in meanwhile are there at once, in either order.
    pub fn resume(&mut self, node: usize) {
        self.nodes[node].paused = false;
        let mut backlog = std::mem::take(&mut self.nodes[node].backlog);
        let at = if self.chance.permille(500) {
            0
        } else {
            backlog.len()
        };
        backlog.insert(at, Input::Tick);
        for input in backlog {
            self.input(node, input);
        }
        self.check();
    }

    /// A foreign write to the role's key, which watchers see.
    pub fn put(&mut self, content: Content) {
        self.bucket.put(content, self.now);
        self.announce();
    }

    /// The bucket is deleted and made anew. The instances are told only by what they see.
    pub fn recreate(&mut self) {
        // It takes time; and no two have the same creation time.
        self.run(ms(20));
        self.bucket.recreate(self.now);
    }

    pub(super) fn announce(&mut self) {
        let Some(entry) = self.bucket.role().cloned() else {
            return;
        };
        for node in 0..self.nodes.len() {
            self.show(node, entry.clone());
        }
        if let Some(at) = self.bucket.next_expiry() {
            self.schedule(at, Happening::Expire);
        }
    }

    fn show(&mut self, node: usize, entry: Entry) {
        let lost = self.chance.permille(self.weather.watch_lost);
        let delay = self.weather.watch_delay.clone();
        let at = self.now + self.chance.within(&delay);
        let watcher = &mut self.nodes[node];
        if lost || !watcher.watching || watcher.cut || !watcher.linked {
            return;
        }
        // A watch keeps the order.
        watcher.watched_until = watcher.watched_until.max(at);
        let at = watcher.watched_until;
        self.schedule(at, Happening::Watch { node, entry });
    }

    pub(super) fn latency(&mut self) -> Duration {
        let latency = self.weather.latency.clone();
        self.chance.within(&latency)
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
            Happening::Answer { node, op, answer } => self.answer(node, op, answer),
            Happening::TimedOut { node, op, read } => {
                let failure = Failure {
                    kind: FailureKind::Timeout,
                    detail: "no answer".to_owned(),
                };
                let answer = if read {
                    Answer::Read(Err(failure))
                } else {
                    Answer::Write(WriteOutcome::Failed(failure))
                };
                self.answer_anyway(node, op, answer);
            }
            Happening::Watch { node, entry } => {
                let watcher = &self.nodes[node];
                if watcher.linked && !watcher.cut && watcher.watching {
                    self.input(node, Input::Observed(entry));
                }
            }
            Happening::Link { node } => self.link(node),
            Happening::HandlerEnds { node, term, end } => self.handler_ends(node, term, end),
            Happening::Health { node, term } => {
                let healthy = self.nodes[node].healthy;
                self.input(node, Input::Health { term, healthy });
            }
            Happening::Expire => {
                if self.bucket.expire(self.now) {
                    self.announce();
                } else if let Some(at) = self.bucket.next_expiry().filter(|at| *at > self.now) {
                    self.schedule(at, Happening::Expire);
                }
            }
        }
    }

    /// The client is connected and has looked at the bucket.
    pub fn link(&mut self, node: usize) {
        if self.nodes[node].election.is_none() || self.nodes[node].cut {
            return;
        }
        if !self.bucket.exists {
            let failure = Failure {
                kind: FailureKind::BucketMissing,
                detail: "no such bucket".to_owned(),
            };
            self.nodes[node].linked = false;
            self.input(node, Input::Link(Link::Unusable(failure)));
            return;
        }
        self.nodes[node].linked = true;
        let made = self.bucket.made;
        self.input(node, Input::Link(Link::Up(made)));
        if let Some(entry) = self.bucket.role().cloned() {
            self.show(node, entry);
        }
    }

    fn arrive(&mut self, node: usize, op: OpId, request: Request, answered: Option<Duration>) {
        let missing = Failure {
            kind: FailureKind::BucketMissing,
            detail: "no such bucket".to_owned(),
        };
        let answer = match request {
            Request::Write(_) if !self.bucket.exists => {
                Answer::Write(WriteOutcome::Failed(missing))
            }
            Request::Read { .. } if !self.bucket.exists => Answer::Read(Err(missing)),
            Request::Write(write) => {
                let outcome = self.bucket.write(&write, self.now);
                self.note(node, "write arrives", &(&write, &outcome));
                if matches!(outcome, WriteOutcome::Acked { .. }) {
                    self.announce();
                }
                Answer::Write(outcome)
            }
            Request::Read { check_bucket } => {
                let ago = if self.chance.permille(self.weather.stale_read) {
                    1 + usize::try_from(self.chance.below(3)).expect("small")
                } else {
                    0
                };
                Answer::Read(Ok(if ago == 0 {
                    self.bucket.snapshot(check_bucket)
                } else {
                    self.bucket.stale_snapshot(check_bucket, ago)
                }))
            }
        };
        if let Some(back) = answered {
            self.schedule(self.now + back, Happening::Answer { node, op, answer });
        }
    }
}
