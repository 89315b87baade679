//! The end of a term, after its handler. The lease is revoked, and a release frees the role. A
//! claim that never came to a term is given back in the same way.

use std::time::Duration;

use super::effect::{Reply, WriteKind};
use super::input::Snapshot;
use super::machine::Election;
use super::phase::{HeldLease, Phase};
use super::succession::Succession;
use super::timers::Timer;
use super::waiting::Waiting;
use super::winding_down::WindingDown;
use crate::event::{BucketRequest, EndCause, Event};
use crate::handoff::Handoff;
use crate::lease::{Asked, Attempt, Expected, Purpose, SentWrite, WriteOutcome};
use crate::moment::Moment;
use crate::mutation::mutated;
use crate::record::{Content, Release};
use crate::status::RoleState;
use crate::token::FencingToken;

/// A role that is to be freed. No handler runs, and the lease is revoked.
#[derive(Clone, Debug, Hash)]
pub(super) struct Releasing {
    pub held: HeldLease,
    /// `None` if a claim is given back that never came to a term.
    term: Option<EndedTerm>,
    step: Step,
    give_up: Moment,
    pub succession: Succession,
}

#[derive(Clone, Copy, Debug, Hash)]
struct EndedTerm {
    fencing_token: FencingToken,
    started: Moment,
    cause: EndCause,
}

/// The next step of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    /// Write the release.
    Write(Replaced),
    /// Read the keys first, because a heartbeat or a release was not simply confirmed.
    Look(Replaced),
    /// The release is known to stand at this revision, since this moment.
    Released { marker: u64, at: Moment },
    /// The role is not freed. The others wait for the lease.
    Forgone,
}

/// The message that a release replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Replaced {
    /// Our own record.
    OwnRecord,
    /// Another client's delete marker, at this revision.
    Marker(u64),
}

impl Releasing {
    /// Frees the role after the handler's end.
    pub fn of_term(winding_down: &mut WindingDown, give_up: Moment) -> Self {
        let in_doubt = winding_down.keeper.is_in_doubt();
        Self {
            held: winding_down.keeper.held,
            term: Some(EndedTerm {
                fencing_token: winding_down.fencing_token,
                started: winding_down.started,
                cause: winding_down.cause,
            }),
            step: match winding_down.replaced {
                Some(Replaced::OwnRecord) if in_doubt => Step::Look(Replaced::OwnRecord),
                Some(replaced) => Step::Write(replaced),
                None => Step::Forgone,
            },
            give_up,
            succession: std::mem::take(&mut winding_down.succession),
        }
    }

    /// Gives back a claim that never came to a term.
    pub fn of_claim(held: HeldLease, release: bool, give_up: Moment) -> Self {
        Self {
            held,
            term: None,
            step: if release {
                Step::Write(Replaced::OwnRecord)
            } else {
                Step::Forgone
            },
            give_up,
            succession: Succession::default(),
        }
    }

    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.term.map(|term| term.fencing_token)
    }

    /// Why the term ended. `None` for a claim that is given back.
    pub fn cause(&self) -> Option<EndCause> {
        self.term.map(|term| term.cause)
    }

    /// The message that is still to be replaced by a release.
    pub const fn replaced(&self) -> Option<Replaced> {
        match self.step {
            Step::Write(replaced) | Step::Look(replaced) => Some(replaced),
            Step::Released { .. } | Step::Forgone => None,
        }
    }

    /// Frees the role no more, unless the release stands already.
    pub fn forgo(&mut self) {
        if self.replaced().is_some() {
            self.step = Step::Forgone;
        }
    }

    /// Reads the keys before the next try.
    fn look(&mut self) {
        if let Some(replaced) = self.replaced() {
            self.step = Step::Look(replaced);
        }
    }

    /// The release, without the nonce of an attempt.
    fn release(&self) -> Release {
        let (heir, line) = self.succession.named();
        Release {
            nonce: None,
            heir,
            line,
            secret: Some(self.held.secrets.release),
        }
    }

    const fn marker(&self) -> Option<u64> {
        match self.step {
            Step::Released { marker, .. } => Some(marker),
            _ => None,
        }
    }
}

impl Election {
    pub(super) fn releasing_timers(&self, releasing: &Releasing) -> Vec<(Moment, Timer)> {
        let retry_at = self.wire.retry.at(Asked::WriteRole);
        let next = match releasing.step {
            Step::Forgone => return vec![(self.now, Timer::FinishRelease)],
            Step::Released { marker, at } => return self.accepting_timers(releasing, marker, at),
            Step::Look(_) => (self.wire.retry.at(Asked::ReadKeys), Timer::Read),
            Step::Write(_) => {
                let searched = releasing.succession.search_until();
                let release_at = searched.map_or(retry_at, |at| at.max(retry_at));
                (release_at, Timer::Release)
            }
        };
        let mut timers = vec![(releasing.give_up, Timer::FinishRelease)];
        if self.wire.may_send() {
            timers.push(next);
        }
        timers
    }

    /// The role is free. If a caller asked for a handoff, this instance waits to see whether the
    /// heir takes it.
    fn accepting_timers(
        &self,
        releasing: &Releasing,
        marker: u64,
        at: Moment,
    ) -> Vec<(Moment, Timer)> {
        let succession = &releasing.succession;
        let awaited = succession
            .heir()
            .filter(|_| !succession.callers.is_empty() && self.stopping.is_none());
        let Some(heir) = awaited else {
            return vec![(self.now, Timer::FinishRelease)];
        };
        if self.seen_after(heir, marker).is_some() {
            return vec![(self.now, Timer::FinishRelease)];
        }
        let look_at = at + self.settings.handoff_hold();
        let give_up = look_at + self.settings.request_timeout;
        let mut timers = vec![(give_up, Timer::FinishRelease)];
        if self.wire.may_send() && !succession.has_looked() {
            timers.push((
                look_at.max(self.wire.retry.at(Asked::ReadKeys)),
                Timer::Read,
            ));
        }
        timers
    }

    pub(super) fn release(&mut self) {
        let Phase::Releasing(releasing) = &mut self.phase else {
            return;
        };
        let held = releasing.held;
        let over = match releasing.replaced() {
            Some(Replaced::OwnRecord) => held.revision,
            Some(Replaced::Marker(revision)) => revision,
            None => return,
        };
        releasing.succession.close();
        let release = releasing.release();
        let expected = Expected { over, fence: 0 };
        self.send(
            Purpose::Release,
            held.term,
            held.secrets,
            expected,
            |_, nonce| WriteKind::Release {
                over,
                release: Release {
                    nonce: Some(nonce),
                    ..release
                },
            },
        );
    }

    pub(super) fn release_ended(&mut self, write: SentWrite, outcome: &WriteOutcome) {
        let nonce = Some(self.wire.attempts.nonce(write.beat));
        let Phase::Releasing(releasing) = &mut self.phase else {
            return;
        };
        if releasing.held.term != write.term {
            return;
        }
        match outcome {
            WriteOutcome::Acked { revision } => {
                let (marker, at) = (*revision, self.now);
                releasing.step = Step::Released { marker, at };
                let release = releasing.release();
                let content = Content::Release(Release { nonce, ..release });
                self.observed_role.wrote(*revision, content, self.now);
            }
            // A late heartbeat of ours may stand there. Otherwise another instance has the role
            // already.
            WriteOutcome::Conflict { .. } => releasing.look(),
            WriteOutcome::Failed(failure) => {
                releasing.look();
                self.request_failed(BucketRequest::Release, failure);
            }
        }
    }

    /// The watch showed a release of ours. The role is free, even if the answer is a failure.
    pub(super) fn saw_release(&mut self, attempt: Attempt, marker: u64) {
        let at = self.now;
        let Phase::Releasing(releasing) = &mut self.phase else {
            return;
        };
        if releasing.held.term == attempt.term && releasing.marker().is_none() {
            releasing.step = Step::Released { marker, at };
            self.wire.attempts.settle(attempt.beat, marker);
        }
    }

    /// Handles a read of the keys after the handler's end.
    pub(super) fn releasing_has_read(&mut self, snapshot: &Snapshot) {
        let Phase::Releasing(releasing) = &mut self.phase else {
            return;
        };
        let Some(replaced) = releasing.replaced() else {
            releasing.succession.looked();
            return;
        };
        // A copy of an earlier term's write was written by another client.
        let term = releasing.held.term;
        let found = snapshot.role.as_ref().map(|entry| {
            let attempt = self.wire.attempts.find(entry.content.nonce());
            let of_term = |attempt: &Attempt| {
                let stands = attempt.settled.is_none_or(|at| at == entry.revision);
                attempt.term == term && stands || mutated!(BelieveOldRelease)
            };
            (entry.revision, attempt.filter(of_term))
        });
        let held = &mut releasing.held;
        releasing.step = match found {
            Some((revision, _)) if revision < held.revision && !mutated!(BelieveOldRelease) => {
                // It is older than a confirmed write, perhaps a release of an earlier term. The
                // read is stale, or NATS lost writes.
                self.wire
                    .retry
                    .wait_until(Asked::ReadKeys, self.now + self.settings.heartbeat);
                Step::Look(replaced)
            }
            Some((marker, Some(attempt))) if attempt.purpose == Purpose::Release => {
                self.wire.attempts.settle(attempt.beat, marker);
                Step::Released {
                    marker,
                    at: self.now,
                }
            }
            Some((revision, Some(_))) => {
                held.revision = held.revision.max(revision);
                Step::Write(replaced)
            }
            Some((revision, None)) if replaced == Replaced::Marker(revision) => {
                Step::Write(replaced)
            }
            _ => Step::Forgone,
        }
    }

    /// The role is freed, or can't be.
    pub(super) fn finish_release(&mut self) {
        let stopped = self.stopping.is_some();
        let Phase::Releasing(releasing) = &mut self.phase else {
            return;
        };
        let marker = releasing.marker();
        let released = marker.is_some();
        let ended = releasing.term;
        let was_term = ended.is_some();
        let succession = std::mem::take(&mut releasing.succession);
        let leaves = stopped || self.is_of_member();
        if let Some(term) = ended {
            let lasted = self.now.since(term.started);
            self.failures_in_a_row = match term.cause.is_failure() {
                true if lasted < self.settings.max_cooldown => {
                    self.failures_in_a_row.saturating_add(1)
                }
                true => 1,
                false => 0,
            };
            self.count_own_term(term.cause, lasted);
            let cooldown = self.cooldown(&succession);
            self.tell(Event::TermEnded {
                fencing_token: term.fencing_token,
                cause: term.cause,
                lasted,
                released: released || mutated!(TellReleased),
                cooldown: if leaves { Duration::ZERO } else { cooldown },
            });
        }
        let freed_for = succession.heir().zip(marker);
        let handoff = freed_for.map(|(heir, marker)| {
            let seen = self.seen_after(heir, marker);
            let awaited = !succession.callers.is_empty() && !stopped;
            let outcome = seen.or(awaited.then_some(Handoff::TimedOut));
            self.tell(Event::HandedOver { outcome });
            seen.unwrap_or(Handoff::TimedOut)
        });
        for request in &succession.callers {
            self.reply(*request, Reply::SteppedDown { released, handoff });
        }
        if leaves {
            self.leave();
            return;
        }
        if !was_term && !self.paused {
            // A claim that can't become a term must not be tried again and again at the expense of
            // others.
            self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
        }
        let until = self.now + self.cooldown(&succession);
        self.phase = Phase::Waiting(Waiting::cooling(until));
        if was_term {
            self.become_state(RoleState::Demoted);
        }
    }

    /// How long this instance stays out after a term or a claim that was given back.
    fn cooldown(&self, succession: &Succession) -> Duration {
        let doublings = self.failures_in_a_row.saturating_sub(1).min(31);
        let cooldown = self
            .settings
            .cooldown
            .saturating_mul(1 << doublings)
            .min(self.settings.max_cooldown)
            .max(succession.hold_off());
        // This is longer than the time for which the others wait for the heir.
        let least = succession.heir().map(|_| self.settings.handoff_hold() * 2);
        cooldown.max(least.unwrap_or_default())
    }
}
