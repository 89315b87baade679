//! What the application and its operators want of an instance.
//!
//! A paused instance watches and reports the leader, but claims nothing.

use super::effect::Reply;
use super::input::{Intent, RequestId};
use super::phase::Phase;
use super::scene::Scene;
use crate::event::{EndCause, Event};
use crate::moment::Moment;
use crate::status::RoleState;

impl Phase {
    pub fn intend(mut self, at: &mut Scene, request: RequestId, intent: Intent) -> Self {
        match intent {
            Intent::Pause => {
                self.set_paused(at, true);
                at.reply(request, Reply::Noted);
                self
            }
            Intent::Resume => {
                self.set_paused(at, false);
                at.forgive();
                at.ordered_until = at.now;
                at.reply(request, Reply::Noted);
                self
            }
            Intent::Cordon => {
                self.set_paused(at, true);
                let mut phase = self.hand_over(at, EndCause::Cordoned);
                phase.answer_at_end(at, request);
                phase
            }
            Intent::StepDown {
                to,
                expected,
                hold_off,
            } => self.step_down(at, request, to, expected, hold_off),
            Intent::Stop { release } => {
                at.stopping.get_or_insert(release);
                if release {
                    self.hand_over(at, EndCause::Stopped)
                } else {
                    self.wind_down(at, EndCause::Stopped).forgo_release()
                }
            }
            Intent::Abandon => {
                at.stopping = Some(false);
                match self.wind_down(at, EndCause::Abandoned).forgo_release() {
                    Self::Waiting(_) | Self::Acquiring(_) => at.leave(),
                    Self::WindingDown(mut it) => {
                        it.renew_no_more();
                        Self::WindingDown(it)
                    }
                    phase => phase,
                }
            }
        }
    }

    /// Until when this instance, which leads by an operator's order, keeps the role against higher
    /// priorities.
    pub fn kept_until(&self, at: &Scene) -> Option<Moment> {
        let kept = self.is_leading() && at.now < at.ordered_until;
        kept.then_some(at.ordered_until)
    }

    fn forgo_release(mut self) -> Self {
        match &mut self {
            Self::WindingDown(it) => it.replaced = None,
            Self::Releasing(it) => it.forgo(),
            _ => {}
        }
        self
    }

    fn set_paused(&mut self, at: &mut Scene, paused: bool) {
        if std::mem::replace(&mut at.paused, paused) == paused {
            return;
        }
        if let Self::Waiting(it) = self
            && paused
        {
            it.promised = None;
        }
        at.tell(if paused {
            Event::Paused
        } else {
            Event::Resumed
        });
    }
}

impl Scene {
    /// Leaves the election. This instance holds nothing.
    pub fn leave(&mut self) -> Phase {
        self.become_state(RoleState::Stopped);
        Phase::Stopped
    }
}
