//! From a confirmed claim to promotion. The fence record gives the term its place in the order of
//! terms.

use super::answers::Stake;
use super::effect::{Effect, TermStart, WriteKind};
use super::input::Snapshot;
use super::leading::Leadership;
use super::phase::Phase;
use super::releasing::Releasing;
use super::scene::Scene;
use super::timers::Timer;
use super::waiting::Waiting;
use crate::event::{BucketRequest, Event, FailureKind};
use crate::lease::{Attempt, Failure, Held, WriteOutcome};
use crate::moment::Moment;
use crate::mutation::mutated;
use crate::record::{FenceEntry, SeenFence};
use crate::status::RoleState;
use crate::token::FencingToken;

/// A confirmed claim whose fence record is not confirmed yet.
#[derive(Clone, Debug, Hash)]
pub(super) struct Acquisition {
    pub held: Held,
    /// The fence key's sequence when the role was judged free. If another fence record came since,
    /// another instance led meanwhile.
    fence_over: u64,
    step: Step,
    /// Whether the claim is known to stand in the bucket whose creation time the fencing token will
    /// bear.
    bucket_known: bool,
}

/// The next step of an acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    /// Write the fence record.
    Fence,
    /// Read both keys, to learn the outcome of an unanswered write.
    Look,
    /// Read both keys, to learn why the fence record was refused.
    LookOnce,
}

impl Acquisition {
    /// Goes on to the fence record, or to the term where none is written: an answer or a read showed
    /// that a claim of ours stands in the bucket.
    pub fn begin(at: &mut Scene, claim: Attempt, revision: u64, bucket_known: bool) -> Phase {
        let until = at.lease_until(claim.sent);
        let renew_at = claim.sent + at.settings.heartbeat;
        let acquisition = Self {
            held: Held::of(&claim, revision, until, renew_at),
            fence_over: claim.beside,
            step: Step::Fence,
            bucket_known,
        };
        if mutated!(SkipFence) {
            return acquisition.promote(at, revision);
        }
        Phase::Acquiring(acquisition)
    }

    pub fn timers(&self, at: &Scene) -> Vec<(Moment, Timer)> {
        if at.begins_no_term() {
            return if at.wire.operations.is_busy() {
                Vec::new()
            } else {
                vec![(at.now, Timer::GiveBack)]
            };
        }
        let promotable_until = at.promotable_until(&self.held);
        let mut timers = vec![(promotable_until, Timer::GiveBack)];
        if at.wire.may_send() && at.now < promotable_until {
            let (asked, task) = match self.step {
                Step::Fence => (BucketRequest::Fence, Timer::Fence),
                Step::Look | Step::LookOnce => (BucketRequest::Read, Timer::Read),
            };
            timers.push((at.wire.retry.at(asked).max(self.held.sent), task));
        }
        timers
    }

    pub fn fence(self, at: &mut Scene) -> Phase {
        let (held, over) = (self.held, self.fence_over);
        let fence = at.fence_record(held.secrets);
        let kind = WriteKind::Fence { over, fence };
        at.send(held.term, held.secrets, over, kind);
        mutated!(PromoteBeforeFence => return self.promote(at, held.revision + 1));
        Phase::Acquiring(self)
    }

    /// Handles the answer to a fence write.
    pub fn fence_ended(mut self, at: &mut Scene, write: Attempt, outcome: &WriteOutcome) -> Phase {
        if self.held.term != write.term {
            return Phase::Acquiring(self);
        }
        match outcome {
            WriteOutcome::Acked { revision } => {
                let record = SeenFence {
                    nonce: at.wire.attempts.nonce(write.beat),
                    ttl: Some(at.settings.ttl),
                    release: Some(self.held.secrets.release.hash()),
                };
                let fence = FenceEntry {
                    revision: *revision,
                    record: Some(record),
                };
                return self.fenced(at, fence);
            }
            WriteOutcome::Conflict { .. } => self.step = Step::LookOnce,
            WriteOutcome::Failed(failure) => {
                self.step = Step::Look;
                at.request_failed(BucketRequest::Fence, failure, Stake::Claim);
                if !failure.is_transient() {
                    return self.give_back(at);
                }
            }
        }
        Phase::Acquiring(self)
    }

    /// Handles a read of both keys during the acquisition.
    pub fn has_read(mut self, at: &mut Scene, snapshot: &Snapshot) -> Phase {
        let held = self.held;
        if at.now >= at.promotable_until(&held) {
            return Phase::Acquiring(self);
        }
        let stands = snapshot.role.as_ref().is_some_and(|entry| {
            let attempt = at.wire.attempts.find(entry.content.nonce());
            let ours = attempt.is_some_and(|it| it.settled == Some(held.revision));
            ours && entry.revision == held.revision
        });
        self.bucket_known |= snapshot.epoch.is_some();
        if !stands {
            return at.abandon_claim();
        }
        let fence = snapshot.fence.map_or(0, |fence| fence.revision);
        let own = snapshot
            .fence
            .and_then(|fence| at.wire.attempts.find(fence.nonce()))
            .filter(|attempt| attempt.term == held.term);
        if let (Some(attempt), Some(entry)) = (own, snapshot.fence) {
            if attempt.request == BucketRequest::Fence {
                at.wire.attempts.settle(attempt.beat, entry.revision);
            }
            self.fenced(at, entry)
        } else if fence > self.fence_over && mutated!(FenceOverWhatStands) {
            self.write_fence(fence)
        } else if fence > self.fence_over {
            // Another term began, whatever stood in the role's key. Its lease may last.
            at.observed_role.wait_longest(at.now);
            at.abandon_claim()
        } else if self.step != Step::LookOnce {
            let over = self.fence_over;
            self.write_fence(over)
        } else if fence < self.fence_over {
            // The fence record expired or was lost. Whether the role is free has to be judged
            // again.
            at.abandon_claim()
        } else {
            let detail = format!(
                "the server refused the fence record of a claim although both keys are as they were (at {} and {fence}): the role is given back",
                held.revision
            );
            at.report(&Failure::new(FailureKind::Rejected, detail));
            self.give_back(at)
        }
    }

    /// Releases a claim that will not come to a term, because this instance leaves, pauses, or
    /// can't write its fence record. Otherwise no other instance could claim the role before the
    /// lease ends.
    pub fn give_back(self, at: &mut Scene) -> Phase {
        let release = at.stopping.unwrap_or(true);
        let give_up = at.now + at.settings.request_timeout * 2;
        at.wire.retry.hurry();
        Phase::Releasing(Releasing::of_claim(self.held, release, give_up))
    }

    /// Handles a fence record of this term that is stored. One below a sequence that was seen
    /// before is written again.
    fn fenced(mut self, at: &mut Scene, fence: FenceEntry) -> Phase {
        if !at.observed_role.fenced(fence) {
            return self.write_fence(fence.revision);
        }
        // This check is a hint and protects nothing. Such a term would end at its first heartbeat.
        let overwritten = at.observed_role.revision() > Some(self.held.revision);
        let out_of_grace = at.grace_until(&self.held).is_some_and(|end| end <= at.now);
        if !self.bucket_known || overwritten || out_of_grace {
            self.step = Step::Look;
            return Phase::Acquiring(self);
        }
        self.promote(at, fence.revision)
    }

    fn promote(self, at: &mut Scene, fence_revision: u64) -> Phase {
        let held = self.held;
        let bucket = match at.wire.bucket {
            Some(bucket) if at.now < at.promotable_until(&held) && !at.begins_no_term() => bucket,
            _ => return Phase::Acquiring(self),
        };
        let fencing_token = FencingToken {
            epoch: bucket.epoch,
            sequence: fence_revision,
        };
        let mut leadership = Leadership::new(held, fencing_token, at.now, &at.settings);
        at.handoffs_in_vain = 0;
        at.emit(Effect::StartTerm(TermStart {
            term: held.term,
            lease_token: held.secrets.token,
            fencing_token,
            lease: held.until,
            proved: held.sent,
        }));
        at.become_state(RoleState::Leader);
        at.tell(Event::TermStarted { fencing_token });
        leadership.renew_line(at);
        // The answer may have come when the connection was lost already.
        leadership.tell_grace(at);
        Phase::Leading(leadership)
    }

    fn write_fence(mut self, over: u64) -> Phase {
        self.fence_over = over;
        self.step = Step::Fence;
        Phase::Acquiring(self)
    }
}

impl Scene {
    /// Leaves the claim and waits for the role again. This instance may claim over its own record
    /// at once.
    pub fn abandon_claim(&self) -> Phase {
        let retry = &self.settings.retry;
        let pause = retry.initial_backoff.min(self.settings.heartbeat);
        Phase::Waiting(Waiting {
            read_at: Some(self.now + pause),
            ..Waiting::new()
        })
    }

    /// Whether no term may begin, because this instance leaves or is paused.
    const fn begins_no_term(&self) -> bool {
        self.stopping.is_some() || self.paused
    }

    /// The latest time for a promotion. The handler needs time to wind down before its lease ends.
    fn promotable_until(&self, held: &Held) -> Moment {
        mutated!(PromoteLate => return held.until);
        held.until - self.settings.stop_budget
    }
}
