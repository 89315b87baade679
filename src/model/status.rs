//! The status of a role for applications.

use std::time::Duration;

use nats_elect_core::event::FailureKind;
use nats_elect_core::status::{ConnectionStatus, LeaderInfo, RoleState};
use nats_elect_core::token::{CorrelationId, FencingToken};
use serde::Serialize;

/// A role's status at one moment, seen from one instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RoleStatus {
    /// The state of this instance.
    pub state: RoleState,
    /// Whether this instance leads, by the clock at the time of the call.
    pub is_leader: bool,
    /// Whether this instance is paused. A paused instance takes no new term until it is resumed. A
    /// term that it has goes on.
    pub paused: bool,
    /// The leader, as far as this instance knows.
    pub leader: Option<LeaderInfo>,
    /// The fencing token of this instance's term.
    pub fencing_token: Option<FencingToken>,
    /// The name of this instance's term in logs, spans and published events.
    pub correlation_id: Option<CorrelationId>,
    /// Time since the last confirmed heartbeat of this instance's term was sent.
    pub last_heartbeat: Option<Duration>,
    /// How long the last confirmed heartbeat of this instance's term took, from sending it to its
    /// answer. `None` before the first heartbeat. The write that claims the role is not a
    /// heartbeat.
    pub heartbeat_took: Option<Duration>,
    /// Time since the state last changed.
    pub last_transition: Duration,
    /// Revision of the role's key, as last seen.
    pub revision: Option<u64>,
    /// How far the role can rely on NATS.
    pub connection: ConnectionStatus,
    /// Time until this instance's lease ends, if it holds one.
    pub lease_remaining: Option<Duration>,
    /// Whether the handler runs on although its lease is over. Only the end of the process ends it
    /// then.
    pub overrun: bool,
    /// The last failure. `None` if since then a term began, a heartbeat was confirmed, another
    /// instance won a claim, or the connection came back. Its age shows whether the failure still
    /// goes on.
    pub last_failure: Option<LastFailure>,
}

/// A failure after which nothing has succeeded yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LastFailure {
    /// The kind of failure.
    pub kind: FailureKind,
    /// A description for people: what failed, and what to do about it.
    pub detail: String,
    /// Time since the failure.
    pub ago: Duration,
}
