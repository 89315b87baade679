//! The event publisher. It publishes leader changes in order, and repeats each until the server has
//! it or it is too old.

mod line;

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use self::line::Line;
use super::linked::{Linked, Reached};
use crate::lock::lock;
use crate::model::config::ManagerConfig;
use crate::model::leader_event::LeaderEvent;
use crate::store::{self, StoreError, events_stream};

/// The maximum time of one attempt.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The same, while it is not known whether there is a stream that confirms. A stop waits for longer.
const TIMEOUT_UNKNOWN: Duration = Duration::from_millis(500);
/// The pause before another attempt.
const RETRY: Duration = Duration::from_secs(1);
/// The same, where a permission is missing.
const RETRY_DENIED: Duration = Duration::from_secs(3);
/// So many attempts may fail in a row before a stream that was seen counts as gone. A stream that
/// elects its leader confirms nothing meanwhile.
const PATIENCE: u32 = 30;

pub(crate) struct Publisher {
    config: ManagerConfig,
    line: Mutex<Line>,
    /// Notified when a change joins the line.
    joined: Notify,
    /// Whether everything is published, and the stream has been made, or tried, that this instance
    /// makes.
    is_done: watch::Sender<bool>,
    complained: AtomicBool,
    /// More than 0 if a stream was seen that keeps the events: so many attempts may still fail.
    patience: AtomicU32,
    /// Whether the log has that no history is kept.
    told_unkept: AtomicBool,
}

impl Publisher {
    pub fn new(config: ManagerConfig) -> Arc<Self> {
        Arc::new(Self {
            is_done: watch::Sender::new(!makes_stream(&config)),
            config,
            line: Mutex::default(),
            joined: Notify::new(),
            complained: AtomicBool::new(false),
            patience: AtomicU32::new(0),
            told_unkept: AtomicBool::new(false),
        })
    }

    /// Whether events must be kept. Otherwise they are if they can be.
    const fn must_keep(&self) -> bool {
        self.config.events.keep.is_some()
    }

    /// Publishes this as soon as possible.
    pub fn tell(&self, event: LeaderEvent) {
        let mut line = lock(&self.line);
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
        let mut line = lock(&self.line);
        line.told();
        if line.is_empty() {
            self.is_done.send_replace(true);
        }
    }

    /// Returns the first change of the line, which is being published from now on.
    fn next(&self) -> Option<LeaderEvent> {
        lock(&self.line).tell()
    }

    /// Makes the stream, unless it exists.
    async fn make_stream(&self, bucket: &store::Bucket) -> Result<(), StoreError> {
        let made = bucket.create_events_stream(&self.config, TIMEOUT).await;
        if made.is_ok() {
            self.stream_seen();
        }
        if let Err(error) = &made
            && !self.must_keep()
            && !self.told_unkept.swap(true, Ordering::Relaxed)
        {
            // Nobody has to grant it: another user may make the stream.
            let error = match error {
                StoreError::PermissionDenied(denied) => denied.clone(),
                error => error.to_string(),
            };
            tracing::info!(
                error,
                "this instance can't make the stream of the history: leader changes are kept only if `nats-elect create-bucket` has made it, or makes it"
            );
        }
        made
    }

    fn is_stream_seen(&self) -> bool {
        self.patience.load(Ordering::Relaxed) > 0
    }

    fn stream_seen(&self) {
        self.patience.store(PATIENCE, Ordering::Relaxed);
    }

    /// Publishes what waits. `unmade` says why the stream that keeps it could not be made. `confirm`
    /// says whether a stream may be there to confirm it.
    async fn publish_line(
        &self,
        bucket: &store::Bucket,
        unmade: Option<&StoreError>,
        confirm: &mut bool,
    ) -> Result<(), StoreError> {
        let must_keep = self.must_keep();
        while let Some(event) = self.next() {
            let subject_prefix = &self.config.events.subject_prefix;
            let subject = format!("{subject_prefix}.{}.{}", bucket.name(), event.role);
            let payload = event.to_json();
            if !*confirm {
                bucket.publish_event(subject, payload).await?;
                self.told();
                continue;
            }
            let id = format!("{}.{}", event.correlation_id, event.name());
            let is_seen = self.is_stream_seen();
            let within = if must_keep || is_seen {
                TIMEOUT
            } else {
                TIMEOUT_UNKNOWN
            };
            // Another client may have created the stream that this user may not create.
            match bucket.keep_event(subject, payload, &id, within).await {
                Ok(stream) => {
                    if !is_seen && unmade.is_some() && stream != events_stream(bucket.name()) {
                        tracing::warn!(
                            stream,
                            "another stream keeps the leader changes: the history does not find them there"
                        );
                    }
                    self.stream_seen();
                }
                Err(error) if must_keep || is_seen => {
                    let left = self.patience.load(Ordering::Relaxed).saturating_sub(1);
                    self.patience.store(left, Ordering::Relaxed);
                    return Err(unmade.cloned().unwrap_or(error));
                }
                Err(error) => {
                    // If the server answers now, no stream takes the event. Who listens has heard it.
                    bucket.epoch(TIMEOUT).await?;
                    *confirm = !matches!(error, StoreError::Timeout { .. });
                }
            }
            self.told();
        }
        match unmade {
            Some(error) if must_keep && !self.is_stream_seen() => Err(error.clone()),
            _ => Ok(()),
        }
    }
}

impl Linked for Publisher {
    /// Creates the stream even if there is no event yet.
    async fn run(self: Arc<Self>, reached: Reached) -> Result<(), StoreError> {
        let bucket = &reached.bucket;
        reached.caught_up();
        // Once for each link: an event does not wait for another attempt.
        let unmade = if makes_stream(&self.config) {
            self.make_stream(bucket).await.err()
        } else {
            None
        };
        let mut confirm = true;
        loop {
            self.publish_line(bucket, unmade.as_ref(), &mut confirm)
                .await?;
            self.told();
            self.joined.notified().await;
        }
    }

    /// A disconnected client sends its messages whenever it is connected again.
    fn ended(&self, error: Option<&StoreError>, _wait: Duration) -> Duration {
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

/// Whether this instance makes a stream: events must be kept, or it makes a missing bucket too.
const fn makes_stream(config: &ManagerConfig) -> bool {
    config.events.keep.is_some() || config.bucket_auto_create
}
