//! The errors of fenced reads and writes.

use thiserror::Error;

use super::entry::FencedEntry;
use nats_elect_core::name::NameError;

/// A fenced read or write that did not succeed.
///
/// Nothing was written after any error but [`FencedError::Unconfirmed`] and
/// [`FencedError::Superseded`]. After [`FencedError::Superseded`] only what was sent before the
/// fence moved may have been written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FencedError {
    /// The key breaks the rule for keys.
    #[error(transparent)]
    Key(#[from] NameError),
    /// The batch has no writes, more than 999, or two to one key. The text says which.
    #[error("this batch can't be written: {0}")]
    Batch(String),
    /// The value is larger than the server takes.
    #[error(
        "the value of `{key}` has {bytes} bytes, and this server takes at most {most}: store it elsewhere, and its address here"
    )]
    TooLarge {
        /// The key of the value.
        key: String,
        /// The size of the value.
        bytes: usize,
        /// The most that the server takes in one message, less room for headers.
        most: usize,
    },
    /// The role would keep more than its [`data_limit`](crate::RoleConfig::data_limit). Nothing was
    /// sent. Delete or shorten other values, or raise the limit.
    #[error(
        "the role would keep {bytes} bytes, and its `data_limit` is {limit}: nothing was sent; shorten other values, or raise it"
    )]
    OverLimit {
        /// The bytes that the role would keep, as they are counted.
        bytes: u64,
        /// The bytes that the role may keep.
        limit: u64,
    },
    /// The term is over. Nothing was sent. Stop acting as leader.
    #[error("this term is over, nothing was sent: stop acting as leader")]
    NotLeader,
    /// The server refused the write, because the role's fence has moved. Either a newer term
    /// exists, or another client has tampered with the fence record.
    ///
    /// This term has ended with this answer. A fence that seems to have gone back, as after a
    /// deletion, is believed only once a write has proved it. The server may have falsely refused
    /// an attempt of the same call right before. Such an attempt may have been written while the
    /// fence was this term's.
    #[error(
        "the server refused the write, because the role's fence record is no longer this term's: stop acting as leader"
    )]
    Superseded {
        /// The sequence at which the fence key stands. It is 0 if the key is missing.
        fence: u64,
    },
    /// The key was not as the write required it, while the fence was this term's. The term goes on.
    #[error("`{key}` is not in the state that the write required ({}): read it, and decide again", .current.as_ref().map_or_else(|| "it is missing".to_owned(), |entry| format!("it is at revision {}", entry.revision)))]
    Conflict {
        /// The key.
        key: String,
        /// The entry that was read there after the refusal.
        current: Option<FencedEntry>,
    },
    /// There was no answer, or no reliable one. The write may have been stored, or may still be
    /// stored as long as this is the newest term. Read before you decide anything.
    ///
    /// These writes end with this error:
    ///
    /// - A write whose server failed while it stored the write.
    /// - A write that was refused by a server that may have been replaced as the stream's leader
    ///   without knowing it yet, if nothing better is known in the end.
    /// - A write that this user's permissions forbid.
    #[error(
        "the write was not confirmed ({reason}): it may have been stored, or may yet be; read before deciding anything"
    )]
    Unconfirmed {
        /// The cause of the failure.
        reason: String,
    },
    /// The operation could not be done just now. Nothing was written. Try again while the term is
    /// valid.
    #[error("NATS could not do it just now ({reason}): nothing was written, try again")]
    Unavailable {
        /// The cause of the last failure.
        reason: String,
    },
    /// The server or the bucket can't do it. Nothing was written.
    #[error("{0}")]
    Unsupported(String),
    /// The server refused the operation for a reason that is not known to pass, such as a missing
    /// permission. Nothing was written.
    #[error("NATS refused the request: {reason}")]
    Refused {
        /// The text of the server's answer.
        reason: String,
    },
}

impl FencedError {
    /// Returns whether nothing was written and the same call may succeed a moment later without any
    /// intervention.
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }

    /// Returns whether the write may have been stored all the same, or may still be stored.
    pub const fn may_have_been_written(&self) -> bool {
        matches!(self, Self::Unconfirmed { .. })
    }

    /// Returns the error's value of the label `status` of `election_fenced_writes_total`.
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
