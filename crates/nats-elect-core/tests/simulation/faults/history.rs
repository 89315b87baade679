//! NATS loses what it has confirmed: the end of the stream, a key without a trace, or the whole
//! bucket.

use std::time::Duration;

use crate::chance::Chance;
use crate::checkers::Note;
use crate::happening::Happening;
use crate::world::{World, ms};

/// So many writes are lost at once, at most.
const MOST_WRITES: u64 = 6;

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

impl HistoryFault {
    pub fn draw(chance: &mut Chance) -> Self {
        match chance.below(5) {
            0 | 1 => Self::Tail {
                writes: usize::try_from(1 + chance.below(MOST_WRITES)).expect("a few"),
            },
            2 => Self::Purge,
            3 => Self::Recreated,
            _ => Self::Gone {
                length: chance.upto(ms(1000)),
            },
        }
    }

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
