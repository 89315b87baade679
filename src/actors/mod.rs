//! The actors: they turn messages into inputs of the election and its effects into work.
//!
//! ```text
//! supervisor ─┬─ connection monitor   the connection, the bucket, what becomes of them
//!             ├─ bucket watch         one watch over all role keys
//!             └─ election × role      one state machine each
//! ```
//!
//! They live on a thread of their own, so that no handler, however it blocks, can cost a role its lease. No handler of
//! theirs waits for NATS: requests are spawned, and their answers come back as messages.

mod announce;
mod election;
mod monitor;
mod supervisor;
mod thread;
mod watch;

pub(crate) use election::ElectionMsg;
pub(crate) use monitor::{Connection, StartFailure, tuned};
pub(crate) use supervisor::SupervisorMsg;
pub(crate) use thread::{ElectionThread, Setup};

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use ractor::ActorRef;

use crate::election::{self as core, Failure};
use crate::model::name::RoleName;
use crate::store;

/// The way to the bucket, for everyone who uses it.
#[derive(Clone)]
pub(crate) enum Link {
    Down,
    Unusable(Failure),
    Up {
        bucket: store::Bucket,
        info: core::Bucket,
    },
}

/// Where each role's election is now: kept by the supervisor, read by everyone.
#[derive(Clone, Default)]
pub(crate) struct Routes(Arc<RwLock<HashMap<RoleName, ActorRef<ElectionMsg>>>>);

impl Routes {
    fn set(&self, role: RoleName, actor: ActorRef<ElectionMsg>) {
        self.0
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(role, actor);
    }

    fn remove(&self, role: &RoleName) {
        self.0
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(role);
    }

    fn to(&self, role: &RoleName) -> Option<ActorRef<ElectionMsg>> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(role)
            .cloned()
    }

    pub(crate) fn names(&self) -> Vec<RoleName> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .keys()
            .cloned()
            .collect()
    }

    fn all(&self) -> Vec<ActorRef<ElectionMsg>> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .cloned()
            .collect()
    }

    /// Sends a message to a role's election. If there is none, the message is dropped: whoever waits for an answer to
    /// it learns that from the broken channel.
    pub(crate) fn send(&self, role: &RoleName, message: ElectionMsg) {
        if let Some(actor) = self.to(role) {
            let _ = actor.send_message(message);
        }
    }
}
