//! The condition of an instance, for the supervisor of its process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;
use serde::Serialize;
use tokio::sync::oneshot;

use crate::actors::{Groups, SupervisorMsg};
use crate::error::Error;
use crate::model::status::RoleStatus;
use crate::role::{GroupScope, RoleRegistry, RoleScope};
use nats_elect_core::duration::exact;
use nats_elect_core::status::{ConnectionStatus, RoleState};

/// The election thread answers within this time. Otherwise something holds it up that should not.
const PATIENCE: Duration = Duration::from_secs(1);

/// Checks an instance, even after its manager has been moved elsewhere. A probe is cheap to clone.
#[derive(Clone)]
pub struct Probe {
    pub(super) registry: RoleRegistry,
    pub(super) groups: Arc<Groups>,
    pub(super) supervisor: ActorRef<SupervisorMsg>,
}

/// Whether an instance can take part in its elections and own units of its groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Readiness {
    /// Whether all of its roles and groups are ready.
    pub ready: bool,
    /// The readiness of each role. A role is ready if its bucket is in reach, or was until a moment
    /// ago, and requests to it don't fail again and again.
    pub roles: BTreeMap<String, RoleReadiness>,
    /// The readiness of each group.
    pub groups: BTreeMap<String, GroupReadiness>,
}

/// Whether an instance can take part in one election.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RoleReadiness {
    /// Whether it can take part.
    pub ready: bool,
    /// The state of the role.
    pub state: RoleState,
    /// How far the role can rely on NATS.
    pub connection: ConnectionStatus,
    /// Why requests to the bucket fail again and again, reads or writes. A full disk and a full
    /// account leave reads alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Whether an instance can own units of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct GroupReadiness {
    /// Whether it has joined: see [`GroupHandle::has_joined`](crate::GroupHandle::has_joined).
    pub ready: bool,
    /// How far the group can rely on NATS.
    pub connection: ConnectionStatus,
}

impl Probe {
    /// Checks whether the instance meets its own deadlines. Its actors must answer within a second.
    /// No handler of a role or of a unit may outlive its lease, including the handler of a role
    /// that is being removed.
    ///
    /// The check does not ask whether NATS is in reach, because that is no reason for a restart.
    ///
    /// # Errors
    /// Returns [`Error::NotLive`] if the process should be restarted: the manager was stopped or
    /// dropped, its actors do not answer, or a handler runs on although its lease is over, which only
    /// the end of the process ends.
    ///
    /// # Cancel safety
    /// This method is cancel safe. Nothing is lost if the future is dropped.
    pub async fn live(&self) -> Result<(), Error> {
        let ended = || Error::NotLive("the manager has ended".into());
        let (reply, answer) = oneshot::channel();
        self.supervisor
            .send_message(SupervisorMsg::Ping(reply))
            .map_err(|_| ended())?;
        let Ok(answer) = tokio::time::timeout(PATIENCE, answer).await else {
            let patience = exact(PATIENCE);
            let stuck = format!("the election thread does not answer within {patience}");
            return Err(Error::NotLive(stuck));
        };
        let Some(of) = answer.map_err(|_| ended())? else {
            return Ok(());
        };
        let overrun = format!("the handler of {of} still runs although its lease is over");
        Err(Error::NotLive(overrun))
    }

    /// Returns whether the instance can take part in its elections, and own units of its groups. A
    /// ready instance need not lead: leadership is not readiness.
    ///
    /// An instance with groups is ready when it has joined them. That is when others can give it
    /// their units, so a rolling restart has to wait for it.
    pub fn ready(&self) -> Readiness {
        let role = |scope: &Arc<RoleScope>| {
            let status = scope.status();
            let problem = scope.problem();
            let readiness = RoleReadiness {
                ready: !matches!(status.state, RoleState::Init | RoleState::Stopped)
                    && status.connection != ConnectionStatus::Lost
                    && problem.is_none(),
                state: status.state,
                connection: status.connection,
                problem,
            };
            (scope.role.as_str().to_owned(), readiness)
        };
        let roles: BTreeMap<_, _> = self.registry.all().iter().map(role).collect();
        let group = |scope: &Arc<GroupScope>| {
            let readiness = GroupReadiness {
                ready: scope.board.borrow().joined,
                connection: *scope.connection.borrow(),
            };
            (scope.name.as_str().to_owned(), readiness)
        };
        let groups: BTreeMap<_, _> = self.groups.values().map(group).collect();
        let all = roles.values().all(|role| role.ready) && groups.values().all(|it| it.ready);
        Readiness {
            ready: all && !self.is_over(),
            roles,
            groups,
        }
    }

    /// Returns a role's status at the time of this call. Returns `None` if the instance does not
    /// take part in the election of the role.
    pub fn role(&self, name: &str) -> Option<RoleStatus> {
        Some(self.registry.find(name)?.status())
    }

    fn is_over(&self) -> bool {
        use ractor::ActorStatus::{Draining, Stopped, Stopping};
        matches!(self.supervisor.get_status(), Draining | Stopping | Stopped)
    }
}

impl std::fmt::Debug for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Probe").finish_non_exhaustive()
    }
}
