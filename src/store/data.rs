//! Reads of a role's data and its fence key, as the stream leader has them.

use std::collections::BTreeMap;
use std::time::Duration;

use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::RawMessage;
use futures::{StreamExt, TryStreamExt, stream};
use serde::Deserialize;
use serde_json::json;

use super::bucket::Bucket;
use super::data_owner::DataOwner;
use super::entry::is_marker;
use super::error::StoreError;
use super::request::READ_AGAIN;
use nats_elect_core::name::DataKey;

/// A role with more keys is not listed, because each key is looked at.
pub const MOST_KEYS: usize = 10_000;
/// The number of keys that are looked at concurrently.
pub(super) const LOOKS: usize = 64;

/// The last message of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataEntry {
    pub revision: u64,
    /// `None` if the message deletes the key.
    pub value: Option<Vec<u8>>,
}

/// One page of subjects, as the server answers.
#[derive(Deserialize)]
struct SubjectsInfo {
    /// The number of subjects on all pages.
    #[serde(default)]
    total: usize,
    #[serde(default)]
    state: SubjectsState,
}

#[derive(Default, Deserialize)]
struct SubjectsState {
    #[serde(default)]
    last_seq: u64,
    subjects: Option<BTreeMap<String, u64>>,
}

impl Bucket {
    /// Returns the sequence of the role's fence key, or 0 if it is missing.
    pub async fn fence_sequence(
        &self,
        owner: &DataOwner,
        timeout: Duration,
    ) -> Result<u64, StoreError> {
        let fence = self.last(self.fence_of(owner), timeout).await?;
        Ok(fence.map_or(0, |message| message.sequence))
    }

    /// Returns the last message of a key of the role's data.
    pub async fn data(
        &self,
        owner: &DataOwner,
        key: &DataKey,
        timeout: Duration,
    ) -> Result<Option<DataEntry>, StoreError> {
        let Some(message) = self.last(self.data_subject(owner, key), timeout).await? else {
            return Ok(None);
        };
        let message = StreamMessage::try_from(message)
            .map_err(|error| StoreError::unreadable("value", error))?;
        Ok(Some(DataEntry {
            revision: message.sequence,
            value: (!is_marker(&message.headers)).then(|| message.payload.to_vec()),
        }))
    }

    /// Returns the keys of the role's data that are not deleted, in order.
    ///
    /// It sends one request per key, each with a JSON answer. A consumer would deliver the messages
    /// as they are, and headers that the client cannot read would cost the elections their
    /// connection.
    ///
    /// # Errors
    ///
    /// [`StoreError::Rejected`] if there are more than [`MOST_KEYS`], deleted ones included.
    pub async fn data_keys(
        &self,
        owner: &DataOwner,
        timeout: Duration,
    ) -> Result<Vec<String>, StoreError> {
        let stands = |key, message: Option<RawMessage>| message.is_some_and(stands).then_some(key);
        let mut keys = self.look_at_all(owner, stands, timeout).await?;
        keys.sort_unstable();
        Ok(keys)
    }

    /// Returns the lengths of the values of the role's keys, deleted keys included.
    ///
    /// # Errors
    ///
    /// As [`data_keys`](Self::data_keys).
    pub async fn data_sizes(
        &self,
        owner: &DataOwner,
        timeout: Duration,
    ) -> Result<Vec<(String, u64)>, StoreError> {
        let size = |key, message: Option<RawMessage>| Some((key, decoded(&message?.payload)));
        self.look_at_all(owner, size, timeout).await
    }

    /// Applies `tell` to each key of the role's data and its last message.
    async fn look_at_all<T>(
        &self,
        owner: &DataOwner,
        tell: impl Fn(String, Option<RawMessage>) -> Option<T>,
        timeout: Duration,
    ) -> Result<Vec<T>, StoreError> {
        let prefix = self.data_prefix(owner);
        let tell = &tell;
        let listing = async {
            let (subjects, _) = self.subjects(&format!("{prefix}>"), timeout).await?;
            // Another client may have written a key that a fenced store could not write.
            let keys = subjects.into_iter().filter_map(|subject| {
                let key = subject.strip_prefix(&*prefix)?.to_owned();
                DataKey::new(&key).is_ok().then_some((key, subject))
            });
            let looks = keys.map(async |(key, subject)| {
                let message = self.last(subject, timeout).await?;
                Ok(tell(key, message))
            });
            let told: Vec<Option<T>> = stream::iter(looks)
                .buffer_unordered(LOOKS)
                .try_collect()
                .await?;
            Ok(told.into_iter().flatten().collect())
        };
        tokio::time::timeout(timeout, listing)
            .await
            .map_err(|_| StoreError::Timeout {
                subject: format!("{prefix}>"),
            })?
    }

    /// Returns all subjects with messages, and the last sequence of the stream.
    pub(super) async fn subjects(
        &self,
        filter: &str,
        timeout: Duration,
    ) -> Result<(Vec<String>, u64), StoreError> {
        let action = format!("STREAM.INFO.{}", self.stream());
        let body = json!({ "subjects_filter": filter });
        let asked = self.ask_api(&action, &body, Some(READ_AGAIN), timeout);
        let info: SubjectsInfo = asked.await?;
        let subjects = info.state.subjects.unwrap_or_default();
        let count = subjects.len().max(info.total);
        if count > MOST_KEYS {
            return Err(StoreError::Rejected {
                code: 0,
                detail: format!("{count} keys are more than the {MOST_KEYS} that can be listed"),
            });
        }
        Ok((subjects.into_keys().collect(), info.state.last_seq))
    }
}

/// Returns the number of bytes that this base64 text encodes.
fn decoded(base64: &str) -> u64 {
    let padding = base64
        .bytes()
        .rev()
        .take_while(|byte| *byte == b'=')
        .count();
    (base64.len() / 4 * 3).saturating_sub(padding) as u64
}

/// A message that cannot be read is not known to delete its key.
fn stands(message: RawMessage) -> bool {
    !StreamMessage::try_from(message).is_ok_and(|message| is_marker(&message.headers))
}
