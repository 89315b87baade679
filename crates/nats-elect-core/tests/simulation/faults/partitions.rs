//! The way between a process and the server is cut: in both directions or in one, noticed or not.

use std::time::Duration;

use super::Scale;
use crate::chance::Chance;
use crate::network::Wire;
use crate::node::Trouble;
use crate::world::World;

/// A partition lasts for so many leases at most.
const LONGEST: u32 = 3;

/// What is cut, and for how long.
#[derive(Clone, Debug)]
pub enum PartitionFault {
    /// The client goes on calling itself connected.
    Unnoticed { wire: Wire, length: Duration },
    /// The client sees its connection break, and connects again.
    Reset { length: Duration },
}

impl PartitionFault {
    pub fn draw(scale: &Scale, chance: &mut Chance) -> Self {
        let lengths = [scale.timeout * 2, scale.ttl, scale.ttl * LONGEST];
        let longest = chance.pick(&lengths);
        let length = chance.upto(longest);
        if chance.permille(400) {
            return Self::Reset { length };
        }
        let wire = chance.pick(&[Wire::Cut, Wire::Mute, Wire::Deaf]);
        Self::Unnoticed { wire, length }
    }

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
