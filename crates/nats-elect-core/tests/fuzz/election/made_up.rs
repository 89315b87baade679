//! What is made up.

use std::time::Duration;

use arbitrary::{Arbitrary, Result, Unstructured};
use nats_elect_core::config::{RoleConfig, RoleSettings, Takeover};
use nats_elect_core::event::FailureKind;
use nats_elect_core::heirs::Heirs;
use nats_elect_core::record::{Content, Entry, FenceEntry, Nonce, Release, SeenFence, Snapshot};
use nats_elect_core::release::ReleaseHash;
use nats_elect_core::{
    Bucket, Failure, HandlerEnd, Input, Link, Moment, OpId, TermId, WriteOutcome,
};

use super::honest::record_of;
use super::{Life, OWN, Request, STRANGER};
use crate::message;

impl Life {
    pub(super) fn made_up_answer(&mut self, u: &mut Unstructured<'_>) -> Result<Input> {
        let op = match &self.pending {
            Some(request) if u.ratio(3, 4)? => request.op(),
            // An old one, one to come, none at all.
            _ => OpId(match (u.int_in_range(0..=4)?, self.late.back()) {
                (0, _) => message::number(u)?,
                (1, _) => self.last_op + 1,
                (2, Some(late)) => late.request.op().0,
                _ => u.int_in_range(0..=self.last_op)?,
            }),
        };
        let reads = matches!(self.pending, Some(Request::Read(_)));
        if reads == u.ratio(7, 8)? {
            let outcome = if u.ratio(1, 4)? {
                Err(failure(u)?)
            } else {
                Ok(Snapshot {
                    role: bool::arbitrary(u)?.then(|| self.entry(u)).transpose()?,
                    fence: bool::arbitrary(u)?.then(|| self.fence(u)).transpose()?,
                    epoch: match u.int_in_range(0..=7)? {
                        0 => Some(message::number(u)?),
                        1 => None,
                        _ => self.bucket.map(|bucket| bucket.epoch),
                    },
                    last_sequence: bool::arbitrary(u)?.then(|| self.revision(u)).transpose()?,
                })
            };
            return Ok(Input::ReadEnded { op, outcome });
        }
        let outcome = match u.int_in_range(0..=6)? {
            // It was written, and nobody told.
            0 | 1 => {
                if let Some(Request::Write(write)) = &self.pending {
                    self.untold = Some(self.honest.take(write));
                }
                WriteOutcome::Failed(failure(u)?)
            }
            2 => WriteOutcome::Failed(failure(u)?),
            3 | 4 => WriteOutcome::Conflict {
                current: bool::arbitrary(u)?.then(|| self.revision(u)).transpose()?,
            },
            _ => WriteOutcome::Acked {
                revision: self.revision(u)?,
            },
        };
        Ok(Input::WriteEnded { op, outcome })
    }

    /// The answer to what was not answered in time: an honest one, or of a server that stores it
    /// only now.
    pub(super) fn late_answer(&mut self, u: &mut Unstructured<'_>) -> Result<Option<Input>> {
        if self.late.is_empty() {
            return Ok(None);
        }
        let index = u.int_in_range(0..=self.late.len() - 1)?;
        let late = &mut self.late[index];
        Ok(Some(match &late.request {
            Request::Read(op) => Input::ReadEnded {
                op: *op,
                outcome: Ok(self.honest.snapshot(self.bucket)),
            },
            Request::Write(write) => Input::WriteEnded {
                op: write.op,
                outcome: late
                    .outcome
                    .take()
                    .unwrap_or_else(|| self.honest.take(write)),
            },
        }))
    }

    pub(super) fn any_of_link(&self, u: &mut Unstructured<'_>) -> Result<Input> {
        let since = Moment::from_nanos(message::number(u)?);
        Ok(Input::Link(match u.int_in_range(0..=5)? {
            0 => Link::Down { since },
            1 => return Ok(Input::GraceOver { since }),
            2 => Link::Unusable(failure(u)?),
            _ => Link::Up(Bucket {
                epoch: match (self.bucket, u.int_in_range(0..=3)?) {
                    (_, 0) => message::number(u)?,
                    (Some(bucket), 1) => bucket.epoch.saturating_add(1),
                    (bucket, _) => bucket.map_or(1, |bucket| bucket.epoch),
                },
                max_age: match u.int_in_range(0..=4)? {
                    0 => Some(Duration::from_nanos(message::number(u)?)),
                    1 => Some(self.settings.ttl * 2),
                    _ => None,
                },
                unique_sequences: u.ratio(3, 4)?,
            }),
        }))
    }

    pub(super) fn entry(&self, u: &mut Unstructured<'_>) -> Result<Entry> {
        Ok(Entry {
            revision: self.revision(u)?,
            content: self.content(u)?,
        })
    }

    pub(super) fn fence(&self, u: &mut Unstructured<'_>) -> Result<FenceEntry> {
        Ok(FenceEntry {
            revision: self.revision(u)?,
            record: bool::arbitrary(u)?
                .then(|| {
                    Ok(SeenFence {
                        nonce: self.nonce(u)?,
                        ttl: ttl(u)?,
                        release: hash(u)?,
                    })
                })
                .transpose()?,
        })
    }

    pub(super) fn revision(&self, u: &mut Unstructured<'_>) -> Result<u64> {
        let last = self.honest.last;
        Ok(match u.int_in_range(0..=5)? {
            0 => message::number(u)?,
            1 => last.saturating_sub(u.int_in_range(0..=3)?),
            2 => self.honest.role.as_ref().map_or(0, |entry| entry.revision),
            _ => last + u.int_in_range(1..=3)?,
        })
    }

    pub(super) fn content(&self, u: &mut Unstructured<'_>) -> Result<Content> {
        Ok(match u.int_in_range(0..=7)? {
            0 => Content::Opaque,
            1 => Content::ForeignMarker,
            // Genuine ones among them, as far as a stranger's can be.
            2 | 7 => Content::Release(Release {
                nonce: bool::arbitrary(u)?.then(|| self.nonce(u)).transpose()?,
                heir: *u.choose(&[None, None, Some(OWN), Some(STRANGER)])?,
                line: Heirs::NONE,
                secret: u.ratio(3, 4)?.then(|| message::secret(u)).transpose()?,
            }),
            3 => Content::parse(&message::value(u)?),
            _ => record_of(self.nonce(u)?, ttl(u)?, hash(u)?),
        })
    }

    pub(super) fn nonce(&self, u: &mut Unstructured<'_>) -> Result<Nonce> {
        Ok(match u.int_in_range(0..=3)? {
            0 => Nonce {
                incarnation: OWN,
                beat: message::number(u)?,
            },
            1 => Nonce {
                incarnation: STRANGER,
                beat: message::number(u)?,
            },
            // One of ours, an old one maybe.
            _ => match self.wrote.len() {
                0 => message::nonce(u)?,
                some => self.wrote[some - 1 - u.int_in_range(0..=some.min(8) - 1)?],
            },
        })
    }

    pub(super) fn term(&self, u: &mut Unstructured<'_>) -> Result<TermId> {
        let current = self.terms.keys().next_back().copied();
        Ok(match (current, u.int_in_range(0..=3)?) {
            (Some(term), 1..) => term,
            _ => TermId(message::number(u)?),
        })
    }
}

pub(super) fn settings(u: &mut Unstructured<'_>) -> Result<RoleSettings> {
    let mut config =
        RoleConfig::default().ttl(Duration::from_millis(u.int_in_range(100..=20_000)?));
    if u.ratio(1, 3)? {
        config =
            config.disconnect_grace_period(Duration::from_millis(u.int_in_range(20..=20_000)?));
    }
    let mut claim_delay = Duration::ZERO;
    if u.ratio(1, 4)? {
        claim_delay = Duration::from_millis(u.int_in_range(0..=100)?);
    }
    let mut hysteresis = None;
    if u.ratio(1, 3)? {
        config = config.priority(u.int_in_range(-2..=2)?);
        config = config.takeover(Takeover::Cooperative);
        // It only keeps the meaning of what follows it in kept inputs.
        if u.int_in_range(0..=1)? == 1 {
            u.int_in_range(6..=20)?;
        }
        hysteresis = Some(Duration::from_secs(u.int_in_range(1..=4)?));
    }
    let mut settings = config
        .settings()
        .map_err(|_| arbitrary::Error::IncorrectFormat)?;
    settings.claim_delay = claim_delay;
    settings.takeover_hysteresis = hysteresis.unwrap_or(settings.takeover_hysteresis);
    if u.ratio(1, 4)? {
        settings.health.max_consecutive_failures = u.int_in_range(1..=3)?;
        let retry = &mut settings.retry;
        retry.max_backoff = Duration::from_millis(u.int_in_range(50..=10_000)?);
        retry.initial_backoff = Duration::from_millis(50);
        retry.jitter = f64::from(u.int_in_range(0..=10)?) / 10.0;
    }
    Ok(settings)
}

pub(super) fn pause(u: &mut Unstructured<'_>) -> Result<Duration> {
    Ok(match u.int_in_range(0..=9)? {
        0 => Duration::from_nanos(u.int_in_range(0..=1000)?),
        1..=6 => Duration::from_micros(u.int_in_range(0..=2_000_000)?),
        7 | 8 => Duration::from_millis(u.int_in_range(0..=30_000)?),
        _ => Duration::from_secs(u.int_in_range(0..=200_000)?),
    })
}

pub(super) fn ttl(u: &mut Unstructured<'_>) -> Result<Option<Duration>> {
    Ok(match u.int_in_range(0..=3)? {
        0 => None,
        1 => Some(Duration::from_secs(3600)),
        _ => Some(Duration::from_millis(u.int_in_range(100..=20_000)?)),
    })
}

/// By what a release would be known.
fn hash(u: &mut Unstructured<'_>) -> Result<Option<ReleaseHash>> {
    let secret = u.ratio(3, 4)?.then(|| message::secret(u)).transpose()?;
    Ok(secret.map(nats_elect_core::release::ReleaseSecret::hash))
}

pub(super) fn failure(u: &mut Unstructured<'_>) -> Result<Failure> {
    let kind = *u.choose(&[
        FailureKind::Timeout,
        FailureKind::Timeout,
        FailureKind::Unavailable,
        FailureKind::PermissionDenied,
        FailureKind::BucketMissing,
        FailureKind::BucketUnfit,
        FailureKind::BucketFull,
        FailureKind::Rejected,
    ])?;
    Ok(Failure {
        kind,
        detail: "made up".to_owned(),
    })
}

pub(super) fn end(u: &mut Unstructured<'_>) -> Result<HandlerEnd> {
    Ok(*u.choose(&[
        HandlerEnd::Returned,
        HandlerEnd::Failed,
        HandlerEnd::Panicked,
        HandlerEnd::Aborted,
    ])?)
}
