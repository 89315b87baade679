//! Writes fail while reads succeed: a limit is reached, or a disk is full.

use std::time::Duration;

use nats_elect_core::event::FailureKind;

use crate::chance::Chance;
use crate::world::{Refusing, World};

/// How writers are told. Some servers do not answer.
const TOLD: [Option<FailureKind>; 5] = [
    None,
    Some(FailureKind::Unavailable),
    Some(FailureKind::BucketFull),
    Some(FailureKind::Rejected),
    Some(FailureKind::Contended),
];

/// No write is taken for so long.
#[derive(Clone, Debug)]
pub struct Refusals {
    length: Duration,
    told: Option<FailureKind>,
}

impl Refusals {
    pub fn draw(longest: Duration, chance: &mut Chance) -> Self {
        Self {
            length: chance.upto(longest),
            told: chance.pick(&TOLD),
        }
    }

    pub fn strike(&self, world: &mut World) {
        world.refusing = Some(Refusing {
            until: world.now + self.length,
            told: self.told,
        });
    }
}
