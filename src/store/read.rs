//! What stands under a role's keys, as the stream leader has it.

use std::time::Duration;

use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::RawMessage;
use serde::Deserialize;
use serde_json::json;

use super::bucket::Bucket;
use super::entry::{fence_entry, role_entry};
use super::error::StoreError;
use crate::model::name::RoleName;
use crate::model::record::{Content, Entry, FenceEntry, Snapshot};

/// A server's code for a subject without a message.
const NO_MESSAGE: u64 = 10037;

#[derive(Deserialize)]
pub(super) struct Answer {
    message: RawMessage,
}

impl Bucket {
    /// Reads the role's key and its fence key from the stream leader, and the bucket's epoch if `check_bucket` says so.
    ///
    /// The parts are asked for at once and belong to no common moment: between any two of them others may write. A leader
    /// that has lost its quorum without knowing yet still answers. So a snapshot is what to expect in a compare-and-set,
    /// never a proof.
    pub async fn snapshot(
        &self,
        role: &RoleName,
        check_bucket: bool,
        timeout: Duration,
    ) -> Result<Snapshot, StoreError> {
        let epoch = async {
            if check_bucket {
                self.epoch(timeout).await.map(Some)
            } else {
                Ok(None)
            }
        };
        let (fence, role, epoch) = futures::try_join!(
            self.last(self.fence_subject(role), timeout),
            self.last(self.role_subject(role), timeout),
            epoch,
        )?;
        Ok(Snapshot {
            role: role.map(standing_role),
            fence: fence.map(standing_fence),
            epoch,
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
    answer: Result<Answer, StoreError>,
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
