//! One watch over all role keys.
//!
//! A push consumer of our own, not the ordered one of the client: that one notices a dead watch after ten seconds, goes on
//! from its last sequence in a bucket that was recreated with smaller ones, and retries without telling for as long as the
//! bucket is missing. Here whatever is odd ends the watch with an error, and a new one begins with every key's last value.

use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::header::NATS_LAST_CONSUMER;
use async_nats::{Message, StatusCode, Subscriber};
use futures::{Stream, StreamExt, stream};
use serde_json::{Value, json};

use super::bucket::Bucket;
use super::entry::role_entry;
use super::error::StoreError;
use crate::model::name::RoleName;
use crate::model::record::Entry;

/// How often an idle watch hears from the server.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// Without a word for so long, a watch is over.
const SILENCE: Duration = Duration::from_millis(2500);
/// How long the server keeps the consumer of a watch that nobody listens to any more.
const KEPT: Duration = Duration::from_secs(5);
/// Names the subject to answer to where the server waits for the watcher.
const STALLED: &str = "Nats-Consumer-Stalled";

struct Watch {
    bucket: Bucket,
    messages: Subscriber,
    /// Messages that came, to see whether one is missing.
    received: u64,
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
            .map_err(|_| StoreError::Timeout)??;
        let watch = Watch {
            bucket: self.clone(),
            messages,
            received: 0,
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

    fn connects(&self) -> u64 {
        self.client().statistics().connects.load(Ordering::Relaxed)
    }
}

impl Watch {
    async fn next(&mut self) -> Result<(RoleName, Entry), StoreError> {
        loop {
            let message = tokio::time::timeout(SILENCE, self.messages.next())
                .await
                .map_err(|_| StoreError::Timeout)?
                .ok_or_else(|| broken("the subscription has ended"))?;
            if self.bucket.connects() != self.connects {
                return Err(broken("the connection was made anew"));
            }
            match message.status {
                None => {
                    if let Some(entry) = self.take(&message)? {
                        return Ok(entry);
                    }
                }
                Some(StatusCode::IDLE_HEARTBEAT) => self.heartbeat(&message).await?,
                Some(status) => return Err(broken(&format!("the server says {status}"))),
            }
        }
    }

    fn take(&mut self, message: &Message) -> Result<Option<(RoleName, Entry)>, StoreError> {
        let position = message.reply.as_deref().and_then(Position::parse);
        let Some(position) = position else {
            return Err(broken("a message has no position"));
        };
        self.received += 1;
        if position.in_consumer != self.received {
            return Err(broken("a message is missing"));
        }
        let key = message.subject.strip_prefix(self.bucket.prefix());
        // What is no role's name is somebody else's key.
        let Some(role) = key.and_then(|key| RoleName::new(key).ok()) else {
            return Ok(None);
        };
        let headers = message.headers.as_ref();
        let entry = role_entry(position.in_stream, headers, &message.payload);
        Ok(Some((role, entry)))
    }

    async fn heartbeat(&self, message: &Message) -> Result<(), StoreError> {
        let header = |name: &str| Some(message.headers.as_ref()?.get_last(name)?.as_str());
        if header(NATS_LAST_CONSUMER.as_ref()).is_some_and(|last| last.parse() != Ok(self.received))
        {
            return Err(broken("a message is missing"));
        }
        // The server holds messages back until the watcher says that it has come so far.
        let flow = message.reply.as_deref().or_else(|| header(STALLED));
        if let Some(subject) = flow {
            self.bucket
                .client()
                .publish(subject.to_owned(), Vec::new().into())
                .await
                .map_err(|error| broken(&error.to_string()))?;
        }
        Ok(())
    }
}

/// Where a message stands, as its reply subject tells.
#[derive(Debug, PartialEq, Eq)]
struct Position {
    in_stream: u64,
    in_consumer: u64,
}

impl Position {
    /// Reads `$JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>`, with a domain and an
    /// account hash before the stream in the longer form.
    fn parse(reply: &str) -> Option<Self> {
        let tokens: Vec<&str> = reply.strip_prefix("$JS.ACK.")?.split('.').collect();
        let before = match tokens.len() {
            7 => 0,
            9.. => 2,
            _ => return None,
        };
        Some(Self {
            in_stream: tokens[before + 3].parse().ok()?,
            in_consumer: tokens[before + 4].parse().ok()?,
        })
    }
}

fn broken(why: &str) -> StoreError {
    StoreError::Unavailable(format!("the watch is broken: {why}"))
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_position_are_read() {
        let position = Some(Position {
            in_stream: 1_700_000_000_000_001,
            in_consumer: 3,
        });
        for reply in [
            "$JS.ACK.KV_b.c.1.1700000000000001.3.1700000000.0",
            "$JS.ACK._.hash.KV_b.c.1.1700000000000001.3.1700000000.0",
            "$JS.ACK.hub.hash.KV_b.c.1.1700000000000001.3.1700000000.0.random",
        ] {
            assert_eq!(Position::parse(reply), position, "{reply}");
        }
        for reply in [
            "",
            "$JS.ACK.",
            "_INBOX.x",
            "$JS.ACK.KV_b.c.1.x.3.1700000000.0",
            "$JS.ACK.a.b.c.d.e.f.g.h",
        ] {
            assert_eq!(Position::parse(reply), None, "{reply}");
        }
    }
}
