//! What applications are told about a role.

use std::time::Duration;

use nats_elect_core::event::FailureKind;
use nats_elect_core::status::{ConnectionStatus, LeaderInfo, RoleState};
use nats_elect_core::token::{CorrelationId, FencingToken};
use serde::Serialize;

/// A role's status at one moment, seen from one instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RoleStatus {
    /// Where this instance stands.
    pub state: RoleState,
    /// Whether this instance leads, judged by the clock at the time of the call.
    pub is_leader: bool,
    /// Whether this instance is paused: it stands for no new term until it is resumed. A term that it has goes on.
    pub paused: bool,
    /// Who leads, as far as this instance knows.
    pub leader: Option<LeaderInfo>,
    /// The fencing token of this instance's term.
    pub fencing_token: Option<FencingToken>,
    /// What this instance's term is called in logs, spans and published events.
    pub correlation_id: Option<CorrelationId>,
    /// Time since the last confirmed heartbeat of this instance's term was sent.
    pub last_heartbeat: Option<Duration>,
    /// How long the last confirmed heartbeat of this instance's term took, from sending it to its answer. None before the
    /// first one: the write that claims the role is no heartbeat.
    pub heartbeat_took: Option<Duration>,
    /// Time since the state last changed.
    pub last_transition: Duration,
    /// Revision of the role's key, as last seen.
    pub revision: Option<u64>,
    /// What of NATS the role can rely on.
    pub connection: ConnectionStatus,
    /// Time until this instance's lease ends, if it holds one.
    pub lease_remaining: Option<Duration>,
    /// The handler runs on although its lease is over: only the end of the process ends it.
    pub overrun: bool,
    /// What failed last; none if since then a term began, a heartbeat was confirmed, a claim came second, or the connection
    /// came back. How long ago it was tells whether it still goes on.
    pub last_failure: Option<LastFailure>,
}

/// A failure that nothing has made good yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LastFailure {
    /// What kind of failure.
    pub kind: FailureKind,
    /// In words, for people: what failed, and what to do about it.
    pub detail: String,
    /// Time since then.
    pub ago: Duration,
}
