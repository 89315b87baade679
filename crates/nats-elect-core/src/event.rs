//! Events of a role on this instance. Metrics, logs and subscribers all use them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::handoff::Handoff;
use crate::labels;
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
    /// Another client wrote to the role's key or its fence key: another instance's record is there,
    /// or a value that is no record. Or the bucket was recreated.
    Superseded,
    /// The key was deleted by another client, or expired on the server.
    Deleted,
    /// The bucket lost acknowledged writes.
    Regressed,
    /// The bucket is gone, was recreated, or refuses this instance.
    BucketLost,
    /// The election's actor crashed.
    Crashed,
}

labels!(EndCause {
    SteppedDown => "stepped_down",
    Preempted => "preempted",
    Cordoned => "cordoned",
    Stopped => "stopped",
    Abandoned => "abandoned",
    Returned => "returned",
    Failed => "failed",
    Panicked => "panicked",
    Unhealthy => "unhealthy",
    LeaseExpired => "lease_expired",
    ConnectionLost => "connection_lost",
    Superseded => "superseded",
    Deleted => "deleted",
    Regressed => "regressed",
    BucketLost => "bucket_lost",
    Crashed => "crashed",
});

impl EndCause {
    /// Whether the application itself failed. The cool-down doubles with each such end in a row.
    pub const fn is_failure(self) -> bool {
        matches!(self, Self::Failed | Self::Panicked | Self::Unhealthy)
    }
}

/// How a claim or a heartbeat ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// The server confirmed it.
    Confirmed,
    /// The server refused it, because the key had changed. Another client wrote there, or an earlier
    /// write of this instance came late: a read tells. [`Event::ValidationFailed`] follows if it was
    /// another client.
    Conflict,
    /// No answer came in time. It may or may not have been written.
    TimedOut,
    /// It was refused or could not be delivered.
    Failed,
    /// It was confirmed after the lease that it was to extend had ended.
    TooLate,
}

labels!(Outcome {
    Confirmed => "confirmed",
    Conflict => "conflict",
    TimedOut => "timed_out",
    Failed => "failed",
    TooLate => "too_late",
});

/// How the role that is being claimed became free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Vacancy {
    /// The key is missing: the role was never led, or all traces of its leaders are gone.
    Untouched,
    /// Its last leader freed it.
    Released,
    /// Its last leader freed it for this instance.
    HandedOver,
    /// The key was deleted by another client, or expired on the server.
    Deleted,
    /// Its last leader's lease ran out.
    Expired,
}

labels!(Vacancy {
    Untouched => "untouched",
    Released => "released",
    HandedOver => "handed_over",
    Deleted => "deleted",
    Expired => "expired",
});

/// Kinds of failure. They are values of metric labels, so the set is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FailureKind {
    /// No answer came in time.
    Timeout,
    /// The server could not take the request at that moment.
    Unavailable,
    /// Another write on the same condition was under way, in a replicated bucket. That passes
    /// within a round trip. If it goes on, a client floods the bucket.
    Contended,
    /// This user lacks the permission.
    PermissionDenied,
    /// The bucket does not exist.
    BucketMissing,
    /// The bucket's settings do not fit the role's.
    BucketUnfit,
    /// The limits of the bucket, the account or the server had no room for a write. On a cluster
    /// this may pass quickly, because writes under way count as well.
    BucketFull,
    /// The server refused the request for another reason.
    Rejected,
    /// A confirmed write is no longer there.
    Regression,
    /// The election's actor crashed.
    ActorCrashed,
}

labels!(FailureKind {
    Timeout => "timeout",
    Unavailable => "unavailable",
    Contended => "contended",
    PermissionDenied => "permission_denied",
    BucketMissing => "bucket_missing",
    BucketUnfit => "bucket_unfit",
    BucketFull => "bucket_full",
    Rejected => "rejected",
    Regression => "regression",
    ActorCrashed => "actor_crashed",
});

/// A request of an election to the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BucketRequest {
    /// The role's keys are read.
    Read,
    /// The role is claimed.
    Claim,
    /// The lease is renewed.
    Heartbeat,
    /// The fence record is written.
    Fence,
    /// The role is freed.
    Release,
}

labels!(BucketRequest {
    Read => "read",
    Claim => "claim",
    Heartbeat => "heartbeat",
    Fence => "fence",
    Release => "release",
});

/// Why a record is not accepted as its leader's statement. The reasons are values of metric labels,
/// so the set is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Distrust {
    /// It carries no proof. Nor does the first record of a new leader, but its second one follows
    /// at once.
    Unsigned,
    /// Its proof cannot be parsed.
    Malformed,
    /// Its proof names a key that is not trusted here.
    UntrustedKey,
    /// Its signature does not match the key that it names.
    BadSignature,
    /// Its proof has expired by this instance's wall clock.
    Expired,
    /// Its proof is from the future by this instance's wall clock.
    NotYetValid,
    /// Its proof is valid, but is about another role, bucket or instance than the record.
    Mismatch,
}

labels!(Distrust {
    Unsigned => "unsigned",
    Malformed => "malformed",
    UntrustedKey => "untrusted_key",
    BadSignature => "bad_signature",
    Expired => "expired",
    NotYetValid => "not_yet_valid",
    Mismatch => "mismatch",
});

/// Why a role is not claimed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WaitReason {
    /// A leader was not heard from, but its lease lasts.
    Leader,
    /// A record claims a lease, but no fence record shows that its writer ever led.
    UnfencedRecord,
    /// The key holds a value that is no record.
    UnreadableRecord,
    /// The leader of the last term did not write the release.
    UnprovenRelease,
    /// The key was deleted by another client, or is missing. The lease of its last leader may last.
    Deleted,
    /// The fence record is by another instance than the record in the role's key. That instance's
    /// lease may last.
    FenceRecord,
    /// NATS lost writes or the bucket was recreated. An instance may lead whose record is gone.
    Lost,
}

labels!(WaitReason {
    Leader => "leader_not_heard",
    UnfencedRecord => "unfenced_record",
    UnreadableRecord => "unreadable_record",
    UnprovenRelease => "unproven_release",
    Deleted => "deleted",
    FenceRecord => "fence_record",
    Lost => "writes_lost",
});

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
    /// The instance was paused: it does not take part in elections until resumed.
    Paused,
    /// The instance was resumed.
    Resumed,
    /// The known leader changed. `None` means that none is known.
    LeaderChanged(Option<LeaderInfo>),
    /// A term began on this instance.
    TermStarted {
        /// Its fencing token.
        fencing_token: FencingToken,
    },
    /// The term ends: its handler is being wound down.
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
        /// The time from promotion to the end of the handler.
        lasted: Duration,
        /// Whether the role was freed for others at once.
        released: bool,
        /// How long this instance stays out. Zero if it leaves the election.
        cooldown: Duration,
    },
    /// A claim of the role was sent.
    ClaimBegan {
        /// How the role had become free.
        vacancy: Vacancy,
    },
    /// The role was freed for an heir.
    HandedOver {
        /// The outcome. `None` if this instance did not wait to see it, because it stops or because
        /// a candidate of higher priority asked for the role.
        outcome: Option<Handoff>,
    },
    /// The named successor does not take the role: this instance leads on.
    HandoffRefused {
        /// The reason. `None` if no instance of that name answered.
        why: Option<Refusal>,
    },
    /// A claim of the role ended.
    ClaimEnded {
        /// How.
        outcome: Outcome,
    },
    /// A heartbeat ended.
    ///
    /// There is no event for a heartbeat that can no longer be stored because an earlier one turned
    /// out to be stored.
    HeartbeatEnded {
        /// How.
        outcome: Outcome,
        /// The time from its sending to its answer.
        took: Duration,
    },
    /// A health check of the running handler failed or did not end in time.
    HealthCheckFailed {
        /// How many checks in a row failed.
        consecutive: u32,
    },
    /// A health check could not be made in time, because the runtime of the handlers is blocked. It
    /// counts neither as failed nor as passed, and its result is awaited.
    HealthCheckUnanswered,
    /// The terms of this instance failed one after the other, or those of earlier processes of its
    /// id. Until the pause is over it asks no leader for the role, is no heir, and claims last.
    Failing {
        /// How many terms.
        terms: u32,
        /// How long it waits for another chance.
        pause: Duration,
    },
    /// The pause is over, or an operator ended it: the instance gets another chance.
    FailingOver,
    /// A compare-and-set was refused, so the lease of a term could not be proved.
    ValidationFailed,
    /// The connection status of the role changed.
    ConnectionChanged(ConnectionStatus),
    /// A request failed.
    Failure {
        /// The request. `None` if the failure is of none of them.
        request: Option<BucketRequest>,
        /// The kind of failure.
        kind: FailureKind,
        /// The failure in words, for people.
        detail: String,
    },
    /// So many requests of one kind (reads, writes of the record, writes of the fence record) failed
    /// in a row that from now on one is tried per `max_backoff`. A failure that does not pass
    /// by itself, such as a missing permission, is enough.
    CircuitOpened,
    /// Requests of each kind succeed again: a read does not show that writes do.
    CircuitClosed,
    /// The handler still ran when its lease had ended, although it had been aborted and had had the
    /// time that an abort takes.
    HandlerOverrun {
        /// Its fencing token.
        fencing_token: FencingToken,
    },
    /// This instance waits for a lease that is longer than its own. `nats-elect end-lease` ends the
    /// wait.
    WaitingForLease {
        /// The instance id that claims the lease, if it is known.
        holder: Option<String>,
        /// Why the role is not free.
        why: WaitReason,
        /// The revision of the role's key that is waited out, or 0 if the key is missing.
        revision: u64,
        /// The time since this revision was received.
        waited: Duration,
        /// The time until the role is claimed.
        left: Duration,
    },
    /// A record was seen that no trusted key signed. Its lease is waited for like any other, but
    /// its writer is not reported as leader.
    UntrustedRecord {
        /// Why the record is not trusted.
        why: Distrust,
    },
    /// The reader of this stream was too slow, so events are missing here.
    Lagged {
        /// How many.
        missed: u64,
    },
}
