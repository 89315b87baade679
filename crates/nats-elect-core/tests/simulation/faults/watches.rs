//! A process's watch falls silent, for a while.

use std::time::Duration;

use super::Scale;
use crate::chance::Chance;
use crate::node::Trouble;
use crate::world::World;

/// How long a watch may be silent, in leases.
#[derive(Clone, Debug)]
pub struct WatchOptions {
    pub longest: u32,
}

impl Default for WatchOptions {
    fn default() -> Self {
        Self { longest: 5 }
    }
}

/// A watch that shows nothing for so long, and then begins anew.
#[derive(Clone, Debug)]
pub struct Silence {
    length: Duration,
}

impl WatchOptions {
    pub fn draw(&self, scale: &Scale, chance: &mut Chance) -> Silence {
        Silence {
            length: chance.upto(scale.ttl * self.longest),
        }
    }
}

impl Silence {
    pub fn strike(&self, world: &mut World, node: usize) {
        world.nodes[node].watching = false;
        world.afflict(node, Trouble::Unwatched, self.length);
    }
}
