//! The stream has no leader for a while, as when the NATS node that leads it dies.

use std::ops::Range;
use std::time::Duration;

use crate::chance::Chance;
use crate::world::World;

/// How long it takes to find another leader.
#[derive(Clone, Debug)]
pub struct StreamOptions {
    /// After the death of a node, as measured on clusters of three.
    pub election: Range<Duration>,
    /// After an orderly change.
    pub handover: Range<Duration>,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self {
            election: Duration::from_secs(4)..Duration::from_secs(9),
            handover: Duration::from_millis(50)..Duration::from_millis(600),
        }
    }
}

/// Nothing is written for so long.
#[derive(Clone, Debug)]
pub struct Outage {
    length: Duration,
}

impl StreamOptions {
    pub fn draw(&self, chance: &mut Chance) -> Outage {
        let range = if chance.permille(300) {
            &self.election
        } else {
            &self.handover
        };
        Outage {
            length: chance.within(range),
        }
    }
}

impl Outage {
    pub fn strike(&self, world: &mut World) {
        world.outage_until = world.outage_until.max(world.now + self.length);
    }
}
