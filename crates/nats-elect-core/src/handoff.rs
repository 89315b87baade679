//! How a handoff ends.

use serde::{Deserialize, Serialize};

/// What became of a role that was handed to somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Handoff {
    /// The heir has claimed the role.
    Accepted,
    /// Another instance has claimed it.
    TakenByAnother,
    /// Nobody was seen to claim it in time: it is free for all.
    TimedOut,
}

impl Handoff {
    /// Every outcome.
    pub const ALL: [Self; 3] = [Self::Accepted, Self::TakenByAnother, Self::TimedOut];

    /// The outcome's name as it stands in metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::TakenByAnother => "taken_by_another",
            Self::TimedOut => "timed_out",
        }
    }
}
