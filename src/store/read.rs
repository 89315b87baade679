//! Reads of a role's keys, as the stream leader has them.

use std::time::{Duration, SystemTime};

use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::RawMessage;
use serde::Deserialize;
use serde_json::{Value, json};

use super::bucket::Bucket;
use super::entry::{fence_entry, role_entry};
use super::error::StoreError;
use super::request::READ_AGAIN;
use crate::clock;
use nats_elect_core::name::RoleName;
use nats_elect_core::record::{Content, Entry, FenceEntry, SeenRecord, Snapshot};

/// The server's code for a subject without a message.
const NO_MESSAGE: u64 = 10037;

/// When the messages under a role's keys were stored, by the server's clock. The times are for
/// people: they decide nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Written {
    pub role: Option<SystemTime>,
    pub fence: Option<SystemTime>,
}

#[derive(Deserialize)]
pub(super) struct StoredMessage {
    message: RawMessage,
}

impl Bucket {
    /// Reads the role's key and its fence key from the stream leader, and then the bucket's epoch
    /// and last sequence.
    ///
    /// The keys are requested concurrently, and their answers share no common moment: others may
    /// write between any two answers. A leader that has lost its quorum without knowing yet still
    /// answers. So a snapshot provides the expectation for a compare-and-set, and is never a proof.
    ///
    /// The epoch is requested after both keys were answered, so it is no older than they are. If
    /// all were requested together, the old bucket could report its epoch, and the bucket created
    /// in its place could report the keys. A term claimed over those keys would have a fencing
    /// token below those of the new bucket. In this order, keys of the old bucket may come with the
    /// new epoch. A compare-and-set over such keys fails where sequences are not used again.
    pub async fn snapshot(
        &self,
        role: &RoleName,
        timeout: Duration,
    ) -> Result<Snapshot, StoreError> {
        let (snapshot, _) = self.dated_snapshot(role, timeout).await?;
        Ok(snapshot)
    }

    /// The same, and when both messages were stored.
    pub async fn dated_snapshot(
        &self,
        role: &RoleName,
        timeout: Duration,
    ) -> Result<(Snapshot, Written), StoreError> {
        let left = clock::countdown(timeout);
        let (fence, role) = futures::try_join!(
            self.last(self.fence_subject(role), timeout),
            self.last(self.subject(role), timeout),
        )?;
        let standing = self.standing_since(clock::now(), left()).await?;
        let written = Written {
            role: role.as_ref().map(|message| message.time.into()),
            fence: fence.as_ref().map(|message| message.time.into()),
        };
        let snapshot = Snapshot {
            role: role.map(standing_role),
            fence: fence.map(standing_fence),
            epoch: Some(standing.epoch),
            last_sequence: Some(standing.last_sequence),
        };
        Ok((snapshot, written))
    }

    /// Reads the leader's record under the role's key. Returns nothing if there is none.
    pub async fn leader_record(
        &self,
        role: &RoleName,
        timeout: Duration,
    ) -> Result<Option<Box<SeenRecord>>, StoreError> {
        let message = self.last(self.subject(role), timeout).await?;
        Ok(
            match message.map(standing_role).map(|entry| entry.content) {
                Some(Content::Record(record)) => Some(record),
                _ => None,
            },
        )
    }

    pub(super) async fn last(
        &self,
        subject: String,
        timeout: Duration,
    ) -> Result<Option<RawMessage>, StoreError> {
        self.message(&json!({ "last_by_subj": subject }), timeout)
            .await
    }

    /// Returns the first key that these filters within the bucket select, if there is one.
    pub async fn first_of(
        &self,
        keys: &str,
        timeout: Duration,
    ) -> Result<Option<String>, StoreError> {
        let first = self.next_after(0, &self.subject(keys), timeout).await?;
        let key = |it: RawMessage| Some(it.subject.strip_prefix(self.prefix())?.to_owned());
        Ok(first.and_then(key))
    }

    /// Returns the first message after this sequence whose subject the filter selects.
    pub(super) async fn next_after(
        &self,
        sequence: u64,
        filter: &str,
        timeout: Duration,
    ) -> Result<Option<RawMessage>, StoreError> {
        let next = json!({ "seq": sequence.saturating_add(1), "next_by_subj": filter });
        self.message(&next, timeout).await
    }

    async fn message(
        &self,
        which: &Value,
        timeout: Duration,
    ) -> Result<Option<RawMessage>, StoreError> {
        let action = format!("STREAM.MSG.GET.{}", self.stream());
        let answer = self.ask_api(&action, which, Some(READ_AGAIN), timeout);
        message_in(answer.await)
    }
}

/// Returns the message of an answer, if there is one.
pub(super) fn message_in(
    answer: Result<StoredMessage, StoreError>,
) -> Result<Option<RawMessage>, StoreError> {
    match answer {
        Ok(answer) => Ok(Some(answer.message)),
        Err(StoreError::Rejected {
            code: NO_MESSAGE, ..
        }) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn standing_role(message: RawMessage) -> Entry {
    let revision = message.sequence;
    match StreamMessage::try_from(message) {
        Ok(message) => role_entry(revision, Some(&message.headers), &message.payload),
        // Headers that cannot be read must not hide the fact that the key was written.
        Err(_) => Entry {
            revision,
            content: Content::Opaque,
        },
    }
}

pub(super) fn standing_fence(message: RawMessage) -> FenceEntry {
    let revision = message.sequence;
    match StreamMessage::try_from(message) {
        Ok(message) => fence_entry(revision, Some(&message.headers), &message.payload),
        Err(_) => FenceEntry {
            revision,
            record: None,
        },
    }
}
