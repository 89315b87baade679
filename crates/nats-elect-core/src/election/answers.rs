//! Answers to writes and reads, and messages of the watch.

use super::effect::Effect;
use super::input::Snapshot;
use super::observed_role::Reading;
use super::phase::Phase;
use super::scene::Scene;
use crate::event::{BucketRequest, EndCause, Event, FailureKind};
use crate::lease::{Answered, Breaker, Failure, Link, OpId, Purpose, WriteOutcome};
use crate::moment::Moment;
use crate::mutation::mutated;
use crate::record::{Content, Entry};

/// What an instance may lose by a request that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stake {
    Nothing,
    Claim,
    Lease,
}

impl Phase {
    pub fn write_ended(&mut self, at: &mut Scene, op: OpId, outcome: &WriteOutcome) {
        let write = match at.wire.write_ended(op, outcome, at.now) {
            Answered::Write(write, breaker) => {
                at.note_breaker(breaker);
                write
            }
            Answered::Ended => {
                // A denial that comes late changes nothing, but says why no answer came in time.
                if let WriteOutcome::Failed(failure) = outcome
                    && failure.kind == FailureKind::PermissionDenied
                {
                    at.report(failure);
                }
                return;
            }
            Answered::Void => return,
        };
        // The refusal of a fence record tells the sequence of the fence key.
        if let WriteOutcome::Conflict {
            current: Some(current),
        } = outcome
            && write.purpose != Purpose::Beside
            && let Some((was, is)) = at.observed_role.refused_at(*current, at.now)
        {
            at.regressed(was, is);
        }
        match write.purpose {
            Purpose::Claim => self.claim_ended(at, write, outcome),
            Purpose::Beside => self.fence_ended(at, write, outcome),
            Purpose::Renew => self.heartbeat_ended(at, write, outcome),
            Purpose::Release => self.release_ended(at, write, outcome),
        }
    }

    pub fn read_ended(&mut self, at: &mut Scene, op: OpId, outcome: Result<Snapshot, Failure>) {
        let failure = outcome.as_ref().err();
        let Some((sent, breaker)) = at.wire.read_ended(op, failure, at.now) else {
            return;
        };
        at.note_breaker(breaker);
        match outcome {
            Ok(snapshot) => self.has_read(at, &snapshot, sent),
            Err(failure) => {
                let stake = self.stake();
                at.request_failed(BucketRequest::Read, &failure, stake);
                if let Some(held) = self.kept() {
                    held.could_not_read(at.now);
                } else if matches!(self, Phase::Waiting(_)) && at.stopping.is_some() {
                    self.leave(at);
                }
            }
        }
    }

    fn has_read(&mut self, at: &mut Scene, snapshot: &Snapshot, sent: Moment) {
        if let (Some(epoch), Some(bucket)) = (snapshot.epoch, at.wire.bucket)
            && epoch != bucket.epoch
            && !mutated!(IgnoreEpoch)
        {
            self.link_changed(at, Link::Down { since: at.now });
            at.reopen();
            self.lost(at, EndCause::BucketLost, None);
            return;
        }
        let own = snapshot.role.as_ref().is_some_and(|entry| at.is_own(entry));
        at.in_touch();
        let reading = at.observed_role.read(snapshot, own, sent, at.now);
        match reading {
            Reading::Regressed { was, is } => at.regressed(was, is),
            Reading::Newer => at.others_write(),
            Reading::Same => {}
        }
        match self {
            Phase::Waiting(_) => {
                self.waiting_has_read(at, reading != Reading::Same, sent);
                if let Some(entry) = &snapshot.role {
                    self.adopt_claim(at, entry, true);
                }
            }
            Phase::Acquiring(_) => self.acquiring_has_read(at, snapshot),
            Phase::Leading(_) => self.leader_has_read(at, snapshot),
            Phase::WindingDown(_) => self.winding_down_has_read(at, snapshot),
            Phase::Releasing(_) => self.releasing_has_read(at, snapshot),
            Phase::Stopped => {}
        }
    }

    /// Handles a message that the watch showed under the role's key.
    pub fn observed(&mut self, at: &mut Scene, entry: Entry) {
        at.in_touch();
        let revision = entry.revision;
        let own = at.is_own(&entry);
        let ours = at.wire.attempts.find(entry.content.nonce());
        let shown = entry.clone();
        if let Some(attempt) = ours.filter(|_| own) {
            self.watch_showed_own(at, attempt);
        }
        if !at.observed_role.watched(entry, own, at.now) {
            return;
        }
        self.record_changed(at);
        at.others_write();
        if at.observed_role.shows_less() {
            self.must_read(at.now, false);
        }
        match ours {
            None => {
                mutated!(ForgetHeartbeatsForAnyRecord => at.wire.operations.forget_heartbeats(revision));
                self.suspect(at, revision);
            }
            Some(attempt) if attempt.purpose == Purpose::Release => {
                self.saw_release(at, attempt, revision);
            }
            // The answer to this write will tell.
            Some(attempt)
                if attempt.settled.is_some() || at.wire.operations.awaits(attempt.beat) => {}
            Some(attempt) => {
                at.wire.operations.forget_reads();
                if attempt.purpose == Purpose::Claim {
                    self.adopt_claim(at, &shown, at.is_of_bucket(revision));
                } else {
                    self.landed(at, attempt, revision);
                }
            }
        }
    }
}

impl Scene {
    /// Whether this sequence can only be of the bucket whose creation time is known.
    pub fn is_of_bucket(&self, revision: u64) -> bool {
        let known = self.observed_role.is_known_sequence(revision, self.now);
        self.wire.has_unique_sequences() && known
    }

    fn is_own(&self, entry: &Entry) -> bool {
        let attempts = &self.wire.attempts;
        matches!(entry.content, Content::Record(_))
            && attempts.wrote(entry.content.nonce(), entry.revision)
    }

    /// Reports a failed request and sets the time of the next attempt. Returns false if the request
    /// met another write under way and is due again at once.
    pub fn request_failed(
        &mut self,
        request: BucketRequest,
        failure: &Failure,
        stake: Stake,
    ) -> bool {
        self.tell(Event::Failure {
            request: Some(request),
            kind: failure.kind,
            detail: failure.detail.clone(),
        });
        if failure.kind == FailureKind::BucketMissing {
            self.emit(Effect::Reopen);
        }
        let holds = stake == Stake::Lease;
        let acquires = stake == Stake::Claim && failure.is_transient();
        let limit = (holds || acquires).then_some(self.settings.heartbeat);
        let (asked, chance) = (request.into(), self.fresh.chance);
        let retry = &mut self.wire.retry;
        if failure.kind == FailureKind::Contended && retry.contended(asked, self.now, chance, holds)
        {
            return false;
        }
        let lasting = limit.is_none() && !failure.is_transient();
        let breaker = retry.failed(asked, self.now, chance, limit, lasting);
        self.note_breaker(breaker);
        true
    }

    /// Another instance's write was shown.
    fn others_write(&mut self) {
        let breaker = self.wire.retry.others_succeed();
        self.note_breaker(breaker);
    }

    pub fn note_breaker(&mut self, breaker: Breaker) {
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
        self.report(&Failure::new(FailureKind::Regression, detail));
    }
}
