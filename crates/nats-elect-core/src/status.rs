//! What can be asked of a role at any time.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::record::Content;

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
    /// A leader of that instance id, of which nothing else is known.
    pub fn new(instance_id: impl Into<String>) -> Self {
        Self {
            instance_id: instance_id.into(),
            incarnation: None,
            priority: 0,
            meta: BTreeMap::new(),
            is_self: false,
            signer: None,
        }
    }

    /// Whom a value under a role's key shows; nobody if it is no value.
    pub fn shown_by(content: &Content) -> Option<Self> {
        match content {
            Content::Record(record) => Some(Self {
                incarnation: record.incarnation,
                priority: record.priority,
                meta: record.meta.clone(),
                ..Self::new(record.id.clone())
            }),
            Content::Opaque => Some(Self::new("")),
            Content::Release(_) | Content::ForeignMarker => None,
        }
    }
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
