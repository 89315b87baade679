//! The end of a term: wind the handler down, revoke the lease, and only then free the role.

use super::attempts::{Attempt, Expected, Purpose};
use super::effect::{Effect, Reply, WriteKind};
use super::input::{HandlerEnd, RequestId, Snapshot, TermId, WriteOutcome};
use super::keeping::Keeper;
use super::machine::{Election, HeldLease, Phase};
use super::mutation::mutated;
use super::succession::Succession;
use super::timers::Timer;
use super::waiting::Waiting;
use crate::event::{EndCause, Event};
use crate::handoff::Handoff;
use crate::moment::Moment;
use crate::record::{Content, Release};
use crate::status::RoleState;
use crate::token::FencingToken;

/// A term that ends, once and irrevocably.
#[derive(Clone, Debug, Hash)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and most come in any order"
)]
pub(super) struct Drain {
    pub keeper: Keeper,
    /// Whether the lease is renewed while the handler winds down.
    pub renewing: bool,
    pub cause: EndCause,
    /// The term's token and its start. `None` if a claim is given back that never came to a term.
    term: Option<(FencingToken, Moment)>,
    running: bool,
    /// The handler may wind down until then, within the lease.
    stop_by: Moment,
    aborted: bool,
    overrun: bool,
    revoked: bool,
    /// The message to replace by a release once the handler has ended, if the role is to be freed.
    free: Option<Free>,
    /// The revision of our release, and when it was known to stand.
    released: Option<(u64, Moment)>,
    /// Whether to read the keys, because a release was not simply confirmed.
    look: bool,
    give_up: Option<Moment>,
    pub requests: Vec<RequestId>,
    pub succession: Succession,
}

/// The message that a release replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Free {
    /// Our own record.
    OverRecord,
    /// Another client's delete marker, at this revision.
    OverMarker(u64),
}

impl Drain {
    /// Gives back a claim that never came to a term.
    pub fn of_claim(held: HeldLease, release: bool, give_up: Moment) -> Self {
        Self {
            free: if release {
                Some(Free::OverRecord)
            } else {
                None
            },
            keeper: Keeper::new(held, held.until),
            renewing: false,
            cause: EndCause::Stopped,
            term: None,
            running: false,
            stop_by: held.until,
            aborted: false,
            overrun: false,
            revoked: true,
            released: None,
            look: false,
            give_up: Some(give_up),
            requests: Vec::new(),
            succession: Succession::default(),
        }
    }

    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.term.map(|(token, _)| token)
    }

    pub const fn is_revoked(&self) -> bool {
        self.revoked
    }

    /// Whether the handler runs on although its lease is over.
    pub const fn is_overrun(&self) -> bool {
        self.running && self.overrun
    }

    /// Whether our own record is still to be replaced by a release.
    pub fn will_release(&self) -> bool {
        self.free == Some(Free::OverRecord) && self.released.is_none()
    }
}

impl Election {
    pub(super) fn draining_timers(&self, drain: &Drain) -> Vec<(Moment, Timer)> {
        let mut timers = Vec::new();
        if drain.running {
            let allowance = self.settings.abort_allowance();
            let until = drain.keeper.held.until;
            let abort_at = if drain.revoked {
                drain.stop_by
            } else {
                drain.stop_by.min(until - allowance)
            };
            if !drain.aborted {
                timers.push((abort_at, Timer::Abort));
            }
            if !drain.overrun {
                timers.push((
                    if drain.revoked {
                        drain.stop_by + allowance
                    } else {
                        until
                    },
                    Timer::NoteOverrun,
                ));
            }
            if drain.renewing && !drain.aborted && self.now < abort_at && self.may_send() {
                timers.push(drain.keeper.due(self.retry.at()));
            }
            return timers;
        }
        if let Some((marker, at)) = drain.released {
            return self.accepting_timers(drain, marker, at);
        }
        if drain.free.is_none() {
            return vec![(self.now, Timer::FinishDrain)];
        }
        if let Some(give_up) = drain.give_up {
            timers.push((give_up, Timer::FinishDrain));
        }
        if self.may_send() {
            timers.push(if drain.look {
                (self.retry.at(), Timer::Read)
            } else {
                let searched = drain.succession.search_until();
                let release_at = searched.map_or(self.retry.at(), |at| at.max(self.retry.at()));
                (release_at, Timer::Release)
            });
        }
        timers
    }

    /// The role is free. If a caller asked for a handoff, this instance waits to see whether the
    /// heir takes it.
    fn accepting_timers(&self, drain: &Drain, marker: u64, at: Moment) -> Vec<(Moment, Timer)> {
        let awaited = drain
            .succession
            .heir()
            .filter(|_| !drain.requests.is_empty() && self.stopping.is_none());
        let Some(heir) = awaited else {
            return vec![(self.now, Timer::FinishDrain)];
        };
        if self.seen_after(heir, marker).is_some() {
            return vec![(self.now, Timer::FinishDrain)];
        }
        let look_at = at + self.settings.handoff_hold();
        let mut timers = vec![(look_at + self.settings.request_timeout, Timer::FinishDrain)];
        if self.may_send() && !drain.succession.has_looked() {
            timers.push((look_at.max(self.retry.at()), Timer::Read));
        }
        timers
    }

    /// Ends the term in good order: there is a lease to finish under.
    pub(super) fn wind_down(&mut self, cause: EndCause) {
        let kept_up = matches!(
            cause,
            EndCause::SteppedDown
                | EndCause::Preempted
                | EndCause::Cordoned
                | EndCause::Stopped
                | EndCause::Unhealthy
                | EndCause::Returned
                | EndCause::Failed
                | EndCause::Panicked
        );
        let Some(drain) = self.begin_drain(cause) else {
            return;
        };
        drain.renewing = kept_up;
        mutated!(ReleaseBeforeHandlerEnds => drain.running = false);
        let term = drain.keeper.held.term;
        self.emit(Effect::Cancel { term });
    }

    /// Ends the term at once, because the basis of its lease is gone.
    ///
    /// After a delete marker of another client the lease still lasts, because other instances wait
    /// a whole lease from the moment at which they see it.
    pub(super) fn lost(&mut self, cause: EndCause, marker: Option<u64>) {
        if matches!(self.phase, Phase::Acquiring(_)) {
            self.abandon_claim();
            return;
        }
        if let Some(drain) = self.begin_drain(cause) {
            let term = drain.keeper.held.term;
            self.emit(Effect::Cancel { term });
        }
        let now = self.now;
        let hurried = now + self.settings.abort_allowance();
        let Phase::Draining(drain) = &mut self.phase else {
            return;
        };
        drain.renewing = false;
        if cause == EndCause::Deleted && marker.is_some() && now < drain.keeper.held.until {
            // The delete asked for another leader. It is passed on as a release, but only within
            // the lease: later it might end another leader's term.
            drain.free = drain.free.and(marker).map(Free::OverMarker);
            return;
        }
        drain.free = None;
        if !drain.revoked {
            drain.revoked = true;
            drain.stop_by = drain.stop_by.min(hurried);
            let term = drain.keeper.held.term;
            self.emit(Effect::Revoke { term });
        }
    }

    /// Goes from leading to draining, once. From here on the instance is not the leader.
    fn begin_drain(&mut self, cause: EndCause) -> Option<&mut Drain> {
        let now = self.now;
        let stop_by = now + self.settings.stop_budget;
        let release = self.stopping.unwrap_or(true);
        let Phase::Leading(leadership) = &mut self.phase else {
            return None;
        };
        let term = leadership.keeper.held.term;
        let proofs = std::mem::take(&mut leadership.proofs);
        let handoff_asked = leadership.handoff_asked.take();
        let fencing_token = leadership.fencing_token;
        let keeper = leadership.keeper;
        let drain = Drain {
            keeper,
            renewing: false,
            cause,
            term: Some((fencing_token, leadership.started)),
            running: true,
            stop_by,
            aborted: false,
            overrun: false,
            revoked: false,
            free: release.then_some(Free::OverRecord),
            released: None,
            look: false,
            give_up: None,
            requests: Vec::new(),
            succession: Succession::default(),
        };
        self.phase = Phase::Draining(drain);
        self.emit(Effect::Resign { term });
        self.become_state(RoleState::Draining);
        self.tell(Event::TermEnding {
            fencing_token,
            cause,
        });
        let handoff_asked = handoff_asked.map(|handoff_asked| handoff_asked.request);
        for request in proofs
            .into_iter()
            .map(|(request, _)| request)
            .chain(handoff_asked)
        {
            self.reply(request, Reply::NotLeader);
        }
        match &mut self.phase {
            Phase::Draining(drain) => Some(drain),
            _ => None,
        }
    }

    /// The handler has ended. The tasks that it spawned wind down while the lease is renewed.
    pub(super) fn handler_ending(&mut self, term: TermId, end: HandlerEnd) {
        if self.held().is_some_and(|held| held.term == term) {
            self.wind_down(cause_of(end));
        }
    }

    pub(super) fn handler_ended(&mut self, term: TermId, end: HandlerEnd) {
        if self.held().is_none_or(|held| held.term != term) {
            return;
        }
        self.begin_drain(cause_of(end));
        let now = self.now;
        let give_up = now + self.settings.request_timeout * 2;
        let Phase::Draining(drain) = &mut self.phase else {
            return;
        };
        drain.running = false;
        drain.renewing = false;
        drain.give_up = Some(drain.keeper.held.until.max(give_up));
        if drain.overrun {
            // Its lease ended while the handler ran. The others have waited for the lease already.
            drain.free = None;
        }
        drain.look = drain.free == Some(Free::OverRecord) && drain.keeper.is_in_doubt();
        if !std::mem::replace(&mut drain.revoked, true) && !mutated!(ReleaseBeforeRevoke) {
            self.emit(Effect::Revoke { term });
        }
    }

    pub(super) fn abort_handler(&mut self) {
        let Phase::Draining(drain) = &mut self.phase else {
            return;
        };
        drain.aborted = true;
        drain.renewing = false;
        let term = drain.keeper.held.term;
        mutated!(NeverAbort => return);
        self.emit(Effect::Abort { term });
    }

    pub(super) fn note_overrun(&mut self) {
        let Phase::Draining(drain) = &mut self.phase else {
            return;
        };
        drain.overrun = true;
        drain.renewing = false;
        let term = drain.keeper.held.term;
        let fencing_token = drain.fencing_token();
        if !std::mem::replace(&mut drain.revoked, true) {
            self.emit(Effect::Revoke { term });
        }
        if let Some(fencing_token) = fencing_token {
            self.tell(Event::HandlerOverrun { fencing_token });
        }
    }

    pub(super) fn release(&mut self) {
        let Phase::Draining(drain) = &mut self.phase else {
            return;
        };
        debug_assert!(
            drain.revoked && !drain.running,
            "nothing is freed before the handler has ended"
        );
        let held = drain.keeper.held;
        let over = match drain.free {
            Some(Free::OverRecord) => held.revision,
            Some(Free::OverMarker(revision)) => revision,
            None => return,
        };
        drain.succession.close();
        let heir = drain.succession.heir().map(|heir| heir.incarnation);
        let secret = held.secrets.release;
        let expected = Expected { over, fence: 0 };
        self.send(
            Purpose::Release,
            held.term,
            held.secrets,
            expected,
            |_, _| WriteKind::Release { over, secret, heir },
        );
    }

    pub(super) fn release_ended(&mut self, of: TermId, beat: u64, outcome: &WriteOutcome) {
        let nonce = Some(self.own_nonce(beat));
        let Phase::Draining(drain) = &mut self.phase else {
            return;
        };
        if drain.keeper.held.term != of {
            return;
        }
        match outcome {
            WriteOutcome::Acked { revision } => {
                drain.released = Some((*revision, self.now));
                let release = Release {
                    nonce,
                    heir: drain.succession.heir().map(|heir| heir.incarnation),
                    secret: Some(drain.keeper.held.secrets.release),
                };
                let content = Content::Release(release);
                self.observed_role.wrote(*revision, content, self.now);
            }
            // A late heartbeat of ours may stand there. Otherwise another instance has the role
            // already.
            WriteOutcome::Conflict { .. } => drain.look = true,
            WriteOutcome::Failed(failure) => {
                drain.look = true;
                self.request_failed(failure);
            }
        }
    }

    /// The watch showed a release of ours. The role is free, even if the answer is a failure.
    pub(super) fn saw_release(&mut self, attempt: Attempt, revision: u64) {
        let now = self.now;
        let Phase::Draining(drain) = &mut self.phase else {
            return;
        };
        if drain.keeper.held.term == attempt.term && drain.released.is_none() {
            drain.released = Some((revision, now));
            self.attempts.settle(attempt.beat, revision);
        }
    }

    /// Handles a read of the keys while a term ends.
    pub(super) fn drain_has_read(&mut self, snapshot: &Snapshot) {
        let Phase::Draining(drain) = &mut self.phase else {
            return;
        };
        if drain.running {
            if drain.keeper.is_in_doubt() {
                self.keeper_has_read(snapshot);
            }
            return;
        }
        if drain.released.is_some() {
            drain.succession.looked();
            return;
        }
        drain.look = false;
        // A copy of an earlier term's write was written by another client.
        let term = drain.keeper.held.term;
        let found = snapshot.role.as_ref().map(|entry| {
            let attempt = self.attempts.find(entry.content.nonce());
            let of_term = |attempt: &Attempt| {
                let stands = attempt.settled.is_none_or(|at| at == entry.revision);
                attempt.term == term && stands || mutated!(BelieveOldRelease)
            };
            (entry.revision, attempt.filter(of_term))
        });
        match found {
            Some((revision, _))
                if revision < drain.keeper.held.revision && !mutated!(BelieveOldRelease) =>
            {
                // It is older than a confirmed write, perhaps a release of an earlier term. The
                // read is stale, or NATS lost writes.
                drain.look = true;
                self.retry.wait_until(self.now + self.settings.heartbeat);
            }
            Some((revision, Some(attempt))) if attempt.purpose == Purpose::Release => {
                self.attempts.settle(attempt.beat, revision);
                drain.released = Some((revision, self.now));
            }
            Some((revision, Some(_))) => {
                drain.keeper.held.revision = drain.keeper.held.revision.max(revision);
            }
            Some((revision, None)) if drain.free == Some(Free::OverMarker(revision)) => {}
            _ => drain.free = None,
        }
    }

    /// Finishes the term. The handler has ended, and the role is freed or can't be.
    pub(super) fn finish_drain(&mut self) {
        let stopped = self.stopping.is_some();
        let Phase::Draining(drain) = &mut self.phase else {
            return;
        };
        let (cause, released) = (drain.cause, drain.released.is_some());
        let was_term = drain.term.is_some();
        let requests = std::mem::take(&mut drain.requests);
        let succession = std::mem::take(&mut drain.succession);
        let marker = drain.released.map(|(marker, _)| marker);
        if let Some((fencing_token, started)) = drain.term {
            let lasted = self.now.since(started);
            self.failures_in_a_row = match cause.is_failure() {
                true if lasted < self.settings.max_cooldown => {
                    self.failures_in_a_row.saturating_add(1)
                }
                true => 1,
                false => 0,
            };
            self.tell(Event::TermEnded {
                fencing_token,
                cause,
                lasted,
                released: released || mutated!(TellReleased),
            });
        }
        let freed_for = succession.heir().zip(marker);
        let handoff = freed_for.map(|(heir, marker)| {
            let seen = self.seen_after(heir, marker);
            let awaited = !requests.is_empty() && !stopped;
            let outcome = seen.or(awaited.then_some(Handoff::TimedOut));
            self.tell(Event::HandedOver { outcome });
            seen.unwrap_or(Handoff::TimedOut)
        });
        for request in requests {
            self.reply(request, Reply::SteppedDown { released, handoff });
        }
        if stopped {
            self.phase = Phase::Stopped;
            self.become_state(RoleState::Stopped);
            return;
        }
        if !was_term && !self.paused {
            // A claim that can't become a term must not be tried again and again at the expense of
            // others.
            self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
        }
        let doublings = self.failures_in_a_row.saturating_sub(1).min(31);
        let cooldown = self
            .settings
            .cooldown
            .saturating_mul(1 << doublings)
            .min(self.settings.max_cooldown)
            .max(succession.hold_off());
        // This is longer than the time for which the others wait for the heir.
        let least = succession.heir().map(|_| self.settings.handoff_hold() * 2);
        let cooldown = cooldown.max(least.unwrap_or_default());
        self.phase = Phase::Waiting(Waiting::cooling(self.now + cooldown));
        if was_term {
            self.become_state(RoleState::Demoted);
        }
    }

    pub(super) fn stop(&mut self, release: bool) {
        let leads = matches!(self.phase, Phase::Leading(_));
        self.stopping.get_or_insert(release);
        self.wind_down(EndCause::Stopped);
        if leads && release {
            self.search_heir();
        }
        if let Phase::Draining(drain) = &mut self.phase
            && !release
        {
            drain.free = None;
        }
    }

    pub(super) fn abandon(&mut self) {
        self.stopping = Some(false);
        self.wind_down(EndCause::Abandoned);
        if let Phase::Draining(drain) = &mut self.phase {
            drain.free = None;
            drain.renewing = false;
        }
        if matches!(self.phase, Phase::Waiting(_) | Phase::Acquiring(_)) {
            self.leave();
        }
    }
}

const fn cause_of(end: HandlerEnd) -> EndCause {
    match end {
        HandlerEnd::Returned => EndCause::Returned,
        HandlerEnd::Panicked => EndCause::Panicked,
        HandlerEnd::Failed | HandlerEnd::Aborted => EndCause::Failed,
    }
}
