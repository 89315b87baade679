//! What a seed stands for: a fleet, and what befalls it when.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use nats_elect_core::config::{RoleConfig, RoleSettings};
use nats_elect_core::group::{GroupKind, GroupRecord, GroupSettings, UnitKey, Units};
use nats_elect_core::name::{GroupName, UnitName};

use super::faults::Fault;
use super::node::{Handler, Node};
use crate::chance::Chance;
use crate::clock::Clock;
use crate::network::Wire;
use crate::world::ms;

/// One instance of a fleet.
#[derive(Clone, Debug)]
pub struct Member {
    pub settings: RoleSettings,
    pub clock: Clock,
    /// It tells others that it takes no units until it has joined, as the library does.
    pub tells_joined: bool,
}

/// A fault, so long after the one before.
#[derive(Clone, Debug)]
pub struct Blow {
    pub after: Duration,
    pub node: usize,
    pub fault: Fault,
}

/// All that a seed decides, but for the chance within the run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub unique: bool,
    pub members: Vec<Member>,
    pub groups: BTreeMap<GroupName, Units>,
    /// The last member has the sharded group alone.
    pub lacks: bool,
    pub blows: Vec<Blow>,
}

impl Plan {
    /// Each seed meets some kinds of fault and is spared the others.
    pub fn of_seed(seed: u64) -> Self {
        let mut chance = Chance::new(seed ^ 0x6e0d_0000_0000_0000);
        let ttl = chance.pick(&[60_000, 60_000, 60_000, 40_000, 15_000]);
        let mixed = chance.permille(300);
        let count = 2 + chance.pick(&[0, 0, 0, 1, 1, 2]);
        let members: Vec<Member> = (0..count)
            .map(|_| {
                let shorter = if mixed { chance.below(ttl / 2) } else { 0 };
                Member {
                    settings: settings(ms(ttl - shorter), &mut chance),
                    clock: Clock {
                        offset: ms(1 + chance.below(1_000_000)),
                        ppm: i64::try_from(chance.below(20_001)).expect("small") - 10_000,
                    },
                    tells_joined: chance.permille(700),
                }
            })
            .collect();
        let shards = 1 + u32::try_from(chance.below(3)).expect("a few");
        let name = |name| GroupName::new(name).expect("a name");
        let mut groups = BTreeMap::from([(name("shards"), Units::Shards(shards))]);
        if chance.permille(200) {
            let unit = UnitName::new("scheduler").expect("a name");
            groups.insert(name("spread"), Units::Named(vec![unit]));
        }
        let lacks = groups.len() > 1 && chance.permille(300);
        let unique = chance.permille(750);
        let kinds = Fault::choose_kinds(&mut chance);
        let longest = members.iter().map(|it| it.settings.ttl).max();
        let longest = longest.expect("somebody");
        let blows = (0..=chance.below(12))
            .filter_map(|_| {
                let gaps = [longest / 100, longest / 4, longest];
                let most = chance.pick(&gaps);
                let after = chance.upto(most);
                let node = usize::try_from(chance.below(count)).expect("a few");
                let fault = Fault::draw(&kinds, longest, &mut chance)?;
                Some(Blow { after, node, fault })
            })
            .collect();
        Self {
            seed,
            unique,
            members,
            groups,
            lacks,
            blows,
        }
    }

    pub fn longest_ttl(&self) -> Duration {
        let ttls = self.members.iter().map(|it| it.settings.ttl);
        ttls.max().expect("somebody")
    }

    pub fn nodes(&self) -> Vec<Node> {
        let last = self.members.len() - 1;
        let groups = |at| {
            let mut groups = self.groups.clone();
            if self.lacks && at == last {
                groups.retain(|_, units| matches!(units, Units::Shards(_)));
            }
            groups
        };
        let node = |(at, member): (usize, &Member)| Node {
            group: GroupSettings {
                ttl: member.settings.ttl,
                heartbeat: member.settings.heartbeat,
                stop_budget: member.settings.stop_budget,
                groups: groups(at),
                placements: std::collections::BTreeMap::new(),
            },
            settings: member.settings.clone(),
            clock: member.clock,
            tells_joined: member.tells_joined,
            handler: Handler::default(),
            life: 0,
            process: None,
            linked: false,
            wire: Wire::Whole,
            paused: false,
            backlog: Vec::new(),
            troubles: BTreeMap::new(),
            plans: Vec::new(),
            told: BTreeMap::new(),
        };
        self.members.iter().enumerate().map(node).collect()
    }
}

fn settings(ttl: Duration, chance: &mut Chance) -> RoleSettings {
    let mut config = RoleConfig::default();
    config.ttl = ttl;
    let heartbeat = ttl / u32::try_from(4 + chance.below(3)).expect("a few");
    config.heartbeat_interval = Some(heartbeat);
    let request_timeout = heartbeat / 4 + chance.upto(heartbeat / 2);
    config.stop_budget = Some(ms(10) + chance.upto(ttl / 4));
    let mut settings = config.settings().expect("settings that obey the rules");
    settings.request_timeout = request_timeout;
    settings.retry.max_backoff = heartbeat;
    settings
}

/// The units of the present generation.
pub fn units_of(name: &GroupName, units: &Units, record: &GroupRecord) -> Vec<UnitKey> {
    let key = |unit| UnitKey {
        group: name.clone(),
        generation: record.generation,
        unit,
    };
    match (record.kind, units) {
        (GroupKind::Sharded { shards, .. }, _) => (0..shards)
            .map(|number| key(UnitName::shard(number)))
            .collect(),
        (GroupKind::Spread, Units::Named(names)) => names.iter().cloned().map(key).collect(),
        (GroupKind::Spread, Units::Shards(_)) => Vec::new(),
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            unique,
            groups,
            lacks,
            ..
        } = self;
        writeln!(
            f,
            "  {groups:?}, the last member lacks the spread one: {lacks}, unique sequences: {unique}"
        )?;
        for (i, member) in self.members.iter().enumerate() {
            let Member {
                settings, clock, ..
            } = member;
            writeln!(
                f,
                "  node-{i}: ttl {:?}, heartbeat {:?}, request timeout {:?}, stop budget {:?}, clock {:+} ppm",
                settings.ttl,
                settings.heartbeat,
                settings.request_timeout,
                settings.stop_budget,
                clock.ppm
            )?;
        }
        let mut at = Duration::ZERO;
        for (i, Blow { after, node, fault }) in self.blows.iter().enumerate() {
            at += *after;
            writeln!(f, "  {i:>3}. {at:?} node-{node} {fault:?}")?;
        }
        Ok(())
    }
}
