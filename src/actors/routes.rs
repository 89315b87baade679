//! The routes to each role's election.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use ractor::ActorRef;

use super::messages::ElectionMsg;
use crate::lock::lock;
use nats_elect_core::name::RoleName;

/// The current election actor of each role. The supervisor writes it, and all others read it.
#[derive(Clone, Default)]
pub(crate) struct Routes(Arc<Mutex<HashMap<RoleName, ActorRef<ElectionMsg>>>>);

impl Routes {
    pub(super) fn set(&self, role: RoleName, actor: ActorRef<ElectionMsg>) {
        lock(&self.0).insert(role, actor);
    }

    pub(super) fn remove(&self, role: &RoleName) {
        lock(&self.0).remove(role);
    }

    fn to(&self, role: &RoleName) -> Option<ActorRef<ElectionMsg>> {
        lock(&self.0).get(role).cloned()
    }

    pub(super) fn all(&self) -> Vec<ActorRef<ElectionMsg>> {
        lock(&self.0).values().cloned().collect()
    }

    /// Sends a message to a role's election. If there is none, the message is dropped, and a caller
    /// that waits for an answer learns that from the broken channel. Returns whether there was an
    /// election.
    pub(crate) fn send(&self, role: &RoleName, message: ElectionMsg) -> bool {
        self.to(role)
            .is_some_and(|actor| actor.send_message(message).is_ok())
    }
}
