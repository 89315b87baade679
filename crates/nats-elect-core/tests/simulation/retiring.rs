//! An operator retires the role, as `nats-elect role retire` does, and sees no instance.

use std::time::Duration;

use nats_elect_core::record::{Content, Entry, FenceEntry};

use crate::happening::Happening;
use crate::world::World;

/// How far the operator is.
#[derive(Clone, Copy, Debug)]
pub enum Retiring {
    /// The lease has been waited for; the key stands as it was, or somebody has written.
    Mark {
        over: u64,
        fence: Option<u64>,
    },
    /// The delete marker stands at this revision.
    RemoveRecord {
        marker: u64,
        fence: Option<u64>,
    },
    RemoveFence {
        fence: Option<u64>,
    },
}

impl World {
    /// The operator looks at both keys and begins to wait. Another one who is at it gives up.
    pub fn retire(&mut self) {
        if !self.bucket.exists {
            return;
        }
        let (ago, fence_ago) = (self.staleness(), self.staleness());
        let role = self.bucket.role_of(ago, self.now);
        let fence = self.bucket.fence_of(fence_ago, self.now);
        // The clock of the operator runs fast.
        let wait = self.lease_told(role.as_ref(), fence.as_ref()) * 99 / 100;
        let over = role.map_or(0, |role| role.revision);
        let fence = fence.map(|fence| fence.revision);
        self.retiring = Some(Retiring::Mark { over, fence });
        self.retirements += 1;
        let retirement = self.retirements;
        self.schedule(self.now + wait, Happening::Retire { retirement });
    }

    /// The longest lease that the keys tell.
    fn lease_told(&self, role: Option<&Entry>, fence: Option<&FenceEntry>) -> Duration {
        let ttls = self.nodes.iter().map(|node| node.settings.ttl);
        let max_age = self.bucket.made.max_age;
        let untold = max_age.or(ttls.max()).unwrap_or_default();
        let of_record = role.and_then(|entry| entry.content.lease(untold));
        let of_fence = fence.and_then(|fence| Some(fence.record?.ttl.unwrap_or(untold)));
        let expired = max_age.filter(|_| fence.is_none());
        let leases = [of_record, of_fence, expired].into_iter().flatten();
        leases.max().unwrap_or(untold)
    }

    /// The next step, if it is of the operator who is at it.
    pub fn go_on_retiring(&mut self, retirement: u64) {
        let Some(step) = self.retiring.take() else {
            return;
        };
        if retirement != self.retirements || !self.bucket.exists {
            return;
        }
        let next = match step {
            Retiring::Mark { over, fence } => {
                let is = self.bucket.role().map_or(0, |role| role.revision);
                if is != over {
                    self.tally.retirements_refused += 1;
                    return;
                }
                self.put(Content::ForeignMarker);
                let marker = self.bucket.role().map_or(0, |role| role.revision);
                Retiring::RemoveRecord { marker, fence }
            }
            Retiring::RemoveRecord { marker, fence } => {
                self.bucket.purge_through(marker, self.now);
                Retiring::RemoveFence { fence }
            }
            Retiring::RemoveFence { fence } => {
                if let Some(fence) = fence {
                    self.bucket.purge_fence_through(fence, self.now);
                }
                self.tally.retired += 1;
                return;
            }
        };
        self.retiring = Some(next);
        // The operator may be held up for as long as others need to lead.
        let ttls = self.nodes.iter().map(|node| node.settings.ttl);
        let longest = ttls.max().unwrap_or_default() * 2;
        let held_up = if self.chance.permille(250) {
            self.chance.upto(longest)
        } else {
            Duration::ZERO
        };
        let at = self.now + self.latency() + held_up;
        self.schedule(at, Happening::Retire { retirement });
    }
}
