//! Other hands on the role's key.

use std::time::Duration;

use nats_elect_core::record::{Content, Release};
use nats_elect_core::release::ReleaseSecret;
use uuid::Uuid;

use super::Scale;
use crate::bucket::{stranger, stray};
use crate::chance::Chance;
use crate::world::{World, ms};

/// Records of strangers claim leases of up to so many hundredths of a lease.
const LONGEST: u32 = 200;

/// What somebody did, without any expectation.
#[derive(Clone, Debug)]
pub enum ForeignFault {
    /// A delete marker, by an operator or an early expiry.
    Delete,
    /// A record, with this lease or none.
    Usurp { ttl: Option<Duration> },
    /// A value that is no record.
    Opaque,
    /// A record with the incarnation of nobody, or a lease of an hour.
    Stray {
        ttl: Duration,
        incarnation: Option<Uuid>,
    },
    /// A release that no leader wrote.
    Forged(Forgery),
    /// A record that once stood there.
    Copy { ago: usize },
}

/// Where a forged release is taken from.
#[derive(Clone, Copy, Debug)]
pub enum Forgery {
    /// As versions write it that know no secrets.
    OldForm,
    /// With a secret that is none.
    Guessed,
    /// An earlier one, word for word.
    Replay { ago: usize },
}

impl ForeignFault {
    pub fn draw(scale: &Scale, chance: &mut Chance) -> Self {
        // Where fence records expire nothing tells a leader's record from another's.
        let forgeable = scale.foreign.is_zero();
        match chance.below(9) {
            4 | 5 => Self::Stray {
                ttl: scale.foreign + chance.pick(&[scale.ttl / 8, scale.ttl * 3, ms(3_600_000)]),
                incarnation: (forgeable && chance.permille(600)).then(|| chance.uuid()),
            },
            6 | 7 if forgeable => Self::Forged(match chance.below(3) {
                0 => Forgery::OldForm,
                1 => Forgery::Guessed,
                _ => Forgery::Replay {
                    ago: usize::try_from(chance.below(3)).expect("a few"),
                },
            }),
            8 if forgeable => Self::Copy {
                ago: usize::try_from(chance.below(20)).expect("a few"),
            },
            0 | 1 => Self::Delete,
            2 => Self::Usurp {
                ttl: chance
                    .permille(500)
                    .then(|| scale.foreign + chance.upto(scale.ttl * LONGEST / 100)),
            },
            _ => Self::Opaque,
        }
    }

    pub fn strike(&self, world: &mut World) {
        match self {
            Self::Delete => world.put(Content::ForeignMarker),
            Self::Usurp { ttl } => {
                let content = world.with_heirs(stranger(*ttl));
                world.put(content);
            }
            Self::Opaque => world.put(Content::Opaque),
            Self::Stray { ttl, incarnation } => {
                let content = world.with_heirs(stray(Some(*ttl), *incarnation));
                world.put(content);
            }
            Self::Forged(forgery) => {
                let content = forgery.content(world);
                world.put(content);
            }
            Self::Copy { ago } => {
                let records = &world.bucket.records;
                let copied = records.iter().rev().nth(*ago).or(records.first());
                if let Some(content) = copied.cloned() {
                    world.put(content);
                }
            }
        }
    }
}

impl Forgery {
    fn content(self, world: &World) -> Content {
        let nonce = world.bucket.role().and_then(|role| role.content.nonce());
        let old_form = Release {
            nonce,
            ..Release::default()
        };
        match self {
            Self::OldForm => Content::Release(old_form),
            Self::Guessed => Content::Release(Release {
                secret: Some(ReleaseSecret::new(0)),
                ..old_form
            }),
            Self::Replay { ago } => {
                let earlier = world.bucket.releases.iter().rev().nth(ago);
                earlier.cloned().unwrap_or(Content::Release(old_form))
            }
        }
    }
}
