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

impl Phase {
    pub fn timers(&self, at: &Scene) -> Vec<(Moment, Timer)> {
        let mut timers = match self {
            Self::Waiting(it) => it.timers(at),
            Self::Acquiring(it) => it.timers(at),
            Self::Leading(it) => it.timers(at),
            Self::WindingDown(it) => it.timers(at),
            Self::Releasing(it) => it.timers(at),
            Self::Stopped => return Vec::new(),
        };
        timers.extend(at.wire.reopen_at.map(|due| (due, Timer::Reopen)));
        if !self.is_leading() {
            let lost_at = at.connection_lost_at(self.held());
            timers.extend(lost_at.map(|due| (due, Timer::Notice)));
        }
        timers
    }

    /// Does everything that is due now, the earliest first, and each task once.
    pub fn run_timers(mut self, at: &mut Scene) -> Self {
        let mut done = Vec::new();
        loop {
            let due = self
                .timers(at)
                .into_iter()
                .filter(|(due, task)| *due <= at.now && !done.contains(task))
                .min_by_key(|(due, _)| *due);
            let Some((_, task)) = due else { return self };
            done.push(task);
            self = self.perform(at, task);
        }
    }

    fn perform(self, at: &mut Scene, task: Timer) -> Self {
        match (self, task) {
            (Self::Waiting(it), Timer::EndCooldown) => it.end_cooldown(at),
            (Self::Waiting(it), Timer::Claim) => it.claim(at),
            (Self::Waiting(it), Timer::AskLeader) => it.ask_leader(at),
            (Self::Waiting(it), Timer::WarnOfWait) => it.warn_of_wait(at),
            (Self::Waiting(_), Timer::Leave) => at.leave(),
            (Self::Acquiring(it), Timer::Fence) => it.fence(at),
            (Self::Acquiring(it), Timer::GiveBack) => it.give_back(at),
            (Self::Leading(it), Timer::Renew) => it.renew(at),
            (Self::Leading(it), Timer::WindDown(cause)) => it.wind_down(at, cause),
            (Self::Leading(it), Timer::CheckHealth) => it.check_health(at),
            (Self::Leading(it), Timer::VerifyFence) => it.verify_fence(at),
            (Self::WindingDown(it), Timer::Renew) => it.renew(at),
            (Self::WindingDown(it), Timer::Abort) => it.abort_handler(at),
            (Self::WindingDown(it), Timer::NoteOverrun) => it.note_overrun(at),
            (Self::WindingDown(it), Timer::SearchHeir) => it.search_heir(at),
            (Self::Releasing(it), Timer::Release) => it.send(at),
            (Self::Releasing(it), Timer::FinishRelease) => it.finish(at),
            (phase, task) => {
                match task {
                    Timer::Read => at.send_read(phase.looks_first() && at.stopping.is_none()),
                    Timer::Reopen => at.reopen(),
                    _ => {}
                }
                phase
            }
        }
    }
}
