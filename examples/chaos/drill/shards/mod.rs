//! The sharded group beside the roles: who owns what, and what must be true of it.
//!
//! The handler is that of the example `sharded`, and so are most rules.

#[path = "../../../sharded/counter.rs"]
pub mod counter;
#[cfg(test)]
mod made_up;
pub mod verdict;

use std::time::Duration;

use nats_elect::{Group, MemberConfig};
use serde::{Deserialize, Serialize};

use self::counter::Counter;
use super::fault::{Fault, Kind, Subject};

/// The name of the group.
pub const GROUP: &str = "shards";
/// The wait of an owner between two counts.
pub const PACE: Duration = Duration::from_millis(500);
/// No member's lease is longer.
const LONGEST_LEASE: Duration = Duration::from_secs(60);
/// The shortest lease that a member may have.
const SHORTEST_LEASE: Duration = Duration::from_secs(3);
/// Plans leave loads as they are that are within so many percent of the mean.
const BAND: usize = 10;
/// The pause between two rounds of balancing.
const COOL_DOWN: Duration = Duration::from_secs(2);
/// How long a member that was lost gets no shards for balance.
const SETTLE: Duration = Duration::from_secs(5);

/// The group of a drill.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Shards {
    pub count: u32,
    /// How long the lease of each instance lasts.
    pub ttls: Vec<Duration>,
}

impl Shards {
    /// So many shards. Every other instance has a lease of `ttl`, or the shortest that there is. The
    /// rest has the default lease, which rides through the loss of a NATS node.
    pub fn several(count: u32, instances: usize, ttl: Duration) -> Self {
        let long = MemberConfig::default().ttl;
        let short = ttl.max(SHORTEST_LEASE).min(long);
        let ttls = [long, short].into_iter().cycle().take(instances);
        Self {
            count,
            ttls: ttls.collect(),
        }
    }

    /// What an instance takes part in.
    pub fn group(count: u32, counter: Counter) -> Group {
        Group::sharded(GROUP, count, counter)
    }

    /// How long a shard may be without an owner after the last fault. That is the bound of the
    /// simulation: three leases (one runs out, one is waited for by a member that joins, one is that
    /// of a handler that overran), a stop budget, and the turns of all members for four writes. A
    /// key that was purged or overwritten ages for the longest lease, and so does what is written
    /// over it. In a bucket that was created anew nobody owns anything for the longest lease. The rest is for a connection to NATS, as for roles.
    pub fn patience(&self, faults: &[Fault]) -> Duration {
        let is_stranger = |fault: &Fault| {
            let is_new = fault.kind == Kind::RecreateBucket;
            fault.is_done() && (is_new || fault.kind.subject() == Subject::Group)
        };
        let aging = if faults.iter().any(is_stranger) {
            LONGEST_LEASE * 2
        } else {
            Duration::ZERO
        };
        let longest = self.ttls.iter().max().copied().unwrap_or_default();
        let second = Duration::from_secs(1);
        let (heartbeat, stop) = ((longest / 5).min(second), (longest / 5).min(second * 3));
        let turns = heartbeat * (u32::try_from(self.ttls.len()).unwrap_or(u32::MAX) + 1) * 4;
        aging + longest * 3 + stop + turns + second * 10
    }

    /// How long it may take from then until the shards are spread evenly: members settle, and join
    /// again if they have to, and all shards move in rounds.
    pub fn patience_for_balance(&self) -> Duration {
        let longest = self.ttls.iter().max().copied().unwrap_or_default();
        let rounds = self.count.div_ceil(16) + 2;
        longest * 2 + SETTLE + COOL_DOWN * rounds
    }

    /// Whether each shard has an owner, and no instance has too many.
    pub fn are_spread(&self, owned: &[usize]) -> bool {
        let all: usize = owned.iter().sum();
        u32::try_from(all) == Ok(self.count) && self.is_balanced(owned)
    }

    /// Whether so many shards each are as even as they can be, or within the band of plans.
    pub fn is_balanced(&self, owned: &[usize]) -> bool {
        let (least, most) = (owned.iter().min(), owned.iter().max());
        let (least, most) = (least.unwrap_or(&0), most.unwrap_or(&0));
        let all: usize = owned.iter().sum();
        let percent = |owned: usize| owned * self.ttls.len() * 100;
        let is_within =
            percent(*most) <= all * (100 + BAND) && percent(*least) >= all * (100 - BAND);
        most - least <= 1 || is_within
    }
}
