//! What is due when. One table serves both the timer and the work, so that no due thing can be slept over.

use super::core::{Election, Phase};
use crate::event::EndCause;
use crate::moment::Moment;

/// Something that time brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// A lease that we watch runs out, or a connection is given up: nothing to do, something to tell.
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
    Release,
    FinishDrain,
}

/// More tasks than this in one step mean that one of them does not get done.
const MOST_TASKS_A_STEP: usize = 32;

impl Election {
    pub(super) fn agenda(&self) -> Vec<(Moment, Task)> {
        let mut agenda = match &self.phase {
            Phase::Standing(standing) => self.standing_agenda(standing),
            Phase::Acquiring(acquisition) => self.acquiring_agenda(acquisition),
            Phase::Leading(tenure) => self.leading_agenda(tenure),
            Phase::Draining(drain) => self.draining_agenda(drain),
            Phase::Stopped => return Vec::new(),
        };
        agenda.extend(self.reopen_at().map(|due| (due, Task::Reopen)));
        if !matches!(self.phase, Phase::Leading(_)) {
            agenda.extend(self.connection_lost_at().map(|due| (due, Task::Notice)));
        }
        agenda
    }

    /// Does all that is due now, the earliest first.
    pub(super) fn run_agenda(&mut self) {
        for _ in 0..MOST_TASKS_A_STEP {
            let due = self
                .agenda()
                .into_iter()
                .filter(|(due, _)| *due <= self.now)
                .min_by_key(|(due, _)| *due);
            let Some((_, task)) = due else { return };
            self.perform(task);
        }
        debug_assert!(false, "a due task does not get done: {:?}", self.agenda());
    }

    fn perform(&mut self, task: Task) {
        match task {
            Task::Notice => {}
            Task::EndCooldown => self.end_cooldown(),
            Task::Read => self.send_read(),
            Task::Claim => self.claim(),
            Task::AskLeader => self.ask_leader(),
            Task::Leave => self.leave(),
            Task::Reopen => self.reopen(),
            Task::WarnOfWait => self.warn_of_wait(),
            Task::Fence => self.fence(),
            Task::GiveBack => self.give_back(),
            Task::Renew => self.renew(),
            Task::WindDown(cause) => self.wind_down(cause),
            Task::CheckHealth => self.check_health(),
            Task::VerifyFence => self.verify_fence(),
            Task::Abort => self.abort_handler(),
            Task::NoteOverrun => self.note_overrun(),
            Task::Release => self.release(),
            Task::FinishDrain => self.finish_drain(),
        }
    }
}
