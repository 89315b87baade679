//! The routes to each role's election.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ractor::ActorRef;

use super::messages::ElectionMsg;
use crate::lock::lock;
use nats_elect_core::name::RoleName;

/// The current election actor of each role, with the role's grace period. The supervisor writes it,
/// and all others read it.
#[derive(Clone, Default)]
pub(crate) struct Routes(Arc<Mutex<HashMap<RoleName, Route>>>);

struct Route {
    election: ActorRef<ElectionMsg>,
    grace: Option<Duration>,
}

impl Routes {
    pub(super) fn set(
        &self,
        role: RoleName,
        election: ActorRef<ElectionMsg>,
        grace: Option<Duration>,
    ) {
        lock(&self.0).insert(role, Route { election, grace });
    }

    pub(super) fn remove(&self, role: &RoleName) {
        lock(&self.0).remove(role);
    }

    pub(super) fn all(&self) -> Vec<ActorRef<ElectionMsg>> {
        let routes = lock(&self.0);
        routes
            .values()
            .map(|route| route.election.clone())
            .collect()
    }

    /// Returns the roles that have a grace period, the shortest first.
    pub(super) fn graces(&self) -> Vec<(RoleName, Duration)> {
        let routes = lock(&self.0);
        let graces = routes.iter();
        let mut graces: Vec<_> = graces
            .filter_map(|(role, route)| Some((role.clone(), route.grace?)))
            .collect();
        graces.sort_by_key(|(_, grace)| *grace);
        graces
    }

    /// Sends a message to a role's election. If there is none, the message is dropped, and a caller
    /// that waits for an answer learns that from the broken channel. Returns whether there was an
    /// election.
    pub(crate) fn send(&self, role: &RoleName, message: ElectionMsg) -> bool {
        let to = lock(&self.0).get(role).map(|route| route.election.clone());
        to.is_some_and(|actor| actor.send_message(message).is_ok())
    }
}
