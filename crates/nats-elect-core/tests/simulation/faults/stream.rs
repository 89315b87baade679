//! The stream has no leader for a while, as when the NATS node that leads it dies.

use std::ops::Range;
use std::time::Duration;

use crate::chance::Chance;
use crate::world::World;

/// How long it takes to find another leader after the death of a node, as measured on clusters of
/// three, and after an orderly change.
const ELECTION: Range<Duration> = Duration::from_secs(4)..Duration::from_secs(9);
const HANDOVER: Range<Duration> = Duration::from_millis(50)..Duration::from_millis(600);

/// Nothing is written for so long.
#[derive(Clone, Debug)]
pub struct Outage {
    length: Duration,
}

impl Outage {
    pub fn draw(chance: &mut Chance) -> Self {
        let range = if chance.permille(300) {
            &ELECTION
        } else {
            &HANDOVER
        };
        Self {
            length: chance.within(range),
        }
    }

    pub fn strike(&self, world: &mut World) {
        world.outage_until = world.outage_until.max(world.now + self.length);
    }
}
