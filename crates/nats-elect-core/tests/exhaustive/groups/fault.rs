//! What may go wrong among members, and how often.

use crate::fault::Kind;

/// Something that may go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// A write does not take effect before its sender gives it up. It does so at any later time, or
    /// never.
    Late,
    /// A write takes effect. Its answer comes at any later time, also after the timeout, or never.
    Unanswered,
    /// A watch is as slow as it likes, from now on or from its beginning, until a new one begins.
    Lag,
    /// A watch breaks, and a new one begins.
    Break,
    /// A process stands still for as long as it likes.
    Pause,
    /// A process is killed. It may be started again at any time.
    Crash,
    /// A member leaves: it gives its units away.
    Drain,
    /// Somebody hints that a unit should go to another member.
    Hint,
    /// A handler does not listen when it is asked to end.
    Deaf,
    /// A handler does not end when it is aborted, until it likes to.
    Blocked,
    /// A handler ends by itself.
    Returned,
    /// A handler ends by an error.
    Failed,
    /// A handler fails its health checks.
    Unhealthy,
    /// Somebody purges a unit's key,
    Purge,
    /// or that of a member,
    PurgeMember,
    /// or the group's.
    PurgeGroup,
    /// A stranger writes a unit's record over what stands there. It names a living member or nobody,
    /// and has no signature.
    Forge,
    /// The same with a value that nobody understands, or one that closes the unit.
    Spoil,
    /// A stranger writes a tombstone.
    Bury,
    /// Somebody creates a unit of the next generation.
    Prepare,
    /// Somebody has the group grow.
    Grow,
}

impl Kind for Fault {
    fn index(self) -> usize {
        self as usize
    }
}
