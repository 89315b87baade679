//! Other hands on the role's key.

use std::time::Duration;

use nats_elect::internals::Content;

use super::Scale;
use crate::bucket::stranger;
use crate::chance::Chance;
use crate::world::World;

/// What others may do.
#[derive(Clone, Debug)]
pub struct ForeignOptions {
    /// Records of strangers claim leases of up to so many hundredths of a lease.
    pub longest: u32,
}

impl Default for ForeignOptions {
    fn default() -> Self {
        Self { longest: 200 }
    }
}

/// What somebody did, without any expectation.
#[derive(Clone, Debug)]
pub enum ForeignFault {
    /// A delete marker, by an operator or an early expiry.
    Delete,
    /// A record, with this lease or none.
    Usurp { ttl: Option<Duration> },
    /// A value that is no record.
    Opaque,
}

impl ForeignOptions {
    pub fn draw(&self, scale: &Scale, chance: &mut Chance) -> ForeignFault {
        match chance.below(4) {
            0 | 1 => ForeignFault::Delete,
            2 => ForeignFault::Usurp {
                ttl: chance
                    .permille(500)
                    .then(|| scale.foreign + chance.upto(scale.ttl * self.longest / 100)),
            },
            _ => ForeignFault::Opaque,
        }
    }
}

impl ForeignFault {
    pub fn strike(&self, world: &mut World) {
        match self {
            Self::Delete => world.put(Content::ForeignMarker),
            Self::Usurp { ttl } => world.put(stranger(*ttl)),
            Self::Opaque => world.put(Content::Opaque),
        }
    }
}
