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
use crate::lease::{Asked, Attempt, Failure, Held, Purpose, WriteOutcome};
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

impl Phase {
    /// Goes on to the fence record, or to the term where none is written: an answer or a read showed
    /// that a claim of ours stands in the bucket.
    pub fn claimed(&mut self, at: &mut Scene, claim: Attempt, revision: u64, bucket_known: bool) {
        // The role was free at the claim's sequence. If another lease was seen since, the stream
        // has given sequences again.
        let contested = !at.observed_role.shows_own_record()
            && at
                .observed_role
                .free_at()
                .is_some_and(|free_at| at.now < free_at);
        if !contested && at.observed_role.fence_over() == claim.beside {
            at.observed_role.note_end();
        }
        at.observed_role
            .wrote(revision, at.own_content(claim.beat), at.now);
        if contested {
            self.must_read(at.now, false);
            return;
        }
        at.wire.operations.forget_reads();
        let until = at.lease_until(claim.sent);
        let renew_at = claim.sent + at.settings.heartbeat;
        let held = Held::of(&claim, revision, until, renew_at);
        *self = Phase::Acquiring(Acquisition {
            held,
            fence_over: claim.beside,
            step: if at.is_of_member() {
                Step::Look
            } else {
                Step::Fence
            },
            bucket_known,
        });
        if bucket_known && at.is_of_member() {
            self.promote(at, held, revision);
        }
        mutated!(SkipFence => self.promote(at, held, revision));
    }

    pub fn fence(&mut self, at: &mut Scene) {
        let &mut Phase::Acquiring(Acquisition {
            held, fence_over, ..
        }) = self
        else {
            return;
        };
        let (over, fence) = (fence_over, fence_over);
        at.send(
            Purpose::Beside,
            held.term,
            held.secrets,
            over,
            fence,
            |at, nonce| {
                let fence = at.fence_record(held.secrets, nonce);
                WriteKind::Fence { over, fence }
            },
        );
        mutated!(PromoteBeforeFence => self.promote(at, held, held.revision + 1));
    }

    /// Handles the answer to a fence write.
    pub fn fence_ended(&mut self, at: &mut Scene, write: Attempt, outcome: &WriteOutcome) {
        let Phase::Acquiring(acquisition) = self else {
            return;
        };
        if acquisition.held.term != write.term {
            return;
        }
        let release = acquisition.held.secrets.release.hash();
        match outcome {
            WriteOutcome::Acked { revision } => {
                self.fenced(
                    at,
                    FenceEntry {
                        revision: *revision,
                        record: Some(SeenFence {
                            nonce: at.wire.attempts.nonce(write.beat),
                            ttl: Some(at.settings.ttl),
                            release: Some(release),
                        }),
                    },
                );
            }
            WriteOutcome::Conflict { .. } => acquisition.step = Step::LookOnce,
            WriteOutcome::Failed(failure) => {
                acquisition.step = Step::Look;
                at.request_failed(BucketRequest::Fence, failure, Stake::Claim);
                if !failure.is_transient() {
                    self.give_back(at);
                }
            }
        }
    }

    /// Handles a read of both keys during the acquisition.
    pub fn acquiring_has_read(&mut self, at: &mut Scene, snapshot: &Snapshot) {
        let Phase::Acquiring(acquisition) = self else {
            return;
        };
        let (held, step) = (acquisition.held, acquisition.step);
        let expected = acquisition.fence_over;
        if at.now >= at.promotable_until(&held) {
            return;
        }
        let stands = snapshot.role.as_ref().is_some_and(|entry| {
            let attempt = at.wire.attempts.find(entry.content.nonce());
            let ours = attempt.is_some_and(|it| it.settled == Some(held.revision));
            ours && entry.revision == held.revision
        });
        if let Phase::Acquiring(acquisition) = self {
            acquisition.bucket_known |= snapshot.epoch.is_some();
        }
        if !stands {
            self.abandon_claim(at);
            return;
        }
        if at.is_of_member() {
            if snapshot.epoch.is_some() {
                self.promote(at, held, held.revision);
            }
            return;
        }
        let fence = snapshot.fence.map_or(0, |fence| fence.revision);
        let own = snapshot
            .fence
            .and_then(|fence| at.wire.attempts.find(fence.nonce()))
            .filter(|attempt| attempt.term == held.term);
        if let (Some(attempt), Some(entry)) = (own, snapshot.fence) {
            if attempt.purpose == Purpose::Beside {
                at.wire.attempts.settle(attempt.beat, entry.revision);
            }
            self.fenced(at, entry);
        } else if fence > expected && mutated!(FenceOverWhatStands) {
            self.write_fence(fence);
        } else if fence > expected {
            // Another term began, whatever stood in the role's key. Its lease may last.
            at.observed_role.overtaken(at.now);
            self.abandon_claim(at);
        } else if step != Step::LookOnce {
            self.write_fence(expected);
        } else if fence < expected {
            // The fence record expired or was lost. Whether the role is free has to be judged
            // again.
            self.abandon_claim(at);
        } else {
            let detail = format!(
                "the server refused the fence record of a claim although both keys are as they were (at {} and {fence}): the role is given back",
                held.revision
            );
            at.report(&Failure::new(FailureKind::Rejected, detail));
            self.give_back(at);
        }
    }

    /// Leaves the claim and waits for the role again. This instance may claim over its own record
    /// at once.
    pub fn abandon_claim(&mut self, at: &mut Scene) {
        let pause = at.settings.retry.initial_backoff.min(at.settings.heartbeat);
        *self = Phase::Waiting(Waiting::new());
        self.must_read(at.now + pause, false);
    }

    /// Releases a claim that will not come to a term, because this instance leaves, pauses, or
    /// can't write its fence record. Otherwise no other instance could claim the role before the
    /// lease ends.
    pub fn give_back(&mut self, at: &mut Scene) {
        let &mut Phase::Acquiring(Acquisition { held, .. }) = self else {
            return;
        };
        let release = at.stopping.unwrap_or(true);
        let give_up = at.now + at.settings.request_timeout * 2;
        at.wire.retry.hurry();
        *self = Phase::Releasing(Releasing::of_claim(held, release, give_up));
    }

    /// Handles a fence record of this term that is stored. One below a sequence that was seen
    /// before is written again.
    fn fenced(&mut self, at: &mut Scene, fence: FenceEntry) {
        let above = at.observed_role.fenced(fence);
        let claim = self.held().map(|held| held.revision);
        // This check is a hint and protects nothing. Such a term would end at its first heartbeat.
        let overwritten = at.observed_role.revision() > claim;
        let Phase::Acquiring(acquisition) = self else {
            return;
        };
        let held = acquisition.held;
        let out_of_grace = at.grace_until(&held).is_some_and(|end| end <= at.now);
        let Phase::Acquiring(acquisition) = self else {
            return;
        };
        if !above {
            self.write_fence(fence.revision);
        } else if !acquisition.bucket_known || overwritten || out_of_grace {
            acquisition.step = Step::Look;
        } else {
            self.promote(at, held, fence.revision);
        }
    }

    fn promote(&mut self, at: &mut Scene, held: Held, fence_revision: u64) {
        if at.now >= at.promotable_until(&held) || at.begins_no_term() {
            return;
        }
        let Some(bucket) = at.wire.bucket else {
            return;
        };
        let fencing_token = FencingToken {
            epoch: bucket.epoch,
            sequence: fence_revision,
        };
        *self = Phase::Leading(Leadership::new(held, fencing_token, at.now, &at.settings));
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
        self.renew_line(at);
        // The answer may have come when the connection was lost already.
        self.tell_grace(at);
    }

    fn write_fence(&mut self, over: u64) {
        if let Phase::Acquiring(acquisition) = self {
            acquisition.fence_over = over;
            acquisition.step = Step::Fence;
        }
    }
}

impl Scene {
    pub fn acquiring_timers(&self, acquisition: &Acquisition) -> Vec<(Moment, Timer)> {
        if self.begins_no_term() {
            return if self.wire.operations.is_busy() {
                Vec::new()
            } else {
                vec![(self.now, Timer::GiveBack)]
            };
        }
        let promotable_until = self.promotable_until(&acquisition.held);
        let mut timers = vec![(promotable_until, Timer::GiveBack)];
        if self.wire.may_send() && self.now < promotable_until {
            let (asked, task) = match acquisition.step {
                Step::Fence => (Asked::WriteBeside, Timer::Fence),
                Step::Look | Step::LookOnce => (Asked::ReadKeys, Timer::Read),
            };
            timers.push((self.wire.retry.at(asked).max(acquisition.held.sent), task));
        }
        timers
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
