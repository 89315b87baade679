//! Leading: heartbeats, proofs on demand, health checks, and the conditions under which a term must
//! end.

use super::answers::Stake;
use super::effect::{Effect, Reply};
use super::input::{RequestId, Snapshot};
use super::line::Line;
use super::phase::Phase;
use super::scene::Scene;
use super::succession::PendingHandoff;
use super::timers::Timer;
use crate::config::RoleSettings;
use crate::event::{EndCause, Event, FailureKind};
use crate::lease::{Asked, Attempt, Failure, Held, TermId};
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
    pub check_at: Moment,
    pub checking: bool,
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
            check_at: now + settings.health.interval,
            checking: false,
            failed_checks: 0,
        }
    }

    /// The end of the lease or of the grace period, whichever comes first.
    pub fn acting_until(&self, at: &Scene) -> Moment {
        let until = self.held.until;
        at.grace_until(&self.held)
            .map_or(until, |end| end.min(until))
    }

    /// Takes the callers that the attempt with this beat, or the lack of its answer, concerns: they
    /// asked for proof before it was sent.
    pub fn asked_before(&mut self, beat: u64) -> Vec<RequestId> {
        let asked = self.proofs.extract_if(.., |(_, first)| *first <= beat);
        asked.map(|(request, _)| request).collect()
    }
}

impl Phase {
    /// Notes since when the connection is lost or a heartbeat is late.
    pub fn suspend(&mut self, at: &mut Scene, since: Moment) {
        if at.suspended_since.is_none_or(|known| since < known) {
            at.suspended_since = Some(since);
            self.tell_grace(at);
        }
    }

    /// Has the shared deadline end with the grace period, if one runs.
    pub fn tell_grace(&mut self, at: &mut Scene) {
        if let Phase::Leading(leadership) = self
            && at.grace_until(&leadership.held).is_some()
        {
            let term = leadership.held.term;
            let acting = leadership.acting_until(at);
            at.emit(Effect::Suspend { term, acting });
        }
    }

    pub fn lease_over(&mut self, at: &mut Scene, term: TermId) {
        if self.is_of(term) {
            self.lost(at, EndCause::LeaseExpired, None);
        }
    }

    /// Ends the term, because the fence key has moved on. Either another instance has the role, or
    /// the basis of this term's fenced writes is broken.
    pub fn superseded(&mut self, at: &mut Scene, term: TermId) {
        if self.stake() == Stake::Lease && self.is_of(term) {
            if self.is_leading() {
                at.tell(Event::ValidationFailed);
            }
            self.lost(at, EndCause::Superseded, None);
        }
    }

    pub fn validate(&mut self, at: &mut Scene, request: RequestId, term: Option<TermId>) {
        let next_beat = at.wire.attempts.next_beat();
        let linked = at.wire.is_up();
        match self {
            Phase::Leading(leadership) if term.is_none_or(|term| term == leadership.held.term) => {
                if linked {
                    leadership.proofs.push((request, next_beat));
                    return;
                }
                let failure = Failure::new(FailureKind::Unavailable, "not connected to NATS");
                at.reply(request, Reply::Unproven(failure));
            }
            _ => at.reply(request, Reply::NotLeader),
        }
    }

    /// Tells the callers that wait for the proof of this beat, or of an earlier one, that there is
    /// none for now.
    pub fn refuse_proofs(&mut self, at: &mut Scene, beat: u64, failure: &Failure) {
        let Phase::Leading(leadership) = self else {
            return;
        };
        for request in leadership.asked_before(beat) {
            at.reply(request, Reply::Unproven(failure.clone()));
        }
    }

    pub fn check_health(&mut self, at: &mut Scene) {
        let Phase::Leading(leadership) = self else {
            return;
        };
        leadership.checking = true;
        let term = leadership.held.term;
        at.emit(Effect::CheckHealth { term });
    }

    pub fn health_checked(&mut self, at: &mut Scene, term: TermId, healthy: bool) {
        let next = at.now + at.settings.health.interval;
        let Phase::Leading(leadership) = self else {
            return;
        };
        if leadership.held.term != term || !leadership.checking {
            return;
        }
        leadership.checking = false;
        leadership.check_at = next;
        if healthy {
            leadership.failed_checks = 0;
            return;
        }
        leadership.failed_checks += 1;
        let consecutive = leadership.failed_checks;
        at.tell(Event::HealthCheckFailed { consecutive });
        if consecutive >= at.settings.health.max_consecutive_failures {
            self.wind_down(at, EndCause::Unhealthy);
        }
    }

    /// Takes an own record that the watch showed. A watch that shows these shows fence records too,
    /// soon, unless the server that sends those alone is behind.
    pub fn watch_showed_own(&mut self, at: &mut Scene, attempt: Attempt) {
        let next = attempt.sent + at.settings.validation_interval;
        if let Phase::Leading(leadership) = self
            && leadership.held.term == attempt.term
            && !leadership.fence_in_doubt
        {
            leadership.verify_at = leadership.verify_at.max(next);
        }
    }

    /// Takes a fence record that the watch showed. One above our own is looked for at once.
    pub fn watch_showed_fence(&mut self, at: &mut Scene, fence: FenceEntry) {
        if self.outranks(at, fence)
            && let Phase::Leading(leadership) = self
        {
            leadership.fence_in_doubt = true;
            leadership.verify_at = at.now;
        }
    }

    /// Whether this fence record ends our term.
    fn outranks(&self, at: &Scene, fence: FenceEntry) -> bool {
        let own = at.candidate.incarnation;
        // Where keys expire it may be the server's own marker.
        let max_age = at.wire.bucket.and_then(|bucket| bucket.max_age);
        // A fence record without a nonce was written by hand; fenced writes are no longer
        // protected.
        let anothers = fence.nonce().map(|nonce| nonce.incarnation != own);
        let token = self.fencing_token();
        token.is_some_and(|token| fence.revision > token.sequence)
            && anothers.unwrap_or(max_age.is_none())
    }

    /// Reads the fence record, if the watch has not shown for a while that it is as it was.
    /// Heartbeats prove only the lease.
    pub fn verify_fence(&mut self, at: &mut Scene) {
        let next = at.now + at.settings.validation_interval;
        let Phase::Leading(leadership) = self else {
            return;
        };
        leadership.verify_at = next;
        at.send_read(false);
    }

    /// Handles a read of the keys while leading.
    pub fn leader_has_read(&mut self, at: &mut Scene, snapshot: &Snapshot) {
        // A read above our fence record is not stale.
        let outranked = snapshot.fence.is_some_and(|fence| self.outranks(at, fence));
        if let Phase::Leading(leadership) = self {
            leadership.fence_in_doubt = false;
        }
        if outranked {
            at.tell(Event::ValidationFailed);
            self.wind_down(at, EndCause::Superseded);
        } else {
            self.keeping_has_read(at, snapshot);
        }
    }
}

impl Scene {
    pub fn leading_timers(&self, leadership: &Leadership) -> Vec<(Moment, Timer)> {
        let last_call = leadership.held.until - self.settings.stop_budget;
        let mut timers = vec![(last_call, Timer::WindDown(EndCause::LeaseExpired))];
        if let Some(grace_until) = self.grace_until(&leadership.held) {
            timers.push((grace_until, Timer::WindDown(EndCause::ConnectionLost)));
        }
        // When the term has to end, a heartbeat would only make the others wait for longer.
        let too_late = timers.iter().any(|(due, _)| *due <= self.now);
        if !leadership.checking {
            timers.push((leadership.check_at, Timer::CheckHealth));
        }
        if self.wire.may_send() && !too_late {
            let (due, task) = self.keeping_due(&leadership.held);
            // A read of the fence must not delay a heartbeat, let alone a late one.
            let verify_at = leadership
                .verify_at
                .max(self.wire.retry.at(Asked::ReadKeys))
                .max(self.now);
            let takes = self.wire.operations.read_takes();
            // On a slow network it never fits between two heartbeats. Then the lease must have room
            // for it and for two more.
            let overdue = leadership.verify_at + self.settings.validation_interval <= self.now
                && self.now + takes * 2 <= last_call;
            if !self.is_of_member() && task == Timer::Renew && (verify_at + takes <= due || overdue)
            {
                timers.push((verify_at, Timer::VerifyFence));
            }
            let asked = !leadership.proofs.is_empty() && task == Timer::Renew;
            timers.push((
                if asked {
                    self.wire.retry.at(Asked::WriteKey)
                } else {
                    due
                },
                task,
            ));
        }
        timers
    }

    /// When the grace period ends, if one runs.
    pub fn grace_until(&self, held: &Held) -> Option<Moment> {
        mutated!(LeaveGraceToMonitor => return None);
        Some(self.out_of_touch_since(Some(held))? + self.settings.grace?)
    }
}
