//! NATS loses what it has confirmed: the end of the stream, a key without a trace, or the whole
//! bucket.

use std::time::Duration;

use crate::chance::Chance;
use crate::checkers::Note;
use crate::happening::Happening;
use crate::world::{World, ms};

/// How much may be lost.
#[derive(Clone, Debug)]
pub struct HistoryOptions {
    /// So many writes at once.
    pub tail: u64,
}

impl Default for HistoryOptions {
    fn default() -> Self {
        Self { tail: 6 }
    }
}

/// What is lost.
#[derive(Clone, Debug)]
pub enum HistoryFault {
    Tail {
        writes: usize,
    },
    Purge,
    Recreated,
    /// It is deleted, and made anew so much later.
    Gone {
        length: Duration,
    },
}

impl HistoryOptions {
    pub fn draw(&self, chance: &mut Chance) -> HistoryFault {
        match chance.below(5) {
            0 | 1 => HistoryFault::Tail {
                writes: usize::try_from(1 + chance.below(self.tail)).expect("a few"),
            },
            2 => HistoryFault::Purge,
            3 => HistoryFault::Recreated,
            _ => HistoryFault::Gone {
                length: chance.upto(ms(1000)),
            },
        }
    }
}

impl HistoryFault {
    pub fn strike(&self, world: &mut World) {
        match *self {
            Self::Tail { writes } => world.lose_tail(writes),
            Self::Purge => {
                world.bucket.purge(world.now);
                // The fence record stays, and tells a newcomer of the lease. Where it expires or
                // was lost nothing does.
                let ages = world.bucket.made.max_age.is_some();
                if ages || world.bucket.fence().is_none() {
                    world.tell(&Note::HistoryLost {
                        reused: false,
                        noticed: false,
                    });
                }
            }
            Self::Recreated => world.recreate(),
            Self::Gone { length } => {
                world.bucket.exists = false;
                world.schedule(world.now + length, Happening::Return);
            }
        }
    }
}
