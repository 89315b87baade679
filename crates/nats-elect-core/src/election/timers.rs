//! The table of everything that is due. It serves both the wakeup and the work, so nothing that is
//! due can be missed.

use super::machine::Election;
use super::phase::Phase;
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

impl Election {
    pub(super) fn timers(&self) -> Vec<(Moment, Timer)> {
        let mut timers = match &self.phase {
            Phase::Waiting(waiting) => self.waiting_timers(waiting),
            Phase::Acquiring(acquisition) => self.acquiring_timers(acquisition),
            Phase::Leading(leadership) => self.leading_timers(leadership),
            Phase::WindingDown(winding_down) => self.winding_down_timers(winding_down),
            Phase::Releasing(releasing) => self.releasing_timers(releasing),
            Phase::Stopped => return Vec::new(),
        };
        timers.extend(self.wire.reopen_at.map(|due| (due, Timer::Reopen)));
        if !self.phase.is_leading() {
            let lost_at = self.connection_lost_at(self.phase.held());
            timers.extend(lost_at.map(|due| (due, Timer::Notice)));
        }
        timers
    }

    /// Does everything that is due now, the earliest first.
    pub(super) fn run_timers(&mut self) {
        for _ in 0..MOST_TIMERS_A_STEP {
            let due = self
                .timers()
                .into_iter()
                .filter(|(due, _)| *due <= self.now)
                .min_by_key(|(due, _)| *due);
            let Some((_, task)) = due else { return };
            self.perform(task);
        }
        debug_assert!(false, "a due task does not get done: {:?}", self.timers());
    }

    fn perform(&mut self, task: Timer) {
        match task {
            Timer::Notice => {}
            Timer::EndCooldown => self.end_cooldown(),
            Timer::Read => self.send_read(self.phase.looks_first() && self.stopping.is_none()),
            Timer::Claim => self.claim(),
            Timer::AskLeader => self.ask_leader(),
            Timer::Leave => self.leave(),
            Timer::Reopen => self.reopen(),
            Timer::WarnOfWait => self.warn_of_wait(),
            Timer::Fence => self.fence(),
            Timer::GiveBack => self.give_back(),
            Timer::Renew => self.renew(),
            Timer::WindDown(cause) => self.wind_down(cause),
            Timer::CheckHealth => self.check_health(),
            Timer::VerifyFence => self.verify_fence(),
            Timer::Abort => self.abort_handler(),
            Timer::NoteOverrun => self.note_overrun(),
            Timer::SearchHeir => self.search_heir(),
            Timer::Release => self.release(),
            Timer::FinishRelease => self.finish_release(),
        }
    }
}
