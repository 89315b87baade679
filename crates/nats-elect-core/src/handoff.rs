//! How a handoff ends.

use serde::{Deserialize, Serialize};

use crate::labels;

/// The outcome of a handoff.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Handoff {
    /// The heir has claimed the role. It leads once its fence record is confirmed as well, about a
    /// round trip later.
    Accepted,
    /// Another instance has claimed it.
    TakenByAnother,
    /// No instance was seen to claim it in time. It is free for all.
    TimedOut,
}

labels!(Handoff {
    Accepted => "accepted",
    TakenByAnother => "taken_by_another",
    TimedOut => "timed_out",
});
