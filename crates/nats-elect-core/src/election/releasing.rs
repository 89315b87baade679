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
use crate::lease::{Asked, Attempt, Freeing, Held, Purpose, Replaced, Step, WriteOutcome};
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
    pub fn of_term(winding_down: &mut WindingDown, give_up: Moment) -> Self {
        Self {
            freeing: Freeing::new(winding_down.held, winding_down.replaced, give_up),
            term: Some(EndedTerm {
                fencing_token: winding_down.fencing_token,
                started: winding_down.started,
                cause: winding_down.cause,
            }),
            succession: std::mem::take(&mut winding_down.succession),
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
}

impl Phase {
    pub fn release(&mut self, at: &mut Scene) {
        let Phase::Releasing(releasing) = self else {
            return;
        };
        let held = releasing.freeing.held;
        let Some(over) = releasing.freeing.over() else {
            return;
        };
        releasing.succession.close();
        let releasing = releasing.clone();
        at.send(
            Purpose::Release,
            held.term,
            held.secrets,
            over,
            0,
            |_, nonce| {
                let release = releasing.release(nonce);
                WriteKind::Release { over, release }
            },
        );
    }

    pub fn release_ended(&mut self, at: &mut Scene, write: Attempt, outcome: &WriteOutcome) {
        let Phase::Releasing(releasing) = self else {
            return;
        };
        if releasing.freeing.held.term != write.term {
            return;
        }
        releasing.freeing.answered(outcome, at.now);
        match outcome {
            WriteOutcome::Acked { revision } => {
                let nonce = at.wire.attempts.nonce(write.beat);
                let content = Content::Release(releasing.release(nonce));
                at.observed_role.wrote(*revision, content, at.now);
            }
            WriteOutcome::Conflict { .. } => {}
            WriteOutcome::Failed(failure) => {
                at.request_failed(BucketRequest::Release, failure, Stake::Lease);
            }
        }
    }

    /// The watch showed a release of ours.
    pub fn saw_release(&mut self, at: &mut Scene, attempt: Attempt, marker: u64) {
        if let Phase::Releasing(releasing) = self {
            releasing
                .freeing
                .shown(attempt, marker, &mut at.wire, at.now);
        }
    }

    /// Handles a read of the keys after the handler's end.
    pub fn releasing_has_read(&mut self, at: &mut Scene, snapshot: &Snapshot) {
        let Phase::Releasing(releasing) = self else {
            return;
        };
        if releasing.freeing.replaced().is_none() {
            releasing.succession.looked();
        }
        releasing.freeing.has_read(
            snapshot.role.as_ref().map(stored),
            &mut at.wire,
            at.now,
            at.settings.heartbeat,
        );
    }

    /// The role is freed, or can't be.
    pub fn finish_release(&mut self, at: &mut Scene) {
        let stopped = at.stopping.is_some();
        let Phase::Releasing(releasing) = self else {
            return;
        };
        let marker = releasing.freeing.marker();
        let released = marker.is_some();
        let ended = releasing.term;
        let was_term = ended.is_some();
        let succession = std::mem::take(&mut releasing.succession);
        let leaves = stopped || at.is_of_member();
        if let Some(term) = ended {
            let lasted = at.now.since(term.started);
            at.failures_in_a_row = match term.cause.is_failure() {
                true if lasted < at.settings.max_cooldown => at.failures_in_a_row.saturating_add(1),
                true => 1,
                false => 0,
            };
            at.count_own_term(term.cause, lasted);
            let cooldown = at.cooldown(&succession);
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
            self.leave(at);
            return;
        }
        if !was_term && !at.paused {
            // A claim that can't become a term must not be tried again and again at the expense of
            // others.
            at.failures_in_a_row = at.failures_in_a_row.saturating_add(1);
        }
        let until = at.now + at.cooldown(&succession);
        *self = Phase::Waiting(Waiting::cooling(until));
        if was_term {
            at.become_state(RoleState::Demoted);
        }
    }
}

impl Scene {
    pub fn releasing_timers(&self, releasing: &Releasing) -> Vec<(Moment, Timer)> {
        let retry_at = self.wire.retry.at(Asked::WriteKey);
        let next = match releasing.freeing.step {
            Step::Forgone => return vec![(self.now, Timer::FinishRelease)],
            Step::Released { marker, at } => return self.accepting_timers(releasing, marker, at),
            Step::Look(_) => (self.wire.retry.at(Asked::ReadKeys), Timer::Read),
            Step::Write(_) => {
                let searched = releasing.succession.search_until();
                let release_at = searched.map_or(retry_at, |at| at.max(retry_at));
                (release_at, Timer::Release)
            }
        };
        let mut timers = vec![(releasing.freeing.give_up, Timer::FinishRelease)];
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
