//! What can go wrong, and how it is drawn.

use std::collections::BTreeSet;
use std::time::Duration;

use nats_elect_core::event::FailureKind;
use nats_elect_core::group::{GroupInput, GroupKey, GroupKind, UnitKey, UnitRecord};
use nats_elect_core::name::{GroupName, UnitName};

use super::node::Trouble;
use super::requests::Kind;
use super::strangers::Stranger;
use super::stream::Body;
use super::world::{Happening, Traces, World};
use crate::chance::Chance;
use crate::network::{Fate, Weather, Wire};
use crate::world::ms;

/// Something that goes wrong.
#[derive(Clone, Debug)]
pub enum Fault {
    Storm(Box<Weather>, Duration),
    /// What becomes of the next request of this kind.
    Fate(Kind, Fate),
    Outage(Duration),
    Wire(Wire, Duration),
    Disconnect(Duration),
    /// NATS is connected, and the bucket can't be used.
    Unusable(FailureKind, Duration),
    Kill(Duration),
    Restart,
    Pause(Duration),
    /// Watches fall silent, and nobody notices.
    Silence,
    /// The server reads on for the watch only after so long.
    Stall(Duration),
    /// A new watch, on a server that is so far behind.
    Watch(Duration),
    /// All handlers end by themselves.
    HandlersEnd,
    /// All handlers fail their health checks.
    HandlersUnhealthy,
    /// From now on handlers behave so.
    Handlers {
        listen: bool,
        abort: bool,
        fail_in: Option<Duration>,
    },
    Drain,
    Hint,
    Grow,
    PurgeUnit,
    /// The next record of a unit or a group is purged before all watches have read it.
    PurgeNext,
    PurgeMember,
    PurgeGroup,
    /// All keys of a group are purged.
    PurgeAll,
    /// The stream loses its last changes.
    LoseEnd(usize),
    Stranger(Stranger),
}

/// The kinds of fault that a seed meets, in permille of its seeds.
const KINDS: [(FaultKind, u32); 11] = [
    (FaultKind::Messages, 500),
    (FaultKind::Ghosts, 500),
    (FaultKind::Partitions, 500),
    (FaultKind::Processes, 500),
    (FaultKind::Watches, 700),
    (FaultKind::Handlers, 400),
    (FaultKind::Requests, 500),
    (FaultKind::Growth, 250),
    (FaultKind::Purges, 500),
    (FaultKind::Strangers, 600),
    (FaultKind::History, 40),
];

#[derive(Clone, Copy, Debug)]
pub enum FaultKind {
    Messages,
    Ghosts,
    Partitions,
    Processes,
    Watches,
    Handlers,
    Requests,
    Growth,
    Purges,
    Strangers,
    History,
}

impl Fault {
    pub fn choose_kinds(chance: &mut Chance) -> Vec<FaultKind> {
        let drawn = KINDS.iter().filter(|(_, often)| chance.permille(*often));
        drawn.map(|(kind, _)| *kind).collect()
    }

    pub fn draw(kinds: &[FaultKind], ttl: Duration, chance: &mut Chance) -> Option<Self> {
        if kinds.is_empty() {
            return None;
        }
        let long = ttl * 2;
        Some(match chance.pick(kinds) {
            FaultKind::Messages if chance.permille(250) => Self::Outage(chance.upto(ttl / 2)),
            FaultKind::Messages => Self::Storm(Box::new(storm(ttl, chance)), chance.upto(long)),
            FaultKind::Ghosts => {
                let kind = chance.pick(&Kind::WRITES);
                let late = chance.upto(ttl * 3);
                let fates = [
                    Fate::Lost,
                    Fate::AckLost,
                    Fate::Ghost(late),
                    Fate::Twice(late),
                ];
                Self::Fate(kind, chance.pick(&fates))
            }
            FaultKind::Partitions if chance.permille(500) => Self::Disconnect(chance.upto(long)),
            FaultKind::Partitions if chance.permille(200) => {
                let kinds = [
                    FailureKind::BucketMissing,
                    FailureKind::PermissionDenied,
                    FailureKind::Unavailable,
                ];
                let most = chance.pick(&[ttl / 8, long]);
                Self::Unusable(chance.pick(&kinds), chance.upto(most))
            }
            FaultKind::Partitions => {
                let wire = chance.pick(&[Wire::Cut, Wire::Deaf, Wire::Mute]);
                Self::Wire(wire, chance.upto(long))
            }
            FaultKind::Processes => match chance.below(4) {
                0 => Self::Kill(chance.upto(long)),
                1 => Self::Restart,
                _ => Self::Pause(chance.upto(ttl * 3 / 2)),
            },
            FaultKind::Watches => match chance.below(4) {
                0 => Self::Silence,
                1 | 2 => Self::Stall(chance.upto(ttl * 3 / 2)),
                _ => {
                    let lags = [Duration::ZERO, ttl / 8, ttl];
                    let lag = chance.pick(&lags);
                    Self::Watch(chance.upto(lag))
                }
            },
            FaultKind::Handlers => match chance.below(4) {
                0 => Self::HandlersEnd,
                1 => Self::HandlersUnhealthy,
                _ => Self::Handlers {
                    listen: chance.permille(400),
                    abort: chance.permille(500),
                    fail_in: chance.permille(300).then(|| chance.upto(ms(100))),
                },
            },
            FaultKind::Requests => match chance.below(5) {
                0 => Self::Drain,
                _ => Self::Hint,
            },
            FaultKind::Growth => Self::Grow,
            FaultKind::Purges => match chance.below(9) {
                0 => Self::PurgeGroup,
                8 => Self::PurgeAll,
                1 => Self::PurgeMember,
                2 | 3 => Self::PurgeNext,
                _ => Self::PurgeUnit,
            },
            FaultKind::Strangers => Self::Stranger(Stranger::draw(chance)),
            FaultKind::History => Self::LoseEnd(1 + usize::try_from(chance.below(8)).expect("few")),
        })
    }

    pub fn strike(&self, world: &mut World, node: usize) {
        world.tally.faults += 1;
        world.say(node, "is struck by", self);
        match self {
            Self::Storm(weather, length) => {
                world.weather = (**weather).clone();
                world.storm_until = world.now + *length;
                world.schedule(world.storm_until, Happening::Calm);
            }
            Self::Fate(kind, fate) => world.nodes[node].plans.push((*kind, *fate)),
            Self::Outage(length) => world.outage_until = world.now + *length,
            Self::Wire(wire, length) => {
                world.nodes[node].wire = *wire;
                world.afflict(node, Trouble::Wire, *length);
            }
            Self::Disconnect(length) => {
                world.afflict(node, Trouble::Unlinked, *length);
                world.disconnect(node);
            }
            Self::Unusable(kind, length) => {
                world.tally.unusable += 1;
                world.afflict(node, Trouble::Unusable, *length);
                world.bucket_unusable(node, *kind);
            }
            Self::Kill(length) => {
                world.kill(node);
                world.afflict(node, Trouble::Dead, *length);
            }
            Self::Restart => {
                world.kill(node);
                world.boot(node);
            }
            Self::Pause(length) => {
                world.pause(node);
                world.afflict(node, Trouble::Paused, *length);
            }
            Self::Silence => world.break_watch(node),
            Self::Stall(length) => {
                let (until, life) = (world.now + *length, world.nodes[node].life);
                let process = world.nodes[node].process.as_mut();
                if let Some(watch) = process.and_then(|process| process.watch.as_mut()) {
                    watch.stalled_until = until;
                }
                world.schedule(until, Happening::ReadOn { node, life });
            }
            Self::Watch(lag) => world.watch(node, *lag),
            Self::HandlersEnd | Self::HandlersUnhealthy => {
                let process = world.nodes[node].process.as_ref();
                let terms = process.into_iter().flat_map(|it| it.terms.keys());
                for (unit, sequence) in terms.cloned().collect::<Vec<_>>() {
                    if world.nodes[node].paused {
                        break;
                    }
                    if matches!(self, Self::HandlersEnd) {
                        world.handler_ends(node, &unit, sequence);
                    } else {
                        world.group_input(node, GroupInput::Unhealthy { unit, sequence });
                    }
                }
            }
            Self::Handlers {
                listen,
                abort,
                fail_in,
            } => {
                let handler = &mut world.nodes[node].handler;
                handler.winds_down_in = listen.then_some(ms(1));
                handler.aborts_in = abort.then_some(ms(1));
                handler.ends_by_itself = *fail_in;
                let handler = *handler;
                if let Some(process) = &mut world.nodes[node].process {
                    for term in process.terms.values_mut() {
                        term.handler = handler;
                    }
                }
            }
            Self::Drain => {
                let at = &mut world.nodes[node];
                if let Some(process) = at.process.as_mut().filter(|_| !at.paused) {
                    process.drains = true;
                    world.group_input(node, GroupInput::Drain);
                }
            }
            Self::Hint => world.hint(node),
            Self::Grow => world.grow(),
            Self::PurgeUnit => world.purge_one(&|key| matches!(key, GroupKey::Unit(_))),
            Self::PurgeNext => world.purge_next(node),
            Self::PurgeMember => world.purge_one(&|key| matches!(key, GroupKey::Member(_))),
            Self::PurgeGroup => world.purge_one(&|key| matches!(key, GroupKey::Group(_))),
            Self::PurgeAll => world.purge_group(),
            Self::LoseEnd(changes) => {
                world.tally.losses += 1;
                world.history_lost = true;
                world.stream.lose_end(*changes);
                // What was lost is written again.
                world.checkers.sent.clear();
                // The server that lost its end has lost its watches.
                for node in 0..world.nodes.len() {
                    world.watch(node, Duration::ZERO);
                }
            }
            Self::Stranger(stranger) => stranger.strike(world),
        }
    }
}

fn storm(ttl: Duration, chance: &mut Chance) -> Weather {
    let upto = |most: u64, chance: &mut Chance| {
        if chance.permille(400) {
            0
        } else {
            u32::try_from(chance.below(most + 1)).expect("a permille")
        }
    };
    let least = Duration::from_micros(200);
    let slow = chance.upto(ttl / 16);
    Weather {
        latency: least..least + slow,
        watch_delay: least..least + slow * 3,
        lost: upto(150, chance),
        ack_lost: upto(150, chance),
        ghost: upto(150, chance),
        ghost_delay: Duration::ZERO..ttl * 2,
        twice: upto(80, chance),
        contended: upto(80, chance),
        doubted: upto(80, chance),
        // Watches that begin slowly.
        watch_lost: upto(600, chance),
        stale_read: upto(200, chance),
        staleness: chance.upto(ms(10_000)),
        ..Weather::fair()
    }
}

impl World {
    /// A hint for a unit that is known, to an epoch that was claimed.
    fn hint(&mut self, node: usize) {
        let units: Vec<_> = self.units();
        if units.is_empty() || self.nodes[node].paused || self.nodes[node].process.is_none() {
            return;
        }
        let at = usize::try_from(self.chance.below(units.len() as u64)).expect("a few");
        // Mostly a living one.
        let to = usize::try_from(self.chance.below(self.nodes.len() as u64)).expect("a few");
        let living = self.nodes[to].present_epoch();
        let Some(to) = living
            .filter(|_| self.chance.permille(850))
            .or_else(|| self.any_epoch())
        else {
            return;
        };
        let unit = units[at].clone();
        let sequence = self.stream.sequence(&GroupKey::Unit(unit.clone()));
        let hints = vec![nats_elect_core::group::Hint { unit, sequence, to }];
        self.group_input(node, GroupInput::Hint { hints });
    }

    /// The operator lets the sharded group grow, or creates the units of its next generation first,
    /// so that they are of age when it grows.
    fn grow(&mut self) {
        let keys: Vec<GroupKey> = self.stream.keys().cloned().collect();
        for key in keys {
            let (GroupKey::Group(name), Some(record)) = (&key, self.group_record(&key)) else {
                continue;
            };
            let GroupKind::Sharded { shards, .. } = record.kind else {
                continue;
            };
            let Some(next) = record.resized(shards + 1).filter(|it| it.generation <= 3) else {
                continue;
            };
            let units = (0..=shards).map(|number| {
                GroupKey::Unit(UnitKey {
                    group: name.clone(),
                    generation: next.generation,
                    unit: UnitName::shard(number),
                })
            });
            let missing: Vec<GroupKey> = units.filter(|it| self.stream.get(it).is_none()).collect();
            if !missing.is_empty() && self.chance.permille(700) {
                self.grown.entry(name.clone()).or_insert(record);
                for unit in missing {
                    let _ = self.store(unit, Some(0), Body::Unit(Some(UnitRecord::Nobody), None));
                }
                continue;
            }
            self.grown.insert(name.clone(), next);
            let over = self.stream.sequence(&key);
            let stored = self.store(key, Some(over), Body::Group(Some(next)));
            self.tally.grown += u64::from(stored.is_ok());
        }
    }

    /// An operator writes a group's record again if no member was told how many shards it had.
    pub fn restore_groups(&mut self) {
        for (name, record) in self.grown.clone() {
            let mut processes = self.nodes.iter().filter_map(|it| it.process.as_ref());
            let knows = |group: &nats_elect_core::group::Group| {
                let known = group.record(&name);
                known.is_some_and(|known| known.generation >= record.generation)
            };
            let key = GroupKey::Group(name.clone());
            let stands = self.group_record(&key).is_some_and(|it| it == record);
            if !stands && !processes.any(|it| knows(&it.group)) {
                let over = self.stream.sequence(&key);
                let _ = self.store(key, Some(over), Body::Group(Some(record)));
            }
        }
    }

    /// Has a record written that is purged at once.
    fn purge_next(&mut self, node: usize) {
        self.purges_next = true;
        match self.chance.below(3) {
            0 => self.hint(node),
            1 => self.grow(),
            _ => Stranger::FORGED.strike(self),
        }
    }

    /// Somebody purges a key.
    fn purge_one(&mut self, of: &dyn Fn(&GroupKey) -> bool) {
        let keys: Vec<GroupKey> = self.stream.keys().filter(|key| of(key)).cloned().collect();
        let at = self.chance.below(keys.len().max(1) as u64);
        if let Some(key) = keys.get(usize::try_from(at).expect("a few")) {
            self.purge(key);
        }
    }

    /// Somebody purges a group, although it has members.
    fn purge_group(&mut self) {
        let groups: BTreeSet<&GroupName> = self.stream.keys().filter_map(group_of).collect();
        let at = self.chance.below(groups.len().max(1) as u64);
        let Some(group) = groups.iter().nth(usize::try_from(at).expect("a few")) else {
            return;
        };
        let keys = self.stream.keys();
        let of_group = keys.filter(|it| group_of(it) == Some(group));
        let keys: Vec<GroupKey> = of_group.cloned().collect();
        for key in keys {
            self.purge(&key);
        }
    }

    /// Whether nothing of a group stands there but this key.
    fn is_last_trace(&self, key: &GroupKey) -> bool {
        let group = group_of(key);
        let mut others = self.stream.keys().filter(|it| *it != key);
        group.is_some() && !others.any(|it| group_of(it) == group)
    }

    /// Whether all members that know that a group was made say so in their records.
    fn is_told(&self, group: &GroupName) -> bool {
        self.nodes.iter().all(|node| {
            let knows = node
                .process
                .as_ref()
                .is_some_and(|it| it.group.generation(group) > 0);
            let epoch = node.present_epoch().filter(|_| knows);
            let record = epoch.and_then(|it| self.stream.get(&GroupKey::Member(it)));
            !knows || record.is_some_and(|it| it.tells(group))
        })
    }

    /// A member's record and all keys of a group are not purged both: nothing would tell others of
    /// its lease. Nor is a group that was made just now, before its members say that they know it.
    pub fn purge(&mut self, key: &GroupKey) {
        let traces = match key {
            GroupKey::Member(_) => Some(Traces::Members),
            _ => self.is_last_trace(key).then_some(Traces::Groups),
        };
        if traces == Some(Traces::Groups) && !group_of(key).is_some_and(|it| self.is_told(it)) {
            return;
        }
        if let Some(traces) = traces
            && *self.purged.get_or_insert(traces) != traces
        {
            return;
        }
        self.tally.purges += 1;
        if self.trace {
            eprintln!("{:>13.6?} {key} is purged", self.now);
        }
        self.stream.purge(key, self.now);
    }
}

fn group_of(key: &GroupKey) -> Option<&GroupName> {
    match key {
        GroupKey::Member(_) => None,
        GroupKey::Group(name) => Some(name),
        GroupKey::Unit(unit) => Some(&unit.group),
    }
}
