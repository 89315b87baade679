//! Leading: heartbeats, proofs on demand, health checks, and the conditions under which a term must
//! end.

use super::effect::{Effect, Reply};
use super::input::{RequestId, Snapshot};
use super::line::Line;
use super::phase::Phase;
use super::scene::Scene;
use super::succession::PendingHandoff;
use super::timers::Timer;
use super::winding_down::WindingDown;
use crate::config::RoleSettings;
use crate::event::{BucketRequest, EndCause, Event, FailureKind};
use crate::lease::{Attempt, Failure, HandlerEnd, Held};
use crate::moment::Moment;
use crate::mutation::mutated;
use crate::record::FenceEntry;
use crate::token::FencingToken;

/// A term of this instance that has not begun to end.
#[derive(Clone, Debug, Hash)]
pub(super) struct Leadership {
    pub held: Held,
    pub fencing_token: FencingToken,
    pub started: Moment,
    /// Callers that want a proof, each with the first beat that was sent after its request.
    pub proofs: Vec<(RequestId, u64)>,
    /// The handoff for which a named successor is being asked.
    pub handoff_asked: Option<PendingHandoff>,
    /// The candidates that could lead next.
    pub line: Line,
    /// When to read the fence record, unless the watch shows that it is as it was.
    pub verify_at: Moment,
    /// Whether the watch showed another's fence record. Only a read tells.
    pub fence_in_doubt: bool,
    /// When to check the handler's health. `None` while a check is under way.
    pub check_at: Option<Moment>,
    pub failed_checks: u32,
}

impl Leadership {
    pub fn new(
        held: Held,
        fencing_token: FencingToken,
        now: Moment,
        settings: &RoleSettings,
    ) -> Self {
        Self {
            held,
            fencing_token,
            started: now,
            proofs: Vec::new(),
            handoff_asked: None,
            line: Line::default(),
            verify_at: now + settings.validation_interval,
            fence_in_doubt: false,
            check_at: Some(now + settings.health.interval),
            failed_checks: 0,
        }
    }

    /// The end of the lease or of the grace period, whichever comes first.
    pub fn acting_until(&self, at: &Scene) -> Moment {
        let until = self.held.until;
        at.grace_until(&self.held)
            .map_or(until, |end| end.min(until))
    }

    pub fn timers(&self, at: &Scene) -> Vec<(Moment, Timer)> {
        let last_call = self.held.until - at.settings.stop_budget;
        let mut timers = vec![(last_call, Timer::WindDown(EndCause::LeaseExpired))];
        if let Some(grace_until) = at.grace_until(&self.held) {
            timers.push((grace_until, Timer::WindDown(EndCause::ConnectionLost)));
        }
        // When the term has to end, a heartbeat would only make the others wait for longer.
        let too_late = timers.iter().any(|(due, _)| *due <= at.now);
        timers.extend(self.check_at.map(|due| (due, Timer::CheckHealth)));
        if at.wire.may_send() && !too_late {
            let (due, task) = at.keeping_due(&self.held);
            // A read of the fence must not delay a heartbeat, let alone a late one.
            let verify_at = self
                .verify_at
                .max(at.wire.retry.at(BucketRequest::Read))
                .max(at.now);
            let takes = at.wire.operations.read_takes();
            // On a slow network it never fits between two heartbeats. Then the lease must have room
            // for it and for two more.
            let overdue = self.verify_at + at.settings.validation_interval <= at.now
                && at.now + takes * 2 <= last_call;
            if task == Timer::Renew && (verify_at + takes <= due || overdue) {
                timers.push((verify_at, Timer::VerifyFence));
            }
            let asked = !self.proofs.is_empty() && task == Timer::Renew;
            let asked_at = at.wire.retry.at(BucketRequest::Heartbeat);
            timers.push((if asked { asked_at } else { due }, task));
        }
        timers
    }

    /// Ends the term in good order: there is a lease to finish under.
    pub fn wind_down(self, at: &mut Scene, cause: EndCause) -> Phase {
        let winding_down = self.resign(at, cause);
        mutated!(ReleaseBeforeHandlerEnds => return winding_down.release(at));
        Phase::WindingDown(winding_down)
    }

    /// Ends the term at once, because the basis of its lease is gone.
    pub fn lost(self, at: &mut Scene, cause: EndCause, marker: Option<u64>) -> Phase {
        self.resign(at, cause).lost(at, cause, marker)
    }

    fn resign(self, at: &mut Scene, cause: EndCause) -> WindingDown {
        let term = self.held.term;
        let winding_down = WindingDown::begin(self, at, cause);
        at.emit(Effect::Cancel { term });
        winding_down
    }

    /// The handler has ended. The tasks that it spawned wind down while the lease is renewed.
    pub fn handler_ending(self, at: &mut Scene, end: HandlerEnd) -> Phase {
        self.wind_down(at, cause_of(end))
    }

    /// The handler and its tasks have ended.
    pub fn handler_ended(self, at: &mut Scene, end: HandlerEnd) -> Phase {
        WindingDown::begin(self, at, cause_of(end)).handler_ended(at)
    }

    /// Ends the term, because an outage has lasted for the whole grace period.
    pub fn grace_over(self, at: &mut Scene, since: Moment) -> Phase {
        let is_over = self.held.sent > since && !mutated!(ObeyOldGraceOver);
        if is_over {
            Phase::Leading(self)
        } else {
            self.wind_down(at, EndCause::ConnectionLost)
        }
    }

    /// Ends the term, because the fence key has moved on. Either another instance has the role, or
    /// the basis of this term's fenced writes is broken.
    pub fn superseded(self, at: &mut Scene) -> Phase {
        at.tell(Event::ValidationFailed);
        self.lost(at, EndCause::Superseded, None)
    }

    /// Has the shared deadline end with the grace period, if one runs.
    pub fn tell_grace(&self, at: &mut Scene) {
        if at.grace_until(&self.held).is_some() {
            let term = self.held.term;
            let acting = self.acting_until(at);
            at.emit(Effect::Suspend { term, acting });
        }
    }

    pub fn renew(mut self, at: &mut Scene) -> Phase {
        self.renew_line(at);
        at.renew(&self.held, self.line.heirs());
        Phase::Leading(self)
    }

    pub fn validate(mut self, at: &mut Scene, request: RequestId) -> Phase {
        if at.wire.is_up() {
            self.proofs.push((request, *at.wire.attempts.next_beat));
        } else {
            let failure = Failure::new(FailureKind::Unavailable, "not connected to NATS");
            at.reply(request, Reply::Unproven(failure));
        }
        Phase::Leading(self)
    }

    /// Answers the callers that the attempt with this beat, or the lack of its answer, concerns:
    /// they asked for proof before it was sent.
    pub fn answer_proofs(&mut self, at: &mut Scene, beat: u64, reply: &Reply) {
        for (request, _) in self.proofs.extract_if(.., |(_, first)| *first <= beat) {
            at.reply(request, reply.clone());
        }
    }

    pub fn check_health(mut self, at: &mut Scene) -> Phase {
        self.check_at = None;
        let term = self.held.term;
        at.emit(Effect::CheckHealth { term });
        Phase::Leading(self)
    }

    pub fn health_checked(mut self, at: &mut Scene, healthy: bool) -> Phase {
        if self.check_at.is_some() {
            return Phase::Leading(self);
        }
        self.check_at = Some(at.now + at.settings.health.interval);
        if healthy {
            self.failed_checks = 0;
            return Phase::Leading(self);
        }
        self.failed_checks += 1;
        let consecutive = self.failed_checks;
        at.tell(Event::HealthCheckFailed { consecutive });
        if consecutive >= at.settings.health.max_consecutive_failures {
            return self.wind_down(at, EndCause::Unhealthy);
        }
        Phase::Leading(self)
    }

    /// Takes an own record that the watch showed. A watch that shows these shows fence records too,
    /// soon, unless the server that sends those alone is behind.
    pub fn watch_showed_own(&mut self, at: &Scene, attempt: Attempt) {
        let next = attempt.sent + at.settings.validation_interval;
        if self.held.term == attempt.term && !self.fence_in_doubt {
            self.verify_at = self.verify_at.max(next);
        }
    }

    /// Takes a fence record that the watch showed. One above our own is looked for at once.
    pub fn watch_showed_fence(mut self, at: &Scene, fence: FenceEntry) -> Phase {
        if self.outranks(at, fence) {
            self.fence_in_doubt = true;
            self.verify_at = at.now;
        }
        Phase::Leading(self)
    }

    /// Whether this fence record ends our term.
    fn outranks(&self, at: &Scene, fence: FenceEntry) -> bool {
        let own = at.candidate.incarnation;
        // Where keys expire it may be the server's own marker.
        let max_age = at.wire.bucket.and_then(|bucket| bucket.max_age);
        // A fence record without a nonce was written by hand; fenced writes are no longer
        // protected.
        let anothers = fence.nonce().map(|nonce| nonce.incarnation != own);
        fence.revision > self.fencing_token.sequence && anothers.unwrap_or(max_age.is_none())
    }

    /// Reads the fence record, if the watch has not shown for a while that it is as it was.
    /// Heartbeats prove only the lease.
    pub fn verify_fence(mut self, at: &mut Scene) -> Phase {
        self.verify_at = at.now + at.settings.validation_interval;
        at.send_read(false);
        Phase::Leading(self)
    }

    /// Handles a read of the keys while leading.
    pub fn has_read(mut self, at: &mut Scene, snapshot: &Snapshot) -> Phase {
        self.fence_in_doubt = false;
        // A read above our fence record is not stale.
        if snapshot.fence.is_some_and(|fence| self.outranks(at, fence)) {
            at.tell(Event::ValidationFailed);
            return self.wind_down(at, EndCause::Superseded);
        }
        Phase::Leading(self).keeping_has_read(at, snapshot)
    }
}

impl Scene {
    /// When the grace period ends, if one runs.
    pub fn grace_until(&self, held: &Held) -> Option<Moment> {
        mutated!(LeaveGraceToMonitor => return None);
        Some(self.out_of_touch_since(Some(held))? + self.settings.grace?)
    }
}

const fn cause_of(end: HandlerEnd) -> EndCause {
    match end {
        HandlerEnd::Returned => EndCause::Returned,
        HandlerEnd::Panicked => EndCause::Panicked,
        HandlerEnd::Failed | HandlerEnd::Aborted => EndCause::Failed,
    }
}
