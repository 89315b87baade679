//! What can be asked of a role at any time.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::event::FailureKind;
use super::record::Content;
use super::token::{CorrelationId, FencingToken};

/// Where an instance stands in one role's election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoleState {
    /// The bucket has not been seen yet.
    Init,
    /// It would lead: it looks at the role's key, or is claiming it.
    Candidate,
    /// Somebody else leads.
    Follower,
    /// It leads and its handler runs.
    Leader,
    /// Its term is over and its handler is being wound down; nobody else leads yet.
    Draining,
    /// Its term is over and its handler has ended; it stays out for the cool-down.
    Demoted,
    /// It has left the election.
    Stopped,
}

impl RoleState {
    /// Every state, in the order of a life.
    pub const ALL: [Self; 7] = [
        Self::Init,
        Self::Candidate,
        Self::Follower,
        Self::Leader,
        Self::Draining,
        Self::Demoted,
        Self::Stopped,
    ];

    /// The state's name as it stands in metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::Candidate => "candidate",
            Self::Follower => "follower",
            Self::Leader => "leader",
            Self::Draining => "draining",
            Self::Demoted => "demoted",
            Self::Stopped => "stopped",
        }
    }

    /// Whether an instance may go from `self` to `next` in one step.
    pub const fn may_become(self, next: Self) -> bool {
        use RoleState::{Candidate, Demoted, Draining, Follower, Init, Leader, Stopped};
        matches!(
            (self, next),
            (Init | Follower | Demoted, Candidate)
                | (Candidate, Leader | Follower | Stopped)
                | (Leader, Draining)
                | (Draining, Demoted | Stopped)
                | (Follower | Demoted, Stopped)
        )
    }
}

impl fmt::Display for RoleState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How much of NATS a role can rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionStatus {
    /// The connection stands and, for a leader, the last heartbeat was confirmed.
    Connected,
    /// The connection broke or a heartbeat is late. A leader leads on for its grace period, within its lease.
    Suspended,
    /// It lasted longer than the grace period or the lease.
    Lost,
}

impl ConnectionStatus {
    /// The status's name as it stands in metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::Suspended => "suspended",
            Self::Lost => "lost",
        }
    }
}

impl fmt::Display for ConnectionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Who leads a role, as its record tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LeaderInfo {
    /// The leader's instance id; empty if its record does not tell.
    pub instance_id: String,
    /// The start of that instance; records of other libraries have none.
    pub incarnation: Option<Uuid>,
    /// Its priority.
    pub priority: i64,
    /// What it tells about itself.
    pub meta: BTreeMap<String, String>,
    /// Whether it is this very instance.
    pub is_self: bool,
    /// The public key that signed for this leader, where trusted keys are set: then everything else here is what was signed.
    /// For this very instance, its own key if it signs.
    pub signer: Option<String>,
}

impl LeaderInfo {
    /// Whom a value under a role's key shows; nobody if it is no value.
    pub(crate) fn shown_by(content: &Content) -> Option<Self> {
        let (id, incarnation, priority, meta) = match content {
            Content::Record(record) => (
                record.id.clone(),
                record.incarnation,
                record.priority,
                record.meta.clone(),
            ),
            Content::Opaque => Default::default(),
            Content::Release(_) | Content::ForeignMarker => return None,
        };
        Some(Self {
            instance_id: id,
            incarnation,
            priority,
            meta,
            is_self: false,
            signer: None,
        })
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_leads_without_having_stood() {
        for state in RoleState::ALL {
            assert_eq!(
                state.may_become(RoleState::Leader),
                state == RoleState::Candidate,
                "{state}"
            );
        }
    }

    #[test]
    fn a_leader_only_drains_and_the_stopped_stay_so() {
        for state in RoleState::ALL {
            assert_eq!(
                RoleState::Leader.may_become(state),
                state == RoleState::Draining,
                "{state}"
            );
            assert!(!RoleState::Stopped.may_become(state), "{state}");
        }
    }
}
