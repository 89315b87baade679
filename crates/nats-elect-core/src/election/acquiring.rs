//! From a confirmed claim to promotion. The fence record gives the term its place in the order of
//! terms.

use super::answers::Stake;
use super::effect::{Effect, TermStart, WriteKind};
use super::input::Snapshot;
use super::leading::Leadership;
use super::machine::Election;
use super::phase::Phase;
use super::releasing::Releasing;
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

impl Election {
    pub(super) fn acquiring_timers(&self, acquisition: &Acquisition) -> Vec<(Moment, Timer)> {
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

    /// Goes on to the fence record, or to the term where none is written: an answer or a read showed
    /// that a claim of ours stands in the bucket.
    pub(super) fn claimed(&mut self, claim: Attempt, revision: u64, bucket_known: bool) {
        // The role was free at the claim's sequence. If another lease was seen since, the stream
        // has given sequences again.
        let contested = !self.observed_role.shows_own_record()
            && self
                .observed_role
                .free_at()
                .is_some_and(|free_at| self.now < free_at);
        if !contested && self.observed_role.fence_over() == claim.beside {
            self.observed_role.note_end();
        }
        self.observed_role
            .wrote(revision, self.own_content(claim.beat), self.now);
        if contested {
            self.must_read(self.now, false);
            return;
        }
        self.wire.operations.forget_reads();
        let until = self.lease_until(claim.sent);
        let renew_at = claim.sent + self.settings.heartbeat;
        let held = Held::of(&claim, revision, until, renew_at);
        self.phase = Phase::Acquiring(Acquisition {
            held,
            fence_over: claim.beside,
            step: if self.is_of_member() {
                Step::Look
            } else {
                Step::Fence
            },
            bucket_known,
        });
        if bucket_known && self.is_of_member() {
            self.promote(held, revision);
        }
        mutated!(SkipFence => self.promote(held, revision));
    }

    pub(super) fn fence(&mut self) {
        let Phase::Acquiring(Acquisition {
            held, fence_over, ..
        }) = self.phase
        else {
            return;
        };
        let (over, fence) = (fence_over, fence_over);
        self.send(
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
        mutated!(PromoteBeforeFence => self.promote(held, held.revision + 1));
    }

    /// Handles the answer to a fence write.
    pub(super) fn fence_ended(&mut self, write: Attempt, outcome: &WriteOutcome) {
        let Phase::Acquiring(acquisition) = &mut self.phase else {
            return;
        };
        if acquisition.held.term != write.term {
            return;
        }
        let release = acquisition.held.secrets.release.hash();
        match outcome {
            WriteOutcome::Acked { revision } => {
                self.fenced(FenceEntry {
                    revision: *revision,
                    record: Some(SeenFence {
                        nonce: self.wire.attempts.nonce(write.beat),
                        ttl: Some(self.settings.ttl),
                        release: Some(release),
                    }),
                });
            }
            WriteOutcome::Conflict { .. } => acquisition.step = Step::LookOnce,
            WriteOutcome::Failed(failure) => {
                acquisition.step = Step::Look;
                self.request_failed(BucketRequest::Fence, failure, Stake::Claim);
                if !failure.is_transient() {
                    self.give_back();
                }
            }
        }
    }

    /// Handles a read of both keys during the acquisition.
    pub(super) fn acquiring_has_read(&mut self, snapshot: &Snapshot) {
        let Phase::Acquiring(acquisition) = &mut self.phase else {
            return;
        };
        let (held, step) = (acquisition.held, acquisition.step);
        let expected = acquisition.fence_over;
        if self.now >= self.promotable_until(&held) {
            return;
        }
        let stands = snapshot.role.as_ref().is_some_and(|entry| {
            let attempt = self.wire.attempts.find(entry.content.nonce());
            let ours = attempt.is_some_and(|it| it.settled == Some(held.revision));
            ours && entry.revision == held.revision
        });
        if let Phase::Acquiring(acquisition) = &mut self.phase {
            acquisition.bucket_known |= snapshot.epoch.is_some();
        }
        if !stands {
            self.abandon_claim();
            return;
        }
        if self.is_of_member() {
            if snapshot.epoch.is_some() {
                self.promote(held, held.revision);
            }
            return;
        }
        let fence = snapshot.fence.map_or(0, |fence| fence.revision);
        let own = snapshot
            .fence
            .and_then(|fence| self.wire.attempts.find(fence.nonce()))
            .filter(|attempt| attempt.term == held.term);
        if let (Some(attempt), Some(entry)) = (own, snapshot.fence) {
            if attempt.purpose == Purpose::Beside {
                self.wire.attempts.settle(attempt.beat, entry.revision);
            }
            self.fenced(entry);
        } else if fence > expected && mutated!(FenceOverWhatStands) {
            self.write_fence(fence);
        } else if fence > expected {
            // Another term began, whatever stood in the role's key. Its lease may last.
            self.observed_role.overtaken(self.now);
            self.abandon_claim();
        } else if step != Step::LookOnce {
            self.write_fence(expected);
        } else if fence < expected {
            // The fence record expired or was lost. Whether the role is free has to be judged
            // again.
            self.abandon_claim();
        } else {
            let detail = format!(
                "the server refused the fence record of a claim although both keys are as they were (at {} and {fence}): the role is given back",
                held.revision
            );
            self.report(&Failure::new(FailureKind::Rejected, detail));
            self.give_back();
        }
    }

    /// Leaves the claim and waits for the role again. This instance may claim over its own record
    /// at once.
    pub(super) fn abandon_claim(&mut self) {
        let pause = self
            .settings
            .retry
            .initial_backoff
            .min(self.settings.heartbeat);
        self.phase = Phase::Waiting(Waiting::new());
        self.must_read(self.now + pause, false);
    }

    /// Releases a claim that will not come to a term, because this instance leaves, pauses, or
    /// can't write its fence record. Otherwise no other instance could claim the role before the
    /// lease ends.
    pub(super) fn give_back(&mut self) {
        let Phase::Acquiring(Acquisition { held, .. }) = self.phase else {
            return;
        };
        let release = self.stopping.unwrap_or(true);
        let give_up = self.now + self.settings.request_timeout * 2;
        self.wire.retry.hurry();
        self.phase = Phase::Releasing(Releasing::of_claim(held, release, give_up));
    }

    /// Handles a fence record of this term that is stored. One below a sequence that was seen
    /// before is written again.
    fn fenced(&mut self, fence: FenceEntry) {
        let above = self.observed_role.fenced(fence);
        let claim = self.phase.held().map(|held| held.revision);
        // This check is a hint and protects nothing. Such a term would end at its first heartbeat.
        let overwritten = self.observed_role.revision() > claim;
        let Phase::Acquiring(acquisition) = &self.phase else {
            return;
        };
        let held = acquisition.held;
        let out_of_grace = self.grace_until(&held).is_some_and(|end| end <= self.now);
        let Phase::Acquiring(acquisition) = &mut self.phase else {
            return;
        };
        if !above {
            self.write_fence(fence.revision);
        } else if !acquisition.bucket_known || overwritten || out_of_grace {
            acquisition.step = Step::Look;
        } else {
            self.promote(held, fence.revision);
        }
    }

    /// Whether no term may begin, because this instance leaves or is paused.
    const fn begins_no_term(&self) -> bool {
        self.stopping.is_some() || self.paused
    }

    fn promote(&mut self, held: Held, fence_revision: u64) {
        if self.now >= self.promotable_until(&held) || self.begins_no_term() {
            return;
        }
        let Some(bucket) = self.wire.bucket else {
            return;
        };
        let fencing_token = FencingToken {
            epoch: bucket.epoch,
            sequence: fence_revision,
        };
        self.phase = Phase::Leading(Leadership::new(
            held,
            fencing_token,
            self.now,
            &self.settings,
        ));
        self.handoffs_in_vain = 0;
        self.emit(Effect::StartTerm(TermStart {
            term: held.term,
            lease_token: held.secrets.token,
            fencing_token,
            lease: held.until,
            proved: held.sent,
        }));
        self.become_state(RoleState::Leader);
        self.tell(Event::TermStarted { fencing_token });
        self.renew_line();
        // The answer may have come when the connection was lost already.
        self.tell_grace();
    }

    /// The latest time for a promotion. The handler needs time to wind down before its lease ends.
    fn promotable_until(&self, held: &Held) -> Moment {
        mutated!(PromoteLate => return held.until);
        held.until - self.settings.stop_budget
    }

    fn write_fence(&mut self, over: u64) {
        if let Phase::Acquiring(acquisition) = &mut self.phase {
            acquisition.fence_over = over;
            acquisition.step = Step::Fence;
        }
    }
}
