//! What stands under a role's data and its fence key, as the stream leader has it.

use std::collections::BTreeSet;
use std::time::Duration;

use async_nats::jetstream::message::StreamMessage;
use futures::StreamExt;
use serde::Deserialize;
use serde_json::json;

use super::bucket::Bucket;
use super::entry::is_marker;
use super::error::StoreError;
use super::feed::{Position, broken};
use crate::model::name::{DataKey, RoleName};

/// More keys of one role are not listed: the client's queue holds some more messages than this, and drops what is too much.
pub const MOST_KEYS: u64 = 50_000;
/// How long the server keeps the consumer of a list that nobody reads any more.
const KEPT: Duration = Duration::from_secs(5);

/// The last message of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataEntry {
    pub revision: u64,
    /// Nothing if it deletes the key.
    pub value: Option<Vec<u8>>,
}

#[derive(Deserialize)]
struct Consumer {
    #[serde(default)]
    num_pending: u64,
}

impl Bucket {
    /// The sequence of the role's fence key; 0 if it is missing.
    pub async fn fence_sequence(
        &self,
        role: &RoleName,
        timeout: Duration,
    ) -> Result<u64, StoreError> {
        let fence = self.last(self.fence_subject(role), timeout).await?;
        Ok(fence.map_or(0, |message| message.sequence))
    }

    /// The last message of a key of the role's data.
    pub async fn data(
        &self,
        role: &RoleName,
        key: &DataKey,
        timeout: Duration,
    ) -> Result<Option<DataEntry>, StoreError> {
        let Some(message) = self.last(self.data_subject(role, key), timeout).await? else {
            return Ok(None);
        };
        let message = StreamMessage::try_from(message)
            .map_err(|error| StoreError::unreadable("value", error))?;
        Ok(Some(DataEntry {
            revision: message.sequence,
            value: (!is_marker(&message.headers)).then(|| message.payload.to_vec()),
        }))
    }

    /// The keys of the role's data that are not deleted, in order.
    ///
    /// # Errors
    ///
    /// [`StoreError::Rejected`] if there are more than [`MOST_KEYS`], deleted ones included.
    pub async fn data_keys(
        &self,
        role: &RoleName,
        timeout: Duration,
    ) -> Result<Vec<String>, StoreError> {
        let listing = self.collect_keys(role, timeout);
        tokio::time::timeout(timeout, listing)
            .await
            .map_err(|_| StoreError::Timeout)?
    }

    async fn collect_keys(
        &self,
        role: &RoleName,
        timeout: Duration,
    ) -> Result<Vec<String>, StoreError> {
        self.require_connection()?;
        let inbox = self.client().new_inbox();
        let subscribed = self.client().subscribe(inbox.clone()).await;
        let mut messages = subscribed
            .map_err(|error| StoreError::Unavailable(format!("not subscribed: {error}")))?;
        let count = self.create_lister(role, &inbox, timeout).await?;
        if count > MOST_KEYS {
            return Err(StoreError::Rejected {
                code: 0,
                detail: format!("{count} keys are more than the {MOST_KEYS} that can be listed"),
            });
        }
        let prefix = self.data_prefix(role);
        let mut keys = BTreeSet::new();
        let (mut received, mut pending) = (0, count);
        while pending > 0 {
            let message = messages
                .next()
                .await
                .ok_or_else(|| broken("the subscription has ended"))?;
            let position = message.reply.as_deref().and_then(Position::parse);
            let position = position.ok_or_else(|| broken("a message has no position"))?;
            received += 1;
            if position.in_consumer != received {
                return Err(broken("a message is missing"));
            }
            pending = position.pending;
            let Some(key) = message.subject.strip_prefix(&*prefix) else {
                continue;
            };
            // Written while it is listed, a key may come twice.
            if message.headers.as_ref().is_some_and(is_marker) {
                keys.remove(key);
            } else {
                keys.insert(key.to_owned());
            }
        }
        Ok(keys.into_iter().collect())
    }

    /// Returns how many messages it will bring.
    async fn create_lister(
        &self,
        role: &RoleName,
        inbox: &str,
        timeout: Duration,
    ) -> Result<u64, StoreError> {
        let name = format!("elect-{:032x}", rand::random::<u128>());
        let filter = format!("{}>", self.data_prefix(role));
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
                "headers_only": true,
                "inactive_threshold": u64::try_from(KEPT.as_nanos()).unwrap_or(u64::MAX),
                "mem_storage": true,
                "num_replicas": 1,
            },
        });
        let consumer: Consumer = self.ask_api(&action, &body, timeout).await?;
        Ok(consumer.num_pending)
    }
}
