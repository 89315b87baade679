//! The settings of the default policy.

use std::time::Duration;

use crate::setters;

/// The settings of [`Balanced`](super::Balanced).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PolicySettings {
    /// How far a member's load may be from its fair share before units move for balance, in percent
    /// of that share. Default 10. At most 100; more counts as 100. A round that has begun aims at
    /// half of it, so that the next change does not begin another.
    pub band: u32,
    /// How many units with a living owner may be on their way at once. Default 16, at least 1.
    /// Each of them is without its handler for a moment. Units without an owner are exempt.
    pub max_moves: u32,
    /// The time between two rounds. Default 10 s. Drains, and units without an owner, do not wait
    /// for it.
    pub cool_down: Duration,
    /// How long a member must have been well before it takes units. Default 2 heartbeats.
    pub settle: Duration,
    /// The same for a member that was lost or not well before. Default 30 s, at least `settle`. It
    /// is longer, because whatever it takes would move again with the next flap.
    pub settle_after_flap: Duration,
    /// The least weight of a unit that moves only for better balance inside half of the band, in
    /// percent of the average unit's. Default 100, so that equal weights differ by one unit at most,
    /// and many small moves of small gain are left out. 0: every move that improves the balance.
    pub stickiness: u32,
    /// While no unit has an owner, units wait for so many settled members. Default 1. So the first
    /// member of a starting fleet does not take all. Set it below the size of the fleet: nothing is
    /// owned until they are there. A group that gets another number of shards does not wait for them.
    /// While a group is new, those that come wait for no lease either.
    pub min_members: u32,
}

impl PolicySettings {
    /// The defaults for members with this time between heartbeats.
    pub fn new(heartbeat: Duration) -> Self {
        Self {
            band: 10,
            max_moves: 16,
            cool_down: Duration::from_secs(10),
            settle: heartbeat.saturating_mul(2),
            settle_after_flap: Duration::from_secs(30),
            stickiness: 100,
            min_members: 1,
        }
    }

    /// How long a member must have been well before it takes units.
    pub(super) fn settle_for(&self, flapped: bool) -> Duration {
        if flapped {
            self.settle_after_flap.max(self.settle)
        } else {
            self.settle
        }
    }
}

setters!(PolicySettings {
    band: u32 => band;
    max_moves: u32 => max_moves;
    cool_down: Duration => cool_down;
    settle: Duration => settle;
    settle_after_flap: Duration => settle_after_flap;
    stickiness: u32 => stickiness;
    min_members: u32 => min_members;
});
