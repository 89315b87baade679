//! A process is paused or killed, or its election's actor crashes.

use std::time::Duration;

use super::Scale;
use crate::chance::Chance;
use crate::node::Trouble;
use crate::world::World;

/// How long a process may be away, in leases.
#[derive(Clone, Debug)]
pub struct ProcessOptions {
    pub longest_pause: u32,
    pub longest_death: u32,
}

impl Default for ProcessOptions {
    fn default() -> Self {
        Self {
            longest_pause: 3,
            longest_death: 3,
        }
    }
}

/// What befalls the process.
#[derive(Clone, Debug)]
pub enum ProcessFault {
    Pause { length: Duration },
    Crash { length: Duration },
    ActorCrash,
}

impl ProcessOptions {
    pub fn draw(&self, scale: &Scale, chance: &mut Chance) -> ProcessFault {
        let upto = |leases: u32, chance: &mut Chance| {
            let lengths = [scale.timeout, scale.ttl, scale.ttl * leases];
            let longest = chance.pick(&lengths);
            chance.upto(longest)
        };
        match chance.below(5) {
            0 | 1 => ProcessFault::Pause {
                length: upto(self.longest_pause, chance),
            },
            2 | 3 => ProcessFault::Crash {
                length: upto(self.longest_death, chance),
            },
            _ => ProcessFault::ActorCrash,
        }
    }
}

impl ProcessFault {
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
