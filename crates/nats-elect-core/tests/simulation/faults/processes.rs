//! A process is paused or killed, or its election's actor crashes.

use std::time::Duration;

use super::Scale;
use crate::chance::Chance;
use crate::node::Trouble;
use crate::world::World;

/// A process is away for so many leases at most.
const LONGEST: u32 = 3;

/// What befalls the process.
#[derive(Clone, Debug)]
pub enum ProcessFault {
    Pause { length: Duration },
    Crash { length: Duration },
    ActorCrash,
}

impl ProcessFault {
    pub fn draw(scale: &Scale, chance: &mut Chance) -> Self {
        let upto = |leases: u32, chance: &mut Chance| {
            let lengths = [scale.timeout, scale.ttl, scale.ttl * leases];
            let longest = chance.pick(&lengths);
            chance.upto(longest)
        };
        match chance.below(5) {
            0 | 1 => Self::Pause {
                length: upto(LONGEST, chance),
            },
            2 | 3 => Self::Crash {
                length: upto(LONGEST, chance),
            },
            _ => Self::ActorCrash,
        }
    }

    pub fn strike(&self, world: &mut World, node: usize) {
        if world.nodes[node].election.is_none() {
            return;
        }
        match *self {
            Self::Pause { length } => {
                world.pause(node);
                world.afflict(node, Trouble::Paused, length);
            }
            Self::Crash { length } => {
                world.crash(node);
                world.afflict(node, Trouble::Dead, length);
            }
            Self::ActorCrash => {
                if !world.nodes[node].paused {
                    world.restart_actor(node);
                }
            }
        }
    }
}
