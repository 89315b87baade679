//! What may go wrong, and how often.

/// Something that may go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A request does not reach the server before its sender gives it up. It arrives at any later
    /// time, or never.
    Late,
    /// A request takes effect, but its answer does not come in time.
    Unanswered,
    /// A read shows the keys as they were one write ago.
    Stale,
    /// A message of the watch is lost.
    Unseen,
    /// A process stands still for as long as it likes.
    Pause,
    /// A process is killed. It may be started again at any time.
    Crash,
    /// The client loses its connection for as long as it likes.
    Cut,
    /// A clock loses one tick: as much as the drift margin covers.
    Slip,
    /// Somebody deletes the role's key.
    Delete,
    /// Somebody purges the role's key.
    Purge,
    /// Somebody who obeys no rule writes a record of their own.
    Stranger,
    /// A handler does not listen when it is asked to end.
    Deaf,
    /// A handler does not end when it is aborted, until it likes to.
    Blocked,
    /// A handler ends by itself.
    Returned,
    /// The leader is asked to step down.
    StepDown,
    /// The leader is asked to hand over.
    HandOver,
    /// An instance is paused for any time: it begins no new term.
    StandAside,
    /// The same, and the leader is to end its term.
    Cordon,
    /// An instance is asked to leave.
    Stop,
}

const KINDS: usize = Fault::Stop as usize + 1;

/// How often each fault may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Faults([u8; KINDS]);

impl Faults {
    pub fn new(counts: &[(Fault, u8)]) -> Self {
        let mut left = [0; KINDS];
        for (fault, count) in counts {
            left[*fault as usize] = *count;
        }
        Self(left)
    }

    pub const fn may(&self, fault: Fault) -> bool {
        self.0[fault as usize] > 0
    }

    pub const fn spend(&mut self, fault: Fault) {
        self.0[fault as usize] -= 1;
    }
}
