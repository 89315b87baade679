//! Answers to writes and reads, and messages of the watch.

use super::effect::Effect;
use super::input::Snapshot;
use super::observed_role::Reading;
use super::phase::Phase;
use super::scene::Scene;
use crate::event::{BucketRequest, EndCause, Event, FailureKind};
use crate::lease::{Failure, Link, OpId, WriteOutcome};
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
    pub fn write_ended(self, at: &mut Scene, op: OpId, outcome: &WriteOutcome) -> Self {
        let Some(write) = at.wire.write_ended(op, outcome, at.now) else {
            // A denial that comes late changes nothing, but says why no answer came in time.
            if let WriteOutcome::Failed(failure) = outcome
                && failure.kind == FailureKind::PermissionDenied
            {
                at.report(failure);
            }
            return self;
        };
        // The refusal of a fence record tells the sequence of the fence key.
        if let WriteOutcome::Conflict {
            current: Some(current),
        } = outcome
            && write.request != BucketRequest::Fence
            && let Some((was, is)) = at.observed_role.refused_at(*current, at.now)
        {
            at.regressed(was, is);
        }
        match (self, write.request) {
            (Self::Waiting(it), BucketRequest::Claim) => it.claim_ended(at, write, outcome),
            (Self::Acquiring(it), BucketRequest::Fence) => it.fence_ended(at, write, outcome),
            (phase, BucketRequest::Heartbeat) => phase.renew_ended(at, write, outcome),
            (Self::Releasing(it), BucketRequest::Release) => it.release_ended(at, write, outcome),
            (phase, _) => phase,
        }
    }

    pub fn read_ended(
        mut self,
        at: &mut Scene,
        op: OpId,
        outcome: Result<Snapshot, Failure>,
    ) -> Self {
        let failure = outcome.as_ref().err();
        let Some(sent) = at.wire.read_ended(op, failure, at.now) else {
            return self;
        };
        match outcome {
            Ok(snapshot) => self.has_read(at, &snapshot, sent),
            Err(failure) => {
                at.request_failed(BucketRequest::Read, &failure, self.stake());
                if let Some(held) = self.kept() {
                    held.could_not_read(at.now);
                }
                match self {
                    Self::Waiting(_) if at.stopping.is_some() => at.leave(),
                    phase => phase,
                }
            }
        }
    }

    fn has_read(self, at: &mut Scene, snapshot: &Snapshot, sent: Moment) -> Self {
        if let (Some(epoch), Some(bucket)) = (snapshot.epoch, at.wire.bucket)
            && epoch != bucket.epoch
            && !mutated!(IgnoreEpoch)
        {
            let phase = self.link_changed(at, Link::Down { since: at.now });
            at.reopen();
            return phase.lost(at, EndCause::BucketLost, None);
        }
        let own = snapshot.role.as_ref().is_some_and(|entry| at.is_own(entry));
        at.in_touch();
        let reading = at.observed_role.read(snapshot, own, sent, at.now);
        match reading {
            Reading::Regressed { was, is } => at.regressed(was, is),
            Reading::Newer => at.wire.retry.others_succeed(),
            Reading::Same => {}
        }
        let news = reading != Reading::Same;
        match self {
            Self::Waiting(it) => it.has_read(at, snapshot, news, sent),
            Self::Acquiring(it) => it.has_read(at, snapshot),
            Self::Leading(it) => it.has_read(at, snapshot),
            Self::WindingDown(it) => it.has_read(at, snapshot),
            Self::Releasing(it) => it.has_read(at, snapshot),
            Self::Stopped => Self::Stopped,
        }
    }

    /// Handles a message that the watch showed under the role's key.
    pub fn observed(mut self, at: &mut Scene, entry: Entry) -> Self {
        at.in_touch();
        let revision = entry.revision;
        let own = at.is_own(&entry);
        let ours = at.wire.attempts.find(entry.content.nonce());
        let shown = entry.clone();
        if let (Self::Leading(it), Some(attempt), true) = (&mut self, ours, own) {
            it.watch_showed_own(at, attempt);
        }
        if !at.observed_role.watched(entry, own, at.now) {
            return self;
        }
        if let Self::Waiting(it) = &mut self {
            it.record_changed(at);
        }
        at.wire.retry.others_succeed();
        let Some(attempt) = ours else {
            mutated!(ForgetHeartbeatsForAnyRecord => at.wire.operations.forget_heartbeats(revision));
            if let Some(held) = self.kept() {
                held.suspect(revision, at.now);
            }
            return self;
        };
        if attempt.request == BucketRequest::Release {
            if let Self::Releasing(it) = &mut self {
                it.shown(at, attempt, revision);
            }
            return self;
        }
        if attempt.settled.is_some() || at.wire.operations.awaits(attempt.beat) {
            // The answer to this write will tell.
            return self;
        }
        at.wire.operations.forget_reads();
        match self {
            Self::Waiting(it) => it.adopt_claim(at, &shown, at.is_of_bucket(revision)),
            phase => phase.landed(at, attempt, revision),
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
        let (now, chance, retry) = (self.now, self.fresh.chance, &mut self.wire.retry);
        if failure.kind == FailureKind::Contended && retry.contended(request, now, chance, holds) {
            return false;
        }
        let lasting = limit.is_none() && !failure.is_transient();
        retry.failed(request, now, chance, limit, lasting);
        true
    }

    fn regressed(&mut self, was: u64, is: u64) {
        let detail = format!(
            "the role's key went back from sequence {was} to {is}: NATS lost confirmed writes"
        );
        self.report(&Failure::new(FailureKind::Regression, detail));
    }
}
