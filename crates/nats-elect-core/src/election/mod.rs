//! The state machine. The crate's front page tells how to drive it, and which file holds what.

mod acquiring;
mod answers;
mod asked;
mod attempts;
#[cfg(feature = "__mutations")]
mod breakages;
mod effect;
mod failing;
mod hashing;
mod input;
mod intent;
mod keeping;
mod labels;
mod last_will;
mod leading;
mod line;
mod link;
mod machine;
mod membership;
mod observed_record;
mod observed_role;
mod operations;
mod phase;
mod releasing;
mod retry;
mod sending;
mod succession;
mod takeover;
mod timers;
mod waiting;
mod winding_down;

#[cfg(test)]
mod tests;

pub use self::last_will::{Bequest, LastWill, WillEnd, WillStep};
pub use self::machine::{Candidate, CoreStatus, Election};
pub use effect::{Effect, Reply, TermStart, Write, WriteKind};
pub use input::{
    Bucket, Failure, Fresh, HandlerEnd, Input, Link, OpId, PeerRequestId, ReplyId, RequestId,
    Snapshot, TermId, WriteOutcome,
};
pub use intent::Intent;
pub use operations::MOST_LATE;
