//! The fence key of a unit of a group with one map.

use std::time::Duration;

use async_nats::jetstream::message::StreamMessage;

use super::bucket::Bucket;
use super::data_owner::DataOwner;
use super::entry::is_marker;
use super::error::StoreError;
use nats_elect_core::assignment::UnitFence;

impl Bucket {
    /// Reads a unit's fence from the stream's leader, in the bucket with this creation time. Returns
    /// the sequence of its key, or 0 if it is missing, and what a member wrote there.
    pub async fn unit_fence(
        &self,
        owner: &DataOwner,
        created: u64,
        timeout: Duration,
    ) -> Result<(u64, Option<UnitFence>), StoreError> {
        let Some(message) = self.last(self.fence_of(owner), timeout).await? else {
            return Ok((0, None));
        };
        let sequence = message.sequence;
        let message = StreamMessage::try_from(message).ok();
        let value = message.filter(|it| !is_marker(&it.headers));
        let fence = value.and_then(|it| UnitFence::read(sequence, &it.payload, created));
        Ok((sequence, fence))
    }

    /// Writes a unit's fence over the sequence `over` of its key, or 0 if it is missing. Returns the
    /// new sequence.
    pub fn raise_unit_fence(
        &self,
        owner: &DataOwner,
        over: u64,
        fence: &UnitFence,
        timeout: Duration,
    ) -> impl Future<Output = Result<u64, StoreError>> + Send + use<'_> {
        self.put(self.fence_of(owner), over, fence.to_json(), timeout)
    }
}
