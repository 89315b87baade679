//! The end of a term, up to the end of its handler. The handler winds down within the lease. It is
//! aborted when it takes too long.

use super::effect::{Effect, Reply};
use super::input::Snapshot;
use super::phase::Phase;
use super::releasing::Releasing;
use super::scene::Scene;
use super::succession::Succession;
use super::timers::Timer;
use crate::event::{EndCause, Event};
use crate::lease::{HandlerEnd, Held, Replaced, TermId};
use crate::moment::Moment;
use crate::mutation::mutated;
use crate::status::RoleState;
use crate::token::FencingToken;

/// A term that ends, once and irrevocably. Its handler still runs.
#[derive(Clone, Debug, Hash)]
pub(super) struct WindingDown {
    pub held: Held,
    pub cause: EndCause,
    pub fencing_token: FencingToken,
    pub started: Moment,
    lease: Lease,
    handler: Handler,
    /// The handler may wind down until then, within the lease.
    stop_by: Moment,
    /// The message that a release will replace. `None` if the role is not to be freed.
    pub replaced: Option<Replaced>,
    pub succession: Succession,
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

    /// Revokes the lease. Returns whether it was not revoked before.
    fn revoke(&mut self) -> bool {
        std::mem::replace(&mut self.lease, Lease::Revoked) != Lease::Revoked
    }
}

impl Phase {
    /// Ends the term in good order: there is a lease to finish under.
    pub fn wind_down(&mut self, at: &mut Scene, cause: EndCause) {
        let Some(winding_down) = self.begin_winding_down(at, cause) else {
            return;
        };
        let term = winding_down.held.term;
        at.emit(Effect::Cancel { term });
        mutated!(ReleaseBeforeHandlerEnds => self.begin_releasing(at));
    }

    /// Ends the term at once, because the basis of its lease is gone.
    ///
    /// After a delete marker of another client the lease still lasts, because other instances wait
    /// a whole lease from the moment at which they see it.
    pub fn lost(&mut self, at: &mut Scene, cause: EndCause, marker: Option<u64>) {
        if let Some(winding_down) = self.begin_winding_down(at, cause) {
            let term = winding_down.held.term;
            at.emit(Effect::Cancel { term });
        }
        let now = at.now;
        let hurried = now + at.settings.abort_allowance();
        match self {
            Phase::Acquiring(_) => self.abandon_claim(at),
            Phase::WindingDown(winding_down) => {
                winding_down.renew_no_more();
                let held = winding_down.held;
                if cause == EndCause::Deleted && marker.is_some() && now < held.until {
                    // The delete asked for another leader. It is passed on as a release, but only
                    // within the lease: later it might end another leader's term.
                    let replaced = winding_down.replaced.and(marker);
                    winding_down.replaced = replaced.map(Replaced::Marker);
                    return;
                }
                winding_down.replaced = None;
                if winding_down.revoke() {
                    winding_down.stop_by = winding_down.stop_by.min(hurried);
                    at.emit(Effect::Revoke { term: held.term });
                }
            }
            Phase::Releasing(releasing) => releasing.freeing.forgo(),
            Phase::Waiting(_) | Phase::Leading(_) | Phase::Stopped => {}
        }
    }

    /// Goes from leading to winding down, once. From here on the instance is not the leader.
    fn begin_winding_down(&mut self, at: &mut Scene, cause: EndCause) -> Option<&mut WindingDown> {
        let stop_by = at.now + at.settings.stop_budget;
        let release = at.stopping.unwrap_or(true);
        let Phase::Leading(leadership) = self else {
            return None;
        };
        let held = leadership.held;
        let fencing_token = leadership.fencing_token;
        let proofs = std::mem::take(&mut leadership.proofs);
        let handoff_asked = leadership.handoff_asked.take();
        let succession = Succession::of(leadership.line.heirs());
        let winding_down = WindingDown {
            held,
            cause,
            fencing_token,
            started: leadership.started,
            lease: if is_renewed_after(cause) {
                Lease::Renewed
            } else {
                Lease::RunningOut
            },
            handler: Handler::Cancelled,
            stop_by,
            replaced: release.then_some(Replaced::OwnRecord),
            succession,
        };
        *self = Phase::WindingDown(winding_down);
        at.emit(Effect::Resign { term: held.term });
        at.become_state(RoleState::Draining);
        at.tell(Event::TermEnding {
            fencing_token,
            cause,
        });
        let proofs = proofs.into_iter().map(|(request, _)| request);
        for request in proofs.chain(handoff_asked.map(|asked| asked.request)) {
            at.reply(request, Reply::NotLeader);
        }
        match self {
            Phase::WindingDown(winding_down) => Some(winding_down),
            _ => None,
        }
    }

    /// The handler has ended. The tasks that it spawned wind down while the lease is renewed.
    pub fn handler_ending(&mut self, at: &mut Scene, term: TermId, end: HandlerEnd) {
        if self.is_of(term) {
            self.wind_down(at, cause_of(end));
        }
    }

    /// The handler and its tasks have ended.
    pub fn handler_ended(&mut self, at: &mut Scene, term: TermId, end: HandlerEnd) {
        if !self.is_of(term) {
            return;
        }
        self.begin_winding_down(at, cause_of(end));
        let Phase::WindingDown(winding_down) = self else {
            return;
        };
        if winding_down.is_overrun() {
            // Its lease ended while the handler ran. The others have waited for the lease already.
            winding_down.replaced = None;
        }
        let revoke = winding_down.revoke() && !mutated!(ReleaseBeforeRevoke);
        self.begin_releasing(at);
        if revoke {
            at.emit(Effect::Revoke { term });
        }
    }

    fn begin_releasing(&mut self, at: &mut Scene) {
        let give_up = at.now + at.settings.request_timeout * 2;
        if let Phase::WindingDown(winding_down) = self {
            let give_up = give_up.max(winding_down.held.until);
            *self = Phase::Releasing(Releasing::of_term(winding_down, give_up));
        }
    }

    pub fn abort_handler(&mut self, at: &mut Scene) {
        let Phase::WindingDown(winding_down) = self else {
            return;
        };
        winding_down.handler = Handler::Aborted;
        winding_down.renew_no_more();
        let term = winding_down.held.term;
        if at.now >= winding_down.held.until {
            // The process stood still until its lease was over, and so did its handler. It overruns
            // only if it outlives the abort. The others have waited for the lease already.
            winding_down.stop_by = winding_down.stop_by.min(at.now);
            winding_down.replaced = None;
            if winding_down.revoke() {
                at.emit(Effect::Revoke { term });
            }
        }
        mutated!(NeverAbort => return);
        at.emit(Effect::Abort { term });
    }

    pub fn note_overrun(&mut self, at: &mut Scene) {
        let Phase::WindingDown(winding_down) = self else {
            return;
        };
        winding_down.handler = Handler::Overrun;
        let term = winding_down.held.term;
        let fencing_token = winding_down.fencing_token;
        if winding_down.revoke() {
            at.emit(Effect::Revoke { term });
        }
        at.tell(Event::HandlerOverrun { fencing_token });
    }

    /// Handles a read of the keys while the handler winds down.
    pub fn winding_down_has_read(&mut self, at: &mut Scene, snapshot: &Snapshot) {
        let in_doubt = self.kept().is_some_and(|it| it.is_in_doubt());
        if in_doubt {
            self.keeping_has_read(at, snapshot);
        }
    }
}

impl Scene {
    pub fn winding_down_timers(&self, winding_down: &WindingDown) -> Vec<(Moment, Timer)> {
        let allowance = self.settings.abort_allowance();
        let (stop_by, until) = (winding_down.stop_by, winding_down.held.until);
        let (abort_at, overrun_at) = if winding_down.lease == Lease::Revoked {
            (stop_by, stop_by + allowance)
        } else {
            (stop_by.min(until - allowance), until)
        };
        let mut timers = match winding_down.handler {
            Handler::Cancelled => vec![(abort_at, Timer::Abort)],
            Handler::Aborted => vec![(overrun_at, Timer::NoteOverrun)],
            Handler::Overrun => Vec::new(),
        };
        let search_at = winding_down.succession.search_at();
        timers.extend(search_at.map(|due| (due, Timer::SearchHeir)));
        let renews = winding_down.lease == Lease::Renewed && self.now < abort_at;
        if renews && self.wire.may_send() {
            timers.push(self.keeping_due(&winding_down.held));
        }
        timers
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

const fn cause_of(end: HandlerEnd) -> EndCause {
    match end {
        HandlerEnd::Returned => EndCause::Returned,
        HandlerEnd::Panicked => EndCause::Panicked,
        HandlerEnd::Failed | HandlerEnd::Aborted => EndCause::Failed,
    }
}
