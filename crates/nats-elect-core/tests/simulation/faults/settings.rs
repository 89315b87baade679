//! Somebody edits the bucket so that no election can be held in it, and puts it back later: nobody
//! is told of either.

use std::time::Duration;

use super::Scale;
use crate::chance::Chance;
use crate::happening::Happening;
use crate::world::World;

/// For how many leases the bucket may be unfit.
#[derive(Clone, Debug)]
pub struct SettingsOptions {
    pub longest: u32,
}

impl Default for SettingsOptions {
    fn default() -> Self {
        Self { longest: 4 }
    }
}

/// A max age that is shorter than the leases, for so long. One instance connects anew just then,
/// and learns of it.
#[derive(Clone, Debug)]
pub struct Unfit {
    length: Duration,
}

impl SettingsOptions {
    pub fn draw(&self, scale: &Scale, chance: &mut Chance) -> Unfit {
        Unfit {
            length: chance.upto(scale.ttl * self.longest),
        }
    }
}

impl Unfit {
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
