//! Writes of a role's data that the server refuses once the role's fence key has moved.
//!
//! These writes do not rely on knowledge about the server. A server may ignore the header that
//! names another key. It would then check the number against the message's own key. The number is
//! the fence record's sequence, and no other message has it, so such a server refuses.

use std::mem::take;
use std::time::Duration;

use async_nats::header::{
    NATS_BATCH_COMMIT, NATS_BATCH_COMMIT_FINAL, NATS_BATCH_ID, NATS_BATCH_SEQUENCE,
};
use async_nats::{HeaderMap, Request};
use tokio::runtime::Handle;

use super::bucket::Bucket;
use super::data_owner::DataOwner;
use super::entry::{DELETE, OPERATION_HEADER};
use super::error::StoreError;
use super::request::understood;
use super::write::{Ack, expecting, expecting_of, expecting_of_with, require_above, wire_size};
use crate::clock;
use nats_elect_core::name::DataKey;

/// The number of writes in one batch. The server takes 1000 messages, and one is the guard.
pub const MOST_WRITES: usize = 999;

/// The beginning of the error for a batch whose last message was not sent. None of that batch is
/// stored.
pub(super) const LATE: &str = "the batch was given up before its end was sent";

/// No message of a batch has this number. The server abandons a batch that receives it.
const OUT_OF_ORDER: u64 = 1_000_000;

/// One write under a role's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataWrite {
    pub key: DataKey,
    /// `None` deletes the key.
    pub value: Option<Vec<u8>>,
    /// The sequence that the key must have, 0 if the key must be missing, or `None` for no
    /// condition.
    pub over: Option<u64>,
}

impl Bucket {
    /// Writes one key on the condition that the role's fence key is at `fence`. The key itself may
    /// be in any state. Returns the sequence of the write.
    pub async fn write_fenced(
        &self,
        owner: &DataOwner,
        fence: u64,
        key: &DataKey,
        value: Option<&[u8]>,
        timeout: Duration,
    ) -> Result<u64, StoreError> {
        let fence_subject = self.fence_of(owner);
        let headers = match value {
            Some(_) => expecting_of(&fence_subject, fence),
            None => expecting_of_with(&fence_subject, fence, &[(OPERATION_HEADER, DELETE)]),
        };
        let request = Request::new()
            .headers(headers)
            .payload(value.unwrap_or_default().to_vec().into());
        self.publish(self.data_subject(owner, key), request, timeout)
            .await
    }

    /// Returns the size of the largest value that these writes may have, in bytes.
    pub fn largest_value(&self, owner: &DataOwner, fence: u64, batched_writes: bool) -> usize {
        let headers = if batched_writes {
            let id = "0".repeat(32);
            let mut headers = batched(&id, MOST_WRITES as u64 + 1, expecting(u64::MAX));
            headers.insert(NATS_BATCH_COMMIT, NATS_BATCH_COMMIT_FINAL);
            headers
        } else {
            expecting_of(&self.fence_of(owner), fence)
        };
        self.largest_message().saturating_sub(wire_size(&headers))
    }

    /// Writes all of these as one, or nothing. The role's fence key must be at `fence`, and each
    /// key at the sequence that its write names. Returns the sequence of the last write. The
    /// sequences of the others come right before it.
    ///
    /// One message can carry one condition. So the batch begins with a guard: an empty delete
    /// marker under a key of its own, whose condition is the fence. The server must answer the
    /// guard as the start of a batch before anything else is sent. A server without batches would
    /// store each message by itself.
    ///
    /// # Errors
    ///
    /// Any error before the last message is sent leaves nothing behind. This includes a late
    /// answer, which is [`StoreError::Unavailable`] then.
    pub async fn write_batch(
        &self,
        owner: &DataOwner,
        fence: u64,
        writes: &[DataWrite],
        timeout: Duration,
    ) -> Result<u64, StoreError> {
        let Some((last, others)) = writes.split_last() else {
            return Err(StoreError::Unsupported("an empty batch".into()));
        };
        let until = clock::now() + timeout;
        let id = format!("{:032x}", rand::random::<u128>());
        let guard = guarding(&self.fence_of(owner), fence);
        let mut open = OpenBatch {
            bucket: self,
            subject: self.guard_subject(owner),
            end: batched(&id, OUT_OF_ORDER, guard.clone()),
            ended: false,
        };
        let guard = batched(&id, 1, guard);
        let opened = self.open_batch(owner, guard, timeout).await;
        if let Err(refused) = opened {
            // A guard that is not permitted opens nothing.
            open.ended = !refused.is_transient();
            return Err(refused);
        }
        for (number, write) in (2..).zip(others) {
            self.require_connection()?;
            let headers = batched(&id, number, headers_of(write));
            let payload = write.value.clone().unwrap_or_default().into();
            let subject = self.data_subject(owner, &write.key);
            let sending = self
                .client()
                .publish_with_headers(subject, headers, payload);
            let left = until.since(clock::now());
            match tokio::time::timeout(left, sending).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return Err(late()),
            }
        }
        let left = until.since(clock::now());
        if left.is_zero() {
            return Err(late());
        }
        let count = writes.len() as u64 + 1;
        let mut headers = batched(&id, count, headers_of(last));
        headers.insert(NATS_BATCH_COMMIT, NATS_BATCH_COMMIT_FINAL);
        let request = Request::new()
            .headers(headers)
            .payload(last.value.clone().unwrap_or_default().into());
        let subject = self.data_subject(owner, &last.key);
        let answer = self.ask(subject, request, None, left).await;
        open.ended = !answer.as_ref().is_err_and(leaves_open);
        let ack: Ack = answer?;
        self.require_own_stream(&ack.stream, ack.domain.as_deref())?;
        if ack.batch.as_deref() != Some(&id) || ack.count != Some(count) {
            return Err(StoreError::unreadable(
                "answer",
                "it is not about our batch",
            ));
        }
        // The sequence of the first message is above the fence and above every key that the batch
        // replaces.
        let highest = writes.iter().filter_map(|write| write.over).max();
        let first = ack.seq.checked_sub(count).map_or(0, |before| before + 1);
        require_above(highest.unwrap_or(0).max(fence), first)?;
        Ok(ack.seq)
    }

    /// Proves that a key of the role's data, or else the role's fence key, is at `sequence`, or
    /// missing if `sequence` is 0. It writes the guard on that condition. Reads and refusals prove no
    /// such thing, because a server that was replaced as the stream's leader gives them too.
    pub async fn prove(
        &self,
        owner: &DataOwner,
        key: Option<&DataKey>,
        sequence: u64,
        timeout: Duration,
    ) -> Result<(), StoreError> {
        let data = key.map(|key| self.data_subject(owner, key));
        let subject = data.unwrap_or_else(|| self.fence_of(owner));
        let request = Request::new().headers(guarding(&subject, sequence));
        let guard = self.guard_subject(owner);
        self.publish(guard, request, timeout).await.map(drop)
    }

    async fn open_batch(
        &self,
        owner: &DataOwner,
        guard: HeaderMap,
        timeout: Duration,
    ) -> Result<(), StoreError> {
        let request = Request::new().headers(guard);
        let asked = self.send(self.guard_subject(owner), request, None, timeout);
        let answer = match asked.await {
            Err(unanswered @ StoreError::Timeout { .. }) => {
                return Err(StoreError::Unavailable(format!("{LATE}: {unanswered}")));
            }
            Err(StoreError::PermissionDenied(denied)) => {
                return Err(StoreError::PermissionDenied(format!("{LATE}: {denied}")));
            }
            answer => answer?,
        };
        if answer.as_ref().is_empty() {
            return Ok(());
        }
        understood::<Ack>(answer.as_ref(), self.name())?;
        Err(StoreError::Unsupported(
            "the server took the beginning of a batch for a message by itself; atomic batches need nats-server 2.12"
                .into(),
        ))
    }
}

/// A batch that the server may hold open. If it is dropped, after an error or because the caller no
/// longer waits, the server receives a message that ends it. The server has room for few batches,
/// and would keep each for ten seconds. The message does not affect a batch that has ended.
struct OpenBatch<'a> {
    bucket: &'a Bucket,
    subject: String,
    /// The headers of the message that ends it.
    end: HeaderMap,
    ended: bool,
}

impl Drop for OpenBatch<'_> {
    fn drop(&mut self) {
        let runtime = Handle::try_current();
        let (false, Ok(runtime), Ok(())) = (self.ended, runtime, self.bucket.require_connection())
        else {
            return;
        };
        let client = self.bucket.client().clone();
        let (subject, headers) = (take(&mut self.subject), take(&mut self.end));
        runtime.spawn(async move {
            let empty = Vec::new().into();
            let _ = client.publish_with_headers(subject, headers, empty).await;
        });
    }
}

/// Returns the headers of an empty delete marker that is stored only while another key is at this
/// sequence.
fn guarding(subject: &str, sequence: u64) -> HeaderMap {
    expecting_of_with(subject, sequence, &[(OPERATION_HEADER, DELETE)])
}

fn headers_of(write: &DataWrite) -> HeaderMap {
    let mut headers = write.over.map_or_else(HeaderMap::new, expecting);
    if write.value.is_none() {
        headers.insert(OPERATION_HEADER, DELETE);
    }
    headers
}

/// Returns whether the server may still hold a batch open whose message ended like this.
const fn leaves_open(error: &StoreError) -> bool {
    error.is_transient() || matches!(error, StoreError::PermissionDenied(_))
}

fn batched(id: &str, number: u64, mut headers: HeaderMap) -> HeaderMap {
    headers.insert(NATS_BATCH_ID, id);
    headers.insert(NATS_BATCH_SEQUENCE, number.to_string());
    headers
}

fn late() -> StoreError {
    StoreError::Unavailable(LATE.into())
}
