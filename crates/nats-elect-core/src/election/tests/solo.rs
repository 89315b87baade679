//! One election whose inputs a test writes down: for exact schedules.

mod contents;
mod heard;

pub use contents::*;

use std::time::Duration;

use uuid::Uuid;

use crate::config::{RoleConfig, RoleSettings};
use crate::event::FailureKind;
use crate::heirs::Heirs;
use crate::moment::Moment;
use crate::peer::PeerRequest;
use crate::record::{Entry, FenceEntry, Release};
use crate::release::ReleaseSecret;
use crate::token::{FencingToken, LeaseToken};
use crate::{
    Bucket, Candidate, Effect, Election, Failure, Fresh, HandlerEnd, Input, Intent, Link, OpId,
    RequestId, Snapshot, TermId, Write, WriteKind, WriteOutcome,
};

pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The settings that tests start from: a lease of one second.
pub fn settings(change: impl FnOnce(&mut RoleConfig)) -> RoleSettings {
    let mut config = RoleConfig {
        ttl: ms(1000),
        ..RoleConfig::default()
    };
    change(&mut config);
    let mut settings = config.settings().expect("settings that obey the rules");
    settings.request_timeout = ms(80);
    // A delay above zero allows more orders of events.
    settings.claim_delay = ms(2);
    settings
}

/// The settings that tests start from, with what no configuration sets.
pub fn tuned(change: impl FnOnce(&mut RoleSettings)) -> RoleSettings {
    let mut settings = settings(|_| {});
    change(&mut settings);
    settings
}

/// One instance whose inputs a test writes down.
#[derive(Clone, Debug)]
pub struct Solo {
    pub election: Election,
    pub settings: RoleSettings,
    pub now: Moment,
    /// When the last write was sent.
    pub sent: Moment,
    /// Effects since they were last taken.
    pub effects: Vec<Effect>,
    /// The random value of every step.
    pub chance: f64,
    steps: u128,
}

pub const BUCKET: Bucket = Bucket {
    epoch: 7,
    max_age: None,
    unique_sequences: true,
};

pub const OWN: Uuid = Uuid::from_u128(1);

/// The release secret of each acquisition.
pub const SECRET: ReleaseSecret = ReleaseSecret::new(0x5ec_2e7);

impl Solo {
    /// An instance that is started and connected to a bucket.
    pub fn new(settings: RoleSettings, bucket: Bucket) -> Self {
        Self::with_first_beat(settings, bucket, 0)
    }

    /// The same, where an earlier machine of this incarnation used the beats below this one.
    pub fn with_first_beat(settings: RoleSettings, bucket: Bucket, first_beat: u64) -> Self {
        let mut solo = Self::unlinked(settings, first_beat, false);
        solo.feed(Input::Link(Link::Up(bucket)));
        solo
    }

    /// An instance that knows of no bucket yet.
    pub fn unlinked(settings: RoleSettings, first_beat: u64, paused: bool) -> Self {
        let now = Moment::from_nanos(5_000_000_000_000);
        let candidate = Candidate {
            instance_id: "solo".to_owned(),
            incarnation: OWN,
            first_beat,
            paused,
            settings: settings.clone(),
        };
        Self {
            election: Election::new(candidate, now),
            settings,
            now,
            sent: now,
            effects: Vec::new(),
            chance: 0.5,
            steps: 0,
        }
    }

    /// An instance that has read a release at 100.
    pub fn facing_free(settings: RoleSettings) -> Self {
        let mut solo = Self::new(settings, BUCKET);
        solo.read(Some(free(100)), Some(OLD_FENCE));
        solo
    }

    /// An instance that has read a leader's record at 100.
    pub fn following(ttl: Duration) -> Self {
        let mut solo = Self::new(settings(|_| {}), BUCKET);
        solo.read(Some(entry(100, stranger(Some(ttl)))), Some(OLD_FENCE));
        solo
    }

    /// An instance that has sent its claim over a release at 100.
    pub fn claiming(settings: RoleSettings) -> (Self, Write) {
        let mut solo = Self::facing_free(settings);
        solo.wait(ms(3));
        let claim = solo.write();
        (solo, claim)
    }

    /// An instance whose claim stands at 101 and that has sent its fence record, with both writes.
    pub fn fencing(settings: RoleSettings) -> (Self, Write, Write) {
        let (mut solo, claim) = Self::claiming(settings);
        solo.ack(&claim, 101);
        let fence = solo.write();
        (solo, claim, fence)
    }

    /// A leader: its record stands at 101 and its fence record at 102. It was promoted 1 ms after
    /// its claim was sent.
    pub fn leading(settings: RoleSettings) -> Self {
        let (mut solo, claim) = Self::claiming(settings);
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

    /// A leader and its term.
    pub fn in_term(settings: RoleSettings) -> (Self, TermId) {
        let solo = Self::leading(settings);
        let term = solo.started().expect("a term");
        (solo, term)
    }

    /// A leader and its first heartbeat.
    pub fn beating(settings: RoleSettings) -> (Self, Write) {
        let mut solo = Self::leading(settings);
        let renewal = solo.heartbeat();
        (solo, renewal)
    }

    /// An instance that gives the role back, because its claim was confirmed at 101 too late for a
    /// term.
    pub fn claimed_too_late(settings: RoleSettings) -> Self {
        let (mut solo, claim) = Self::claiming(settings);
        solo.sleep(ms(900));
        solo.ack(&claim, 101);
        solo
    }

    /// Waits for the next heartbeat of a leader.
    pub fn heartbeat(&mut self) -> Write {
        self.wait(ms(199));
        self.write()
    }

    /// The handler returns.
    pub fn end_handler(&mut self, term: TermId) {
        let end = HandlerEnd::Returned;
        self.feed(Input::HandlerEnded { term, end });
    }

    /// Somebody asks for a step-down without conditions.
    pub fn step_down(&mut self, request: RequestId) {
        self.feed(step_down(request, None, None, ms(0)));
    }

    /// The application has the instance leave.
    pub fn leave(&mut self, intent: Intent) {
        self.feed(Input::Intend(RequestId::NOBODY, intent));
    }

    pub fn validate(&mut self, request: RequestId) {
        let term = None;
        self.feed(Input::Validate { request, term });
    }

    /// The connection breaks.
    pub fn disconnect(&mut self) {
        let since = self.now;
        self.feed(Input::Link(Link::Down { since }));
    }

    pub fn feed(&mut self, input: Input) {
        self.steps += 1;
        let fresh = Fresh {
            lease_token: LeaseToken::new(Uuid::from_u128(self.steps)),
            release_secret: SECRET,
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

    /// Lets time pass. Timers fire when they are due.
    pub fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.election.next_wakeup().filter(|due| *due <= end) {
            self.now = due;
            self.feed(Input::Tick);
        }
        self.now = end;
    }

    /// Lets time pass unnoticed, as if the process were suspended.
    pub fn sleep(&mut self, time: Duration) {
        self.now = self.now + time;
    }

    /// Lets time pass. Each read shows these keys, until the instance writes.
    pub fn wait_showing(
        &mut self,
        time: Duration,
        role: Option<&Entry>,
        fence: Option<FenceEntry>,
    ) -> Option<Write> {
        self.wait_showing_in(BUCKET, time, role, fence)
    }

    /// The same in this bucket.
    pub fn wait_showing_in(
        &mut self,
        bucket: Bucket,
        time: Duration,
        role: Option<&Entry>,
        fence: Option<FenceEntry>,
    ) -> Option<Write> {
        let end = self.now + time;
        loop {
            let asks = |effect: &Effect| matches!(effect, Effect::Write(_) | Effect::Read { .. });
            if let Some(index) = self.effects.iter().position(asks) {
                match self.effects.remove(index) {
                    Effect::Write(write) => return Some(write),
                    Effect::Read { op, .. } => self.show_in(bucket, op, role.cloned(), fence),
                    _ => {}
                }
                continue;
            }
            let due = self.election.next_wakeup().filter(|due| *due <= end);
            self.wait(due.unwrap_or(end).since(self.now));
            due?;
        }
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
        self.show(op, role, fence);
    }

    /// The read shows this claim at 101, and the fence record of this write at 102.
    pub fn read_back(&mut self, claim: &Write, fence: &Write) {
        let role = entry(101, own(claim, self.settings.ttl));
        self.read(Some(role), Some(fence_of(102, fence.nonce)));
    }

    /// Answers this read.
    pub fn show(&mut self, op: OpId, role: Option<Entry>, fence: Option<FenceEntry>) {
        self.show_in(BUCKET, op, role, fence);
    }

    /// Answers this read from this bucket.
    pub fn show_in(
        &mut self,
        bucket: Bucket,
        op: OpId,
        role: Option<Entry>,
        fence: Option<FenceEntry>,
    ) {
        let shown = Snapshot {
            role,
            fence,
            epoch: Some(bucket.epoch),
            last_sequence: None,
        };
        self.feed(Input::ReadEnded {
            op,
            outcome: Ok(shown),
        });
    }

    /// Whether the lease was extended by the write that was sent then.
    pub fn extended(&self, sent: Moment) -> bool {
        let until = sent + self.settings.ttl - self.settings.drift_margin();
        self.has(|effect| {
            matches!(effect, Effect::Extend { lease, proved, .. } if *proved == sent && *lease == until)
        })
    }

    /// Leaves this read unanswered until its timeout.
    pub fn fail_read(&mut self, op: OpId) {
        let outcome = Err(failure(FailureKind::Timeout));
        self.feed(Input::ReadEnded { op, outcome });
    }

    /// Leaves the read that was asked for unanswered until its timeout.
    pub fn lose_read(&mut self) {
        let op = self.find_read().expect("a read");
        self.fail_read(op);
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

    /// Leaves this write unanswered until its timeout.
    pub fn leave_unanswered(&mut self, write: &Write) {
        self.wait(ms(80));
        self.time_out(write);
    }

    /// The same, and the pause that follows.
    pub fn lose(&mut self, write: &Write) {
        self.leave_unanswered(write);
        self.wait(ms(60));
    }

    /// The fence record that was sent stands at 102.
    pub fn fences(&mut self) {
        let fence = self.write();
        self.ack(&fence, 102);
    }

    pub fn end(&mut self, write: &Write, outcome: WriteOutcome) {
        self.feed(Input::WriteEnded {
            op: write.op,
            outcome,
        });
    }
}

/// A leader and its term, after a while in which nothing happened.
pub fn leading() -> (Solo, TermId) {
    let (mut solo, term) = Solo::in_term(settings(|_| {}));
    solo.wait(ms(10));
    solo.take();
    (solo, term)
}

/// A request for a step-down: in favour of a successor, of this term alone, for so long.
pub fn step_down(
    request: RequestId,
    to: Option<&str>,
    expected: Option<FencingToken>,
    hold_off: Duration,
) -> Input {
    let to = to.map(ToOwned::to_owned);
    let intent = Intent::StepDown {
        to,
        expected,
        hold_off,
    };
    Input::Intend(request, intent)
}

/// The question whether this candidate, or any, could lead after the term with this secret.
pub fn could_lead(to: Option<&str>, secret: Option<ReleaseSecret>) -> PeerRequest {
    PeerRequest::Ready {
        to: to.map(ToOwned::to_owned),
        release: secret.map(ReleaseSecret::hash),
        hold_off_ms: None,
        urgent: false,
    }
}

/// Asserts that a write frees the role over this sequence, and which heir it names.
#[track_caller]
pub fn assert_frees(write: &Write, over: u64, heir: Option<Uuid>) {
    let release = Release {
        nonce: Some(write.nonce),
        heir,
        line: Heirs::NONE,
        secret: Some(SECRET),
    };
    assert_eq!(write.kind, WriteKind::Release { over, release });
}

#[track_caller]
pub fn assert_renews(write: &Write, revision: u64) {
    assert!(
        matches!(write.kind, WriteKind::Renew { over, .. } if over == revision),
        "{write:?}"
    );
}

#[track_caller]
pub fn assert_claims(write: &Write, revision: u64) {
    assert!(
        matches!(write.kind, WriteKind::Claim { over, .. } if over == revision),
        "{write:?}"
    );
}

pub fn failure(kind: FailureKind) -> Failure {
    Failure {
        kind,
        detail: "test".to_owned(),
    }
}
