//! Orders of the application and its operators: pause, resume, cordon, stop, abandon.
//!
//! A paused instance watches and reports the leader, but claims nothing.

use super::effect::Reply;
use super::input::RequestId;
use super::machine::Election;
use super::phase::Phase;
use crate::event::{EndCause, Event};
use crate::moment::Moment;
use crate::status::RoleState;

impl Election {
    /// Begins no new term from now on. A term that has begun goes on. A claim under way is given
    /// back.
    pub(super) fn pause(&mut self, request: RequestId) {
        self.set_paused(true);
        self.reply(request, Reply::Noted);
    }

    /// Takes part in elections again, also if its terms kept failing. What an order gave it can be
    /// taken by a higher priority again.
    pub(super) fn resume(&mut self, request: RequestId) {
        self.set_paused(false);
        self.forgive();
        self.ordered_until = self.now;
        self.reply(request, Reply::Noted);
    }

    /// Until when this instance, which leads by an operator's order, keeps the role against higher
    /// priorities.
    pub(super) fn kept_until(&self) -> Option<Moment> {
        let kept = self.phase.is_leading() && self.now < self.ordered_until;
        kept.then_some(self.ordered_until)
    }

    /// Begins no new term from now on, and ends the present one. The role goes to a candidate that
    /// is ready, as when an instance leaves.
    pub(super) fn cordon(&mut self, request: RequestId) {
        self.set_paused(true);
        let leads = self.phase.is_leading();
        self.wind_down(EndCause::Cordoned);
        if leads {
            self.find_heir();
        }
        self.answer_at_end(request);
    }

    /// Leaves the election, after the present term. `release` tells whether the role is freed.
    pub(super) fn stop(&mut self, release: bool) {
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

    /// Leaves the election. The role is not freed, and the lease is renewed no more.
    pub(super) fn abandon(&mut self) {
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
            Phase::Releasing(releasing) => releasing.forgo(),
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
