//! Pause, resume and cordon. A paused instance watches and reports the leader, but claims nothing.

use super::effect::Reply;
use super::input::RequestId;
use super::machine::{Election, Phase};
use crate::event::{EndCause, Event};

impl Election {
    /// Begins no new term from now on. A term that has begun goes on. A claim under way is given
    /// back.
    pub(super) fn pause(&mut self, request: RequestId) {
        self.set_paused(true);
        self.reply(request, Reply::Noted);
    }

    /// Takes part in elections again.
    pub(super) fn resume(&mut self, request: RequestId) {
        self.set_paused(false);
        self.reply(request, Reply::Noted);
    }

    /// Begins no new term from now on, and ends the present one. The role goes to a candidate that
    /// is ready, as when an instance leaves.
    pub(super) fn cordon(&mut self, request: RequestId) {
        self.set_paused(true);
        let leads = matches!(self.phase, Phase::Leading(_));
        self.wind_down(EndCause::Cordoned);
        if leads {
            self.search_heir();
        }
        self.answer_at_end(request);
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
