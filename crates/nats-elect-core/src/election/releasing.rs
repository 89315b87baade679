//! The end of a term, after its handler. The lease is revoked, and a release frees the role. A
//! claim that never came to a term is given back in the same way.

use std::time::Duration;

use super::answers::Stake;
use super::effect::{Reply, WriteKind};
use super::input::Snapshot;
use super::keeping::stored;
use super::phase::Phase;
use super::scene::Scene;
use super::succession::Succession;
use super::timers::Timer;
use super::waiting::Waiting;
use super::winding_down::WindingDown;
use crate::event::{BucketRequest, EndCause, Event};
use crate::handoff::Handoff;
use crate::lease::{Attempt, Freeing, Held, Replaced, Step, WriteOutcome};
use crate::moment::Moment;
use crate::mutation::mutated;
use crate::record::{Content, Nonce, Release};
use crate::status::RoleState;
use crate::token::FencingToken;

/// A role that is to be freed. No handler runs, and the lease is revoked.
#[derive(Clone, Debug, Hash)]
pub(super) struct Releasing {
    pub freeing: Freeing,
    /// `None` if a claim is given back that never came to a term.
    term: Option<EndedTerm>,
    pub succession: Succession,
}

#[derive(Clone, Copy, Debug, Hash)]
struct EndedTerm {
    fencing_token: FencingToken,
    started: Moment,
    cause: EndCause,
}

impl Releasing {
    /// Frees the role after the handler's end.
    pub fn of_term(winding_down: WindingDown, give_up: Moment) -> Self {
        Self {
            freeing: Freeing::new(winding_down.held, winding_down.replaced, give_up),
            term: Some(EndedTerm {
                fencing_token: winding_down.fencing_token,
                started: winding_down.started,
                cause: winding_down.cause,
            }),
            succession: winding_down.succession,
        }
    }

    /// Gives back a claim that never came to a term.
    pub fn of_claim(held: Held, release: bool, give_up: Moment) -> Self {
        let replaced = release.then_some(Replaced::OwnRecord);
        Self {
            freeing: Freeing::new(held, replaced, give_up),
            term: None,
            succession: Succession::default(),
        }
    }

    /// The release of this attempt. It names an heir, or the line of succession.
    fn release(&self, nonce: Nonce) -> Release {
        let (heir, line) = self.succession.named();
        Release {
            nonce: Some(nonce),
            heir,
            line,
            secret: Some(self.freeing.held.secrets.release),
        }
    }

    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.term.map(|term| term.fencing_token)
    }

    /// Why the term ended. `None` for a claim that is given back.
    pub fn cause(&self) -> Option<EndCause> {
        self.term.map(|term| term.cause)
    }

    pub fn timers(&self, at: &Scene) -> Vec<(Moment, Timer)> {
        let retry_at = at.wire.retry.at(BucketRequest::Release);
        let next = match self.freeing.step {
            Step::Forgone => return vec![(at.now, Timer::FinishRelease)],
            Step::Released { marker, at: since } => {
                return self.accepting_timers(at, marker, since);
            }
            Step::Look(_) => (at.wire.retry.at(BucketRequest::Read), Timer::Read),
            Step::Write(_) => {
                let searched = self.succession.search_until();
                let release_at = searched.map_or(retry_at, |at| at.max(retry_at));
                (release_at, Timer::Release)
            }
        };
        let mut timers = vec![(self.freeing.give_up, Timer::FinishRelease)];
        if at.wire.may_send() {
            timers.push(next);
        }
        timers
    }

    /// The role is free. If a caller asked for a handoff, this instance waits to see whether the
    /// heir takes it.
    fn accepting_timers(&self, at: &Scene, marker: u64, since: Moment) -> Vec<(Moment, Timer)> {
        let succession = &self.succession;
        let awaited = succession
            .heir()
            .filter(|_| !succession.callers.is_empty() && at.stopping.is_none());
        if awaited.is_none_or(|heir| at.seen_after(heir, marker).is_some()) {
            return vec![(at.now, Timer::FinishRelease)];
        }
        let look_at = since + at.settings.handoff_hold();
        let give_up = look_at + at.settings.request_timeout;
        let mut timers = vec![(give_up, Timer::FinishRelease)];
        if at.wire.may_send() && !succession.has_looked() {
            timers.push((
                look_at.max(at.wire.retry.at(BucketRequest::Read)),
                Timer::Read,
            ));
        }
        timers
    }

    pub fn send(mut self, at: &mut Scene) -> Phase {
        if let Some(over) = self.freeing.over() {
            self.succession.close();
            let held = self.freeing.held;
            let release = self.release(at.next_nonce());
            at.send(
                held.term,
                held.secrets,
                0,
                WriteKind::Release { over, release },
            );
        }
        Phase::Releasing(self)
    }

    /// Handles the answer to a release.
    pub fn release_ended(
        mut self,
        at: &mut Scene,
        write: Attempt,
        outcome: &WriteOutcome,
    ) -> Phase {
        if self.freeing.held.term == write.term {
            self.freeing.answered(outcome, at.now);
            match outcome {
                WriteOutcome::Acked { revision } => {
                    let nonce = at.wire.attempts.nonce(write.beat);
                    let content = Content::Release(self.release(nonce));
                    at.observed_role.wrote(*revision, content, at.now);
                }
                WriteOutcome::Conflict { .. } => {}
                WriteOutcome::Failed(failure) => {
                    at.request_failed(BucketRequest::Release, failure, Stake::Lease);
                }
            }
        }
        Phase::Releasing(self)
    }

    /// Handles a read of the keys after the handler's end.
    pub fn has_read(mut self, at: &mut Scene, snapshot: &Snapshot) -> Phase {
        if self.freeing.replaced().is_none() {
            self.succession.looked();
        }
        self.freeing.has_read(
            snapshot.role.as_ref().map(stored),
            &mut at.wire,
            at.now,
            at.settings.heartbeat,
        );
        Phase::Releasing(self)
    }

    /// The role is freed, or can't be.
    pub fn finish(self, at: &mut Scene) -> Phase {
        let succession = &self.succession;
        let marker = self.freeing.marker();
        let released = marker.is_some();
        let stopped = at.stopping.is_some();
        let leaves = stopped;
        if let Some(term) = self.term {
            let lasted = at.now.since(term.started);
            at.failures_in_a_row = match term.cause.is_failure() {
                true if lasted < at.settings.max_cooldown => at.failures_in_a_row.saturating_add(1),
                true => 1,
                false => 0,
            };
            at.count_own_term(term.cause, lasted);
            let cooldown = at.cooldown(succession);
            at.tell(Event::TermEnded {
                fencing_token: term.fencing_token,
                cause: term.cause,
                lasted,
                released: released || mutated!(TellReleased),
                cooldown: if leaves { Duration::ZERO } else { cooldown },
            });
        }
        let freed_for = succession.heir().zip(marker);
        let handoff = freed_for.map(|(heir, marker)| {
            let seen = at.seen_after(heir, marker);
            let awaited = !succession.callers.is_empty() && !stopped;
            let outcome = seen.or(awaited.then_some(Handoff::TimedOut));
            at.tell(Event::HandedOver { outcome });
            seen.unwrap_or(Handoff::TimedOut)
        });
        for request in &succession.callers {
            at.reply(*request, Reply::SteppedDown { released, handoff });
        }
        if leaves {
            return at.leave();
        }
        if self.term.is_none() && !at.paused {
            // A claim that can't become a term must not be tried again and again at the expense of
            // others.
            at.failures_in_a_row = at.failures_in_a_row.saturating_add(1);
        }
        if self.term.is_some() {
            at.become_state(RoleState::Demoted);
        }
        Phase::Waiting(Waiting::cooling(at.now + at.cooldown(succession)))
    }
}

impl Scene {
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
