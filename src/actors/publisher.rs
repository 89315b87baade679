//! The event publisher. It publishes leader changes in order, and repeats each until the server has
//! it or it is too old.

mod line;

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use self::line::Line;
use super::linked::Linked;
use crate::lock::lock;
use crate::model::config::{EventsConfig, Storage};
use crate::model::leader_event::LeaderEvent;
use crate::store::{self, StoreError, events_stream};

/// The maximum time of one attempt.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The pause before another attempt.
const RETRY: Duration = Duration::from_secs(1);
/// The same, where a permission is missing.
const RETRY_DENIED: Duration = Duration::from_secs(3);

/// The published events, and the place where they are kept.
#[derive(Clone)]
pub(crate) struct PublisherSetup {
    pub events: EventsConfig,
    pub replicas: usize,
    pub storage: Storage,
}

pub(super) struct Publisher {
    setup: PublisherSetup,
    line: Mutex<Line>,
    /// Notified when a change joins the line.
    joined: Notify,
    /// Whether everything is published. Where events are kept, the stream must exist for that.
    is_done: watch::Sender<bool>,
    complained: AtomicBool,
}

impl Publisher {
    pub fn new(setup: PublisherSetup) -> Arc<Self> {
        Arc::new(Self {
            is_done: watch::Sender::new(setup.events.keep.is_none()),
            setup,
            line: Mutex::default(),
            joined: Notify::new(),
            complained: AtomicBool::new(false),
        })
    }

    /// Publishes this as soon as possible.
    pub fn tell(&self, event: LeaderEvent) {
        let mut line = self.line();
        line.join(event);
        self.is_done.send_replace(false);
        self.joined.notify_one();
    }

    /// Waits until everything is published.
    pub fn all_published(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut is_done = self.is_done.subscribe();
        async move {
            let _ = is_done.wait_for(|done| *done).await;
        }
    }

    /// Records that the first change of the line, if there was one, is published.
    fn told(&self) {
        self.complained.store(false, Ordering::Relaxed);
        let mut line = self.line();
        line.told();
        if line.is_empty() {
            self.is_done.send_replace(true);
        }
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        lock(&self.line)
    }
}

impl Linked for Publisher {
    /// Creates the stream even if there is no event yet.
    async fn run(self: Arc<Self>, bucket: store::Bucket) -> Result<(), StoreError> {
        let mut is_prepared = self.setup.events.keep.is_none();
        loop {
            let event = self.line().tell();
            if event.is_none() && is_prepared {
                self.joined.notified().await;
                continue;
            }
            publish(&bucket, &self.setup, event.as_ref(), is_prepared).await?;
            is_prepared = true;
            self.told();
        }
    }

    /// A disconnected client sends its messages whenever it is connected again.
    fn ends_with_link(&self) -> bool {
        true
    }

    fn ended(&self, error: Option<&StoreError>) -> Duration {
        if !self.complained.swap(true, Ordering::Relaxed) {
            let error = error.map(ToString::to_string);
            tracing::warn!(
                error,
                "a leader change could not be published: trying again"
            );
        }
        match error {
            Some(StoreError::PermissionDenied(_)) => RETRY_DENIED,
            _ => RETRY,
        }
    }
}

/// Creates the stream, if need be, and publishes the event, if there is one.
async fn publish(
    bucket: &store::Bucket,
    setup: &PublisherSetup,
    event: Option<&LeaderEvent>,
    is_prepared: bool,
) -> Result<(), StoreError> {
    let prefix = &setup.events.subject_prefix;
    let news = event.map(|event| {
        let subject = format!("{prefix}.{}.{}", bucket.name(), event.role);
        let id = format!("{}.{}", event.correlation_id, event.name());
        (subject, event.to_json(), id)
    });
    let made = match setup.events.keep {
        Some(keep) if !is_prepared => {
            let (replicas, storage) = (setup.replicas, setup.storage);
            bucket
                .create_events_stream(prefix, keep, replicas, storage, TIMEOUT)
                .await
        }
        _ => Ok(()),
    };
    match news {
        None => made,
        Some((subject, payload, _)) if setup.events.keep.is_none() => {
            bucket.publish_event(subject, payload).await
        }
        Some((subject, payload, id)) => {
            // Another client may have created the stream that this user may not create.
            let kept = bucket.keep_event(subject, payload, &id, TIMEOUT).await;
            let stream = kept.map_err(|error| made.err().unwrap_or(error))?;
            if !is_prepared && stream != events_stream(bucket.name()) {
                tracing::warn!(
                    stream,
                    "another stream keeps the leader changes: the history does not find them there"
                );
            }
            Ok(())
        }
    }
}
