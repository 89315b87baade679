//! The table of everything that is due. It serves both the wakeup and the work, so nothing that is
//! due can be missed.

use super::phase::Phase;
use super::scene::Scene;
use crate::event::EndCause;
use crate::moment::Moment;

/// Something to do at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// A watched lease ends, or a connection counts as lost. There is nothing to do but to report
    /// it.
    Notice,
    EndCooldown,
    Read,
    Claim,
    AskLeader,
    Leave,
    Reopen,
    WarnOfWait,
    Fence,
    GiveBack,
    Renew,
    WindDown(EndCause),
    CheckHealth,
    VerifyFence,
    Abort,
    NoteOverrun,
    SearchHeir,
    Release,
    FinishRelease,
}

/// The most tasks in one step. If more are due, one of them does not get done.
const MOST_TIMERS_A_STEP: usize = 32;

impl Phase {
    pub fn timers(&self, at: &Scene) -> Vec<(Moment, Timer)> {
        let mut timers = match self {
            Phase::Waiting(waiting) => at.waiting_timers(waiting),
            Phase::Acquiring(acquisition) => at.acquiring_timers(acquisition),
            Phase::Leading(leadership) => at.leading_timers(leadership),
            Phase::WindingDown(winding_down) => at.winding_down_timers(winding_down),
            Phase::Releasing(releasing) => at.releasing_timers(releasing),
            Phase::Stopped => return Vec::new(),
        };
        timers.extend(at.wire.reopen_at.map(|due| (due, Timer::Reopen)));
        if !self.is_leading() {
            let lost_at = at.connection_lost_at(self.held());
            timers.extend(lost_at.map(|due| (due, Timer::Notice)));
        }
        timers
    }

    /// Does everything that is due now, the earliest first.
    pub fn run_timers(&mut self, at: &mut Scene) {
        for _ in 0..MOST_TIMERS_A_STEP {
            let due = self
                .timers(at)
                .into_iter()
                .filter(|(due, _)| *due <= at.now)
                .min_by_key(|(due, _)| *due);
            let Some((_, task)) = due else { return };
            self.perform(at, task);
        }
        debug_assert!(false, "a due task does not get done: {:?}", self.timers(at));
    }

    fn perform(&mut self, at: &mut Scene, task: Timer) {
        match task {
            Timer::Notice => {}
            Timer::EndCooldown => self.end_cooldown(at),
            Timer::Read => at.send_read(self.looks_first() && at.stopping.is_none()),
            Timer::Claim => self.claim(at),
            Timer::AskLeader => self.ask_leader(at),
            Timer::Leave => self.leave(at),
            Timer::Reopen => at.reopen(),
            Timer::WarnOfWait => self.warn_of_wait(at),
            Timer::Fence => self.fence(at),
            Timer::GiveBack => self.give_back(at),
            Timer::Renew => self.renew(at),
            Timer::WindDown(cause) => self.wind_down(at, cause),
            Timer::CheckHealth => self.check_health(at),
            Timer::VerifyFence => self.verify_fence(at),
            Timer::Abort => self.abort_handler(at),
            Timer::NoteOverrun => self.note_overrun(at),
            Timer::SearchHeir => self.search_heir(at),
            Timer::Release => self.release(at),
            Timer::FinishRelease => self.finish_release(at),
        }
    }
}
