//! One watch over all role keys and fence keys.
//!
//! The watch uses push consumers of our own instead of the client's ordered consumer. The ordered
//! consumer notices a dead watch after ten seconds. It goes on from its last sequence in a bucket
//! that was recreated with smaller ones. It retries without a report for as long as the bucket is
//! missing. Here any irregularity ends the watch with an error, and a new watch begins with every
//! key's last value.

use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use async_nats::{Message, Subscriber};
use futures::future::try_join_all;
use futures::stream::{self, SelectAll, StreamExt};
use serde_json::{Value, json};

use super::asking::subscribe;
use super::assignment::require_same;
use super::bucket::Bucket;
use super::error::StoreError;
use super::feed::{Counted, Delivery, FENCES, Feed, broken};
use super::mailbox::inbox_prefix;
use super::request::{REPLACED, SUBSCRIPTION_ENDED};
use crate::clock;
use nats_elect_core::Moment;

/// The interval of the server's heartbeats on an idle watch.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// A consumer is silent after this long without a message. If the backlog has none either, the watch
/// ends.
const SILENCE: Duration = Duration::from_secs(2);
/// The time to read what waits here already, behind other messages or after a pause of the process.
const BACKLOG: Duration = Duration::from_millis(500);
/// The time for which the server keeps the consumers of a watch without a listener.
pub(super) const KEPT: Duration = Duration::from_secs(5);

/// A watch that has begun.
pub struct Watch {
    pub(super) bucket: Bucket,
    messages: SelectAll<Subscriber>,
    pub(super) feed: Feed,
    silence: Silence,
    /// The number of connections that the client had made. Messages may be missing after another
    /// one.
    connects: u64,
}

/// Since when the silence of a consumer is noticed.
#[derive(Debug, Default)]
struct Silence(Option<Moment>);

impl Bucket {
    /// Watches the role keys and the fence keys: first the last message of each, then every message
    /// as it comes. The two kinds come in no particular order.
    ///
    /// The watch ends with its first error, silence included. Begin another one then. A watch gives
    /// hints, and proves nothing.
    pub async fn watch(&self, timeout: Duration) -> Result<Watch, StoreError> {
        self.watch_keys(&self.keys_of_roles(), timeout).await
    }

    /// Watches the same keys of the bucket with this creation time, from a known state on. Returns
    /// also when the stream's leader told that state, by its clock.
    ///
    /// The watch has caught up when it has shown the keys that the stream's leader had. If it
    /// reports before that it is idle, its server lags, or the last of the keys was removed at that
    /// moment. Begin another watch then.
    pub async fn survey(
        &self,
        epoch: u64,
        timeout: Duration,
    ) -> Result<(Watch, Option<SystemTime>), StoreError> {
        let mut watch = self.watch(timeout).await?;
        // The requests follow the creation of the watch, so later sequences are new messages.
        let last = self.keys_of_roles().map(|keys| self.last(keys, timeout));
        // The bucket comes last. If all were requested together, an old bucket could report its
        // creation time, and its successor the keys.
        let last = try_join_all(last).await?;
        let info = self.stream_info(timeout).await?;
        require_same(info.epoch()?, epoch)?;
        let sequences = last.into_iter().map(|it| Some(it?.sequence));
        watch.feed.catches_up_at(sequences);
        Ok((watch, info.answered()))
    }

    /// Watches the keys that these filters select, by a consumer for each.
    ///
    /// A server has to find the next message of a consumer that is behind. Where that has several
    /// filters, it looks at all keys for each message once more of them were stored since than there
    /// are keys, and meanwhile takes no writes. With thousands of roles it then never catches up,
    /// and heartbeats time out. (Seen with 2.11 to 2.15, file storage.)
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
        let name = |_| format!("elect-{:032x}", rand::random::<u128>());
        let names: Vec<String> = filters.iter().map(name).collect();
        let starting = async {
            let each = filters.iter().zip(&names).map(async |(filter, name)| {
                // A consumer starts only where somebody listens on just its subject.
                let inbox = format!("{inbox}.{name}");
                let messages = subscribe(self.client(), inbox.clone()).await?;
                self.create_consumer(name, filter, &inbox, timeout).await?;
                Ok(messages)
            });
            Ok(stream::select_all(try_join_all(each).await?))
        };
        let messages = tokio::time::timeout(timeout, starting)
            .await
            .map_err(|_| self.silent_watch())??;
        Ok(Watch {
            bucket: self.clone(),
            messages,
            feed: Feed::new(self.prefix().to_owned(), names, clock::now()),
            silence: Silence::default(),
            connects,
        })
    }

    /// Filters of the role keys and of the fence keys.
    fn keys_of_roles(&self) -> [String; 2] {
        [self.subject("*"), self.subject(format_args!("{FENCES}*"))]
    }

    async fn create_consumer(
        &self,
        name: &str,
        filter: &str,
        inbox: &str,
        timeout: Duration,
    ) -> Result<(), StoreError> {
        let action = format!("CONSUMER.CREATE.{}.{name}", self.stream());
        let body = json!({
            "stream_name": self.stream(),
            "config": {
                "name": name,
                "filter_subjects": [filter],
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
        let created = self.ask_api::<Value>(&action, &body, None, timeout).await;
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
    /// Returns what the watch tells next, even if it concerns no role. The watch is over with the
    /// first error.
    pub async fn next(&mut self) -> Result<Delivery, StoreError> {
        let next = self.next_stored().await?;
        Ok(next.map_or(Delivery::Idle, |(sequence, message)| {
            self.feed.read(&message, sequence)
        }))
    }

    /// Returns the next message that the bucket holds, with its sequence, or nothing if the server
    /// has sent all that it has.
    pub(super) async fn next_stored(&mut self) -> Result<Option<(u64, Message)>, StoreError> {
        loop {
            let message = self.receive().await?;
            match self.feed.count(&message, clock::now())? {
                Counted::Stored(sequence) => return Ok(Some((sequence, message))),
                Counted::Nothing => {}
                Counted::Idle => return Ok(None),
                Counted::Waiting(subject) => self.go_on(subject).await?,
            }
        }
    }

    async fn receive(&mut self) -> Result<Message, StoreError> {
        let message = loop {
            let heard = self.feed.silent_since();
            let patience = self.silence.patience(heard, clock::now());
            let patience = patience.ok_or_else(|| self.bucket.silent_watch())?;
            if let Ok(message) = tokio::time::timeout(patience, self.messages.next()).await {
                break message.ok_or_else(|| broken(SUBSCRIPTION_ENDED))?;
            }
        };
        if self.bucket.connects() != self.connects {
            return Err(broken(REPLACED));
        }
        Ok(message)
    }

    /// Returns whether the watch has shown the keys that the stream's leader had when it began.
    pub fn has_caught_up(&self) -> bool {
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

impl Silence {
    /// Returns how long to wait for the next message, or nothing if the consumer that was heard at
    /// this moment, as the last of all, has ended.
    fn patience(&mut self, heard: Moment, now: Moment) -> Option<Duration> {
        let left = SILENCE.saturating_sub(now.since(heard));
        if left > Duration::ZERO {
            self.0 = None;
            return Some(left);
        }
        let noticed = *self.0.get_or_insert(now);
        let left = BACKLOG.saturating_sub(now.since(noticed));
        (left > Duration::ZERO).then_some(left)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_consumer_ends_a_watch_only_after_what_waits_has_been_read() {
        let mut silence = Silence::default();
        let heard = Moment::from_nanos(0);
        let ms = Duration::from_millis;
        assert_eq!(silence.patience(heard, heard + ms(100)), Some(ms(1900)));
        // The process was paused.
        let now = heard + ms(60_000);
        assert_eq!(silence.patience(heard, now), Some(BACKLOG));
        assert_eq!(silence.patience(now, now + ms(1)), Some(ms(1999)));
        let again = now + SILENCE;
        assert_eq!(silence.patience(now, again), Some(BACKLOG));
        // Other consumers' messages came meanwhile.
        assert_eq!(silence.patience(now, again + ms(200)), Some(ms(300)));
        assert_eq!(silence.patience(now, again + BACKLOG), None);
    }
}
