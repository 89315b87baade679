//! The bucket watch: one watch over all role keys. Its messages are hints for the elections.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ractor::ActorRef;

use super::linked::Linked;
use super::messages::{ElectionMsg, SupervisorMsg};
use super::watch_backoff::WatchBackoff;
use super::{Link, Routes};
use crate::clock;
use crate::lock::lock;
use crate::metrics::InstanceLabels;
use crate::repeated::Repeated;
use crate::store::{self, Delivery, StoreError};
use nats_elect_core::duration::rounded;

/// The maximum time for the watch to begin.
const START_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) struct Watch {
    supervisor: ActorRef<SupervisorMsg>,
    labels: InstanceLabels,
    routes: Routes,
    backoff: Mutex<WatchBackoff>,
    /// The ends of watches that were logged.
    ends: Mutex<Repeated>,
}

impl Watch {
    pub fn new(
        supervisor: ActorRef<SupervisorMsg>,
        labels: InstanceLabels,
        routes: Routes,
    ) -> Arc<Self> {
        Arc::new(Self {
            supervisor,
            labels,
            routes,
            backoff: Mutex::new(WatchBackoff::new(clock::now())),
            ends: Mutex::default(),
        })
    }

    fn backoff(&self) -> MutexGuard<'_, WatchBackoff> {
        lock(&self.backoff)
    }
}

impl Linked for Watch {
    async fn run(self: Arc<Self>, bucket: store::Bucket) -> Result<(), StoreError> {
        self.backoff().begun(clock::now());
        let mut watch = bucket.watch(START_TIMEOUT).await?;
        // The first message of a key may have stood there before.
        let mut shown = HashSet::new();
        let mut caught_up = false;
        loop {
            let told = watch.next().await?;
            // A key that is shown again was written after the watch had begun.
            let live = matches!(&told, Delivery::Entry(role, _) if shown.contains(role));
            if !caught_up && (live || told == Delivery::Idle) {
                caught_up = true;
                self.backoff().caught_up();
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
                    self.routes.send(&role, ElectionMsg::ObservedFence(fence));
                }
                Delivery::Nothing | Delivery::Idle | Delivery::Waiting(_) => {}
            }
        }
    }

    /// A watch that begins again shows everything that was missed, in a recreated bucket too.
    fn link_changed(&self, link: &Link, under_way: bool) -> Duration {
        if under_way {
            self.backoff().connection_lost();
        }
        if !matches!(link, Link::Up { .. }) {
            return Duration::ZERO;
        }
        let wait = self.backoff().reconnected();
        if let Some(wait) = wait {
            tracing::warn!(
                wait = %rounded(wait),
                "the connection was lost before each of the last watches had caught up: doing without a watch for a while; \
                 NATS ends connections soon after they begin, or a message in the bucket has headers that the client can't read"
            );
        }
        wait.unwrap_or_default()
    }

    fn ends_with_link(&self) -> bool {
        true
    }

    fn ended(&self, error: Option<&StoreError>) -> Duration {
        // A watch ends with its bucket. There may be no other sign that another bucket took its
        // name.
        let _ = self.supervisor.send_message(SupervisorMsg::LookAtBucket);
        let mut backoff = self.backoff();
        if error.is_some_and(StoreError::cuts_off) {
            backoff.connection_lost();
        }
        let wait = backoff.ended(clock::now());
        let error = error.map(|error| match error {
            // The advice about permissions is for clients that do not pass on their events.
            StoreError::Timeout { subject } => format!("no answer to \"{subject}\" in time"),
            error => error.to_string(),
        });
        let text = error.as_deref().unwrap_or_default();
        // The attempts slow down to one in two seconds.
        if let Some(repeats) = lock(&self.ends).is_due(text, clock::now()) {
            let repeats = (repeats > 0).then_some(repeats);
            let wait = rounded(wait);
            tracing::warn!(error, %wait, repeats, "the watch ended: watching again");
        }
        self.labels.watch_restarted();
        wait
    }
}
