//! How an instance is, for whoever watches over its process.

use std::collections::BTreeMap;
use std::time::Duration;

use ractor::ActorRef;
use serde::Serialize;
use thiserror::Error;
use tokio::sync::oneshot;

use crate::actors::SupervisorMsg;
use crate::model::status::RoleStatus;
use crate::role::RoleRegistry;
use nats_elect_core::status::{ConnectionStatus, RoleState};

/// The election thread answers within this time, or something holds it up that should not.
const PATIENCE: Duration = Duration::from_secs(1);

/// Asks an instance how it is, also after its manager has been moved elsewhere. Cheap to clone.
#[derive(Clone)]
pub struct Probe {
    registry: RoleRegistry,
    supervisor: ActorRef<SupervisorMsg>,
}

/// Why an instance should be started anew.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NotLive {
    /// The manager was stopped or dropped.
    #[error("the manager has ended")]
    Stopped,
    /// Its actors did not answer in time: leases are not kept up.
    #[error("the election thread does not answer within {PATIENCE:?}")]
    Stuck,
    /// A handler runs on although its lease is over: only the end of the process ends it.
    #[error("the handler of role {role:?} still runs although its lease is over")]
    Overrun {
        /// Its role.
        role: String,
    },
}

/// Whether an instance can take part in its elections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Readiness {
    /// All of its roles are ready.
    pub ready: bool,
    /// Each role, and whether it is ready: its bucket is in reach, or was until a moment ago.
    pub roles: BTreeMap<String, RoleReadiness>,
}

/// Whether an instance can take part in one election.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RoleReadiness {
    /// Whether it can.
    pub ready: bool,
    /// Where it stands.
    pub state: RoleState,
    /// What of NATS it can rely on.
    pub connection: ConnectionStatus,
}

impl Probe {
    pub(super) const fn new(registry: RoleRegistry, supervisor: ActorRef<SupervisorMsg>) -> Self {
        Self {
            registry,
            supervisor,
        }
    }

    /// Whether the instance meets its own deadlines: its actors answer within a second, and no handler outlives its lease, nor
    /// does that of a role that is being removed.
    ///
    /// That NATS is out of reach is no reason to start anew, and is not asked.
    ///
    /// # Errors
    /// Why the process should be started anew.
    ///
    /// # Cancel safety
    /// Nothing is lost by dropping the future.
    pub async fn live(&self) -> Result<(), NotLive> {
        let (reply, answer) = oneshot::channel();
        self.supervisor
            .send_message(SupervisorMsg::Ping(reply))
            .map_err(|_| NotLive::Stopped)?;
        match tokio::time::timeout(PATIENCE, answer).await {
            Err(_) => Err(NotLive::Stuck),
            Ok(Err(_)) => Err(NotLive::Stopped),
            Ok(Ok(None)) => Ok(()),
            Ok(Ok(Some(role))) => Err(NotLive::Overrun {
                role: role.as_str().to_owned(),
            }),
        }
    }

    /// Whether the instance can take part in its elections. It need not lead: leadership is not readiness.
    pub fn ready(&self) -> Readiness {
        let readiness = |status: &RoleStatus| RoleReadiness {
            ready: !matches!(status.state, RoleState::Init | RoleState::Stopped)
                && status.connection != ConnectionStatus::Lost,
            state: status.state,
            connection: status.connection,
        };
        let roles: BTreeMap<_, _> = self
            .registry
            .all()
            .iter()
            .map(|scope| (scope.role.as_str().to_owned(), readiness(&scope.status())))
            .collect();
        Readiness {
            ready: roles.values().all(|role| role.ready) && !self.is_over(),
            roles,
        }
    }

    /// A role's status at the time of this call; nothing if the instance does not stand for it.
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
