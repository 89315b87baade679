//! From a confirmed claim to promotion: the fence record, which makes the term's place in the order of terms.

use super::agenda::Task;
use super::core::{Doing, Election, Hold, Phase};
use super::draining::Drain;
use super::effect::{Effect, FenceCondition, TermStart, WriteKind};
use super::input::{Failure, Link, Snapshot, WriteOutcome};
use super::leading::Tenure;
use super::ledger::{Attempt, Purpose};
use super::mutation::mutated;
use super::standing::Standing;
use crate::clock::Moment;
use crate::model::event::{Event, FailureKind, Outcome};
use crate::model::record::{FenceEntry, SeenFence};
use crate::model::status::RoleState;
use crate::model::token::FencingToken;

/// A claim is confirmed, its fence is not.
#[derive(Clone, Debug, Hash)]
pub(super) struct Acquisition {
    pub hold: Hold,
    step: Step,
    /// The claim was made where nothing stood, perhaps because the key was purged under a leader. So the fence must take the
    /// place of the one that was read before the claim, and the claim be proved after it.
    bare: Option<u64>,
    /// The claim is known to stand in the bucket whose creation time the fencing token will bear.
    bucket_known: bool,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    /// Write the fence record.
    Fence(FenceCondition),
    /// The fence stands at this revision, but its write did not look at the role's key: prove the claim by a second,
    /// later compare-and-set.
    Prove(u64),
    /// Read both keys: to learn the fence key's revision, or what became of an unanswered write.
    Look,
    /// Our claim no longer stands, unless the keys show our own fence.
    LookOnce,
}

impl Election {
    pub(super) fn acquiring_agenda(&self, acquisition: &Acquisition) -> Vec<(Moment, Task)> {
        if self.leads_nowhere() {
            return if self.pending.is_none() {
                vec![(self.now, Task::GiveBack)]
            } else {
                Vec::new()
            };
        }
        let promotable_until = self.promotable_until(&acquisition.hold);
        let mut agenda = vec![(promotable_until, Task::GiveBack)];
        if self.may_send() && self.now < promotable_until {
            let task = match acquisition.step {
                Step::Fence(_) => Task::Fence,
                Step::Prove(_) => Task::Renew,
                Step::Look | Step::LookOnce => Task::Read,
            };
            agenda.push((self.retry.at().max(acquisition.hold.sent), task));
        }
        agenda
    }

    /// A claim was answered.
    pub(super) fn claim_ended(&mut self, what: Doing, outcome: &WriteOutcome) {
        let Doing::Write {
            term, beat, sent, ..
        } = what
        else {
            return;
        };
        let told = match outcome {
            WriteOutcome::Acked { .. } => Outcome::Confirmed,
            WriteOutcome::Conflict { .. } => Outcome::Conflict,
            WriteOutcome::Unsupported => Outcome::Failed,
            WriteOutcome::Failed(failure) => outcome_of(failure),
        };
        self.tell(Event::ClaimEnded { outcome: told });
        if !matches!(self.phase, Phase::Standing(_)) {
            return;
        }
        match outcome {
            WriteOutcome::Acked { revision } => {
                let Some(attempt) = self.ledger.find(Some(self.own_nonce(beat))) else {
                    return;
                };
                debug_assert!(
                    attempt.term == term && attempt.sent == sent,
                    "the ledger knows the attempt"
                );
                let unique = self.bucket.is_some_and(|bucket| bucket.unique_sequences);
                let known = unique && self.view.is_charted(*revision, self.now);
                self.claimed(attempt, *revision, known);
            }
            WriteOutcome::Conflict { .. } => {
                mutated!(CountFromErrorText => return);
                let read_at = self.now + self.patience_for_watch();
                self.standing_must_read(read_at, false);
            }
            WriteOutcome::Unsupported => {
                self.retry.wait_until(self.now + self.settings.heartbeat);
            }
            WriteOutcome::Failed(failure) => {
                self.request_failed(failure);
                self.standing_must_read(self.now, true);
            }
        }
    }

    /// A claim of ours stands in the bucket, by its answer or by a read.
    pub(super) fn claimed(&mut self, claim: Attempt, revision: u64, bucket_known: bool) {
        // It was sent over what was free. If somebody's lease was seen since, sequences were given again.
        let seen = self.view.claim_over();
        let forced = matches!(claim.purpose, Purpose::ForcedClaim { over } if seen == over || seen == revision);
        let contested = !forced
            && self
                .view
                .free_at()
                .is_some_and(|free_at| self.now < free_at);
        self.view
            .wrote(revision, self.own_content(claim.beat), self.now);
        if contested {
            self.standing_must_read(self.now, false);
            return;
        }
        let hold = Hold {
            term: claim.term,
            token: claim.token,
            revision,
            sent: claim.sent,
            until: self.lease_until(claim.sent),
        };
        let bare = claim.purpose.bare();
        self.phase = Phase::Acquiring(Acquisition {
            hold,
            step: self.fence_step(&hold, bare),
            bare,
            bucket_known,
        });
        mutated!(SkipFence => self.promote(hold, revision));
    }

    pub(super) fn fence(&mut self) {
        let Phase::Acquiring(Acquisition {
            hold,
            step: Step::Fence(condition),
            ..
        }) = self.phase
        else {
            return;
        };
        self.send(Purpose::Fence, hold.term, hold.token, |election, nonce| {
            WriteKind::Fence {
                condition,
                fence: election.fence_record(nonce),
            }
        });
        mutated!(PromoteBeforeFence => self.promote(hold, hold.revision + 1));
    }

    /// The fence write was answered.
    pub(super) fn fence_ended(&mut self, what: Doing, outcome: &WriteOutcome) {
        let Doing::Write { term, beat, .. } = what else {
            return;
        };
        let Phase::Acquiring(acquisition) = &mut self.phase else {
            return;
        };
        if acquisition.hold.term != term {
            return;
        }
        match outcome {
            WriteOutcome::Acked { revision } => {
                self.fenced(FenceEntry {
                    revision: *revision,
                    record: Some(SeenFence {
                        nonce: self.own_nonce(beat),
                        ttl: Some(self.settings.ttl),
                    }),
                });
            }
            WriteOutcome::Conflict { .. } => {
                acquisition.step = match acquisition.step {
                    Step::Fence(FenceCondition::FenceKeyAt(_)) if acquisition.bare.is_none() => {
                        Step::Look
                    }
                    _ => Step::LookOnce,
                };
            }
            WriteOutcome::Unsupported => {
                acquisition.step = Step::Look;
                self.cross_check = false;
            }
            WriteOutcome::Failed(failure) => {
                acquisition.step = Step::Look;
                self.request_failed(failure);
                if !failure.is_transient() {
                    self.give_back();
                }
            }
        }
    }

    /// Both keys were read during the acquisition.
    pub(super) fn acquiring_has_read(&mut self, snapshot: &Snapshot) {
        let Phase::Acquiring(Acquisition {
            mut hold,
            step,
            bare,
            bucket_known,
        }) = self.phase
        else {
            return;
        };
        if self.now >= self.promotable_until(&hold) {
            return;
        }
        let role = snapshot
            .role
            .as_ref()
            .and_then(|entry| Some((entry.revision, self.ledger.find(entry.content.nonce())?)));
        let stands = match role.filter(|(_, attempt)| attempt.term == hold.term) {
            Some((revision, attempt))
                if attempt.settled.is_none() && attempt.purpose == Purpose::Renew =>
            {
                self.ledger.settle(attempt.beat, revision);
                hold = Hold {
                    revision,
                    sent: attempt.sent,
                    until: self.lease_until(attempt.sent),
                    ..hold
                };
                true
            }
            Some((revision, attempt)) => {
                attempt.settled == Some(revision) && revision == hold.revision
            }
            None => false,
        };
        let fence = snapshot
            .fence
            .and_then(|fence| Some((fence, self.ledger.find(fence.nonce())?)));
        self.phase = Phase::Acquiring(Acquisition {
            hold,
            step,
            bare,
            bucket_known: bucket_known || snapshot.epoch.is_some(),
        });
        match fence.filter(|(_, attempt)| attempt.term == hold.term) {
            _ if !stands => self.abandon_claim(),
            Some((fence, attempt)) => {
                if attempt.purpose == Purpose::Fence {
                    self.ledger.settle(attempt.beat, fence.revision);
                }
                self.fenced(fence);
            }
            None if step == Step::LookOnce => {
                if bare.is_some() {
                    self.view.overtaken(self.now);
                }
                self.abandon_claim();
            }
            None => self.write_fence(),
        }
    }

    /// The claim leads nowhere: stand again. Our own record may be claimed over at once.
    pub(super) fn abandon_claim(&mut self) {
        let pause = self
            .settings
            .retry
            .initial_backoff
            .min(self.settings.heartbeat);
        self.phase = Phase::Standing(Standing::new());
        self.standing_must_read(self.now + pause, false);
    }

    /// A claim stands that will come to nothing, for this instance leaves, pauses, or can't write its fence: release it, for
    /// nobody else can before its lease ends.
    pub(super) fn give_back(&mut self) {
        let Phase::Acquiring(Acquisition { hold, bare, .. }) = self.phase else {
            return;
        };
        let release = self.stopping.unwrap_or(true);
        let give_up = self.now + self.settings.request_timeout * 2;
        self.retry.hurry();
        self.phase = Phase::Draining(Drain::of_claim(hold, bare, release, give_up));
    }

    /// A fence record of this term stands. One that lies below a sequence seen before is written anew.
    fn fenced(&mut self, fence: FenceEntry) {
        let above = self.view.fenced(fence);
        let cross_check = self.cross_check;
        let Phase::Acquiring(Acquisition {
            hold,
            step,
            bare,
            bucket_known,
        }) = &mut self.phase
        else {
            return;
        };
        let hold = *hold;
        if !above {
            self.write_fence();
        } else if !*bucket_known {
            *step = Step::Look;
        } else if cross_check && bare.is_none() {
            self.promote(hold, fence.revision);
        } else {
            *step = Step::Prove(fence.revision);
        }
    }

    /// The second compare-and-set on the role's key was answered.
    pub(super) fn proof_ended(&mut self, what: Doing, outcome: &WriteOutcome) {
        let Doing::Write {
            term, beat, sent, ..
        } = what
        else {
            return;
        };
        let until = self.lease_until(sent);
        let Phase::Acquiring(Acquisition { hold, step, .. }) = &mut self.phase else {
            return;
        };
        let Step::Prove(fence_revision) = *step else {
            return;
        };
        // As with any heartbeat: one that comes after the lease it was to extend proves nothing.
        if hold.term != term || self.now >= hold.until {
            return;
        }
        match outcome {
            WriteOutcome::Acked { revision } => {
                *hold = Hold {
                    revision: *revision,
                    sent,
                    until,
                    ..*hold
                };
                let hold = *hold;
                self.view.wrote(*revision, self.own_content(beat), self.now);
                self.promote(hold, fence_revision);
            }
            WriteOutcome::Conflict { .. } | WriteOutcome::Unsupported => *step = Step::LookOnce,
            WriteOutcome::Failed(failure) => {
                *step = Step::Look;
                self.request_failed(failure);
            }
        }
    }

    /// No term is to come of what is claimed.
    const fn leads_nowhere(&self) -> bool {
        self.stopping.is_some() || self.paused
    }

    fn promote(&mut self, hold: Hold, fence_revision: u64) {
        if self.now >= self.promotable_until(&hold) || self.leads_nowhere() {
            return;
        }
        let Some(bucket) = self.bucket else { return };
        let fencing_token = FencingToken {
            epoch: bucket.epoch,
            sequence: fence_revision,
        };
        self.phase = Phase::Leading(Tenure::new(hold, fencing_token, self.now, &self.settings));
        self.emit(Effect::StartTerm(TermStart {
            term: hold.term,
            lease_token: hold.token,
            fencing_token,
            lease: hold.until,
            proved: hold.sent,
        }));
        self.become_state(RoleState::Leader);
        self.tell(Event::TermStarted { fencing_token });
        if !matches!(self.link, Link::Up(_)) {
            self.suspend();
        }
    }

    /// A handler must have time to wind down before its lease ends: later than this none is started.
    fn promotable_until(&self, hold: &Hold) -> Moment {
        mutated!(PromoteLate => return hold.until);
        hold.until - self.settings.stop_budget
    }

    fn write_fence(&mut self) {
        let Phase::Acquiring(acquisition) = &self.phase else {
            return;
        };
        let step = self.fence_step(&acquisition.hold, acquisition.bare);
        if let Phase::Acquiring(acquisition) = &mut self.phase {
            acquisition.step = step;
        }
    }

    fn fence_step(&self, hold: &Hold, bare: Option<u64>) -> Step {
        Step::Fence(if let Some(before) = bare {
            FenceCondition::FenceKeyAt(before)
        } else if self.cross_check {
            FenceCondition::RoleKeyAt(hold.revision)
        } else {
            // Its sequence is taken from a read or an answer, never from an error's text.
            FenceCondition::FenceKeyAt(self.view.fence().map_or(0, |fence| fence.revision))
        })
    }
}

/// How a failed request is told.
pub(super) const fn outcome_of(failure: &Failure) -> Outcome {
    match failure.kind {
        FailureKind::Timeout => Outcome::TimedOut,
        _ => Outcome::Failed,
    }
}
