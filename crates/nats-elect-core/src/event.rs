//! What happens to a role, as it happens. Metrics, logs and subscribers all live on these.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::handoff::Handoff;
use crate::peer::Refusal;
use crate::status::{ConnectionStatus, LeaderInfo, RoleState};
use crate::token::FencingToken;

/// Why a term ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EndCause {
    /// `step_down` was called.
    SteppedDown,
    /// An instance of higher priority asked for the role.
    Preempted,
    /// `cordon` was called.
    Cordoned,
    /// The manager or the role was stopped.
    Stopped,
    /// The manager was dropped without being stopped.
    Abandoned,
    /// The handler returned `Ok`.
    Returned,
    /// The handler returned an error.
    Failed,
    /// The handler panicked.
    Panicked,
    /// Too many health checks failed in a row.
    Unhealthy,
    /// No heartbeat was confirmed in time.
    LeaseExpired,
    /// NATS was out of reach for longer than the grace period.
    ConnectionLost,
    /// Another instance's record stands in the key.
    Superseded,
    /// Somebody deleted the key, or the server let it expire.
    Deleted,
    /// The bucket lost acknowledged writes.
    Regressed,
    /// The bucket is gone, was recreated, or refuses this instance.
    BucketLost,
    /// The election's actor crashed.
    Crashed,
}

impl EndCause {
    /// Every cause.
    pub const ALL: [Self; 16] = [
        Self::SteppedDown,
        Self::Preempted,
        Self::Cordoned,
        Self::Stopped,
        Self::Abandoned,
        Self::Returned,
        Self::Failed,
        Self::Panicked,
        Self::Unhealthy,
        Self::LeaseExpired,
        Self::ConnectionLost,
        Self::Superseded,
        Self::Deleted,
        Self::Regressed,
        Self::BucketLost,
        Self::Crashed,
    ];

    /// The cause's name as it stands in metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SteppedDown => "stepped_down",
            Self::Preempted => "preempted",
            Self::Cordoned => "cordoned",
            Self::Stopped => "stopped",
            Self::Abandoned => "abandoned",
            Self::Returned => "returned",
            Self::Failed => "failed",
            Self::Panicked => "panicked",
            Self::Unhealthy => "unhealthy",
            Self::LeaseExpired => "lease_expired",
            Self::ConnectionLost => "connection_lost",
            Self::Superseded => "superseded",
            Self::Deleted => "deleted",
            Self::Regressed => "regressed",
            Self::BucketLost => "bucket_lost",
            Self::Crashed => "crashed",
        }
    }

    /// Whether the application itself is to blame: its role stays out longer each time in a row.
    pub const fn is_failure(self) -> bool {
        matches!(self, Self::Failed | Self::Panicked | Self::Unhealthy)
    }
}

/// How a claim or a heartbeat ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Confirmed by the server.
    Confirmed,
    /// Somebody else's write came first.
    Conflict,
    /// No answer in time: it may or may not have been written.
    TimedOut,
    /// Refused or undeliverable.
    Failed,
    /// Confirmed after the lease it was to extend had ended.
    TooLate,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Self; 5] = [
        Self::Confirmed,
        Self::Conflict,
        Self::TimedOut,
        Self::Failed,
        Self::TooLate,
    ];

    /// The outcome's name as it stands in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Conflict => "conflict",
            Self::TimedOut => "timed_out",
            Self::Failed => "failed",
            Self::TooLate => "too_late",
        }
    }
}

/// How a role that is claimed had become free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Vacancy {
    /// Nothing stood there: nobody ever led it, or all traces were purged.
    Untouched,
    /// Its last leader freed it.
    Released,
    /// Its last leader freed it for this instance.
    HandedOver,
    /// Somebody deleted the key, or the server let it expire.
    Deleted,
    /// Its last leader's lease ran out.
    Expired,
    /// Its leader is in office: the role is taken by force.
    Forced,
}

impl Vacancy {
    /// Its name as it stands in logs and in published events.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Untouched => "untouched",
            Self::Released => "released",
            Self::HandedOver => "handed_over",
            Self::Deleted => "deleted",
            Self::Expired => "expired",
            Self::Forced => "forced",
        }
    }
}

/// Kinds of failure, closed: they are label values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FailureKind {
    /// No answer in time.
    Timeout,
    /// The server could not take the request just now.
    Unavailable,
    /// Another write on the same condition was under way, in a replicated bucket. That passes within a round trip; if it goes on, somebody
    /// floods the bucket.
    Contended,
    /// This user may not do that.
    PermissionDenied,
    /// The bucket does not exist.
    BucketMissing,
    /// The bucket's settings do not fit the role's.
    BucketUnfit,
    /// The bucket's limits had no room for a write: on a cluster perhaps for a moment, for what is under way counts, too.
    BucketFull,
    /// The server refused the request for another reason.
    Rejected,
    /// A confirmed write is no longer there.
    Regression,
    /// The election's actor crashed.
    ActorCrashed,
}

impl FailureKind {
    /// Every kind.
    pub const ALL: [Self; 10] = [
        Self::Timeout,
        Self::Unavailable,
        Self::Contended,
        Self::PermissionDenied,
        Self::BucketMissing,
        Self::BucketUnfit,
        Self::BucketFull,
        Self::Rejected,
        Self::Regression,
        Self::ActorCrashed,
    ];

    /// The kind's name as it stands in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Unavailable => "unavailable",
            Self::Contended => "contended",
            Self::PermissionDenied => "permission_denied",
            Self::BucketMissing => "bucket_missing",
            Self::BucketUnfit => "bucket_unfit",
            Self::BucketFull => "bucket_full",
            Self::Rejected => "rejected",
            Self::Regression => "regression",
            Self::ActorCrashed => "actor_crashed",
        }
    }
}

/// Why a record is not taken as a leader's word; closed: they are label values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Distrust {
    /// It carries no proof. A new leader's first record does not, either: its second one follows at once.
    Unsigned,
    /// What it carries is no proof.
    Malformed,
    /// It is to be signed with a key that is not trusted here.
    UntrustedKey,
    /// It was not signed with the key that it names.
    BadSignature,
    /// It has expired by this instance's wall clock.
    Expired,
    /// By this instance's wall clock it is from the future.
    NotYetValid,
    /// It is good, but speaks of another role, bucket or instance than the record.
    Mismatch,
}

impl Distrust {
    /// Every reason.
    pub const ALL: [Self; 7] = [
        Self::Unsigned,
        Self::Malformed,
        Self::UntrustedKey,
        Self::BadSignature,
        Self::Expired,
        Self::NotYetValid,
        Self::Mismatch,
    ];

    /// The reason's name as it stands in metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unsigned => "unsigned",
            Self::Malformed => "malformed",
            Self::UntrustedKey => "untrusted_key",
            Self::BadSignature => "bad_signature",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::Mismatch => "mismatch",
        }
    }
}

/// Why a free role is not claimed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WaitReason {
    /// A leader is not heard of any more, and its lease lasts.
    Leader,
    /// A record claims a lease, and no fence record shows that its writer ever led.
    UnfencedRecord,
    /// A value stands there that is no record.
    UnreadableRecord,
    /// A release was not written by the leader of the last term.
    UnprovenRelease,
    /// The key was deleted by another hand, or is missing: its last leader's lease may last.
    Deleted,
    /// The fence record is of another instance than what stands in the key: its lease may last.
    FenceRecord,
    /// NATS lost writes or the bucket was made anew: somebody may lead by what is no longer there.
    Lost,
}

impl WaitReason {
    /// Its name as it stands in logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Leader => "leader_not_heard",
            Self::UnfencedRecord => "unfenced_record",
            Self::UnreadableRecord => "unreadable_record",
            Self::UnprovenRelease => "unproven_release",
            Self::Deleted => "deleted",
            Self::FenceRecord => "fence_record",
            Self::Lost => "writes_lost",
        }
    }
}

/// Something that happened to a role on this instance.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The instance went from one state to another.
    StateChanged {
        /// The state it left.
        from: RoleState,
        /// The state it is in now.
        to: RoleState,
    },
    /// The instance stands for no new term until it is resumed.
    Paused,
    /// The instance stands again.
    Resumed,
    /// Another leader is known, or none.
    LeaderChanged(Option<LeaderInfo>),
    /// A term began on this instance.
    TermStarted {
        /// Its fencing token.
        fencing_token: FencingToken,
    },
    /// The term is being wound down.
    TermEnding {
        /// Its fencing token.
        fencing_token: FencingToken,
        /// Why it ends.
        cause: EndCause,
    },
    /// The term is over and its handler has ended.
    TermEnded {
        /// Its fencing token.
        fencing_token: FencingToken,
        /// Why it ended.
        cause: EndCause,
        /// From promotion to the end of the handler.
        lasted: Duration,
        /// Whether the role was freed for others at once.
        released: bool,
    },
    /// A claim of the role was sent.
    ClaimBegan {
        /// How the role had become free.
        vacancy: Vacancy,
    },
    /// The role was freed in the name of an heir.
    HandedOver {
        /// What the heir made of it; nothing if this instance did not wait to see: it stops, or somebody of higher priority
        /// asked for the role.
        outcome: Option<Handoff>,
    },
    /// A successor that was asked for by name does not take the role: this instance leads on.
    HandoffRefused {
        /// Why; nothing if nobody of that name answered.
        why: Option<Refusal>,
    },
    /// A claim of the role ended.
    ClaimEnded {
        /// How.
        outcome: Outcome,
    },
    /// A heartbeat ended. Nothing is told of one that could no longer be stored, because an earlier one had been after all.
    HeartbeatEnded {
        /// How.
        outcome: Outcome,
        /// From sending it to its answer.
        took: Duration,
    },
    /// A health check of the running handler failed or did not end in time.
    HealthCheckFailed {
        /// How many in a row.
        consecutive: u32,
    },
    /// A health check could not be made in time, for the runtime that runs handlers does not answer: something blocks it. It counts
    /// neither as failed nor as passed, and is waited for.
    HealthCheckUnanswered,
    /// A term's lease could not be proved: a compare-and-set was refused.
    ValidationFailed,
    /// What of NATS the role can rely on changed.
    ConnectionChanged(ConnectionStatus),
    /// A request failed.
    Failure {
        /// What kind of failure.
        kind: FailureKind,
        /// In words, for people.
        detail: String,
    },
    /// So many requests failed in a row that only one is tried each `retry.max_backoff` from now on.
    CircuitOpened,
    /// A request succeeded again.
    CircuitClosed,
    /// The handler still ran when its lease ended.
    HandlerOverrun {
        /// Its fencing token.
        fencing_token: FencingToken,
    },
    /// This instance waits for a lease that is longer than its own. `nats-elect end-lease` ends the wait.
    WaitingForLease {
        /// Who claims the lease, if that is known.
        holder: Option<String>,
        /// Why it is waited for.
        why: WaitReason,
        /// The revision of the role's key that is waited out; 0 if the key is missing.
        revision: u64,
        /// Since this was seen.
        waited: Duration,
        /// Until the role is claimed.
        left: Duration,
    },
    /// A record was seen that no trusted key signed. It is waited for like any other, but not told as a leader.
    UntrustedRecord {
        /// Why it is not trusted.
        why: Distrust,
    },
    /// The reader of this stream was too slow: so many events are missing here.
    Lagged {
        /// How many.
        missed: u64,
    },
}
