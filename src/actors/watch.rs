//! The bucket watch: one watch over all role keys. Its messages are hints for the elections.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ractor::ActorRef;

use super::Routes;
use super::linked::{Linked, Reached};
use super::messages::{ElectionMsg, SupervisorMsg};
use crate::clock;
use crate::lock::lock;
use crate::metrics::InstanceLabels;
use crate::repeated::Repeated;
use crate::store::{Delivery, StoreError};
use nats_elect_core::Input;
use nats_elect_core::duration::rounded;

/// The maximum time for the watch to begin.
const START_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) struct Watch {
    pub supervisor: ActorRef<SupervisorMsg>,
    pub labels: InstanceLabels,
    pub routes: Routes,
    /// The ends of watches that were logged.
    pub ends: Mutex<Repeated>,
}

/// A watch that begins again shows everything that was missed, in a recreated bucket too.
impl Linked for Watch {
    async fn run(self: Arc<Self>, reached: Reached) -> Result<(), StoreError> {
        let bucket = &reached.bucket;
        let mut watch = bucket.watch(START_TIMEOUT).await?;
        // The first message of a key may have stood there before.
        let mut shown = HashSet::new();
        loop {
            let told = watch.next().await?;
            // A key that is shown again was written after the watch had begun.
            let live = matches!(&told, Delivery::Entry(role, _) if shown.contains(role));
            if live || told == Delivery::Idle {
                reached.caught_up();
            }
            match told {
                Delivery::Entry(role, entry) => {
                    self.routes
                        .send(&role, ElectionMsg::Observed { entry, live });
                    if !live {
                        shown.insert(role);
                    }
                }
                Delivery::Fence(role, fence) => {
                    let fence = Input::ObservedFence(fence);
                    self.routes.send(&role, ElectionMsg::Input(fence));
                }
                Delivery::Nothing | Delivery::Idle => {}
            }
        }
    }

    fn ended(&self, error: Option<&StoreError>, wait: Duration) -> Duration {
        // A watch ends with its bucket. There may be no other sign that another bucket took its
        // name.
        let _ = self.supervisor.send_message(SupervisorMsg::LookAtBucket);
        let error = error.map(|error| match error {
            // The advice about permissions is for clients that do not pass on their events.
            StoreError::Timeout { subject } => format!("no answer to \"{subject}\" in time"),
            error => error.to_string(),
        });
        let text = error.as_deref().unwrap_or_default();
        // The attempts slow down to one in two seconds.
        if let Some(repeats) = lock(&self.ends).is_due(text, clock::now()) {
            let repeats = (repeats > 0).then_some(repeats);
            tracing::warn!(error, wait = %rounded(wait), repeats, "the watch ended: watching again");
        }
        self.labels.watch_restarted();
        wait
    }
}
