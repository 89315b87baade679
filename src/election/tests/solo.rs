//! One election, fed by hand: for schedules that must be exact.

use std::time::Duration;

use uuid::Uuid;

use crate::clock::Moment;
use crate::election::{
    Bucket, Candidate, Effect, Election, Failure, Fresh, Input, Link, OpId, Reply, RequestId,
    Snapshot, TermId, Write, WriteKind, WriteOutcome,
};
use crate::model::config::{RoleConfig, RoleSettings};
use crate::model::event::{Event, FailureKind};
use crate::model::record::{Content, Entry, FenceEntry, Nonce, SeenFence};
use crate::model::token::LeaseToken;

pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The settings that tests start from: a lease of one second.
pub fn settings(change: impl FnOnce(&mut RoleConfig)) -> RoleSettings {
    let mut config = RoleConfig {
        ttl: ms(1000),
        request_timeout: Some(ms(80)),
        // More orders of events than none at all.
        claim_delay: Some(ms(2)),
        ..RoleConfig::default()
    };
    change(&mut config);
    config.settings().expect("settings that obey the rules")
}

/// One instance whose every input a test writes down.
#[derive(Debug)]
pub struct Solo {
    pub election: Election,
    pub settings: RoleSettings,
    pub now: Moment,
    /// When the last write was sent.
    pub sent: Moment,
    /// Effects since they were last taken.
    pub effects: Vec<Effect>,
    /// Drawn at every step.
    pub chance: f64,
    steps: u128,
}

pub const BUCKET: Bucket = Bucket {
    epoch: 7,
    max_age: None,
    unique_sequences: true,
};

pub const OWN: Uuid = Uuid::from_u128(1);

/// The fence record of a term of before, by another instance.
pub const OLD_FENCE: FenceEntry = FenceEntry {
    revision: 99,
    record: Some(SeenFence {
        nonce: Nonce {
            incarnation: Uuid::from_u128(99),
            beat: 0,
        },
        ttl: None,
    }),
};

impl Solo {
    /// Started and connected to a bucket.
    pub fn new(settings: RoleSettings, bucket: Bucket) -> Self {
        let now = Moment::from_nanos(5_000_000_000_000);
        let candidate = Candidate {
            instance_id: "solo".to_owned(),
            incarnation: OWN,
            first_beat: 0,
            paused: false,
            settings: settings.clone(),
        };
        let mut solo = Self {
            election: Election::new(candidate, now),
            settings,
            now,
            sent: now,
            effects: Vec::new(),
            chance: 0.5,
            steps: 0,
        };
        solo.feed(Input::Link(Link::Up(bucket)));
        solo
    }

    /// In office: the record at revision 101, the fence at 102, promoted 1 ms after the claim was sent.
    pub fn leading(settings: RoleSettings) -> Self {
        let mut solo = Self::new(settings, BUCKET);
        solo.read(Some(entry(100, Content::Release(None))), Some(OLD_FENCE));
        solo.wait(ms(3));
        let claim = solo.write();
        assert!(matches!(claim.kind, WriteKind::Claim { over: 100, .. }));
        let sent = solo.sent;
        solo.wait(ms(1));
        solo.ack(&claim, 101);
        let fence = solo.write();
        solo.ack(&fence, 102);
        solo.sent = sent;
        assert!(solo.started().is_some());
        solo
    }

    /// Its claim was confirmed so late, at revision 101, that no term can come of it: it gives the role back.
    pub fn claimed_too_late(settings: RoleSettings) -> Self {
        let mut solo = Self::new(settings, BUCKET);
        solo.read(Some(entry(100, Content::Release(None))), Some(OLD_FENCE));
        solo.wait(ms(3));
        let claim = solo.write();
        solo.sleep(ms(900));
        solo.ack(&claim, 101);
        solo
    }

    pub fn feed(&mut self, input: Input) {
        self.steps += 1;
        let fresh = Fresh {
            lease_token: LeaseToken::new(Uuid::from_u128(self.steps)),
            chance: self.chance,
        };
        let effects = self.election.step(self.now, fresh, input);
        assert!(
            self.election.next_wakeup().is_none_or(|due| due > self.now),
            "woken in the past"
        );
        if effects
            .iter()
            .any(|effect| matches!(effect, Effect::Write(_)))
        {
            self.sent = self.now;
        }
        self.effects.extend(effects);
    }

    /// Time passes; timers fire when they are due.
    pub fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.election.next_wakeup().filter(|due| *due <= end) {
            self.now = due;
            self.feed(Input::Tick);
        }
        self.now = end;
    }

    /// Time passes unnoticed: the process is paused.
    pub fn sleep(&mut self, time: Duration) {
        self.now = self.now + time;
    }

    pub fn take(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// The write that was asked for since effects were last taken.
    pub fn write(&mut self) -> Write {
        self.find_write().expect("a write")
    }

    pub fn find_write(&mut self) -> Option<Write> {
        self.take().into_iter().find_map(|effect| match effect {
            Effect::Write(write) => Some(write),
            _ => None,
        })
    }

    pub fn find_read(&mut self) -> Option<OpId> {
        self.take().into_iter().find_map(|effect| match effect {
            Effect::Read { op, .. } => Some(op),
            _ => None,
        })
    }

    /// Answers the read that was asked for.
    pub fn read(&mut self, role: Option<Entry>, fence: Option<FenceEntry>) {
        let op = self.find_read().expect("a read");
        self.feed(Input::ReadEnded {
            op,
            outcome: Ok(Snapshot {
                role,
                fence,
                epoch: Some(BUCKET.epoch),
            }),
        });
    }

    pub fn ack(&mut self, write: &Write, revision: u64) {
        self.end(write, WriteOutcome::Acked { revision });
    }

    pub fn refuse(&mut self, write: &Write, current: u64) {
        self.end(
            write,
            WriteOutcome::Conflict {
                current: Some(current),
            },
        );
    }

    pub fn time_out(&mut self, write: &Write) {
        self.end(write, WriteOutcome::Failed(failure(FailureKind::Timeout)));
    }

    pub fn end(&mut self, write: &Write, outcome: WriteOutcome) {
        self.feed(Input::WriteEnded {
            op: write.op,
            outcome,
        });
    }

    pub fn started(&self) -> Option<TermId> {
        self.effects.iter().find_map(|effect| match effect {
            Effect::StartTerm(start) => Some(start.term),
            _ => None,
        })
    }

    pub fn has(&self, what: impl Fn(&Effect) -> bool) -> bool {
        self.effects.iter().any(what)
    }

    pub fn told(&self, what: impl Fn(&Event) -> bool) -> bool {
        self.has(|effect| matches!(effect, Effect::Event(event) if what(event)))
    }

    pub fn reply(&self, to: RequestId) -> Option<&Reply> {
        self.effects.iter().find_map(|effect| match effect {
            Effect::Reply { request, reply } if *request == to => Some(reply),
            _ => None,
        })
    }
}

/// A release that names no heir.
pub const fn release_over(over: u64) -> WriteKind {
    WriteKind::Release { over, heir: None }
}

pub fn failure(kind: FailureKind) -> Failure {
    Failure {
        kind,
        detail: "test".to_owned(),
    }
}

pub const fn entry(revision: u64, content: Content) -> Entry {
    Entry { revision, content }
}

/// A record by another instance, with this lease.
pub fn stranger(ttl: Option<Duration>) -> Content {
    record_of(Uuid::from_u128(99), 1, ttl)
}

pub fn record_of(incarnation: Uuid, beat: u64, ttl: Option<Duration>) -> Content {
    Content::Record(Box::new(crate::model::record::SeenRecord {
        id: "somebody".to_owned(),
        priority: 0,
        meta: std::collections::BTreeMap::new(),
        ttl,
        incarnation: Some(incarnation),
        beat: Some(beat),
        proof: None,
    }))
}

/// What a write of ours looks like in the bucket.
pub fn own(write: &Write, ttl: Duration) -> Content {
    record_of(write.nonce.incarnation, write.nonce.beat, Some(ttl))
}

/// A fence record that does not tell its lease, as those of before did not.
pub const fn fence_of(revision: u64, nonce: Nonce) -> FenceEntry {
    FenceEntry {
        revision,
        record: Some(SeenFence { nonce, ttl: None }),
    }
}
