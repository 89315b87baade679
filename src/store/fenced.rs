//! Writes of a role's data that the server refuses once the role's fence key has moved.
//!
//! No verdict about the server is trusted here. One that overlooked the header that names another key would check the number
//! against the message's own key. The number is the fence record's sequence, and no other message has it: such a server refuses.

use std::time::Duration;

use async_nats::header::{
    NATS_BATCH_COMMIT, NATS_BATCH_COMMIT_FINAL, NATS_BATCH_ID, NATS_BATCH_SEQUENCE,
};
use async_nats::{HeaderMap, Request};
use serde::Deserialize;
use tokio::runtime::Handle;

use super::bucket::Bucket;
use super::entry::{DELETE, OPERATION_HEADER};
use super::error::StoreError;
use super::request::understood;
use super::write::{expecting, expecting_of, expecting_of_with, require_above};
use crate::clock;
use nats_elect_core::name::{DataKey, RoleName};

/// Writes in one batch: the server takes 1000 messages, and one is the guard.
pub const MOST_WRITES: usize = 999;

/// What an error begins with when a batch's last message was not sent, so that none of it is stored.
pub(super) const LATE: &str = "the batch was given up before its end was sent";

/// No message of a batch has this number: a batch that is sent it is given up by the server.
const OUT_OF_ORDER: u64 = 1_000_000;

/// One write under a role's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataWrite {
    pub key: DataKey,
    /// Nothing deletes the key.
    pub value: Option<Vec<u8>>,
    /// The sequence at which the key must stand, 0 if it must be missing; nothing if that does not matter.
    pub over: Option<u64>,
}

#[derive(Deserialize)]
struct BatchAck {
    stream: String,
    domain: Option<String>,
    seq: u64,
    batch: Option<String>,
    count: Option<u64>,
}

impl Bucket {
    /// Writes one key on condition that the role's fence key stands at `fence`, whatever stands under the key. Returns its
    /// sequence.
    pub async fn write_fenced(
        &self,
        role: &RoleName,
        fence: u64,
        key: &DataKey,
        value: Option<&[u8]>,
        timeout: Duration,
    ) -> Result<u64, StoreError> {
        let fence_subject = self.fence_subject(role);
        let headers = match value {
            Some(_) => expecting_of(&fence_subject, fence),
            None => expecting_of_with(&fence_subject, fence, &[(OPERATION_HEADER, DELETE)]),
        };
        let request = Request::new()
            .headers(headers)
            .payload(value.unwrap_or_default().to_vec().into());
        self.publish(self.data_subject(role, key), request, timeout)
            .await
    }

    /// Writes all of these as one, on condition that the role's fence key stands at `fence` and each key where its write says,
    /// or nothing. Returns the sequence of the last; the others' stand right before it.
    ///
    /// One message can carry one condition. So the batch begins with a guard, an empty delete marker under a key of its own,
    /// whose condition is the fence. It must be answered as a batch's before anything else is sent: a server without batches
    /// would store each message by itself.
    ///
    /// # Errors
    ///
    /// Whatever goes wrong before the last message is sent leaves nothing behind, also a late answer, which is
    /// [`StoreError::Unavailable`] then.
    pub async fn write_batch(
        &self,
        role: &RoleName,
        fence: u64,
        writes: &[DataWrite],
        timeout: Duration,
    ) -> Result<u64, StoreError> {
        let Some((last, others)) = writes.split_last() else {
            return Err(StoreError::Unsupported("an empty batch".into()));
        };
        let until = clock::now() + timeout;
        let id = format!("{:032x}", rand::random::<u128>());
        let mut open = OpenBatch {
            bucket: self,
            role,
            fence,
            id: &id,
            ended: false,
        };
        let opened = self.open_batch(role, fence, &id, timeout).await;
        if let Err(refused) = opened {
            open.ended = !refused.is_transient();
            return Err(refused);
        }
        for (number, write) in (2..).zip(others) {
            self.require_connection()?;
            let headers = batched(&id, number, headers_of(write));
            let payload = write.value.clone().unwrap_or_default().into();
            let subject = self.data_subject(role, &write.key);
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
        let subject = self.data_subject(role, &last.key);
        let answer = self.ask(subject, request, left).await;
        open.ended = !answer.as_ref().is_err_and(StoreError::is_transient);
        let ack: BatchAck = answer?;
        self.require_own_stream(&ack.stream, ack.domain.as_deref())?;
        if ack.batch.as_deref() != Some(&id) || ack.count != Some(count) {
            return Err(StoreError::unreadable(
                "answer",
                "it is not about our batch",
            ));
        }
        // Its first message stands above the fence and above every key that one of it replaces.
        let highest = writes.iter().filter_map(|write| write.over).max();
        let first = ack.seq.checked_sub(count).map_or(0, |before| before + 1);
        require_above(highest.unwrap_or(0).max(fence), first)?;
        Ok(ack.seq)
    }

    /// Proves that the role's fence key stands at `sequence`, 0 if it is missing: by a write of the guard on that condition. Reads and
    /// refusals prove no such thing, for a server that was replaced as the stream's leader gives them too.
    pub async fn prove_fence(
        &self,
        role: &RoleName,
        sequence: u64,
        timeout: Duration,
    ) -> Result<(), StoreError> {
        let subject = self.fence_subject(role);
        self.prove(role, &subject, sequence, timeout).await
    }

    /// The same of a key of the role's data.
    pub async fn prove_data(
        &self,
        role: &RoleName,
        key: &DataKey,
        sequence: u64,
        timeout: Duration,
    ) -> Result<(), StoreError> {
        let subject = self.data_subject(role, key);
        self.prove(role, &subject, sequence, timeout).await
    }

    async fn prove(
        &self,
        role: &RoleName,
        subject: &str,
        sequence: u64,
        timeout: Duration,
    ) -> Result<(), StoreError> {
        let request = Request::new().headers(guarding(subject, sequence));
        let guard = self.guard_subject(role);
        self.publish(guard, request, timeout).await.map(drop)
    }

    fn guard(&self, role: &RoleName, fence: u64, id: &str, number: u64) -> HeaderMap {
        batched(id, number, guarding(&self.fence_subject(role), fence))
    }

    async fn open_batch(
        &self,
        role: &RoleName,
        fence: u64,
        id: &str,
        timeout: Duration,
    ) -> Result<(), StoreError> {
        let headers = self.guard(role, fence, id, 1);
        let request = Request::new().headers(headers);
        let asked = self.ask_plainly(self.guard_subject(role), request, timeout);
        let answer = match asked.await {
            Err(unanswered @ StoreError::Timeout { .. }) => {
                return Err(StoreError::Unavailable(format!("{LATE}: {unanswered}")));
            }
            answer => answer?,
        };
        if answer.as_ref().is_empty() {
            return Ok(());
        }
        understood::<BatchAck>(answer.as_ref(), self.name())?;
        Err(StoreError::Unsupported(
            "the server took the beginning of a batch for a message by itself; atomic batches need nats-server 2.12"
                .into(),
        ))
    }
}

/// A batch that the server may hold open. When it is left, by an error or because nobody waits for it any more, the server is
/// told so: it has room for few, and would keep each for ten seconds. One that has ended is not touched by that.
struct OpenBatch<'a> {
    bucket: &'a Bucket,
    role: &'a RoleName,
    fence: u64,
    id: &'a str,
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
        let subject = self.bucket.guard_subject(self.role);
        let headers = self
            .bucket
            .guard(self.role, self.fence, self.id, OUT_OF_ORDER);
        runtime.spawn(async move {
            let empty = Vec::new().into();
            let _ = client.publish_with_headers(subject, headers, empty).await;
        });
    }
}

/// Of an empty delete marker that is stored while another key stands at this sequence.
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

fn batched(id: &str, number: u64, mut headers: HeaderMap) -> HeaderMap {
    headers.insert(NATS_BATCH_ID, id);
    headers.insert(NATS_BATCH_SEQUENCE, number.to_string());
    headers
}

fn late() -> StoreError {
    StoreError::Unavailable(LATE.into())
}
