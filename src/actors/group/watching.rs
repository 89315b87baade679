//! The watch over a group's keys.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ractor::ActorRef;
use tokio::sync::Semaphore;

use crate::actors::linked::{Linked, Reached};
use crate::actors::messages::{GroupMsg, SupervisorMsg};
use crate::clock;
use crate::lock::lock;
use crate::repeated::Repeated;
use crate::store::{AssignmentDelivery, StoreError};
use nats_elect_core::assignment::Key;
use nats_elect_core::duration::rounded;
use nats_elect_core::name::GroupName;

/// The maximum time for a watch to begin.
const START_TIMEOUT: Duration = Duration::from_secs(2);
/// The most messages of a watch that are taken at once.
const BATCH: usize = 128;
/// The most batches of messages that wait to be taken.
const BATCHES: usize = 2;

pub(super) struct GroupWatch {
    pub group: GroupName,
    pub member: ActorRef<GroupMsg>,
    pub supervisor: ActorRef<SupervisorMsg>,
    /// The ends of watches that were logged.
    pub ends: Mutex<Repeated>,
}

impl Linked for GroupWatch {
    async fn run(self: Arc<Self>, reached: Reached) -> Result<(), StoreError> {
        let bucket = &reached.bucket;
        let mut watch = bucket
            .watch_assignment(&Key::all_of(&self.group), reached.epoch, START_TIMEOUT)
            .await?;
        // Answers to heartbeats do not queue behind a long backlog.
        let batches = Arc::new(Semaphore::new(BATCHES));
        loop {
            let told = watch.next_batch(BATCH).await?;
            let is_caught_up =
                |it: &AssignmentDelivery| matches!(it, AssignmentDelivery::CaughtUp(_));
            if told.iter().any(is_caught_up) {
                reached.caught_up();
            }
            let Ok(taken) = Arc::clone(&batches).acquire_owned().await else {
                return Ok(());
            };
            let told = GroupMsg::Watched {
                bucket: reached.epoch,
                told,
                taken,
            };
            let _ = self.member.send_message(told);
        }
    }

    fn ended(&self, error: Option<&StoreError>, wait: Duration) -> Duration {
        let _ = self.supervisor.send_message(SupervisorMsg::LookAtBucket);
        let text = error.map(ToString::to_string).unwrap_or_default();
        if lock(&self.ends).is_due(&text, clock::now()).is_some() {
            let (group, wait) = (&self.group, rounded(wait));
            tracing::warn!(%group, error = text, %wait, "the watch on a group ended: watching again");
        }
        wait
    }
}
