//! The state machine. The crate's front page tells how to drive it, and which file holds what.

mod acquiring;
mod answers;
mod asked;
#[cfg(feature = "__mutations")]
mod breakages;
mod effect;
mod failing;
mod input;
mod intent;
mod keeping;
mod labels;
mod leading;
mod line;
mod link;
mod machine;
mod observed_record;
mod observed_role;
mod phase;
mod releasing;
mod scene;
mod sending;
mod succession;
mod takeover;
mod timers;
mod waiting;
mod winding_down;

#[cfg(test)]
mod tests;

pub use self::machine::{CoreStatus, Election};
pub use self::scene::Candidate;
pub use effect::{Effect, Reply, TermStart, Write, WriteKind};
pub use input::{Input, Intent, PeerRequestId, ReplyId, RequestId, Snapshot};
