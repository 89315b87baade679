//! What is explored: how many members and units, and which faults.

use std::time::Duration;

use nats_elect_core::assignment::LONGEST_LEASE;

use super::fault::Fault;
use super::properties::Witness;

/// The unit of time, and the time between heartbeats. A lease is three of them, and the longest one:
/// so one heartbeat may be lost. What lasts less ends at the next tick.
pub const TICK: Duration = Duration::from_secs(LONGEST_LEASE.as_secs() / 3);

/// Ticks after which a new group is at rest, and each member has sent more requests than a lease has
/// seconds: the numbers of its requests then have no more smaller numbers to be ranked with.
const AT_REST: u16 = 70;

/// One space to explore.
///
/// There is no bound on time. What bounds a space is how often each fault may happen: without further
/// faults members come back to situations that are known, up to names.
#[derive(Clone, Debug)]
pub struct Configuration {
    pub name: &'static str,
    pub members: usize,
    /// How many of them run from the beginning.
    pub started: usize,
    pub units: u32,
    /// For how many ticks nothing goes wrong before the exploration begins.
    pub settled: u16,
    pub faults: &'static [(Fault, u8)],
    /// Whether anything may happen while a request is under way.
    pub in_flight: bool,
    /// What must be found possible.
    pub witnesses: &'static [Witness],
}

impl Configuration {
    /// Members that are at rest.
    pub const fn new(name: &'static str, members: usize, units: u32) -> Self {
        Self {
            name,
            members,
            started: members,
            units,
            settled: AT_REST,
            faults: &[],
            in_flight: false,
            witnesses: &[],
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

    /// Nothing is at rest yet.
    pub const fn fresh(mut self) -> Self {
        self.settled = 0;
        self
    }

    pub const fn in_flight(mut self) -> Self {
        self.in_flight = true;
        self
    }
}
