//! The bucket watch: one watch over all role keys, whose messages are hints for the elections.

use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};

use super::latest_task::LatestTask;
use super::messages::{ElectionMsg, SupervisorMsg, WatchMsg};
use super::watch_backoff::WatchBackoff;
use super::{Link, Routes};
use crate::clock;
use crate::metrics::InstanceLabels;
use crate::store::{self, Delivery, StoreError};

/// How long the watch may take to begin.
const START_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) struct WatchActor;

pub(super) struct WatchSetup {
    pub supervisor: ActorRef<SupervisorMsg>,
    pub labels: InstanceLabels,
    pub routes: Routes,
    pub link: Link,
}

pub(super) struct WatchState {
    supervisor: ActorRef<SupervisorMsg>,
    labels: InstanceLabels,
    routes: Routes,
    bucket: Option<store::Bucket>,
    watch_backoff: WatchBackoff,
    task: LatestTask,
}

impl Actor for WatchActor {
    type Msg = WatchMsg;
    type State = WatchState;
    type Arguments = WatchSetup;

    async fn pre_start(
        &self,
        myself: ActorRef<WatchMsg>,
        setup: WatchSetup,
    ) -> Result<WatchState, ActorProcessingErr> {
        let mut state = WatchState {
            supervisor: setup.supervisor,
            labels: setup.labels,
            routes: setup.routes,
            bucket: None,
            watch_backoff: WatchBackoff::new(clock::now()),
            task: LatestTask::default(),
        };
        state.link_changed(&myself, setup.link);
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<WatchMsg>,
        message: WatchMsg,
        state: &mut WatchState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            WatchMsg::LinkChanged(link) => state.link_changed(&myself, link),
            WatchMsg::Ended { number, error } if state.task.is(number) => {
                state.ended(&myself, error);
            }
            WatchMsg::Retry { number } if state.task.is(number) => state.start(&myself),
            WatchMsg::Ended { .. } | WatchMsg::Retry { .. } => {}
        }
        Ok(())
    }
}

impl WatchState {
    /// After each reconnect the watch is begun anew: it then shows what was missed, also in a recreated bucket.
    fn link_changed(&mut self, myself: &ActorRef<WatchMsg>, link: Link) {
        if self.task.is_under_way() {
            self.watch_backoff.connection_lost(clock::now());
        }
        self.task.stop();
        if let Link::Up { bucket, .. } = link {
            self.bucket = Some(bucket);
            match self.watch_backoff.reconnected() {
                None => self.start(myself),
                Some(wait) => {
                    tracing::warn!(
                        ?wait,
                        "the connection broke with each of the last watches: something in the bucket may be unreadable; \
                         doing without a watch for a while"
                    );
                    self.retry_after(myself, wait);
                }
            }
        }
    }

    fn retry_after(&self, myself: &ActorRef<WatchMsg>, wait: Duration) {
        let number = self.task.number();
        myself.send_after(wait, move || WatchMsg::Retry { number });
    }

    fn start(&mut self, myself: &ActorRef<WatchMsg>) {
        let Some(bucket) = self.bucket.clone() else {
            return;
        };
        self.watch_backoff.begun(clock::now());
        let (routes, myself) = (self.routes.clone(), myself.clone());
        self.task.begin(async move |number| {
            let error = forward(&bucket, &routes).await.err();
            let _ = myself.send_message(WatchMsg::Ended { number, error });
        });
    }

    fn ended(&mut self, myself: &ActorRef<WatchMsg>, error: Option<StoreError>) {
        // A watch ends with its bucket, and nothing else need tell that another one took its name.
        let _ = self.supervisor.send_message(SupervisorMsg::LookAtBucket);
        self.task.ended();
        if matches!(error, Some(StoreError::Unavailable(_))) {
            self.watch_backoff.connection_lost(clock::now());
        }
        let wait = self.watch_backoff.ended(clock::now());
        // Attempts slow down to one in two seconds.
        tracing::warn!(
            error = error.map(|error| error.to_string()),
            ?wait,
            "the watch ended: watching anew"
        );
        self.labels.watch_restarted();
        self.retry_after(myself, wait);
    }
}

async fn forward(bucket: &store::Bucket, routes: &Routes) -> Result<(), StoreError> {
    let mut watch = bucket.watch(START_TIMEOUT).await?;
    loop {
        match watch.next().await? {
            Delivery::Entry(role, entry) => {
                routes.send(&role, ElectionMsg::Observed(entry));
            }
            Delivery::Fence(role, fence) => {
                routes.send(&role, ElectionMsg::ObservedFence(fence));
            }
            Delivery::Nothing | Delivery::Idle | Delivery::Waiting(_) => {}
        }
    }
}
