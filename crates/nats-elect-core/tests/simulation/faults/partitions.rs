//! The way between a process and the server is cut: in both directions or in one, noticed or not.

use std::time::Duration;

use super::Scale;
use crate::chance::Chance;
use crate::network::Wire;
use crate::node::Trouble;
use crate::world::World;

/// How long a partition may last, in leases.
#[derive(Clone, Debug)]
pub struct PartitionOptions {
    pub longest: u32,
}

impl Default for PartitionOptions {
    fn default() -> Self {
        Self { longest: 3 }
    }
}

/// What is cut, and for how long.
#[derive(Clone, Debug)]
pub enum PartitionFault {
    /// The client goes on calling itself connected.
    Unnoticed { wire: Wire, length: Duration },
    /// The client sees its connection break, and connects again.
    Reset { length: Duration },
}

impl PartitionOptions {
    pub fn draw(&self, scale: &Scale, chance: &mut Chance) -> PartitionFault {
        let lengths = [scale.timeout * 2, scale.ttl, scale.ttl * self.longest];
        let longest = chance.pick(&lengths);
        let length = chance.upto(longest);
        if chance.permille(400) {
            return PartitionFault::Reset { length };
        }
        let wire = chance.pick(&[Wire::Cut, Wire::Mute, Wire::Deaf]);
        PartitionFault::Unnoticed { wire, length }
    }
}

impl PartitionFault {
    pub fn strike(&self, world: &mut World, node: usize) {
        match *self {
            Self::Unnoticed { wire, length } => {
                world.nodes[node].wire = wire;
                world.afflict(node, Trouble::Wire, length);
            }
            Self::Reset { length } => {
                world.afflict(node, Trouble::Unlinked, length);
                world.disconnect(node);
            }
        }
    }
}
