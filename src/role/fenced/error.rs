//! Why a fenced read or write did not succeed, and what is known of it then.

use thiserror::Error;

use super::entry::FencedEntry;
use nats_elect_core::name::NameError;

/// A fenced read or write that did not succeed. After every error but [`FencedError::Unconfirmed`] nothing was written; after
/// [`FencedError::Superseded`] only what was sent before the fence moved.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FencedError {
    /// The key breaks the rule for keys.
    #[error(transparent)]
    Key(#[from] NameError),
    /// The batch breaks a rule for batches.
    #[error("no such batch can be written: {0}")]
    Batch(BatchProblem),
    /// The value is larger than the server takes.
    #[error(
        "the value of `{key}` has {bytes} bytes, and this server takes {most}: keep it elsewhere, and its address here"
    )]
    TooLarge {
        /// The value's key.
        key: String,
        /// Its size.
        bytes: usize,
        /// What the server takes in one message, less room for headers.
        most: usize,
    },
    /// The role would keep more than its [`data_limit`](crate::RoleConfig::data_limit): nothing was sent. Delete or shorten other values, or raise it.
    #[error(
        "the role would keep {bytes} bytes, and its `data_limit` is {limit}: nothing was sent; shorten other values, or raise it"
    )]
    OverLimit {
        /// What it would keep, as it is counted.
        bytes: u64,
        /// What it may.
        limit: u64,
    },
    /// The term is over: nothing was sent. Stop acting as leader.
    #[error("this term is over, nothing was sent: stop acting as leader")]
    NotLeader,
    /// The server refused it, for the role's fence has moved: a newer term exists, or somebody has tampered with the fence record.
    /// This term has ended with this answer. A fence that seems to have gone back, as after a deletion, is believed only once a write has
    /// proved it. An attempt of the same call that a server refused falsely right before may have been written while the fence was this term's.
    #[error(
        "the server refused the write, for the role's fence is no longer this term's: stop acting as leader"
    )]
    Superseded {
        /// The sequence at which the fence key stands; 0 if it is missing.
        fence: u64,
    },
    /// The key was not as the write required it, while the fence was this term's. The term goes on.
    #[error("`{key}` is not as the write required it ({}): read it, and decide anew", .current.as_ref().map_or_else(|| "it is missing".to_owned(), |entry| format!("it stands at revision {}", entry.revision)))]
    Conflict {
        /// The key.
        key: String,
        /// What was read there after the refusal.
        current: Option<FencedEntry>,
    },
    /// There was no answer, or none that could be relied on: it may have been written, or may yet be, as long as this is the newest term. Read
    /// before deciding anything. So ends a write whose server failed while it stored it, and one that was refused by a server that may have been
    /// replaced as the stream's leader without knowing yet, where nothing better is known of it in the end.
    /// A write that this user's permissions forbid ends like this too.
    #[error(
        "the write was not confirmed ({reason}): it may have been stored, or may yet be; read before deciding anything"
    )]
    Unconfirmed {
        /// What went wrong.
        reason: String,
    },
    /// It could not be done just now; nothing was written. Try again while the term is valid.
    #[error("NATS could not do it just now ({reason}): nothing was written, try again")]
    Unavailable {
        /// What went wrong last.
        reason: String,
    },
    /// The server or the bucket can't do it; nothing was written.
    #[error("{0}")]
    Unsupported(String),
    /// The server refused it for a reason that is not known to pass.
    #[error("NATS refused it: {reason}")]
    Refused {
        /// What it said.
        reason: String,
    },
}

/// What is wrong with a batch.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BatchProblem {
    /// It has no writes.
    #[error("it is empty")]
    Empty,
    /// It has more than 999 writes; here, how many.
    #[error("{0} writes are more than the 999 that one batch can have; split it")]
    TooMany(usize),
    /// A key is written more than once.
    #[error("it writes `{0}` more than once")]
    Twice(String),
}

impl FencedError {
    /// Whether nothing was written and the same call may succeed a moment later without anyone doing anything.
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }

    /// Whether it may have been written all the same, or may yet be.
    pub const fn may_have_been_written(&self) -> bool {
        matches!(self, Self::Unconfirmed { .. })
    }

    /// Its value of the label `status` of `election_fenced_writes_total`.
    pub(super) const fn status(&self) -> &'static str {
        match self {
            Self::Key(_) | Self::Batch(_) | Self::TooLarge { .. } | Self::OverLimit { .. } => {
                "invalid"
            }
            Self::NotLeader => "not_leader",
            Self::Superseded { .. } => "superseded",
            Self::Conflict { .. } => "conflict",
            Self::Unconfirmed { .. } => "unconfirmed",
            Self::Unavailable { .. } => "unavailable",
            Self::Unsupported(_) => "unsupported",
            Self::Refused { .. } => "refused",
        }
    }
}
