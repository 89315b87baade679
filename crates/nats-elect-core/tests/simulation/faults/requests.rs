//! What applications and operators ask for, at any moment.

use std::time::Duration;

use nats_elect_core::{Input, Intent, RequestId};

use crate::chance::Chance;
use crate::world::World;

/// One request.
#[derive(Clone, Copy, Debug)]
pub enum RequestFault {
    StepDown,
    /// Step down in favour of the next instance.
    HandOver,
    Validate,
    Stop {
        release: bool,
    },
    Abandon,
    Pause,
    Resume,
    Cordon,
}

impl RequestFault {
    pub fn draw(chance: &mut Chance) -> Self {
        match chance.below(10) {
            0 => Self::Stop { release: true },
            1 => Self::Stop { release: false },
            2 => Self::Abandon,
            3..=5 => Self::Validate,
            9 => Self::HandOver,
            _ => Self::StepDown,
        }
    }

    /// Whether the instance is to stand.
    pub fn draw_order(chance: &mut Chance) -> Self {
        chance.pick(&[Self::Pause, Self::Cordon, Self::Resume])
    }

    pub fn strike(self, world: &mut World, node: usize) {
        world.requests += 1;
        let request = RequestId(world.requests);
        let next = (node + 1) % world.nodes.len();
        let next = world.nodes[next].candidate.instance_id.clone();
        world.nodes[node].leaving |= matches!(self, Self::Stop { .. } | Self::Abandon);
        let node_is_up = world.nodes[node].election.is_some();
        let orders = matches!(self, Self::Pause | Self::Resume | Self::Cordon);
        if orders && node_is_up {
            // Kept in the process, apart from its election.
            world.nodes[node].candidate.paused = !matches!(self, Self::Resume);
        }
        let intent = match self {
            Self::Validate => {
                let term = None;
                return world.input(node, Input::Validate { request, term });
            }
            Self::StepDown | Self::HandOver => Intent::StepDown {
                to: matches!(self, Self::HandOver).then_some(next),
                expected: None,
                hold_off: Duration::ZERO,
            },
            Self::Stop { release } => Intent::Stop { release },
            Self::Abandon => Intent::Abandon,
            Self::Pause => Intent::Pause,
            Self::Resume => Intent::Resume,
            Self::Cordon => Intent::Cordon,
        };
        world.input(node, Input::Intend(request, intent));
    }
}
