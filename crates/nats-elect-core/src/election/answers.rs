//! Answers to writes and reads, and messages of the watch.

use super::effect::Effect;
use super::input::Snapshot;
use super::machine::Election;
use super::observed_role::Reading;
use super::phase::Phase;
use crate::event::{BucketRequest, EndCause, Event, FailureKind};
use crate::lease::{Asked, Breaker, Failure, Link, OpId, Operation, Purpose, WriteOutcome};
use crate::moment::Moment;
use crate::mutation::mutated;
use crate::record::{Content, Entry};

impl Election {
    pub(super) fn write_ended(&mut self, op: OpId, outcome: &WriteOutcome) {
        let timed_out = matches!(outcome, WriteOutcome::Failed(failure) if failure.kind == FailureKind::Timeout);
        let what = match self.operations.finish(op, timed_out, self.now) {
            Some(what) => what,
            // After the timeout only a confirmation counts.
            None if matches!(outcome, WriteOutcome::Acked { .. }) => {
                let Some(what) = self.operations.finish_late(op, self.now) else {
                    return;
                };
                self.operations.forget_reads();
                what
            }
            None => {
                // A denial that comes late changes nothing, but says why no answer came in time.
                if let WriteOutcome::Failed(failure) = outcome
                    && failure.kind == FailureKind::PermissionDenied
                {
                    self.report(failure);
                }
                return;
            }
        };
        let Operation::Write(write) = what else {
            return;
        };
        match outcome {
            WriteOutcome::Acked { revision } => {
                self.attempts.settle(write.beat, *revision);
                self.request_answered(write.request());
            }
            WriteOutcome::Conflict { current } => {
                self.request_answered(write.request());
                // The refusal of a fence record tells the sequence of the fence key.
                if let Some(current) = current.filter(|_| write.purpose != Purpose::Fence)
                    && let Some((was, is)) = self.observed_role.refused_at(current, self.now)
                {
                    self.regressed(was, is);
                }
            }
            WriteOutcome::Failed(_) => {}
        }
        match write.purpose {
            Purpose::Claim => self.claim_ended(write, outcome),
            Purpose::Fence => self.fence_ended(write, outcome),
            Purpose::Renew => self.heartbeat_ended(write, outcome),
            Purpose::Release => self.release_ended(write, outcome),
        }
    }

    pub(super) fn read_ended(&mut self, op: OpId, outcome: Result<Snapshot, Failure>) {
        let timed_out = matches!(&outcome, Err(failure) if failure.kind == FailureKind::Timeout);
        let what = match self.operations.finish(op, timed_out, self.now) {
            None if outcome.is_ok() => self.operations.finish_late(op, self.now),
            what => what,
        };
        let Some(Operation::Read { sent }) = what else {
            return;
        };
        match outcome {
            Ok(snapshot) => self.has_read(&snapshot, sent),
            Err(failure) => {
                self.request_failed(BucketRequest::Read, &failure);
                match &self.phase {
                    Phase::Waiting(_) if self.stopping.is_some() => self.leave(),
                    Phase::Leading(_) | Phase::WindingDown(_) => self.keeper_could_not_read(),
                    _ => {}
                }
            }
        }
    }

    fn has_read(&mut self, snapshot: &Snapshot, sent: Moment) {
        self.request_answered(BucketRequest::Read);
        if let (Some(epoch), Some(bucket)) = (snapshot.epoch, self.bucket)
            && epoch != bucket.epoch
            && !mutated!(IgnoreEpoch)
        {
            self.link_changed(Link::Down { since: self.now });
            self.reopen();
            self.lost(EndCause::BucketLost, None);
            return;
        }
        let own = snapshot
            .role
            .as_ref()
            .is_some_and(|entry| self.is_own(entry));
        self.in_touch();
        let reading = self.observed_role.read(snapshot, own, sent, self.now);
        match reading {
            Reading::Regressed { was, is } => self.regressed(was, is),
            Reading::Newer => self.others_write(),
            Reading::Same => {}
        }
        match &self.phase {
            Phase::Waiting(_) => {
                self.waiting_has_read(reading != Reading::Same, sent);
                if let Some(entry) = &snapshot.role {
                    self.adopt_claim(entry, true);
                }
            }
            Phase::Acquiring(_) => self.acquiring_has_read(snapshot),
            Phase::Leading(_) => self.leader_has_read(snapshot),
            Phase::WindingDown(_) => self.winding_down_has_read(snapshot),
            Phase::Releasing(_) => self.releasing_has_read(snapshot),
            Phase::Stopped => {}
        }
    }

    /// Handles a message that the watch showed under the role's key.
    pub(super) fn observed(&mut self, entry: Entry) {
        self.in_touch();
        let revision = entry.revision;
        let own = self.is_own(&entry);
        let ours = self.attempts.find(entry.content.nonce());
        let shown = entry.clone();
        if let Some(attempt) = ours.filter(|_| own) {
            self.watch_showed_own(attempt);
        }
        if !self.observed_role.watched(entry, own, self.now) {
            return;
        }
        self.record_changed();
        self.others_write();
        if self.observed_role.shows_less() {
            self.must_read(self.now, false);
        }
        match ours {
            None => {
                mutated!(ForgetHeartbeatsForAnyRecord => self.operations.forget_heartbeats(revision));
                self.suspect(revision);
            }
            Some(attempt) if attempt.purpose == Purpose::Release => {
                self.saw_release(attempt, revision);
            }
            // The answer to this write will tell.
            Some(attempt) if attempt.settled.is_some() || self.operations.awaits(attempt.beat) => {}
            Some(attempt) => {
                self.operations.forget_reads();
                if attempt.purpose == Purpose::Claim {
                    let unique = self.bucket.is_some_and(|bucket| bucket.unique_sequences);
                    let known = unique && self.observed_role.is_known_sequence(revision, self.now);
                    self.adopt_claim(&shown, known);
                } else {
                    self.landed(attempt, revision);
                }
            }
        }
    }

    fn is_own(&self, entry: &Entry) -> bool {
        let record = matches!(entry.content, Content::Record(_));
        record && self.attempts.wrote(entry.content.nonce(), entry.revision)
    }

    /// Reports a failed request and sets the time of the next attempt. Returns false if the request
    /// met another write under way and is due again at once.
    pub(super) fn request_failed(&mut self, request: BucketRequest, failure: &Failure) -> bool {
        self.tell(Event::Failure {
            request: Some(request),
            kind: failure.kind,
            detail: failure.detail.clone(),
        });
        if failure.kind == FailureKind::BucketMissing {
            self.emit(Effect::Reopen);
        }
        let asked = Asked::from(request);
        let holds = self.phase.is_past_claim();
        let acquires = matches!(self.phase, Phase::Acquiring(_)) && failure.is_transient();
        let limit = (holds || acquires).then_some(self.settings.heartbeat);
        let chance = self.fresh.chance;
        let contended = failure.kind == FailureKind::Contended;
        if contended && self.retry.contended(asked, self.now, chance, holds) {
            return false;
        }
        let breaker = if failure.is_transient() || limit.is_some() {
            self.retry.failed(asked, self.now, chance, limit)
        } else {
            self.retry.failed_for_long(asked, self.now, chance)
        };
        self.note_breaker(breaker);
        true
    }

    /// A request was answered by a working bucket.
    fn request_answered(&mut self, request: BucketRequest) {
        let breaker = self.retry.succeeded(request.into());
        self.note_breaker(breaker);
    }

    /// Another instance's write was shown.
    fn others_write(&mut self) {
        let breaker = self.retry.others_succeed();
        self.note_breaker(breaker);
    }

    pub(super) fn note_breaker(&mut self, breaker: Breaker) {
        match breaker {
            Breaker::Unchanged => {}
            Breaker::Opened => self.tell(Event::CircuitOpened),
            Breaker::Closed => self.tell(Event::CircuitClosed),
        }
    }

    fn regressed(&mut self, was: u64, is: u64) {
        let detail = format!(
            "the role's key went back from sequence {was} to {is}: NATS lost confirmed writes"
        );
        self.report(&Failure {
            kind: FailureKind::Regression,
            detail,
        });
    }
}
