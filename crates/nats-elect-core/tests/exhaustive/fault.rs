//! What may go wrong, and how often.

use std::marker::PhantomData;

/// Something that may go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

impl Kind for Fault {
    fn index(self) -> usize {
        self as usize
    }
}

/// A kind of fault, with its number.
pub trait Kind: Copy {
    fn index(self) -> usize;
}

/// More than there are kinds of fault.
const KINDS: usize = 24;

/// How often each fault may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Faults<K = Fault> {
    left: [u8; KINDS],
    kind: PhantomData<K>,
}

impl<K: Kind> Faults<K> {
    pub fn new(counts: &[(K, u8)]) -> Self {
        let mut left = [0; KINDS];
        for (fault, count) in counts {
            left[fault.index()] = *count;
        }
        Self {
            left,
            kind: PhantomData,
        }
    }

    pub fn may(&self, fault: K) -> bool {
        self.left[fault.index()] > 0
    }

    pub fn spend(&mut self, fault: K) {
        self.left[fault.index()] -= 1;
    }
}
