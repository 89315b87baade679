//! Handlers that end by themselves, do not listen, block, linger or are ill.

use std::time::Duration;

use nats_elect_core::HandlerEnd;

use super::Scale;
use crate::chance::Chance;
use crate::node::{Handler, Health, Trouble};
use crate::world::World;

/// How slow a handler may be, in stop budgets.
#[derive(Clone, Debug)]
pub struct HandlerOptions {
    pub slowest: u32,
    /// Handlers whose abort does not take effect, in permille.
    pub blocking: u32,
}

impl Default for HandlerOptions {
    fn default() -> Self {
        Self {
            slowest: 2,
            blocking: 200,
        }
    }
}

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

impl HandlerOptions {
    pub fn draw(&self, scale: &Scale, chance: &mut Chance) -> HandlerFault {
        let slow = scale.stop_budget * self.slowest;
        match chance.below(4) {
            0 => HandlerFault::Ends(chance.pick(&ENDS)),
            1 => HandlerFault::Sick {
                length: chance.upto(scale.ttl * 3),
                health: chance.pick(&[Health::Ill, Health::Flapping]),
            },
            _ => HandlerFault::Behaves(Handler {
                winds_down_in: chance.permille(700).then(|| chance.upto(slow)),
                aborts_in: (!chance.permille(self.blocking)).then_some(Duration::from_micros(100)),
                ends: chance
                    .permille(200)
                    .then(|| (chance.upto(scale.ttl * 2), chance.pick(&ENDS))),
                lingers: chance.permille(300).then(|| chance.upto(slow)),
            }),
        }
    }
}

impl HandlerFault {
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
