//! One request of a kind meets a fate: lost, its answer lost, delivered twice, or long after its
//! sender gave it up.

use std::time::Duration;

use super::Scale;
use crate::chance::Chance;
use crate::network::{Fate, Kind};
use crate::world::World;

/// A ghost comes so many leases late at most.
const LATEST: u32 = 3;

/// The next requests of these kinds meet this.
#[derive(Clone, Debug)]
pub struct GhostFault {
    plans: Vec<(Kind, Fate)>,
}

impl GhostFault {
    pub fn draw(scale: &Scale, chance: &mut Chance) -> Self {
        let count = 1 + chance.below(2);
        let plans = (0..count).map(|_| {
            let delay = [scale.timeout, scale.ttl, scale.ttl * LATEST];
            let longest = chance.pick(&delay);
            let delay: Duration = chance.upto(longest);
            if chance.permille(200) {
                return (Kind::Read, Fate::Slow(chance.upto(scale.timeout)));
            }
            let fates = [
                Fate::Slow(chance.upto(scale.timeout)),
                Fate::Ghost(delay),
                Fate::Ghost(delay),
                Fate::AckLost,
                Fate::Lost,
                Fate::Twice(delay),
                Fate::Contended,
                Fate::Doubted,
            ];
            (chance.pick(&Kind::WRITES), chance.pick(&fates))
        });
        Self {
            plans: plans.collect(),
        }
    }

    pub fn strike(&self, world: &mut World, node: usize) {
        world.nodes[node].plans.extend(&self.plans);
    }
}
