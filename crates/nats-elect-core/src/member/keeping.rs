//! The lease of the member's epoch: its claim, its heartbeats, and what is read in doubt.

use std::time::Duration;

use uuid::Uuid;

use super::effect::{Effect, Over};
use super::input::Look;
use super::loss::Doubt;
use super::machine::{Member, MemberSettings};
use crate::assignment::{Epoch, Key, MemberRecord, Value};
use crate::config::{RetrySettings, drift_margin};
use crate::event::{BucketRequest, EndCause, FailureKind};
use crate::lease::{
    AdaptiveTimeout, Attempt, Failure, Found, Held, Kind, Link, OpId, Secrets, Stored, TermId,
    Wire, WriteOutcome,
};
use crate::moment::Moment;
use crate::mutation::mutated;
use crate::release::ReleaseSecret;
use crate::token::LeaseToken;

/// What keeps the key of the present epoch.
#[derive(Clone, Debug, Hash)]
pub(super) struct Keeping {
    wire: Wire,
    phase: Phase,
    /// The number of the last claim.
    claims: TermId,
    /// Whether a heartbeat is to be sent before it is due.
    pub is_wanted: bool,
}

#[derive(Clone, Copy, Debug, Hash)]
enum Phase {
    /// There is no epoch.
    Out,
    /// A claim is sent. It is given up at a moment.
    Claiming {
        epoch: Epoch,
        look_at: Option<Moment>,
        give_up: Moment,
    },
    In {
        epoch: Epoch,
        held: Held,
        /// When to read what the watch has not shown.
        look_at: Option<Moment>,
    },
}

/// Something that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Task {
    GiveUp,
    Look,
    Claim,
    Renew,
}

impl Keeping {
    pub fn new(settings: &MemberSettings, now: Moment) -> Self {
        let timeout = AdaptiveTimeout::new(settings.request_timeout, settings.ttl);
        let retry = RetrySettings::default();
        Self {
            wire: Wire::new(
                settings.incarnation,
                settings.first_beat,
                retry,
                timeout,
                now,
            ),
            phase: Phase::Out,
            claims: TermId(0),
            is_wanted: false,
        }
    }

    /// The epoch, and the end of its lease.
    pub const fn lease(&self) -> Option<(Epoch, Moment)> {
        match &self.phase {
            Phase::In { epoch, held, .. } => Some((*epoch, held.until)),
            Phase::Out | Phase::Claiming { .. } => None,
        }
    }

    /// The epoch that is claimed or held.
    pub const fn epoch(&self) -> Option<Epoch> {
        match &self.phase {
            Phase::In { epoch, .. } | Phase::Claiming { epoch, .. } => Some(*epoch),
            Phase::Out => None,
        }
    }

    /// Whether something can be sent to the bucket.
    pub const fn is_up(&self) -> bool {
        self.wire.is_up()
    }

    /// The creation time of the bucket that was used last.
    pub fn bucket(&self) -> Option<u64> {
        self.wire.bucket.map(|it| it.epoch)
    }

    /// The beat of the next heartbeat.
    pub const fn next_beat(&self) -> u64 {
        self.wire.attempts.next_beat.0
    }

    /// Has the own key and the map read at a moment.
    pub const fn look_by(&mut self, at: Moment) {
        if let Phase::In { look_at, .. } | Phase::Claiming { look_at, .. } = &mut self.phase {
            *look_at = Some(at);
        }
    }

    /// Gives up the epoch. It is never used again.
    pub const fn drop_epoch(&mut self) {
        self.phase = Phase::Out;
    }

    /// Takes the link. Returns the creation time of the bucket if it is another one than before.
    pub fn linked(&mut self, link: Link, ttl: Duration) -> Option<u64> {
        let bucket = match link {
            Link::Up(bucket) => bucket,
            link => {
                self.wire.link = link;
                return None;
            }
        };
        if let Some(failure) = bucket.unfit_for(ttl) {
            self.wire.link = Link::Unusable(failure);
            return None;
        }
        let is_another = self.wire.linked(bucket);
        is_another.then_some(bucket.epoch)
    }

    /// What is due next, and when.
    fn due(&self, may_claim: bool) -> Option<(Moment, Task)> {
        let retry = &self.wire.retry;
        let may_send = self.wire.may_send();
        let beat_at = retry.at(BucketRequest::Heartbeat);
        let (look_at, other) = match &self.phase {
            Phase::Out => (None, may_claim.then_some((beat_at, Task::Claim))),
            Phase::Claiming {
                look_at, give_up, ..
            } => (*look_at, Some((*give_up, Task::GiveUp))),
            Phase::In { held, .. } if held.is_in_doubt() => (Some(Moment::default()), None),
            Phase::In { held, look_at, .. } => {
                let renew_at = if self.is_wanted {
                    beat_at
                } else {
                    beat_at.max(held.renew_at)
                };
                (*look_at, Some((renew_at, Task::Renew)))
            }
        };
        let look = look_at.map(|at| (at.max(retry.at(BucketRequest::Read)), Task::Look));
        let all = look.into_iter().chain(other);
        all.filter(|(_, task)| may_send || *task == Task::GiveUp)
            .min()
    }
}

/// A claim has no secrets: its name is drawn at random, and nobody else writes under it.
const fn secrets(epoch: Epoch) -> Secrets {
    Secrets {
        token: LeaseToken::new(Uuid::from_bytes(*epoch.as_bytes())),
        release: ReleaseSecret::new(0),
    }
}

impl Member {
    /// When the lease needs something.
    pub(super) fn keep_due(&self) -> Option<Moment> {
        self.keeping.due(self.may_claim()).map(|(at, _)| at)
    }

    /// Sends what the lease needs.
    pub(super) fn keep(&mut self) {
        let due = self.keeping.due(self.may_claim());
        match due.filter(|(at, _)| *at <= self.now) {
            Some((_, Task::Claim)) => self.claim(),
            Some((_, Task::Renew)) => self.renew(),
            Some((_, Task::Look)) => self.look(),
            Some((_, Task::GiveUp)) => self.lose_any(),
            None => {}
        }
    }

    /// An epoch that is lost is told over beside the next claim. Before that no third one is claimed.
    fn may_claim(&self) -> bool {
        self.left_at.is_none() && self.lost.len() < 2
    }

    fn claim(&mut self) {
        let epoch = Epoch::new(self.fresh.epoch);
        // Nothing of an earlier epoch matters any more.
        self.keeping.wire.attempts.forget_all();
        self.keeping.claims.0 += 1;
        self.keeping.phase = Phase::Claiming {
            epoch,
            look_at: None,
            give_up: self.now + self.settings.ttl * 9 / 10,
        };
        self.send(BucketRequest::Claim, epoch, 0);
    }

    fn renew(&mut self) {
        if let Phase::In { epoch, held, .. } = self.keeping.phase {
            self.keeping.is_wanted = false;
            self.send(BucketRequest::Heartbeat, epoch, held.revision);
        }
    }

    /// Sends the record of an epoch over its last one. A claim acknowledges nothing.
    fn send(&mut self, request: BucketRequest, epoch: Epoch, over: u64) {
        let Keeping { wire, claims, .. } = &mut self.keeping;
        let (op, within, nonce) = wire.send(request, *claims, secrets(epoch), over, 0, self.now);
        let id = self.settings.id.clone();
        let mut record = MemberRecord::new(epoch, id, nonce, self.settings.ttl);
        record.profile = self.settings.profile.clone();
        record.waits = self.waits();
        if request == BucketRequest::Heartbeat {
            record.follows = self.following.acknowledged();
            record.excepts = self.acting.excepts();
            record.aside = self.is_aside();
            record.unable = self.acting.unable(self.now, record.aside);
            record.leaves = self.left_at.is_some() || self.following.is_strange();
        }
        self.emit(Effect::Beat {
            op,
            within,
            key: self.member_key(epoch),
            over: Over::Sequence(over),
            value: record.to_json(),
        });
    }

    fn look(&mut self) {
        let Some(epoch) = self.keeping.epoch() else {
            return;
        };
        let (op, within) = self.keeping.wire.read(self.now);
        let own = self.member_key(epoch);
        self.emit(Effect::Look { op, within, own });
    }

    /// When to read what is confirmed, if the watch does not show it.
    fn look_at(&self) -> Moment {
        self.now + self.settings.ttl / 8
    }

    /// The answer to a claim or a heartbeat.
    pub(super) fn beat_ended(&mut self, op: OpId, outcome: &WriteOutcome) {
        let answered = self.keeping.wire.write_ended(op, outcome, self.now);
        let Some(write) = answered.filter(|it| it.term == self.keeping.claims) else {
            return;
        };
        let later = self.look_at();
        let next = write.sent + self.pace();
        match (&mut self.keeping.phase, outcome) {
            (Phase::Claiming { look_at, .. }, WriteOutcome::Acked { .. }) => *look_at = Some(later),
            // Nothing of ours is under the key, and nothing will be.
            (Phase::Claiming { epoch, .. }, WriteOutcome::Conflict { .. }) => {
                let epoch = *epoch;
                let retry = &mut self.keeping.wire.retry;
                retry.wait_until(BucketRequest::Heartbeat, next);
                self.drop_epoch(epoch);
            }
            (Phase::Claiming { epoch, .. }, WriteOutcome::Failed(failure))
                if failure.ends_term() =>
            {
                let epoch = *epoch;
                self.drop_epoch(epoch);
                self.request_failed(BucketRequest::Claim, failure);
            }
            (Phase::Claiming { look_at, .. }, WriteOutcome::Failed(failure)) => {
                *look_at = Some(self.now);
                self.request_failed(BucketRequest::Claim, failure);
            }
            (Phase::In { held, look_at, .. }, WriteOutcome::Acked { revision }) => {
                if *revision > held.revision {
                    *look_at = Some(later);
                }
                held.stored(*revision);
                held.renew_at = held.renew_at.max(next);
            }
            (Phase::In { held, .. }, WriteOutcome::Conflict { .. }) => {
                held.refused(write.over);
            }
            (Phase::In { held, .. }, WriteOutcome::Failed(failure)) => {
                if failure.kind == FailureKind::Contended {
                    held.renew_at = self.now;
                } else {
                    held.unanswered();
                }
                self.request_failed(BucketRequest::Heartbeat, failure);
            }
            (Phase::Out, _) => {}
        }
        if let WriteOutcome::Acked { revision } = outcome {
            self.doubt_confirmed(write.beat, *revision);
            mutated!(ExtendsUnshown => self.believe(&write, *revision));
        }
    }

    /// Takes a confirmed write for a shown one.
    #[cfg(feature = "__mutations")]
    fn believe(&mut self, write: &Attempt, sequence: u64) {
        if let Some(epoch) = self.keeping.epoch() {
            let nonce = self.keeping.wire.attempts.nonce(write.beat);
            let id = self.settings.id.clone();
            let record = MemberRecord::new(epoch, id, nonce, self.settings.ttl);
            self.own_shown(epoch, sequence, &Value::Member(record.into()));
        }
    }

    /// The reads of the own key and of the map ended.
    pub(super) fn looked(&mut self, op: OpId, found: Result<Look, Failure>) {
        let failure = found.as_ref().err();
        let read = self.keeping.wire.read_ended(op, failure, self.now);
        let Some(epoch) = self.keeping.epoch().filter(|_| read.is_some()) else {
            return;
        };
        let look = match found {
            Ok(look) => look,
            Err(failure) => {
                self.request_failed(BucketRequest::Read, &failure);
                if let Phase::In { held, .. } = &mut self.keeping.phase {
                    held.could_not_read(self.now);
                }
                return;
            }
        };
        if look.bucket.is_some() && look.bucket != self.keeping.bucket() {
            let since = self.now;
            self.keeping.wire.link = Link::Down { since };
            self.emit(Effect::Reopen);
            return self.lose(epoch);
        }
        if self.has_lost_writes(&look) {
            return self.forget_lost_writes();
        }
        let own = look.own.as_ref();
        let found = self.judge(own.map(|(sequence, value)| stored(*sequence, value)));
        match found {
            Found::Lost(EndCause::Regressed, _) => return self.forget_lost_writes(),
            Found::Lost(..) => self.lose(epoch),
            Found::Landed(..) | Found::Undecided => {}
        }
        if let Some((sequence, value)) = look.own {
            self.show_member(epoch, sequence, value);
        }
        // A newer map that was shown meanwhile raises another doubt. It costs nothing that was proved.
        match look.map {
            Some((sequence, value)) => self.show_map(sequence, value),
            None => self.following.miss(self.now),
        }
        if matches!(self.doubt, Doubt::Read { .. }) {
            let at = self.look_at();
            self.keeping.look_by(at);
        }
    }

    /// What a read of the own key proves.
    fn judge(&mut self, stored: Option<Stored>) -> Found {
        let attempts = &self.keeping.wire.attempts;
        match &mut self.keeping.phase {
            Phase::In { held, look_at, .. } => {
                *look_at = None;
                held.has_read(stored, attempts, self.now)
            }
            // The claim is there, or was lost: nobody else writes under its name.
            Phase::Claiming { .. } => match stored.and_then(|it| attempts.find(it.nonce)) {
                Some(_) => Found::Undecided,
                None => Found::Lost(EndCause::Superseded, None),
            },
            Phase::Out => Found::Undecided,
        }
    }

    /// A value under the own key was shown, by the watch or by a read from the stream's leader. Its
    /// lease counts from its sending.
    pub(super) fn own_shown(&mut self, epoch: Epoch, sequence: u64, value: &Value) {
        if self.keeping.epoch() != Some(epoch) {
            return;
        }
        let Keeping { wire, claims, .. } = &mut self.keeping;
        let attempt = wire.attempts.find(stored(sequence, value).nonce);
        let stands =
            |it: &Attempt| it.term == *claims && it.settled.is_none_or(|at| at == sequence);
        let Some(attempt) = attempt.filter(stands) else {
            match &mut self.keeping.phase {
                Phase::In { held, .. } => held.suspect(sequence, self.now),
                _ => self.lose(epoch),
            }
            return;
        };
        wire.attempts.settle(attempt.beat, sequence);
        wire.operations.forget_heartbeats(sequence);
        let sent = if mutated!(LeaseCountsFromShowing) {
            self.now
        } else {
            attempt.sent
        };
        let until = sent + self.settings.ttl - drift_margin(self.settings.ttl);
        let next = attempt.sent + self.pace();
        if until <= self.now {
            if matches!(self.keeping.phase, Phase::Claiming { .. }) {
                self.lose(epoch);
            }
            return;
        }
        self.doubt_confirmed(attempt.beat, sequence);
        let doubts = self.doubts();
        let extends = match &mut self.keeping.phase {
            Phase::In { held, .. } if doubts && !mutated!(DoubtExtends) => {
                held.stored(sequence);
                held.renew_at = held.renew_at.max(next);
                return;
            }
            Phase::In { held, look_at, .. } => {
                *look_at = look_at.filter(|_| sequence < held.revision);
                held.extend(sequence, attempt.sent, until, held.renew_at.max(next));
                let (until, proved) = (held.until, held.sent);
                Some(Effect::Extend { until, proved })
            }
            phase => {
                let held = Held::of(&attempt, sequence, until, next);
                let look_at = doubts.then_some(self.now);
                *phase = Phase::In {
                    epoch,
                    held,
                    look_at,
                };
                None
            }
        };
        self.leased(extends, &attempt, sequence);
    }

    fn pace(&self) -> Duration {
        self.peers.pace(self.settings.heartbeat, self.settings.ttl)
    }

    fn request_failed(&mut self, request: BucketRequest, failure: &Failure) {
        let holds = self.keeping.lease().is_some();
        let (now, chance) = (self.now, self.fresh.chance);
        let retry = &mut self.keeping.wire.retry;
        let limit = holds.then_some(self.settings.heartbeat);
        if failure.kind == FailureKind::Contended && retry.contended(request, now, chance, holds) {
            return;
        }
        let is_lasting = !holds && !failure.is_transient();
        retry.failed(request, now, chance, limit, is_lasting);
        if failure.kind == FailureKind::BucketMissing {
            self.emit(Effect::Reopen);
        }
        if failure.ends_term() {
            self.lose_any();
        }
    }

    pub(super) fn member_key(&self, epoch: Epoch) -> Key {
        Key::Member(self.settings.group.clone(), epoch)
    }
}

fn stored(revision: u64, value: &Value) -> Stored {
    Stored {
        revision,
        nonce: match value {
            Value::Member(record) => Some(record.nonce()),
            _ => None,
        },
        kind: Kind::Record,
    }
}
