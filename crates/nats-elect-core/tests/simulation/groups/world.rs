//! All there is, and the true time under which it happens.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use nats_elect_core::group::{Epoch, GroupKey, GroupRecord, MemberContent, UnitKey};
use nats_elect_core::name::GroupName;

use super::checkers::{Checkers, Violation};
use super::node::{Claimed, Node, Trouble};
use super::plan::Plan;
use super::requests::{Answer, Asker, Request};
use super::stream::{Body, Stream};
use super::tally::Tally;
use super::watching::Brought;
use super::wills::{Companions, Stage};
use crate::chance::Chance;
use crate::network::Weather;

/// Something that will happen.
#[derive(Clone, Debug)]
pub enum Happening {
    /// A timer of the machine, or of an epoch's election.
    Wake {
        node: usize,
        life: u64,
        keeper: Option<Epoch>,
        wake: u64,
    },
    Arrive {
        asker: Asker,
        request: Arc<Request>,
        back: Option<Duration>,
    },
    Answer {
        asker: Asker,
        answer: Answer,
    },
    TimedOut {
        asker: Asker,
    },
    Watch {
        node: usize,
        life: u64,
        lag: Duration,
    },
    ReadOn {
        node: usize,
        life: u64,
    },
    /// The process begins its watch anew, for one may miss what no watch shows.
    WatchAnew {
        node: usize,
        life: u64,
        watch: u64,
    },
    Brought {
        node: usize,
        life: u64,
        watch: u64,
        brought: Brought,
    },
    Link {
        node: usize,
        life: u64,
    },
    Claim {
        node: usize,
        life: u64,
    },
    /// Hints of another member arrive.
    Hinted {
        node: usize,
        life: u64,
        hints: Vec<nats_elect_core::group::Hint>,
    },
    HandlerEnds {
        node: usize,
        life: u64,
        unit: UnitKey,
        sequence: u64,
    },
    Relief {
        node: usize,
        trouble: Trouble,
    },
    Calm,
    /// Something happens to a companion.
    Will {
        companion: u64,
        stage: Stage,
    },
}

impl Happening {
    /// The process that it happens in, if it dies and stands still with one.
    const fn process(&self) -> Option<(usize, u64)> {
        match self {
            Self::Wake { node, life, .. }
            | Self::Brought { node, life, .. }
            | Self::WatchAnew { node, life, .. }
            | Self::Link { node, life }
            | Self::Claim { node, life }
            | Self::Hinted { node, life, .. }
            | Self::HandlerEnds { node, life, .. } => Some((*node, *life)),
            Self::Answer { asker, .. } | Self::TimedOut { asker } => Some((asker.node, asker.life)),
            Self::Arrive { .. }
            | Self::Watch { .. }
            | Self::ReadOn { .. }
            | Self::Relief { .. }
            | Self::Will { .. }
            | Self::Calm => None,
        }
    }
}

/// What tells a new member that units may have owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traces {
    /// The records of members.
    Members,
    /// All keys of a group.
    Groups,
}

#[derive(Debug)]
pub struct World {
    pub now: Duration,
    pub stream: Stream,
    pub nodes: Vec<Node>,
    pub weather: Weather,
    pub storm_until: Duration,
    /// Hints that do not arrive, in permille.
    pub hints_lost: u32,
    pub outage_until: Duration,
    /// For how long a watch that begins may be held up.
    pub slow_watch: Duration,
    /// The next record over one of a unit or a group is purged before all watches have read it.
    pub purges_next: bool,
    /// Of what keys were purged that tell of owners.
    pub purged: Option<Traces>,
    /// The last record of each group that has grown, or was about to.
    pub grown: BTreeMap<GroupName, GroupRecord>,
    pub chance: Chance,
    pub companions: Companions,
    pub claimed: Vec<Claimed>,
    /// Epochs of strangers, whose keys they have.
    pub strangers: Vec<Claimed>,
    /// NATS has lost confirmed writes.
    pub history_lost: bool,
    pub last_watch: u64,
    pub tally: Tally,
    pub violation: Option<Violation>,
    pub trace: bool,
    pub checkers: Checkers,
    /// Boxed, for they are large, and a map moves its entries about.
    queue: BTreeMap<(Duration, u64), Box<Happening>>,
    order: u64,
}

impl World {
    pub fn of(plan: &Plan, trace: bool) -> Self {
        let mut world = Self {
            now: Duration::ZERO,
            stream: Stream::new(plan.unique),
            nodes: plan.nodes(),
            weather: Weather::fair(),
            storm_until: Duration::ZERO,
            outage_until: Duration::ZERO,
            hints_lost: 100,
            slow_watch: plan.longest_ttl() / 2,
            purges_next: false,
            purged: None,
            grown: BTreeMap::new(),
            chance: Chance::new(plan.seed),
            companions: Companions::of_seed(plan.seed),
            claimed: Vec::new(),
            strangers: Vec::new(),
            history_lost: false,
            last_watch: 0,
            tally: Tally::default(),
            violation: None,
            trace,
            checkers: Checkers::default(),
            queue: BTreeMap::new(),
            order: 0,
        };
        for node in 0..world.nodes.len() {
            world.boot(node);
        }
        world
    }

    pub fn schedule(&mut self, at: Duration, happening: Happening) {
        self.order += 1;
        let at = (at.max(self.now), self.order);
        self.queue.insert(at, Box::new(happening));
    }

    /// A line for whoever looks into a failure.
    pub fn say(&self, node: usize, what: &str, detail: &impl std::fmt::Debug) {
        if self.trace {
            eprintln!("{:>13.6?} node-{node} {what} {detail:?}", self.now);
        }
    }

    pub fn latency(&mut self) -> Duration {
        let latency = self.weather.latency.clone();
        self.chance.within(&latency)
    }

    pub fn run(&mut self, time: Duration) {
        self.run_until(time, |_| false);
    }

    /// Runs until this holds, at most for so long. Returns whether it held.
    pub fn run_until(&mut self, limit: Duration, holds: impl Fn(&Self) -> bool) -> bool {
        let end = self.now + limit;
        while self.violation.is_none() {
            if holds(self) {
                return true;
            }
            match self.queue.first_key_value() {
                Some((&(at, _), _)) if at <= end => {
                    let ((at, _), happening) = self.queue.pop_first().expect("there is one");
                    self.now = at;
                    self.happen(*happening);
                    self.look();
                }
                _ => {
                    self.now = end;
                    self.look();
                    return holds(self);
                }
            }
        }
        false
    }

    /// Keeps the first broken promise.
    pub fn judge(&mut self, verdict: Result<(), Violation>) {
        if let Err(violation) = verdict
            && self.violation.is_none()
        {
            self.violation = Some(violation);
        }
    }

    fn look(&mut self) {
        let verdict = Checkers::look(self);
        self.judge(verdict);
    }

    pub fn happen(&mut self, happening: Happening) {
        if let Some((node, life)) = happening.process() {
            let at = &mut self.nodes[node];
            if at.life != life || at.process.is_none() {
                return;
            }
            if at.paused {
                at.backlog.push(happening);
                return;
            }
        }
        match happening {
            Happening::Wake {
                node, keeper, wake, ..
            } => self.wake(node, keeper, wake),
            Happening::Arrive {
                asker,
                request,
                back,
            } => self.arrive(asker, &request, back),
            Happening::Answer { asker, answer } => self.answer(asker, answer),
            Happening::TimedOut { asker } => self.timed_out(asker),
            Happening::Watch { node, life, lag } => {
                if self.nodes[node].life == life {
                    self.begin_watch(node, lag);
                }
            }
            Happening::ReadOn { node, life } => {
                if self.nodes[node].life == life {
                    self.read_on(node, false);
                }
            }
            Happening::WatchAnew { node, watch, .. } => self.watch_anew(node, watch),
            Happening::Brought {
                node,
                watch,
                brought,
                ..
            } => self.brought(node, watch, brought),
            Happening::Link { node, .. } => self.link(node),
            Happening::Claim { node, .. } => self.claim_if_needed(node),
            Happening::Hinted { node, hints, .. } => {
                if self.nodes[node].linked {
                    self.group_input(node, nats_elect_core::group::GroupInput::Hint { hints });
                }
            }
            Happening::HandlerEnds {
                node,
                unit,
                sequence,
                ..
            } => self.handler_ends(node, &unit, sequence),
            Happening::Relief { node, trouble } => self.relieve(node, trouble),
            Happening::Will { companion, stage } => self.will(companion, stage),
            Happening::Calm => {
                if self.now >= self.storm_until {
                    self.weather = Weather::fair();
                }
            }
        }
    }

    /// Stores a message, and shows it to all watches.
    pub fn store(&mut self, key: GroupKey, over: Option<u64>, body: Body) -> Result<u64, u64> {
        let stored = self.stream.store(key, over, body, self.now);
        let stored = stored.inspect_err(|stands| {
            if self.trace {
                eprintln!("{:>13.6?} refused, it stands at {stands}", self.now);
            }
        })?;
        if self.trace {
            let (key, over) = (&stored.key, stored.over);
            let (sequence, now) = (stored.sequence, self.now);
            match &stored.body {
                Body::Member(..) => eprintln!("{now:>13.6?} {key} = {sequence} over {over:?}"),
                body => eprintln!("{now:>13.6?} {key} = {sequence} over {over:?}: {body:?}"),
            }
        }
        let is_member = matches!(stored.key, GroupKey::Member(_));
        let follows = over.is_some_and(|over| over > 0) && !is_member;
        if follows && std::mem::take(&mut self.purges_next) {
            self.purge_half_read(&stored.key);
        } else {
            self.announce();
        }
        Ok(stored.sequence)
    }

    /// Purges what was stored last, which not all watches have read.
    fn purge_half_read(&mut self, key: &GroupKey) {
        for node in 0..self.nodes.len() {
            if self.chance.permille(500) {
                self.read_on(node, false);
            }
        }
        self.purge(key);
        self.announce();
    }

    /// A group's record as it stands.
    pub fn group_record(&self, key: &GroupKey) -> Option<GroupRecord> {
        match &self.stream.get(key)?.body {
            Body::Group(record) => *record,
            Body::Member(..) | Body::Unit(..) => None,
        }
    }

    /// Removes what has no time left to happen: nothing is on its way any more.
    pub fn drop_requests(&mut self) {
        self.queue.retain(|_, happening| match **happening {
            Happening::Arrive { .. } => false,
            Happening::Will { ref stage, .. } => !matches!(stage, Stage::Arrives { .. }),
            _ => true,
        });
    }

    /// Who may act on a unit now.
    pub fn owners(&self, unit: &UnitKey) -> usize {
        let valid = self
            .nodes
            .iter()
            .flat_map(|node| node.valid_terms(self.now));
        valid.filter(|(key, _)| *key == unit).count()
    }

    /// The units that should have an owner.
    pub fn units(&self) -> Vec<UnitKey> {
        let mut units = Vec::new();
        for (name, group) in &self.nodes[0].group.groups {
            let key = GroupKey::Group(name.clone());
            let Some(record) = self.group_record(&key) else {
                continue;
            };
            units.extend(super::plan::units_of(name, group, &record));
        }
        units
    }

    /// Whether each unit has its one owner.
    pub fn is_served(&self) -> bool {
        let groups = &self.nodes[0].group.groups;
        let known = |name| self.stream.get(&GroupKey::Group(name)).is_some();
        groups.keys().cloned().all(known) && self.units().iter().all(|unit| self.owners(unit) == 1)
    }

    /// The epochs with a lease that nobody keeps any more, and that have no tombstone.
    pub fn undead(&self) -> impl Iterator<Item = Epoch> + use<'_> {
        let epochs = self.stream.keys().filter_map(GroupKey::member);
        epochs.filter(|epoch| {
            let stands = self.stream.get(&GroupKey::Member(*epoch));
            let tells_lease = stands.is_some_and(|it| match &it.body {
                Body::Member(_, MemberContent::Record(seen)) => seen.identity.is_some(),
                _ => false,
            });
            let mut processes = self.nodes.iter().filter_map(|node| node.process.as_ref());
            tells_lease && !processes.any(|it| it.group.own_epoch() == Some(*epoch))
        })
    }
}
