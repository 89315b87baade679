//! What is explored: how many members and units, which faults.

use std::collections::BTreeMap;
use std::time::Duration;

use nats_elect_core::config::{RoleConfig, RoleSettings};
use nats_elect_core::group::{GroupSettings, LONGEST_LEASE, UnitKey, Units};
use nats_elect_core::name::{GroupName, UnitName};

use super::fault::Fault;
use super::properties::Witness;

/// The unit of time, and the time between heartbeats. A lease is three of them: so one heartbeat may
/// be lost.
pub const TICK: Duration = Duration::from_secs(LONGEST_LEASE.as_secs() / 3);

/// One space to explore.
#[derive(Clone, Debug)]
pub struct Configuration {
    pub name: &'static str,
    pub members: usize,
    /// How many of them are up from the beginning; the others start at any time.
    pub started: usize,
    /// For how many ticks nothing goes wrong before the exploration begins.
    pub settled: u16,
    pub faults: &'static [(Fault, u8)],
    /// The ticks after which true time ends; nothing: it goes on for ever.
    pub horizon: Option<u16>,
    /// What must be found possible.
    pub witnesses: &'static [Witness],
    pub lease: RoleSettings,
    pub group: GroupSettings,
}

impl Configuration {
    pub fn new(name: &'static str, members: usize, shards: u32) -> Self {
        let lease = lease();
        Self {
            name,
            members,
            started: members,
            settled: 0,
            faults: &[],
            horizon: None,
            witnesses: &[],
            group: GroupSettings {
                ttl: lease.ttl,
                heartbeat: lease.heartbeat,
                stop_budget: lease.stop_budget,
                groups: BTreeMap::from([(group(), Units::Shards(shards))]),
                placements: BTreeMap::new(),
            },
            lease,
        }
    }

    pub const fn faults(mut self, faults: &'static [(Fault, u8)]) -> Self {
        self.faults = faults;
        self
    }

    pub const fn witnesses(mut self, witnesses: &'static [Witness]) -> Self {
        self.witnesses = witnesses;
        self
    }

    pub const fn started(mut self, started: usize) -> Self {
        self.started = started;
        self
    }

    /// Each unit has its owner, and all is at rest.
    pub const fn settled(mut self) -> Self {
        self.settled = AT_REST;
        self
    }

    pub const fn until(mut self, horizon: u16) -> Self {
        self.horizon = Some(horizon);
        self
    }
}

/// Ticks after which a new group is at rest.
const AT_REST: u16 = 16;

pub fn group() -> GroupName {
    GroupName::new("g").expect("a name")
}

pub fn unit(generation: u32, number: u32) -> UnitKey {
    UnitKey {
        group: group(),
        generation,
        unit: UnitName::shard(number),
    }
}

/// Whatever lasts less than a tick ends at the next one. What recurs beyond the lease is switched
/// off, and what failed is tried again at once.
fn lease() -> RoleSettings {
    let mut settings = RoleConfig::default().settings().expect("the defaults");
    let never = Duration::MAX;
    settings.ttl = LONGEST_LEASE;
    settings.heartbeat = TICK;
    settings.request_timeout = TICK / 4;
    settings.stop_budget = TICK / 4;
    settings.claim_delay = Duration::ZERO;
    settings.validation_interval = never;
    settings.health.interval = never;
    settings.health.timeout = never;
    settings.retry.initial_backoff = Duration::ZERO;
    settings.retry.max_backoff = Duration::ZERO;
    settings.retry.jitter = 0.0;
    settings
}
