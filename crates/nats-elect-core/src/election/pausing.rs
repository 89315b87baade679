//! Standing for nothing while the instance stays in the election: it watches, tells who leads, and claims nothing.

use super::effect::Reply;
use super::input::RequestId;
use super::machine::{Election, Phase};
use crate::event::{EndCause, Event};

impl Election {
    /// Stands for no new term. A term that it has goes on; a claim under way is given back.
    pub(super) fn pause(&mut self, request: RequestId) {
        self.set_paused(true);
        self.reply(request, Reply::Noted);
    }

    /// Stands again.
    pub(super) fn resume(&mut self, request: RequestId) {
        self.set_paused(false);
        self.reply(request, Reply::Noted);
    }

    /// Stands for no new term, and ends the one that it has: the role goes to whoever is ready to take it, as when an instance leaves.
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
            self.expect_nothing();
        }
        self.tell(if paused {
            Event::Paused
        } else {
            Event::Resumed
        });
    }
}
