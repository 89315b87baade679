//! The end of a term, up to the end of its handler. The handler winds down within the lease. It is
//! aborted when it takes too long.

use super::effect::{Effect, Reply};
use super::input::Snapshot;
use super::leading::Leadership;
use super::phase::Phase;
use super::releasing::{Releasing, Replaced};
use super::scene::Scene;
use super::succession::Succession;
use super::timers::Timer;
use crate::event::{EndCause, Event};
use crate::lease::Held;
use crate::moment::Moment;
use crate::mutation::mutated;
use crate::status::RoleState;
use crate::token::FencingToken;

/// A term that ends, once and irrevocably. Its handler still runs.
#[derive(Clone, Debug, Hash)]
pub(super) struct WindingDown {
    pub held: Held,
    pub term: EndedTerm,
    lease: Lease,
    handler: Handler,
    /// The handler may wind down until then, within the lease.
    stop_by: Moment,
    /// The message that a release will replace. `None` if the role is not to be freed.
    pub replaced: Option<Replaced>,
    pub succession: Succession,
}

/// A term that was led, and why it ended.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct EndedTerm {
    pub fencing_token: FencingToken,
    pub started: Moment,
    pub cause: EndCause,
}

/// The lease under which a handler winds down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Lease {
    Renewed,
    RunningOut,
    Revoked,
}

/// How far the end of a handler was enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Handler {
    Cancelled,
    Aborted,
    /// It runs on although its lease is over.
    Overrun,
}

impl WindingDown {
    /// Until when this instance may act on its lease, to end the term in good order.
    pub fn acting_until(&self) -> Option<Moment> {
        (self.lease == Lease::Renewed).then_some(self.held.until)
    }

    /// The end of the lease, unless it was revoked.
    pub fn lease_until(&self) -> Option<Moment> {
        (self.lease != Lease::Revoked).then_some(self.held.until)
    }

    pub fn is_overrun(&self) -> bool {
        self.handler == Handler::Overrun
    }

    /// Lets the lease run out.
    pub fn renew_no_more(&mut self) {
        if self.lease == Lease::Renewed {
            self.lease = Lease::RunningOut;
        }
    }

    /// Revokes the lease, unless it was revoked before. Returns whether it did.
    fn revoke(&mut self, at: &mut Scene) -> bool {
        let term = self.held.term;
        let revokes = std::mem::replace(&mut self.lease, Lease::Revoked) != Lease::Revoked;
        if revokes {
            at.emit(Effect::Revoke { term });
        }
        revokes
    }

    pub fn timers(&self, at: &Scene) -> Vec<(Moment, Timer)> {
        let allowance = at.settings.abort_allowance();
        let (stop_by, until) = (self.stop_by, self.held.until);
        let (abort_at, overrun_at) = if self.lease == Lease::Revoked {
            (stop_by, stop_by + allowance)
        } else {
            (stop_by.min(until - allowance), until)
        };
        let mut timers = match self.handler {
            Handler::Cancelled => vec![(abort_at, Timer::Abort)],
            Handler::Aborted => vec![(overrun_at, Timer::NoteOverrun)],
            Handler::Overrun => Vec::new(),
        };
        let search_at = self.succession.search_at;
        timers.extend(search_at.map(|due| (due, Timer::SearchHeir)));
        let renews = self.lease == Lease::Renewed && at.now < abort_at;
        if renews && at.wire.may_send() {
            timers.push(at.keeping_due(&self.held));
        }
        timers
    }

    /// Ends a term that is led, once. From here on the instance is not the leader.
    pub fn begin(leadership: Leadership, at: &mut Scene, cause: EndCause) -> Self {
        let (held, fencing_token) = (leadership.held, leadership.fencing_token);
        let release = at.stopping.unwrap_or(true);
        at.emit(Effect::Resign { term: held.term });
        at.become_state(RoleState::Draining);
        at.tell(Event::TermEnding {
            fencing_token,
            cause,
        });
        let proofs = leadership.proofs.into_iter().map(|(request, _)| request);
        for request in proofs.chain(leadership.handoff_asked.map(|asked| asked.request)) {
            at.reply(request, Reply::NotLeader);
        }
        Self {
            held,
            term: EndedTerm {
                fencing_token,
                started: leadership.started,
                cause,
            },
            lease: if is_renewed_after(cause) {
                Lease::Renewed
            } else {
                Lease::RunningOut
            },
            handler: Handler::Cancelled,
            stop_by: at.now + at.settings.stop_budget,
            replaced: release.then_some(Replaced::OwnRecord),
            succession: Succession::of(leadership.line.heirs()),
        }
    }

    /// The basis of the lease is gone.
    ///
    /// After a delete marker of another client the lease still lasts, because other instances wait
    /// a whole lease from the moment at which they see it.
    pub fn lost(mut self, at: &mut Scene, cause: EndCause, marker: Option<u64>) -> Phase {
        self.renew_no_more();
        if cause == EndCause::Deleted && marker.is_some() && at.now < self.held.until {
            // The delete asked for another leader. It is passed on as a release, but only within
            // the lease: later it might end another leader's term.
            self.replaced = self.replaced.and(marker).map(Replaced::Marker);
            return Phase::WindingDown(self);
        }
        self.replaced = None;
        if self.revoke(at) {
            let hurried = at.now + at.settings.abort_allowance();
            self.stop_by = self.stop_by.min(hurried);
        }
        Phase::WindingDown(self)
    }

    /// The handler and its tasks have ended.
    pub fn handler_ended(mut self, at: &mut Scene) -> Phase {
        if self.is_overrun() {
            // Its lease ended while the handler ran. The others have waited for the lease already.
            self.replaced = None;
        }
        mutated!(ReleaseBeforeRevoke => return self.release(at));
        self.revoke(at);
        self.release(at)
    }

    /// Goes on to free the role.
    pub fn release(self, at: &Scene) -> Phase {
        let give_up = at.now + at.settings.request_timeout * 2;
        let give_up = give_up.max(self.held.until);
        Phase::Releasing(Releasing::of_term(self, give_up))
    }

    pub fn abort_handler(mut self, at: &mut Scene) -> Phase {
        self.handler = Handler::Aborted;
        self.renew_no_more();
        if at.now >= self.held.until {
            // The process stood still until its lease was over, and so did its handler. It overruns
            // only if it outlives the abort. The others have waited for the lease already.
            self.stop_by = self.stop_by.min(at.now);
            self.replaced = None;
            self.revoke(at);
        }
        if !mutated!(NeverAbort) {
            let term = self.held.term;
            at.emit(Effect::Abort { term });
        }
        Phase::WindingDown(self)
    }

    pub fn note_overrun(mut self, at: &mut Scene) -> Phase {
        self.handler = Handler::Overrun;
        self.revoke(at);
        let fencing_token = self.term.fencing_token;
        at.tell(Event::HandlerOverrun { fencing_token });
        Phase::WindingDown(self)
    }

    pub fn renew(self, at: &mut Scene) -> Phase {
        at.renew(&self.held, self.succession.line);
        Phase::WindingDown(self)
    }

    pub fn search_heir(mut self, at: &mut Scene) -> Phase {
        self.succession.search_heir(at, &self.held);
        Phase::WindingDown(self)
    }

    /// Handles a read of the keys while the handler winds down.
    pub fn has_read(self, at: &mut Scene, snapshot: &Snapshot) -> Phase {
        let in_doubt = self.held.is_in_doubt();
        let phase = Phase::WindingDown(self);
        if in_doubt {
            phase.keeping_has_read(at, snapshot)
        } else {
            phase
        }
    }
}

/// Whether the lease is renewed while the handler winds down after this cause.
const fn is_renewed_after(cause: EndCause) -> bool {
    matches!(
        cause,
        EndCause::SteppedDown
            | EndCause::Preempted
            | EndCause::Cordoned
            | EndCause::Stopped
            | EndCause::Unhealthy
            | EndCause::Returned
            | EndCause::Failed
            | EndCause::Panicked
    )
}
