//! Somebody edits the bucket so that no election can be held in it, and puts it back later: nobody
//! is told of either.

use std::time::Duration;

use super::Scale;
use crate::chance::Chance;
use crate::happening::Happening;
use crate::world::World;

/// The bucket is unfit for so many leases at most.
const LONGEST: u32 = 4;

/// A max age that is shorter than the leases, for so long. One instance connects anew just then,
/// and learns of it.
#[derive(Clone, Debug)]
pub struct Unfit {
    length: Duration,
}

impl Unfit {
    pub fn draw(scale: &Scale, chance: &mut Chance) -> Self {
        Self {
            length: chance.upto(scale.ttl * LONGEST),
        }
    }

    pub fn strike(&self, world: &mut World, node: usize) {
        let shortest = world.nodes.iter().map(|node| node.settings.ttl).min();
        world.bucket.edit_max_age(shortest.map(|ttl| ttl / 2));
        world.schedule(world.now + self.length, Happening::Fit);
        if world.nodes[node].election.is_some() && !world.nodes[node].paused {
            world.disconnect(node);
            world.connect(node);
        }
    }
}
