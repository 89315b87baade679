//! What stands under a role's keys, as the stream leader has it.

use std::time::Duration;

use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::RawMessage;
use serde::Deserialize;
use serde_json::json;

use super::bucket::Bucket;
use super::entry::{fence_entry, role_entry};
use super::error::StoreError;
use crate::clock;
use nats_elect_core::name::RoleName;
use nats_elect_core::record::{Content, Entry, FenceEntry, Snapshot};

/// A server's code for a subject without a message.
const NO_MESSAGE: u64 = 10037;

#[derive(Deserialize)]
pub(super) struct StoredMessage {
    message: RawMessage,
}

impl Bucket {
    /// Reads the role's key and its fence key from the stream leader, and then the bucket's epoch and last sequence.
    ///
    /// The keys are asked for at once and belong to no common moment: between any two answers others may write. A leader
    /// that has lost its quorum without knowing yet still answers. So a snapshot is what to expect in a compare-and-set,
    /// never a proof.
    ///
    /// The epoch is asked for once both keys were answered, so it is no older than they are. Asked together, the old bucket
    /// could tell its epoch and the one that was created in its place the keys: a term claimed over those would bear a token
    /// below those of the new bucket. This way round, keys of the old bucket may come with the new epoch; a compare-and-set
    /// over them fails, where sequences are not used again.
    pub async fn snapshot(
        &self,
        role: &RoleName,
        timeout: Duration,
    ) -> Result<Snapshot, StoreError> {
        let begun = clock::now();
        let (fence, role) = futures::try_join!(
            self.last(self.fence_subject(role), timeout),
            self.last(self.role_subject(role), timeout),
        )?;
        let left = timeout.saturating_sub(clock::now().since(begun));
        let stream = self.stream_info(left).await?;
        Ok(Snapshot {
            role: role.map(standing_role),
            fence: fence.map(standing_fence),
            epoch: Some(stream.epoch()?),
            last_sequence: Some(stream.last_sequence()),
        })
    }

    pub(super) async fn last(
        &self,
        subject: String,
        timeout: Duration,
    ) -> Result<Option<RawMessage>, StoreError> {
        let action = format!("STREAM.MSG.GET.{}", self.stream());
        let answer = self
            .ask_api(&action, &json!({ "last_by_subj": subject }), timeout)
            .await;
        last_message(answer)
    }
}

/// The last message of a subject, if it has one.
pub(super) fn last_message(
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
        // Headers that nobody can read are no reason not to see that somebody wrote.
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
