//! The last will of a term: its release, for the case that the leader's process dies.
//!
//! A companion of the process carries it out, once it knows that the process is dead. All handlers
//! of the process have ended then, so the release comes after the end of the handler, as every
//! release does. The companion never claims and never renews.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::input::{Failure, WriteOutcome};
use crate::heirs::Heirs;
use crate::moment::Moment;
use crate::mutation::mutated;
use crate::record::{Content, Nonce, Release, SeenRecord, Snapshot};
use crate::release::ReleaseSecret;
use crate::token::FencingToken;

/// The first beat of a last will. No election of the incarnation comes so far, so no nonce is used
/// twice.
const FIRST_BEAT: u64 = 1 << 63;
/// The pause before the next attempt. It doubles up to the longest, which is short: a stream that
/// lost its leader takes writes again at any moment.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// What a companion must know to release one term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Bequest {
    /// The start of the process that leads.
    pub incarnation: Uuid,
    /// The term.
    pub fencing_token: FencingToken,
    /// The sequence of the last confirmed record of the term.
    pub revision: u64,
    /// The secret that proves the release.
    pub secret: ReleaseSecret,
    /// The candidates that should lead next.
    pub line: Heirs,
    /// How long the lease lasts without a renewal.
    pub lease: Duration,
}

/// The last will of one term, from the moment at which the companion was told of it.
#[derive(Clone, Debug)]
pub struct LastWill {
    bequest: Bequest,
    /// The end of the lease, counted from the death. `None` while the process may live.
    until: Option<Moment>,
    /// The sequence of the term's record, until a refusal shows that it is another one.
    over: Option<u64>,
    next_beat: u64,
    pauses: u32,
}

/// What the companion does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WillStep {
    /// Write the release over this sequence, and go on with [`LastWill::written`].
    Release {
        /// The expected sequence of the role's key.
        over: u64,
        /// The release.
        release: Release,
    },
    /// Read the keys and the bucket's creation time, and go on with [`LastWill::read`].
    Read,
    /// Wait so long, and go on with [`LastWill::rested`].
    Pause(Duration),
    /// Nothing more is to be done.
    Ended(WillEnd),
}

/// How a last will ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WillEnd {
    /// The role is free.
    Released,
    /// The record of the term stands there no longer.
    Displaced,
    /// The process may live, or its lease is over and others need no release any more.
    NotDue,
}

impl LastWill {
    /// The last will of a term whose process lives.
    pub const fn new(bequest: Bequest) -> Self {
        Self {
            bequest,
            until: None,
            over: Some(bequest.revision),
            next_beat: FIRST_BEAT,
            pauses: 0,
        }
    }

    /// The process is dead. `epoch` is the bucket's creation time, if the companion knows it and
    /// the bucket's sequences are never used twice: then nothing has to be read before the release.
    pub fn died(&mut self, now: Moment, epoch: Option<u64>) -> WillStep {
        self.until = Some(now + self.bequest.lease);
        self.attempt(epoch)
    }

    /// The release was answered, or was not in time.
    pub fn written(&mut self, now: Moment, outcome: &WriteOutcome) -> WillStep {
        match outcome {
            WriteOutcome::Acked { .. } => WillStep::Ended(WillEnd::Released),
            WriteOutcome::Conflict { .. } => {
                // The record was renewed, or an earlier attempt was stored.
                self.over = None;
                if self.pauses == 0 {
                    self.if_due(now, WillStep::Read)
                } else {
                    self.pause(now)
                }
            }
            WriteOutcome::Failed(_) => self.pause(now),
        }
    }

    /// The keys were read. A read proves nothing: the release that follows is conditional.
    pub fn read(&mut self, now: Moment, outcome: &Result<Snapshot, Failure>) -> WillStep {
        let Ok(snapshot) = outcome else {
            return self.pause(now);
        };
        if snapshot.epoch != Some(self.bequest.fencing_token.epoch) {
            return WillStep::Ended(WillEnd::Displaced);
        }
        let Some(entry) = &snapshot.role else {
            return WillStep::Ended(WillEnd::Displaced);
        };
        if entry.revision < self.bequest.revision {
            // A server that leads the stream no more.
            return self.pause(now);
        }
        match &entry.content {
            Content::Release(release) if release.secret == Some(self.bequest.secret) => {
                WillStep::Ended(WillEnd::Released)
            }
            Content::Record(record) if self.is_of_the_dead(record) => {
                self.over = Some(entry.revision);
                let release = self.release(entry.revision);
                // The next answer that leads nowhere is followed by a pause.
                self.pauses = self.pauses.max(1);
                self.if_due(now, release)
            }
            _ => WillStep::Ended(WillEnd::Displaced),
        }
    }

    /// A pause is over. `epoch` is as for [`died`](Self::died).
    pub fn rested(&mut self, now: Moment, epoch: Option<u64>) -> WillStep {
        let attempt = self.attempt(epoch);
        self.if_due(now, attempt)
    }

    /// The release, if it can be sent without a read. A stream without a leader refuses a write at
    /// once, but leaves a read unanswered.
    fn attempt(&mut self, epoch: Option<u64>) -> WillStep {
        match self.over {
            Some(over) if epoch == Some(self.bequest.fencing_token.epoch) => self.release(over),
            _ => WillStep::Read,
        }
    }

    /// Whether this is a record of the very term that the companion was told of.
    fn is_of_the_dead(&self, record: &SeenRecord) -> bool {
        mutated!(WillOverStrangers => return true);
        record.incarnation == Some(self.bequest.incarnation)
            && record.release == Some(self.bequest.secret.hash())
    }

    fn release(&mut self, over: u64) -> WillStep {
        let beat = self.next_beat;
        self.next_beat += 1;
        let nonce = Nonce {
            incarnation: self.bequest.incarnation,
            beat,
        };
        WillStep::Release {
            over,
            release: Release {
                nonce: Some(nonce),
                heir: None,
                line: self.bequest.line,
                secret: Some(self.bequest.secret),
            },
        }
    }

    fn pause(&mut self, now: Moment) -> WillStep {
        let pause = FIRST_PAUSE * 2_u32.saturating_pow(self.pauses.min(8));
        self.pauses += 1;
        self.if_due(now, WillStep::Pause(pause.min(LONGEST_PAUSE)))
    }

    /// Nothing is done before the death, nor after the lease.
    fn if_due(&self, now: Moment, step: WillStep) -> WillStep {
        mutated!(WillBeforeDeath => if self.until.is_none() { return step; });
        if self.until.is_some_and(|until| now < until) {
            step
        } else {
            WillStep::Ended(WillEnd::NotDue)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::FailureKind;
    use crate::record::Entry;

    const DEAD: u128 = 7;
    const EPOCH: u64 = 3;
    const REVISION: u64 = 40;

    fn bequest() -> Bequest {
        Bequest {
            incarnation: Uuid::from_u128(DEAD),
            fencing_token: FencingToken {
                epoch: EPOCH,
                sequence: REVISION - 1,
            },
            revision: REVISION,
            secret: ReleaseSecret::new(17),
            line: [Uuid::from_u128(8)].into_iter().collect(),
            lease: Duration::from_secs(15),
        }
    }

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    fn dead(epoch: Option<u64>) -> (LastWill, WillStep) {
        let mut will = LastWill::new(bequest());
        let step = will.died(at(0), epoch);
        (will, step)
    }

    fn record(incarnation: u128, secret: u128) -> Content {
        Content::Record(Box::new(SeenRecord {
            id: "node".to_owned(),
            priority: 0,
            meta: std::collections::BTreeMap::new(),
            ttl: None,
            incarnation: Some(Uuid::from_u128(incarnation)),
            beat: Some(3),
            release: Some(ReleaseSecret::new(secret).hash()),
            heirs: Heirs::NONE,
            proof: None,
            application: None,
        }))
    }

    #[expect(clippy::unnecessary_wraps, reason = "as a read ends")]
    fn stands(revision: u64, content: Content) -> Result<Snapshot, Failure> {
        Ok(Snapshot {
            role: Some(Entry { revision, content }),
            fence: None,
            epoch: Some(EPOCH),
            last_sequence: Some(revision),
        })
    }

    fn over(step: &WillStep) -> u64 {
        match step {
            WillStep::Release { over, .. } => *over,
            step => panic!("{step:?}"),
        }
    }

    fn pause_of(doubled: u32) -> WillStep {
        WillStep::Pause(FIRST_PAUSE * doubled)
    }

    fn conflict() -> WriteOutcome {
        let current = Some(REVISION + 1);
        WriteOutcome::Conflict { current }
    }

    fn unanswered() -> Failure {
        Failure {
            kind: FailureKind::Timeout,
            detail: String::new(),
        }
    }

    #[test]
    fn before_the_death_nothing_is_released() {
        let nothing = WillStep::Ended(WillEnd::NotDue);
        let mut will = LastWill::new(bequest());
        assert_eq!(will.rested(at(0), Some(EPOCH)), nothing);
        assert_eq!(will.rested(at(1_000_000), None), nothing);
        let stands = stands(REVISION, record(DEAD, 17));
        assert_eq!(will.read(at(1_000_001), &stands), nothing);
    }

    #[test]
    fn at_death_the_role_is_released_with_what_proves_it() {
        let (mut will, step) = dead(Some(EPOCH));
        let WillStep::Release { over, release } = step else {
            panic!("{step:?}");
        };
        assert_eq!(over, REVISION);
        assert_eq!(release.secret, Some(bequest().secret));
        assert_eq!(release.line, bequest().line);
        assert_eq!(release.heir, None);
        let acked = WriteOutcome::Acked { revision: 41 };
        let ended = will.written(at(1), &acked);
        assert_eq!(ended, WillStep::Ended(WillEnd::Released));
    }

    #[test]
    fn where_sequences_are_used_again_it_reads_first() {
        for epoch in [None, Some(EPOCH + 1)] {
            assert_eq!(dead(epoch).1, WillStep::Read, "{epoch:?}");
        }
    }

    #[test]
    fn a_heartbeat_that_was_under_way_is_released_over() {
        let (mut will, first) = dead(Some(EPOCH));
        assert_eq!(will.written(at(1), &conflict()), WillStep::Read);
        let second = will.read(at(2), &stands(REVISION + 5, record(DEAD, 17)));
        assert_eq!(over(&second), REVISION + 5);
        let nonce = |step: &WillStep| match step {
            WillStep::Release { release, .. } => release.nonce,
            _ => None,
        };
        assert_ne!(nonce(&first), nonce(&second), "no nonce is used twice");
    }

    #[test]
    fn everything_else_is_left_alone() {
        let other_bucket = stands(REVISION, record(DEAD, 17)).map(|snapshot| Snapshot {
            epoch: Some(EPOCH + 1),
            ..snapshot
        });
        let missing = stands(REVISION, Content::Opaque).map(|snapshot| Snapshot {
            role: None,
            ..snapshot
        });
        for found in [
            stands(REVISION + 5, record(8, 17)),
            stands(REVISION + 5, record(8, 18)),
            // Another term of the same process, of which it was not told.
            stands(REVISION + 5, record(DEAD, 18)),
            stands(REVISION + 5, Content::Opaque),
            stands(REVISION + 5, Content::ForeignMarker),
            stands(REVISION + 5, Content::Release(Release::default())),
            other_bucket,
            missing,
        ] {
            let (mut will, _) = dead(Some(EPOCH));
            will.written(at(1), &conflict());
            let ended = will.read(at(2), &found);
            assert_eq!(ended, WillStep::Ended(WillEnd::Displaced), "{found:?}");
        }
    }

    #[test]
    fn an_own_release_that_was_not_answered_is_found() {
        let (mut will, step) = dead(Some(EPOCH));
        let WillStep::Release { release, .. } = step else {
            panic!("{step:?}");
        };
        let failed = WriteOutcome::Failed(unanswered());
        let pause = will.written(at(80), &failed);
        assert_eq!(pause, WillStep::Pause(FIRST_PAUSE));
        assert_eq!(over(&will.rested(at(100), Some(EPOCH))), REVISION);
        assert_eq!(will.written(at(101), &conflict()), pause_of(2));
        assert_eq!(will.rested(at(150), Some(EPOCH)), WillStep::Read);
        let found = stands(REVISION + 1, Content::Release(release));
        let ended = will.read(at(151), &found);
        assert_eq!(ended, WillStep::Ended(WillEnd::Released));
    }

    #[test]
    fn a_write_that_failed_is_tried_again_without_a_read_where_sequences_tell() {
        let failed = WriteOutcome::Failed(unanswered());
        let (mut will, _) = dead(Some(EPOCH));
        will.written(at(1), &failed);
        assert_eq!(over(&will.rested(at(20), Some(EPOCH))), REVISION);
        will.written(at(21), &failed);
        // Another bucket, or none, or one that uses sequences again.
        assert_eq!(will.rested(at(60), None), WillStep::Read);
        assert_eq!(will.rested(at(61), Some(EPOCH + 1)), WillStep::Read);
        // A refusal: a read has to show what is to be released.
        will.written(at(62), &conflict());
        assert_eq!(will.rested(at(110), Some(EPOCH)), WillStep::Read);
        will.read(at(111), &stands(REVISION + 5, record(DEAD, 17)));
        will.written(at(112), &failed);
        assert_eq!(over(&will.rested(at(160), Some(EPOCH))), REVISION + 5);
    }

    #[test]
    fn a_stale_read_and_a_false_refusal_are_tried_again_with_growing_pauses() {
        let (mut will, _) = dead(Some(EPOCH));
        assert_eq!(will.written(at(1), &conflict()), WillStep::Read);
        let stale = stands(REVISION - 1, record(9, 9));
        let first = will.read(at(2), &stale);
        assert_eq!(first, WillStep::Pause(FIRST_PAUSE));
        will.rested(at(22), Some(EPOCH));
        assert_eq!(
            over(&will.read(at(23), &stands(REVISION, record(DEAD, 17)))),
            REVISION
        );
        let second = will.written(at(24), &conflict());
        assert_eq!(second, pause_of(2));
        let mut last = Duration::ZERO;
        for _ in 0..20 {
            if let WillStep::Pause(pause) = will.read(at(25), &Err(unanswered())) {
                last = pause;
            }
        }
        assert_eq!(last, LONGEST_PAUSE);
    }

    #[test]
    fn it_ends_with_the_lease() {
        let over = WillStep::Ended(WillEnd::NotDue);
        let (mut will, _) = dead(Some(EPOCH));
        assert_eq!(will.rested(at(14_999), None), WillStep::Read);
        assert_eq!(will.rested(at(15_000), Some(EPOCH)), over);
        assert_eq!(will.read(at(15_000), &Err(unanswered())), over);
        let late = will.read(at(15_001), &stands(REVISION, record(DEAD, 17)));
        assert_eq!(late, over);
    }
}
