//! What the application and its operators want of an instance.
//!
//! A paused instance watches and reports the leader, but claims nothing.

use std::time::Duration;

use super::effect::Reply;
use super::input::RequestId;
use super::machine::Election;
use super::phase::Phase;
use crate::event::{EndCause, Event};
use crate::moment::Moment;
use crate::status::RoleState;
use crate::token::FencingToken;

/// What somebody wants of an instance.
#[derive(Clone, Debug)]
pub enum Intent {
    /// It takes part in no election until `Resume`.
    ///
    /// A term that has begun goes on. A claim under way is given back. A second pause changes
    /// nothing.
    Pause,
    /// It takes part in elections again, after its cool-down if one runs, also if its terms kept
    /// failing. What an order gave it can be taken by a higher priority again.
    Resume,
    /// It takes part in no election until `Resume`, and its term ends. The role goes to a candidate
    /// that is ready, if one is. The answer comes when the term has ended.
    Cordon,
    /// Its term ends. The role is freed, and the instance stays out for its cool-down.
    StepDown {
        /// The instance id of a named successor. The term ends only if it is ready to lead.
        to: Option<String>,
        /// The fencing token of the term to end. A request for another term changes nothing.
        expected: Option<FencingToken>,
        /// The least time for which the instance stays out, if the cool-down is shorter.
        hold_off: Duration,
    },
    /// It leaves the election, after the end of the term if there is one.
    Stop {
        /// Whether to free the role. Otherwise its lease runs out.
        release: bool,
    },
    /// It leaves the election without a write. The lease runs out by itself.
    Abandon,
}

impl Election {
    pub(super) fn intend(&mut self, request: RequestId, intent: Intent) {
        match intent {
            Intent::Pause => {
                self.set_paused(true);
                self.reply(request, Reply::Noted);
            }
            Intent::Resume => {
                self.set_paused(false);
                self.forgive();
                self.ordered_until = self.now;
                self.reply(request, Reply::Noted);
            }
            Intent::Cordon => self.cordon(request),
            Intent::StepDown {
                to,
                expected,
                hold_off,
            } => self.step_down(request, to, expected, hold_off),
            Intent::Stop { release } => self.stop(release),
            Intent::Abandon => self.abandon(),
        }
    }

    /// Until when this instance, which leads by an operator's order, keeps the role against higher
    /// priorities.
    pub(super) fn kept_until(&self) -> Option<Moment> {
        let kept = self.phase.is_leading() && self.now < self.ordered_until;
        kept.then_some(self.ordered_until)
    }

    fn cordon(&mut self, request: RequestId) {
        self.set_paused(true);
        let leads = self.phase.is_leading();
        self.wind_down(EndCause::Cordoned);
        if leads {
            self.find_heir();
        }
        self.answer_at_end(request);
    }

    fn stop(&mut self, release: bool) {
        let leads = self.phase.is_leading();
        self.stopping.get_or_insert(release);
        self.wind_down(EndCause::Stopped);
        if leads && release {
            self.find_heir();
        }
        if !release {
            self.forgo_release();
        }
    }

    fn abandon(&mut self) {
        self.stopping = Some(false);
        self.wind_down(EndCause::Abandoned);
        self.forgo_release();
        match &mut self.phase {
            Phase::WindingDown(winding_down) => winding_down.renew_no_more(),
            Phase::Waiting(_) | Phase::Acquiring(_) => self.leave(),
            Phase::Leading(_) | Phase::Releasing(_) | Phase::Stopped => {}
        }
    }

    fn forgo_release(&mut self) {
        match &mut self.phase {
            Phase::WindingDown(winding_down) => winding_down.replaced = None,
            Phase::Releasing(releasing) => releasing.freeing.forgo(),
            _ => {}
        }
    }

    /// Leaves the election. This instance holds nothing.
    pub(super) fn leave(&mut self) {
        self.phase = Phase::Stopped;
        self.become_state(RoleState::Stopped);
    }

    fn set_paused(&mut self, paused: bool) {
        if std::mem::replace(&mut self.paused, paused) == paused {
            return;
        }
        if paused {
            self.expect_no_handoff();
        }
        self.tell(if paused {
            Event::Paused
        } else {
            Event::Resumed
        });
    }
}
