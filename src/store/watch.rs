//! One watch over all role keys.
//!
//! A push consumer of our own, not the ordered one of the client: that one notices a dead watch after ten seconds, goes on
//! from its last sequence in a bucket that was recreated with smaller ones, and retries without telling for as long as the
//! bucket is missing. Here whatever is odd ends the watch with an error, and a new one begins with every key's last value.

use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::Subscriber;
use futures::{Stream, StreamExt, stream};
use serde_json::{Value, json};

use super::bucket::Bucket;
use super::error::StoreError;
use super::feed::{Feed, Told, broken};
use crate::model::name::RoleName;
use crate::model::record::Entry;

/// How often an idle watch hears from the server.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// Without a word for so long, a watch is over.
const SILENCE: Duration = Duration::from_millis(2500);
/// How long the server keeps the consumer of a watch that nobody listens to any more.
const KEPT: Duration = Duration::from_secs(5);

struct Watch {
    bucket: Bucket,
    messages: Subscriber,
    feed: Feed,
    /// Connections that the client had made: after another one messages may be missing.
    connects: u64,
}

impl Bucket {
    /// Watches the role keys: first the last message of each, then every message as it comes.
    ///
    /// It ends with its first error, silence included; then watch again. It is a hint, not a proof of anything.
    pub async fn watch(
        &self,
        timeout: Duration,
    ) -> Result<
        impl Stream<Item = Result<(RoleName, Entry), StoreError>> + Send + Unpin + use<>,
        StoreError,
    > {
        self.require_connection()?;
        let connects = self.connects();
        let inbox = self.client().new_inbox();
        let starting = async {
            let messages = self
                .client()
                .subscribe(inbox.clone())
                .await
                .map_err(|error| StoreError::Unavailable(format!("not subscribed: {error}")))?;
            self.create_consumer(&inbox, timeout).await?;
            Ok(messages)
        };
        let messages = tokio::time::timeout(timeout, starting)
            .await
            .map_err(|_| self.silent_watch())??;
        let watch = Watch {
            bucket: self.clone(),
            messages,
            feed: Feed::new(self.prefix().to_owned()),
            connects,
        };
        let entries = stream::unfold(Some(watch), async |watch| {
            let mut watch = watch?;
            match watch.next().await {
                Ok(entry) => Some((Ok(entry), Some(watch))),
                Err(error) => Some((Err(error), None)),
            }
        });
        Ok(entries.boxed())
    }

    async fn create_consumer(&self, inbox: &str, timeout: Duration) -> Result<(), StoreError> {
        let name = format!("elect-{:032x}", rand::random::<u128>());
        let filter = format!("{}*", self.prefix());
        let action = format!("CONSUMER.CREATE.{}.{name}.{filter}", self.stream());
        let body = json!({
            "stream_name": self.stream(),
            "config": {
                "name": name,
                "deliver_subject": inbox,
                "deliver_policy": "last_per_subject",
                "filter_subject": filter,
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
        self.ask_api::<Value>(&action, &body, timeout).await?;
        Ok(())
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
    async fn next(&mut self) -> Result<(RoleName, Entry), StoreError> {
        loop {
            let message = tokio::time::timeout(SILENCE, self.messages.next())
                .await
                .map_err(|_| self.bucket.silent_watch())?
                .ok_or_else(|| broken("the subscription has ended"))?;
            if self.bucket.connects() != self.connects {
                return Err(broken("the connection was made anew"));
            }
            match self.feed.take(&message)? {
                Told::Entry(role, entry) => return Ok((role, entry)),
                Told::Nothing => {}
                Told::Waiting(subject) => self.go_on(subject).await?,
            }
        }
    }

    /// The server holds messages back until the watcher says that it has come so far.
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
