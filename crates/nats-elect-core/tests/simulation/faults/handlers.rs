//! Handlers that end by themselves, do not listen, block, linger or are ill.

use std::time::Duration;

use nats_elect_core::HandlerEnd;

use super::Scale;
use crate::chance::Chance;
use crate::node::{Handler, Health, Trouble};
use crate::world::World;

/// A handler takes so many stop budgets to end at most.
const SLOWEST: u32 = 2;
/// Handlers whose abort does not take effect, in permille.
const BLOCKING: u32 = 200;

/// What is wrong with a handler.
#[derive(Clone, Debug)]
pub enum HandlerFault {
    /// The one that runs ends now.
    Ends(HandlerEnd),
    /// Those that are started from now on behave so.
    Behaves(Handler),
    /// Its health checks fail for so long: all of them, or now and then.
    Sick { length: Duration, health: Health },
}

const ENDS: [HandlerEnd; 3] = [
    HandlerEnd::Returned,
    HandlerEnd::Failed,
    HandlerEnd::Panicked,
];

impl HandlerFault {
    pub fn draw(scale: &Scale, chance: &mut Chance) -> Self {
        let slow = scale.stop_budget * SLOWEST;
        match chance.below(4) {
            0 => Self::Ends(chance.pick(&ENDS)),
            1 => Self::Sick {
                length: chance.upto(scale.ttl * 3),
                health: chance.pick(&[Health::Ill, Health::Flapping]),
            },
            _ => Self::Behaves(Handler {
                winds_down_in: chance.permille(700).then(|| chance.upto(slow)),
                aborts_in: (!chance.permille(BLOCKING)).then_some(Duration::from_micros(100)),
                ends: chance
                    .permille(200)
                    .then(|| (chance.upto(scale.ttl * 2), chance.pick(&ENDS))),
                lingers: chance.permille(300).then(|| chance.upto(slow)),
            }),
        }
    }

    pub fn strike(&self, world: &mut World, node: usize) {
        match *self {
            Self::Ends(end) => {
                let terms = &world.nodes[node].terms;
                if let Some((&term, _)) = terms.iter().find(|(_, term)| term.running) {
                    world.end_handler(node, term, Duration::ZERO, end);
                }
            }
            Self::Behaves(handler) => world.nodes[node].handler = handler,
            Self::Sick { length, health } => {
                world.nodes[node].health = health;
                world.afflict(node, Trouble::Sick, length);
            }
        }
    }
}
