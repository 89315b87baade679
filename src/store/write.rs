//! Writes under a role's keys. Each carries the sequence that its writer expects, so that it is stored where the writer
//! last looked, or not at all.

use std::time::Duration;

use async_nats::header::{
    NATS_BATCH_COMMIT, NATS_BATCH_COMMIT_FINAL, NATS_BATCH_ID, NATS_BATCH_SEQUENCE,
    NATS_EXPECTED_LAST_SUBJECT_SEQUENCE,
};
use async_nats::{HeaderMap, Request};
use serde::Deserialize;

use super::bucket::{Bucket, CrossCheck};
use super::entry::{DELETE, OPERATION_HEADER};
use super::error::StoreError;
use crate::model::name::RoleName;
use crate::model::record::{FenceRecord, Nonce, RELEASE_HEADER, Record};

/// Names the subject whose last sequence is expected, where it is not the message's own.
const EXPECTED_SUBJECT: &str = "Nats-Expected-Last-Subject-Sequence-Subject";
/// No stream gets that far.
const IMPOSSIBLE_SEQUENCE: u64 = i64::MAX as u64;

/// On which condition a fence record is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceOn {
    /// The role's key still stands at this sequence (servers from 2.11 on).
    RoleKeyAt(u64),
    /// The fence key still stands at this sequence; 0 if it is missing.
    FenceKeyAt(u64),
}

#[derive(Deserialize)]
struct Ack {
    seq: u64,
    /// How many messages of a batch were stored.
    count: Option<u64>,
}

impl Bucket {
    /// Claims the role over the sequence `over`; 0 if its key is missing. Returns the new sequence.
    pub async fn claim(
        &self,
        role: &RoleName,
        over: u64,
        record: &Record,
        timeout: Duration,
    ) -> Result<u64, StoreError> {
        self.put(role, over, record, timeout).await
    }

    /// Renews the lease over the sequence of its last write. Returns the new sequence.
    pub async fn renew(
        &self,
        role: &RoleName,
        over: u64,
        record: &Record,
        timeout: Duration,
    ) -> Result<u64, StoreError> {
        self.put(role, over, record, timeout).await
    }

    async fn put(
        &self,
        role: &RoleName,
        over: u64,
        record: &Record,
        timeout: Duration,
    ) -> Result<u64, StoreError> {
        let request = Request::new()
            .headers(expecting(over))
            .payload(record.to_json().into());
        self.publish(self.role_subject(role), request, timeout)
            .await
    }

    /// Frees the role: a delete marker over the sequence `over`, which tells that the leader itself wrote it.
    pub async fn release(
        &self,
        role: &RoleName,
        over: u64,
        nonce: &Nonce,
        timeout: Duration,
    ) -> Result<u64, StoreError> {
        let mut headers = expecting(over);
        headers.insert(OPERATION_HEADER, DELETE);
        headers.insert(RELEASE_HEADER, nonce.to_string());
        let request = Request::new().headers(headers);
        self.publish(self.role_subject(role), request, timeout)
            .await
    }

    /// Writes the role's fence record on the given condition. Returns its sequence.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`], without writing, for [`FenceOn::RoleKeyAt`] on a server that would check the fence key
    /// instead, or that was not seen to do better.
    pub async fn fence(
        &self,
        role: &RoleName,
        on: FenceOn,
        record: &FenceRecord,
        timeout: Duration,
    ) -> Result<u64, StoreError> {
        let headers = match on {
            FenceOn::FenceKeyAt(sequence) => expecting(sequence),
            FenceOn::RoleKeyAt(sequence) => {
                self.require_cross_check(role, sequence, timeout).await?;
                expecting_of(&self.role_subject(role), sequence)
            }
        };
        let request = Request::new()
            .headers(headers)
            .payload(record.to_json().into());
        self.publish(self.fence_subject(role), request, timeout)
            .await
    }

    /// Claims the role over `over` and writes its fence record, both or neither. Returns the fence record's sequence; the
    /// claim's is the one before it.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`], without writing, unless the bucket is known to take atomic batches.
    pub async fn claim_and_fence(
        &self,
        role: &RoleName,
        over: u64,
        record: &Record,
        fence: &FenceRecord,
        timeout: Duration,
    ) -> Result<u64, StoreError> {
        // A server that does not know the headers would store both messages one by one, the second unconditionally.
        if !self.takes_batches() {
            let detail = "the bucket takes no atomic batches (nats-server 2.12, `allow_atomic`)";
            return Err(StoreError::Unsupported(detail.into()));
        }
        self.require_connection()?;
        let batch = format!("{:032x}", rand::random::<u128>());
        let mut first = expecting(over);
        first.insert(NATS_BATCH_ID, batch.as_str());
        first.insert(NATS_BATCH_SEQUENCE, "1");
        let mut last = HeaderMap::new();
        last.insert(NATS_BATCH_ID, batch.as_str());
        last.insert(NATS_BATCH_SEQUENCE, "2");
        last.insert(NATS_BATCH_COMMIT, NATS_BATCH_COMMIT_FINAL);

        let writing = async {
            // Expectations are checked at the commit, and a batch whose first message was refused is refused there as a
            // whole: the first message needs no answer of its own.
            let subject = self.role_subject(role);
            self.client()
                .publish_with_headers(subject, first, record.to_json().into())
                .await
                .map_err(|error| StoreError::Unavailable(format!("not sent: {error}")))?;
            let request = Request::new().headers(last).payload(fence.to_json().into());
            self.ask::<Ack>(self.fence_subject(role), request, timeout)
                .await
        };
        let ack = tokio::time::timeout(timeout, writing)
            .await
            .map_err(|_| StoreError::Timeout)??;
        match ack.count {
            Some(2) => Ok(ack.seq),
            _ => Err(StoreError::unreadable(
                "answer",
                "no batch of two was stored",
            )),
        }
    }

    async fn publish(
        &self,
        subject: String,
        request: Request,
        timeout: Duration,
    ) -> Result<u64, StoreError> {
        Ok(self.ask::<Ack>(subject, request, timeout).await?.seq)
    }

    async fn require_cross_check(
        &self,
        role: &RoleName,
        sequence: u64,
        timeout: Duration,
    ) -> Result<(), StoreError> {
        let verdict = match self.cross_check() {
            CrossCheck::Unknown => {
                let verdict = self.probe_cross_check(role, sequence, timeout).await?;
                self.set_cross_check(verdict);
                verdict
            }
            known => known,
        };
        match verdict {
            CrossCheck::Supported => Ok(()),
            CrossCheck::Unknown | CrossCheck::Unsupported => Err(StoreError::Unsupported(
                "a condition on another key (nats-server 2.11)".into(),
            )),
        }
    }

    /// Asks for what must fail, a fence record on an impossible sequence of the role's key, and looks whose last sequence
    /// the refusal tells: the role key's, or, from a server that overlooks the header, the fence key's own.
    async fn probe_cross_check(
        &self,
        role: &RoleName,
        sequence: u64,
        timeout: Duration,
    ) -> Result<CrossCheck, StoreError> {
        let headers = expecting_of(&self.role_subject(role), IMPOSSIBLE_SEQUENCE);
        let request = Request::new().headers(headers);
        let told = match self
            .publish(self.fence_subject(role), request, timeout)
            .await
        {
            Err(StoreError::Conflict { current }) => current,
            Err(error) => return Err(error),
            Ok(_) => return Ok(CrossCheck::Unsupported),
        };
        let Some(told) = told else {
            return Ok(CrossCheck::Unknown);
        };
        if told == sequence && sequence != 0 {
            return Ok(CrossCheck::Supported);
        }
        let keys = self.snapshot(role, false, timeout).await?;
        let role_at = keys.role.map_or(0, |entry| entry.revision);
        let fence_at = keys.fence.map_or(0, |entry| entry.revision);
        Ok(match (told == role_at, told == fence_at) {
            (true, false) => CrossCheck::Supported,
            (false, true) => CrossCheck::Unsupported,
            // Both are missing, or somebody writes at this very moment: the next probe will tell.
            _ => CrossCheck::Unknown,
        })
    }
}

fn expecting(sequence: u64) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, sequence.to_string());
    headers
}

fn expecting_of(subject: &str, sequence: u64) -> HeaderMap {
    let mut headers = expecting(sequence);
    headers.insert(EXPECTED_SUBJECT, subject);
    headers
}
