//! The inputs of the state machine.

use std::time::Duration;

use super::intent::Intent;
use crate::event::{FailureKind, Outcome};
use crate::group::MemberInfo;
use crate::moment::Moment;
use crate::peer::{PeerReply, PeerRequest};
use crate::record::Entry;
use crate::record::FenceEntry;
pub use crate::record::Snapshot;
use crate::release::ReleaseSecret;
use crate::token::LeaseToken;

/// Random values for one step, drawn by the driver.
///
/// A step uses them only if it claims the role or sets a delay. The driver draws new ones for each
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

/// The number of one request to NATS, unique within one election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub u64);

/// The number of one acquisition of the role by this instance, unique within one election.
///
/// An acquisition that never came to a promotion has one too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TermId(pub u64);

/// A caller that waits for a [`Reply`](super::Reply), numbered by the driver from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(pub u64);

impl RequestId {
    /// Nobody waits for the answer.
    pub const NOBODY: Self = Self(0);
}

/// A peer request of this instance, unique within one election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerRequestId(pub u64);

/// A peer request of another instance to this one, numbered by the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReplyId(pub u64);

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// Time has passed. The driver sends it at [`next_wakeup`](super::Election::next_wakeup).
    Tick,
    /// The link to the bucket changed.
    Link(Link),
    /// The connection has been down for the whole grace period.
    ///
    /// It ends a term whose last confirmed write was sent before the outage, once. A term also ends
    /// without it: this is a second trigger.
    GraceOver {
        /// When the connection was lost.
        since: Moment,
    },
    /// The watch showed the last message of the role's key. It is a hint, never proof.
    Observed(Entry),
    /// The watch showed the last message of the role's fence key. It is a hint, never proof.
    ObservedFence(FenceEntry),
    /// A write ended.
    ///
    /// A write without an answer in time ends with [`FailureKind::Timeout`]. It may end once more,
    /// with the answer that came late.
    WriteEnded {
        /// The write.
        op: OpId,
        /// How it ended.
        outcome: WriteOutcome,
    },
    /// A read from the stream leader ended. Like a write it may end once more.
    ReadEnded {
        /// The read.
        op: OpId,
        /// Both keys, or the reason why they could not be read.
        outcome: Result<Snapshot, Failure>,
    },
    /// The handler of a term has ended, but tasks that it spawned may still run.
    HandlerEnding {
        /// The handler's term. The input has no effect if that term is over.
        term: TermId,
        /// How the handler ended.
        end: HandlerEnd,
    },
    /// The handler of a term and all tasks that it spawned have ended.
    HandlerEnded {
        /// The handler's term. The input has no effect if that term is over.
        term: TermId,
        /// How the handler ended.
        end: HandlerEnd,
    },
    /// A reader found the shared deadline passed. The deadline cannot be extended any more.
    LeaseOver {
        /// The term of that deadline.
        term: TermId,
    },
    /// The server refused a fenced write of this term, because the fence key has moved on.
    ///
    /// The fence key never comes back to an earlier sequence, so the term is over.
    Superseded {
        /// The term of that write.
        term: TermId,
    },
    /// A health check ended.
    Health {
        /// The term whose handler was checked.
        term: TermId,
        /// Whether the handler is healthy.
        healthy: bool,
    },
    /// A caller wants this of the instance. A `Stop` and an `Abandon` are not answered.
    Intend(RequestId, Intent),
    /// A peer request of another instance arrived.
    ///
    /// The answer comes as [`Effect::AnswerPeer`](super::Effect::AnswerPeer). Some requests get
    /// no answer.
    PeerAsked {
        /// The number that the answer bears.
        reply_to: ReplyId,
        /// The request.
        question: PeerRequest,
    },
    /// A peer replied to a request of this instance.
    PeerReplied {
        /// The request.
        question: PeerRequestId,
        /// The reply. `None` says that the time for replies is over.
        answer: Option<PeerReply>,
    },
    /// Asks for proof of the lease, by a compare-and-set that is sent after this input.
    Validate {
        /// The caller to answer.
        request: RequestId,
        /// The term to prove. `None` means the present one.
        term: Option<TermId>,
    },
    /// An operator says that the holder of the observed lease no longer leads.
    EndLease {
        /// The caller to answer.
        request: RequestId,
        /// The revision of the role's key that the operator saw, or 0 if the key is missing.
        revision: u64,
    },
    /// The next record of a member of groups says this beside its lease. An election for a role
    /// ignores it.
    Tell(Box<MemberInfo>),
}

/// The link to the bucket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Link {
    /// There is no connection. Nothing is published, because a client would queue it and send it
    /// later.
    Down {
        /// When it was lost. The grace period counts from there, however late this comes.
        since: Moment,
    },
    /// There is a connection, but the bucket cannot be used, for this reason.
    Unusable(Failure),
    /// The bucket can be used.
    Up(Bucket),
}

/// The properties of a bucket that matter, from the stream configuration that the server returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bucket {
    /// The creation time in nanoseconds since the Unix epoch. It is the bucket's identity.
    pub epoch: u64,
    /// The age at which the server drops a key, if there is one.
    pub max_age: Option<Duration>,
    /// Whether the sequences of a recreated bucket lie above the ones of this bucket.
    pub unique_sequences: bool,
}

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
    pub(super) fn told(&self) -> Outcome {
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
