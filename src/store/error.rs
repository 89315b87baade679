//! Errors of the requests from this process to the bucket, sorted by the possible reaction.

use async_nats::jetstream::{self, ErrorCode};

use super::error_codes::error_of;
use nats_elect_core::event::FailureKind;

/// A request to the bucket that did not succeed.
///
/// # What a refusal proves
///
/// A refusal shows what the refusing server has stored. It also shows that *this server* stored
/// nothing. In a cluster, a server may have been replaced as the stream's leader without knowing
/// yet. Such a server still listens, and it refuses by its older state. Its successor receives the
/// same message, and may store it.
///
/// The state of a replaced server is never ahead of the agreed state. So a
/// [`Conflict`](Self::Conflict) is certain where the reported sequence is greater than the expected
/// one: the key has left the expected sequence for good. Where the reported sequence is smaller, or
/// missing, the key was deleted, or the message may be stored elsewhere. The message may also be
/// stored elsewhere after [`Unavailable`](Self::Unavailable) and [`BucketFull`](Self::BucketFull),
/// if a server was asked at all. A bucket with one replica has no other leader, so every refusal is
/// certain there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No answer came in time. A write may or may not have been stored: read back, or retry with
    /// the same expectation.
    ///
    /// Over a client that the caller made, a request that the user's permissions forbid ends like
    /// this too. The server reports it only as an event of the connection, and such a client does
    /// not pass its events on.
    #[error(
        "NATS did not answer \"{subject}\" in time; if this goes on, check the connection, and that this user may publish there and subscribe to its inbox"
    )]
    Timeout {
        /// The subject of the request.
        subject: String,
    },

    /// The server failed after it had taken the write. The write may be stored already, or may be
    /// stored later. Treat this as a timeout.
    #[error("NATS failed while it stored the write ({0}): it may have been stored, or may yet be")]
    Uncertain(String),

    /// The server could not take the request at the moment, and stored nothing. Retry.
    #[error("NATS cannot take the request just now ({0}); it is worth retrying")]
    Unavailable(String),

    /// Another write on the same condition is in progress on the server, which stored nothing.
    /// Retry at once.
    #[error("another write is under way ({0}); it is worth retrying at once")]
    Contended(String),

    /// The server that answered has another sequence than the expected one, and stored nothing.
    /// Read again before deciding anything.
    #[error("another write came first (the last sequence is {}); read again", .current.map_or("unknown".into(), |n| n.to_string()))]
    Conflict {
        /// The sequence on the server, if the server reported it.
        current: Option<u64>,
    },

    /// The server or the bucket does not support this operation. Nothing was stored. Use another
    /// operation, or upgrade.
    #[error("not supported here: {0}")]
    Unsupported(String),

    /// The user's permissions forbid the operation. Grant it and retry.
    ///
    /// The server names the subject and no request. So all requests to that subject end like this,
    /// and one of them may have been stored. Treat this as a timeout.
    #[error("permission denied: {0}; grant it to this user")]
    PermissionDenied(String),

    /// The bucket does not exist.
    #[error("bucket {bucket:?} does not exist; create it, or set `bucket_auto_create`")]
    BucketMissing {
        /// Its name.
        bucket: String,
    },

    /// `JetStream` is off on this server or for this account.
    #[error("JetStream is not enabled ({0}); enable it on the server and for this account")]
    JetStreamDisabled(String),

    /// The bucket exists, but it is not fit for elections.
    #[error("the bucket is unfit for elections: {0}; correct its settings or use another bucket")]
    BucketUnfit(String),

    /// The connected server, or the leader of the bucket's stream, is too old. Upgrade it to 2.11.2
    /// or later.
    #[error("nats-server {version} is too old for elections: upgrade it to 2.11.2 or later")]
    ServerTooOld {
        /// Its version.
        version: String,
    },

    /// The limits of the bucket, the account or the server have no room for the write. Nothing was
    /// stored. Make room, or raise the limits. On a cluster the same write may be stored a moment
    /// later, because writes in progress count as well.
    #[error(
        "there is no room in the bucket ({0}); make room, or raise the limits of the bucket (`max_bytes`, `max_msgs`), the account or the server"
    )]
    BucketFull(String),

    /// The server refused the request for a reason that is not known to pass.
    #[error("NATS refused the request: {detail}")]
    Rejected {
        /// The server's error code; 0 if the answer had none.
        code: u64,
        /// The server's description.
        detail: String,
    },
}

impl StoreError {
    /// Returns the failure's kind in events and metrics.
    pub const fn kind(&self) -> FailureKind {
        match self {
            Self::Timeout { .. } => FailureKind::Timeout,
            Self::Unavailable(_) | Self::Uncertain(_) | Self::JetStreamDisabled(_) => {
                FailureKind::Unavailable
            }
            Self::Contended(_) => FailureKind::Contended,
            Self::PermissionDenied(_) => FailureKind::PermissionDenied,
            Self::BucketMissing { .. } => FailureKind::BucketMissing,
            Self::BucketUnfit(_) | Self::Unsupported(_) | Self::ServerTooOld { .. } => {
                FailureKind::BucketUnfit
            }
            Self::BucketFull(_) => FailureKind::BucketFull,
            Self::Conflict { .. } | Self::Rejected { .. } => FailureKind::Rejected,
        }
    }

    /// Returns whether the same request may succeed a moment later without any intervention.
    pub const fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Timeout { .. }
                | Self::Unavailable(_)
                | Self::Contended(_)
                | Self::Uncertain(_)
                | Self::BucketFull(_)
        )
    }

    /// Returns whether the server, if one was asked, could not take the request at the moment.
    pub const fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Unavailable(_) | Self::Contended(_) | Self::BucketFull(_)
        )
    }

    /// Returns whether a new bucket lacks nodes that are not there yet, as in a cluster that is
    /// just starting.
    pub fn lacks_nodes(&self) -> bool {
        let no_peers = ErrorCode::CLUSTER_NO_PEERS.0;
        matches!(self, Self::Rejected { code, detail } if *code == no_peers && detail.contains("offline"))
    }

    /// Converts an error answer of `JetStream`.
    pub(super) fn from_server(error: &jetstream::Error, bucket: &str) -> Self {
        let code = error.error_code();
        if code == ErrorCode::STREAM_NOT_FOUND {
            let bucket = bucket.to_owned();
            return Self::BucketMissing { bucket };
        }
        error_of(code.0, error.code(), error.to_string())
    }

    /// Returns the error of who asks for what is in a bucket, where that was replaced.
    pub fn another_bucket() -> Self {
        Self::Unavailable("the bucket is another one than before".into())
    }

    /// Returns the error for an answer that does not follow the protocol.
    pub(super) fn unreadable(what: &str, why: impl std::fmt::Display) -> Self {
        Self::Rejected {
            code: 0,
            detail: format!("unreadable {what}: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(code: usize, err_code: u64, description: &str) -> StoreError {
        let json =
            serde_json::json!({ "code": code, "err_code": err_code, "description": description });
        StoreError::from_server(&serde_json::from_value(json).unwrap(), "leaders")
    }

    #[test]
    fn a_conflict_reports_the_current_sequence() {
        let conflict = |text| sorted(400, 10071, text);
        for (text, current) in [
            ("wrong last sequence: 17", Some(17)),
            (
                "wrong last sequence: 1700000000000001",
                Some(1_700_000_000_000_001),
            ),
            ("wrong last sequence: 0", Some(0)),
            ("wrong last sequence: 99999999999999999999999", None),
            ("wrong last sequence: -1", None),
            ("wrong last sequence", None),
            ("", None),
        ] {
            assert_eq!(conflict(text), StoreError::Conflict { current }, "{text}");
        }
    }

    #[test]
    fn only_errors_that_pass_without_intervention_are_transient() {
        let contended = sorted(400, 10164, "later");
        assert!(matches!(contended, StoreError::Contended(_)) && contended.is_transient());
        for (code, err_code) in [(503, 10008), (429, 10211), (400, 10176)] {
            let error = sorted(code, err_code, "later");
            assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
            assert!(error.is_transient());
        }
        for (code, err_code, text) in [
            (503, 10077, "store is closed"),
            (503, 10077, "apply failed"),
            (503, 10063, "expected stream sequence does not match"),
        ] {
            let error = sorted(code, err_code, text);
            assert!(matches!(error, StoreError::Uncertain(_)), "{error:?}");
            assert!(error.is_transient());
        }
        let error = sorted(500, 10002, "resource limits exceeded for account");
        assert!(matches!(error, StoreError::BucketFull(_)), "{error:?}");
        assert!(error.is_transient() && error.is_refusal());
        for (code, err_code) in [
            (400, 10071),
            (404, 10059),
            (503, 10039),
            (400, 10174),
            (400, 10205),
            (500, 10109),
            (400, 1),
        ] {
            let error = sorted(code, err_code, "no");
            assert!(!error.is_transient(), "{error:?}");
        }
    }

    #[test]
    fn a_full_bucket_is_transient_and_keeps_its_failure_kind() {
        for text in ["maximum bytes exceeded", "maximum messages exceeded"] {
            let error = sorted(503, 10077, text);
            assert_eq!(error.kind(), FailureKind::BucketFull);
            assert!(error.is_transient() && error.to_string().contains("max_bytes"));
        }
    }

    #[test]
    fn offline_nodes_are_lacking_but_nodes_without_storage_are_not() {
        let no_peers = |why: &str| {
            let text = format!("no suitable peers for placement, {why}");
            sorted(400, 10005, &text).lacks_nodes()
        };
        assert!(no_peers("peer offline") && !no_peers("insufficient storage"));
    }

    #[test]
    fn an_unknown_error_keeps_its_code_and_text() {
        let StoreError::Rejected { code, detail } =
            sorted(400, 10054, "message size exceeds maximum allowed")
        else {
            panic!("not rejected");
        };
        assert_eq!(code, 10054);
        assert!(detail.contains("exceeds maximum"), "{detail}");
    }
}
