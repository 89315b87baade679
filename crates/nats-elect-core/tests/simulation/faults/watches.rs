//! A process's watch falls silent, for a while.

use std::time::Duration;

use super::Scale;
use crate::chance::Chance;
use crate::node::Trouble;
use crate::world::World;

/// A watch is silent for so many leases at most.
const LONGEST: u32 = 5;

/// A watch that shows nothing for so long, and then begins anew.
#[derive(Clone, Debug)]
pub struct Silence {
    length: Duration,
}

impl Silence {
    pub fn draw(scale: &Scale, chance: &mut Chance) -> Self {
        Self {
            length: chance.upto(scale.ttl * LONGEST),
        }
    }

    pub fn strike(&self, world: &mut World, node: usize) {
        world.nodes[node].watching = false;
        world.afflict(node, Trouble::Unwatched, self.length);
    }
}
