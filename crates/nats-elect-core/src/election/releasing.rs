//! The end of a term, after its handler. The lease is revoked, and a release frees the role. A
//! claim that never came to a term is given back in the same way.

use std::time::Duration;

use super::answers::Stake;
use super::effect::{Reply, WriteKind};
use super::input::Snapshot;
use super::phase::Phase;
use super::scene::Scene;
use super::succession::Succession;
use super::timers::Timer;
use super::waiting::Waiting;
use super::winding_down::{EndedTerm, WindingDown};
use crate::event::{BucketRequest, EndCause, Event};
use crate::handoff::Handoff;
use crate::lease::{Attempt, Held, WriteOutcome};
use crate::moment::Moment;
use crate::mutation::mutated;
use crate::record::{Content, Nonce, Release};
use crate::status::RoleState;
use crate::token::FencingToken;

/// A role that is to be freed. No handler runs, and nothing rests on the lease any more.
#[derive(Clone, Debug, Hash)]
pub(super) struct Releasing {
    pub held: Held,
    step: Step,
    /// When to free it no more.
    give_up: Moment,
    /// `None` if a claim is given back that never came to a term.
    term: Option<EndedTerm>,
    pub succession: Succession,
}

/// The next step of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    /// Write the release.
    Write(Replaced),
    /// Read the key first, because a heartbeat or a release was not simply confirmed.
    Look(Replaced),
    /// The release is known to stand at this revision, since this moment.
    Released { marker: u64, at: Moment },
    /// The key is not freed. The others wait for the lease.
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
    pub fn of_term(ended: WindingDown, give_up: Moment) -> Self {
        Self {
            term: Some(ended.term),
            succession: ended.succession,
            ..Self::new(ended.held, ended.replaced, give_up)
        }
    }

    /// Gives back a claim that never came to a term.
    pub fn of_claim(held: Held, release: bool, give_up: Moment) -> Self {
        Self::new(held, release.then_some(Replaced::OwnRecord), give_up)
    }

    /// Frees the key by a release over this message, or lets the lease run out.
    fn new(held: Held, replaced: Option<Replaced>, give_up: Moment) -> Self {
        Self {
            step: match replaced {
                Some(Replaced::OwnRecord) if held.is_in_doubt() => Step::Look(Replaced::OwnRecord),
                Some(replaced) => Step::Write(replaced),
                None => Step::Forgone,
            },
            held,
            give_up,
            term: None,
            succession: Succession::default(),
        }
    }

    /// The message that is still to be replaced by a release.
    pub const fn replaced(&self) -> Option<Replaced> {
        match self.step {
            Step::Write(replaced) | Step::Look(replaced) => Some(replaced),
            Step::Released { .. } | Step::Forgone => None,
        }
    }

    /// The revision of the release that freed the key.
    const fn marker(&self) -> Option<u64> {
        match self.step {
            Step::Released { marker, .. } => Some(marker),
            _ => None,
        }
    }

    /// Frees the key no more, unless the release stands already.
    pub fn forgo(&mut self) {
        if self.replaced().is_some() {
            self.step = Step::Forgone;
        }
    }

    /// The release of this attempt. It names an heir, or the line of succession.
    fn release(&self, nonce: Nonce) -> Release {
        let (heir, line) = self.succession.named();
        Release {
            nonce: Some(nonce),
            heir,
            line,
            secret: Some(self.held.secrets.release),
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
        let next = match self.step {
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
        let mut timers = vec![(self.give_up, Timer::FinishRelease)];
        if at.wire.may_send() {
            timers.push(next);
        }
        timers
    }

    /// The role is free. If a caller asked for a handoff, this instance waits to see whether the
    /// heir takes it.
    fn accepting_timers(&self, at: &Scene, marker: u64, since: Moment) -> Vec<(Moment, Timer)> {
        let succession = &self.succession;
        let awaited = (succession.heir.as_ref())
            .filter(|_| !succession.callers.is_empty() && at.stopping.is_none());
        if awaited.is_none_or(|heir| at.seen_after(heir, marker).is_some()) {
            return vec![(at.now, Timer::FinishRelease)];
        }
        let look_at = since + at.settings.handoff_hold();
        let give_up = look_at + at.settings.request_timeout;
        let mut timers = vec![(give_up, Timer::FinishRelease)];
        if at.wire.may_send() && !succession.looked {
            timers.push((
                look_at.max(at.wire.retry.at(BucketRequest::Read)),
                Timer::Read,
            ));
        }
        timers
    }

    pub fn send(mut self, at: &mut Scene) -> Phase {
        if let Some(replaced) = self.replaced() {
            self.succession.closed = true;
            let held = self.held;
            let release = self.release(at.next_nonce());
            let over = match replaced {
                Replaced::OwnRecord => held.revision,
                Replaced::Marker(revision) => revision,
            };
            let kind = WriteKind::Release { over, release };
            at.send(held.term, held.secrets, 0, kind);
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
        if self.held.term != write.term {
            return Phase::Releasing(self);
        }
        if let WriteOutcome::Acked { revision } = outcome {
            let nonce = at.wire.attempts.nonce(write.beat);
            let content = Content::Release(self.release(nonce));
            at.observed_role.wrote(*revision, content, at.now);
            self.step = Step::Released {
                marker: *revision,
                at: at.now,
            };
        } else if let Some(replaced) = self.replaced() {
            // A late heartbeat of ours may stand there. Otherwise another instance has the key
            // already.
            self.step = Step::Look(replaced);
        }
        if let WriteOutcome::Failed(failure) = outcome {
            at.request_failed(BucketRequest::Release, failure, Stake::Lease);
        }
        Phase::Releasing(self)
    }

    /// The watch showed a release of ours. The key is free, even if the answer is a failure.
    pub fn shown(&mut self, at: &mut Scene, attempt: Attempt, marker: u64) {
        if self.held.term == attempt.term && self.marker().is_none() {
            self.step = Step::Released { marker, at: at.now };
            at.wire.attempts.settle(attempt.beat, marker);
        }
    }

    /// Handles a read of the keys after the handler's end.
    pub fn has_read(mut self, at: &mut Scene, snapshot: &Snapshot) -> Phase {
        match self.replaced() {
            Some(replaced) => self.step = self.step_after(at, snapshot, replaced),
            None => self.succession.looked = true,
        }
        Phase::Releasing(self)
    }

    fn step_after(&mut self, at: &mut Scene, snapshot: &Snapshot, replaced: Replaced) -> Step {
        let Some(entry) = &snapshot.role else {
            return Step::Forgone;
        };
        let revision = entry.revision;
        if revision < self.held.revision && !mutated!(BelieveOldRelease) {
            // It is older than a confirmed write, perhaps a release of an earlier term. The read is
            // stale, or NATS lost writes.
            let next = at.now + at.settings.heartbeat;
            at.wire.retry.wait_until(BucketRequest::Read, next);
            return Step::Look(replaced);
        }
        // A copy of an earlier term's write was written by another client.
        let of_term = |it: &Attempt| {
            let stands = it.settled.is_none_or(|at| at == revision);
            it.term == self.held.term && stands || mutated!(BelieveOldRelease)
        };
        let attempt = at.wire.attempts.find(entry.content.nonce());
        match attempt.filter(of_term) {
            Some(attempt) if attempt.request == BucketRequest::Release => {
                at.wire.attempts.settle(attempt.beat, revision);
                let (marker, at) = (revision, at.now);
                Step::Released { marker, at }
            }
            Some(_) => {
                self.held.stored(revision);
                Step::Write(replaced)
            }
            None if replaced == Replaced::Marker(revision) => Step::Write(replaced),
            None => Step::Forgone,
        }
    }

    /// The role is freed, or can't be.
    pub fn finish(self, at: &mut Scene) -> Phase {
        let succession = &self.succession;
        let marker = self.marker();
        let released = marker.is_some();
        let leaves = at.stopping.is_some();
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
        let freed_for = succession.heir.as_ref().zip(marker);
        let handoff = freed_for.map(|(heir, marker)| {
            let seen = at.seen_after(heir, marker);
            let awaited = !succession.callers.is_empty() && !leaves;
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
            .max(succession.hold_off);
        // This is longer than the time for which the others wait for the heir.
        let least = succession
            .heir
            .as_ref()
            .map(|_| self.settings.handoff_hold() * 2);
        cooldown.max(least.unwrap_or_default())
    }
}
