//! One watch over all role keys and fence keys.
//!
//! The watch uses a push consumer of our own instead of the client's ordered consumer. The ordered
//! consumer notices a dead watch after ten seconds. It goes on from its last sequence in a bucket
//! that was recreated with smaller ones. It retries without a report for as long as the bucket is
//! missing. Here any irregularity ends the watch with an error, and a new watch begins with every
//! key's last value.

use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use async_nats::{Message, Subscriber};
use futures::StreamExt;
use serde_json::{Value, json};

use super::asking::subscribe;
use super::bucket::Bucket;
use super::error::StoreError;
use super::feed::{Counted, Delivery, FENCES, Feed, broken};
use super::mailbox::inbox_prefix;
use super::request::{REPLACED, SUBSCRIPTION_ENDED};
use crate::clock;
use nats_elect_core::Moment;

/// The interval of the server's heartbeats on an idle watch.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// A watch ends after this long without a message.
const SILENCE: Duration = Duration::from_millis(2500);
/// A watch that the server has had more for all this time may be behind.
const LATE: Duration = Duration::from_secs(5);
/// The maximum time of the question how far it is behind. Its messages wait meanwhile.
const QUESTION: Duration = Duration::from_secs(2);
/// The time for which the server keeps the consumer of a watch without a listener.
pub(super) const KEPT: Duration = Duration::from_secs(5);

/// A watch that has begun.
pub struct Watch {
    bucket: Bucket,
    messages: Subscriber,
    pub(super) feed: Feed,
    /// The number of connections that the client had made. Messages may be missing after another
    /// one.
    connects: u64,
    /// Since when the server has had more to send, or since when that is no reason to ask.
    late_since: Option<Moment>,
}

/// A watch that tells when it has caught up.
pub struct Survey {
    pub watch: Watch,
    /// The creation time of its bucket. If the bucket was replaced meanwhile, it is that of a later
    /// bucket, and the watch is over.
    pub epoch: u64,
    /// When the stream's leader told these, by its clock.
    pub answered: Option<SystemTime>,
}

impl Bucket {
    /// Watches the role keys and the fence keys: first the last message of each, then every message
    /// as it comes.
    ///
    /// The watch ends with its first error, silence included. Begin another one then. A watch gives
    /// hints, and proves nothing. (Before 2.12 a server that sends two kinds of keys leaves out
    /// some stored messages of the second kind.)
    pub async fn watch(&self, timeout: Duration) -> Result<Watch, StoreError> {
        let filters = [self.role_keys(), self.fence_keys()];
        self.watch_keys(&filters, timeout).await
    }

    /// Watches the same keys, from a known state of the bucket on.
    ///
    /// The watch has caught up when it has shown the role keys that the stream's leader had. If it
    /// reports before that it is idle, its server lags, or the last of the keys was removed at that
    /// moment. Begin another watch then. (The watch does not wait for fence keys: before 2.12 a
    /// server that sends two kinds of keys leaves out some of the second kind.)
    pub async fn survey(&self, timeout: Duration) -> Result<Survey, StoreError> {
        let mut watch = self.watch(timeout).await?;
        // The request follows the creation of the watch, so later sequences are new messages.
        let last = self.last(self.role_keys(), timeout);
        // The bucket comes last. If both were requested together, an old bucket could report its
        // creation time, and its successor the key.
        let last = last.await?;
        let info = self.stream_info(timeout).await?;
        watch
            .feed
            .catches_up_at(last.map(|message| message.sequence));
        Ok(Survey {
            watch,
            epoch: info.epoch()?,
            answered: info.answered(),
        })
    }

    /// Watches the keys that these filters select.
    pub(super) async fn watch_keys(
        &self,
        filters: &[String],
        timeout: Duration,
    ) -> Result<Watch, StoreError> {
        self.require_connection()?;
        let connects = self.connects();
        // A user that may receive answers may receive this, too.
        let prefix = inbox_prefix(self.client());
        let inbox = format!("{prefix}.{:032x}.watch", rand::random::<u128>());
        let starting = async {
            let messages = subscribe(self.client(), inbox.clone()).await?;
            self.create_consumer(filters, &inbox, timeout).await?;
            Ok(messages)
        };
        let messages = tokio::time::timeout(timeout, starting)
            .await
            .map_err(|_| self.silent_watch())??;
        let feed = Feed::new(self.prefix().to_owned());
        Ok(Watch {
            bucket: self.clone(),
            messages,
            feed,
            connects,
            late_since: None,
        })
    }

    fn role_keys(&self) -> String {
        format!("{}*", self.prefix())
    }

    fn fence_keys(&self) -> String {
        format!("{}{FENCES}*", self.prefix())
    }

    async fn create_consumer(
        &self,
        filters: &[String],
        inbox: &str,
        timeout: Duration,
    ) -> Result<(), StoreError> {
        let name = format!("elect-{:032x}", rand::random::<u128>());
        let action = format!("CONSUMER.CREATE.{}.{name}", self.stream());
        let body = json!({
            "stream_name": self.stream(),
            "config": {
                "name": name,
                "filter_subjects": filters,
                "deliver_subject": inbox,
                "deliver_policy": "last_per_subject",
                "ack_policy": "none",
                "replay_policy": "instant",
                "max_deliver": 1,
                "flow_control": true,
                "idle_heartbeat": nanos(HEARTBEAT),
                "inactive_threshold": nanos(KEPT),
                "mem_storage": true,
                "num_replicas": 1,
            },
        });
        let created = self.ask_api::<Value>(&action, &body, timeout).await;
        created.map(drop)
    }

    fn silent_watch(&self) -> StoreError {
        StoreError::Timeout {
            subject: format!("$JS.API.CONSUMER.CREATE.{}.>", self.stream()),
        }
    }

    fn connects(&self) -> u64 {
        self.client().statistics().connects.load(Ordering::Relaxed)
    }
}

impl Watch {
    /// Returns the content of the next message, even if it concerns no role. The watch is over with
    /// the first error.
    pub async fn next(&mut self) -> Result<Delivery, StoreError> {
        self.keep_up().await?;
        let message = self.receive().await?;
        let told = self.feed.take(&message)?;
        if let Delivery::Waiting(subject) = &told {
            self.go_on(subject.clone()).await?;
        }
        Ok(told)
    }

    /// Ends a watch that falls further and further behind.
    ///
    /// Before each message a server may search all keys for it, once more messages were stored
    /// since the watch's position than there are keys. With thousands of keys it then sends fewer
    /// than are stored. (Seen with 2.11 to 2.15, file storage, two filters.) A new watch begins with
    /// the last message of each key, and the server knows where these are.
    async fn keep_up(&mut self) -> Result<(), StoreError> {
        if !self.feed.has_more() {
            self.late_since = None;
            return Ok(());
        }
        let now = clock::now();
        if now < *self.late_since.get_or_insert(now) + LATE {
            return Ok(());
        }
        self.late_since = Some(now);
        match self.bucket.stream_info(QUESTION).await {
            Ok(info) if self.feed.is_behind(&info.state) => {
                Err(broken("more was stored since than there are keys"))
            }
            // Whoever asks for it tells of it.
            _ => Ok(()),
        }
    }

    /// Returns the next message that the bucket holds, with its sequence, or nothing if the server
    /// has sent all that it has.
    pub(super) async fn next_stored(&mut self) -> Result<Option<(u64, Message)>, StoreError> {
        loop {
            let message = self.receive().await?;
            match self.feed.count(&message)? {
                Counted::Stored(sequence) => return Ok(Some((sequence, message))),
                Counted::Idle => return Ok(None),
                Counted::Waiting(subject) => self.go_on(subject).await?,
            }
        }
    }

    async fn receive(&mut self) -> Result<Message, StoreError> {
        let message = tokio::time::timeout(SILENCE, self.messages.next())
            .await
            .map_err(|_| self.bucket.silent_watch())?
            .ok_or_else(|| broken(SUBSCRIPTION_ENDED))?;
        if self.bucket.connects() != self.connects {
            return Err(broken(REPLACED));
        }
        Ok(message)
    }

    /// Returns whether the watch has shown the role keys that the stream's leader had when it
    /// began.
    pub const fn has_caught_up(&self) -> bool {
        self.feed.has_caught_up()
    }

    /// Returns when the server stored the last message that was received, by its clock.
    pub const fn written(&self) -> Option<SystemTime> {
        self.feed.written()
    }

    /// Confirms the watcher's progress. The server holds messages back until then.
    async fn go_on(&self, subject: String) -> Result<(), StoreError> {
        self.bucket
            .client()
            .publish(subject, Vec::new().into())
            .await
            .map_err(|error| broken(&error.to_string()))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
