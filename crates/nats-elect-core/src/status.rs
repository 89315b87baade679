//! The state of a role, its leader and its connection.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::labels;
use crate::record::Content;

/// The state of an instance in one role's election.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RoleState {
    /// The instance has not seen the bucket yet.
    #[default]
    Init,
    /// It would lead: it looks at the role's key, or is claiming it.
    Candidate,
    /// Another instance leads.
    Follower,
    /// It leads and its handler runs.
    Leader,
    /// Its term is over and its handler is being wound down. No other instance leads yet.
    Draining,
    /// Its term is over and its handler has ended. It stays out for the cool-down.
    Demoted,
    /// It has left the election.
    Stopped,
}

labels!(RoleState {
    Init => "init",
    Candidate => "candidate",
    Follower => "follower",
    Leader => "leader",
    Draining => "draining",
    Demoted => "demoted",
    Stopped => "stopped",
});

impl RoleState {
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

/// How much of NATS a role can rely on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionStatus {
    /// The connection is up and, for a leader, the last heartbeat was confirmed.
    Connected,
    /// The connection broke or a heartbeat is late. A leader goes on for its grace period, within
    /// its lease.
    #[default]
    Suspended,
    /// The outage lasted longer than the grace period or the lease.
    Lost,
}

labels!(ConnectionStatus {
    Connected => "connected",
    Suspended => "suspended",
    Lost => "lost",
});

/// The leader of a role, as its record shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LeaderInfo {
    /// The leader's instance id. It is empty if its record does not show one.
    pub instance_id: String,
    /// The start of that instance. Records of other libraries have none.
    pub incarnation: Option<Uuid>,
    /// Its priority.
    #[serde(with = "crate::whole")]
    pub priority: i64,
    /// Facts that the leader tells about itself.
    pub meta: BTreeMap<String, String>,
    /// Whether it is this very instance.
    pub is_self: bool,
    /// The public key that signed for this leader, where trusted keys are set. Then every other
    /// field is from the signed statement.
    ///
    /// For this very instance it is its own key, if it signs.
    pub signer: Option<String>,
}

impl LeaderInfo {
    /// A leader with this instance id, of which nothing else is known.
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

    /// The leader that a message under a role's key shows. `None` if it is a delete marker. For
    /// this project's crates and for drivers.
    #[doc(hidden)]
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
    fn only_a_candidate_becomes_leader() {
        for &state in RoleState::ALL {
            assert_eq!(
                state.may_become(RoleState::Leader),
                state == RoleState::Candidate,
                "{state}"
            );
        }
    }

    #[test]
    fn a_leader_only_drains_and_stopped_is_final() {
        for &state in RoleState::ALL {
            assert_eq!(
                RoleState::Leader.may_become(state),
                state == RoleState::Draining,
                "{state}"
            );
            assert!(!RoleState::Stopped.may_become(state), "{state}");
        }
    }
}
