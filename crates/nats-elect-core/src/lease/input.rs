//! What the driver of a machine tells it about its requests and its handlers.

use crate::event::{FailureKind, Outcome};
use crate::release::ReleaseSecret;
use crate::token::LeaseToken;

/// Random values for one step, drawn by the driver.
///
/// A step uses them only if it makes a claim or sets a delay. The driver draws new ones for each
/// step all the same.
#[derive(Clone, Copy, Debug)]
pub struct Fresh {
    /// The lease token of a claim made in this step. It must never have been used before.
    pub lease_token: LeaseToken,
    /// The release secret of a claim made in this step. It must be random and never used before.
    pub release_secret: ReleaseSecret,
    /// The jitter of delays set in this step, uniform in `0.0..1.0`.
    pub chance: f64,
}

/// The number of one request to NATS, unique within one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub u64);

/// The number of one acquisition of a lease, unique within one machine.
///
/// An acquisition that never came to a promotion has one too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TermId(pub u64);

/// How a write ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WriteOutcome {
    /// The write is stored.
    Acked {
        /// The sequence of its last message.
        revision: u64,
    },
    /// The write was refused, because the key was at another sequence.
    ///
    /// It proves nothing: a server that no longer leads the stream may refuse a message that its
    /// successor stores.
    Conflict {
        /// The sequence that the refusal names, if it names one.
        current: Option<u64>,
    },
    /// The write is not confirmed. It may be stored, or may yet be.
    Failed(Failure),
}

impl WriteOutcome {
    /// The outcome as it is reported.
    pub(crate) fn told(&self) -> Outcome {
        match self {
            Self::Acked { .. } => Outcome::Confirmed,
            Self::Conflict { .. } => Outcome::Conflict,
            Self::Failed(failure) if failure.kind == FailureKind::Timeout => Outcome::TimedOut,
            Self::Failed(_) => Outcome::Failed,
        }
    }
}

/// A request that failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Failure {
    /// The kind of failure.
    pub kind: FailureKind,
    /// The failure in words, for people.
    pub detail: String,
}

impl Failure {
    pub(crate) fn new(kind: FailureKind, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self { kind, detail }
    }

    /// Whether a lease that is held can't be renewed until somebody acts: a term that rests on it
    /// ends at once. After any other failure, a limit or a refusal that is not understood
    /// included, the lease's deadline decides.
    pub const fn ends_term(&self) -> bool {
        matches!(
            self.kind,
            FailureKind::PermissionDenied | FailureKind::BucketMissing | FailureKind::BucketUnfit
        )
    }

    /// Whether another attempt may soon succeed.
    pub const fn is_transient(&self) -> bool {
        matches!(
            self.kind,
            FailureKind::Timeout
                | FailureKind::Unavailable
                | FailureKind::Contended
                | FailureKind::BucketFull
        )
    }
}

/// How a handler ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandlerEnd {
    /// It returned `Ok`.
    Returned,
    /// It returned an error.
    Failed,
    /// It panicked.
    Panicked,
    /// It was aborted while the term was wound down.
    Aborted,
}
