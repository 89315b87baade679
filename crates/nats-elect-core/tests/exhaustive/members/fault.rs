//! What may go wrong among members, and what people may order, each so often.

use crate::fault::Kind;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// A request does not reach the server before its sender gives it up. It arrives at any later
    /// time, or never.
    Late,
    /// A request takes effect. Its answer comes after its sender has given it up, or never.
    Unanswered,
    /// A process stands still for as long as it likes. Its handlers go on.
    Pause,
    /// A process is killed.
    Crash,
    /// A process starts.
    Start,
    /// A watch is as slow as it likes.
    Lag,
    /// A watch begins anew.
    Rewatch,
    /// A watch begins anew, and says too early that it has caught up.
    Behind,
    /// A handler does not listen when it is told to end.
    Deaf,
    /// A handler ends by itself.
    Returned,
    /// Somebody overwrites or deletes the map.
    SpoilMap,
    /// Somebody purges the map.
    PurgeMap,
    /// Somebody overwrites or deletes a member's key.
    SpoilMember,
    /// Somebody purges a member's key.
    PurgeMember,
    /// Somebody puts back the first record of an epoch.
    PutBack,
    /// A unit is to be moved.
    Move,
    /// Another generation is to be opened.
    Resize,
    /// A member is to leave.
    Leave,
}

impl Kind for Fault {
    fn index(self) -> usize {
        self as usize
    }
}
