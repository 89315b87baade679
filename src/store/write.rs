//! Writes under a role's keys. Each write carries the sequence that its writer expects. The server
//! stores it over the state that the writer last saw, or not at all.

use std::time::Duration;

use async_nats::header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE;
use async_nats::{HeaderMap, Request};
use serde::Deserialize;
use tokio_util::bytes::Bytes;

use super::bucket::Bucket;
use super::entry::{DELETE, OPERATION_HEADER};
use super::error::StoreError;
use nats_elect_core::name::RoleName;
use nats_elect_core::record::{
    FenceRecord, HEIR_HEADER, LINE_HEADER, RELEASE_HEADER, RELEASE_SECRET_HEADER, Record, Release,
};
use nats_elect_core::text::printable;

const CONDITION: &str = "Nats-Expected-Last-Subject-Sequence";
/// The header with the subject whose last sequence is expected, where it is not the message's own.
const EXPECTED_SUBJECT: &str = "Nats-Expected-Last-Subject-Sequence-Subject";

/// The server's confirmation that a message is stored.
#[derive(Deserialize)]
pub(super) struct Ack {
    pub stream: String,
    pub domain: Option<String>,
    pub seq: u64,
    /// The id of the batch that ends with this write, and its number of messages.
    pub batch: Option<String>,
    pub count: Option<u64>,
}

impl Bucket {
    /// Writes the leader's record, a claim or a heartbeat, over the sequence `over`, or 0 if the
    /// role's key is missing. Returns the new sequence.
    pub fn put_record(
        &self,
        role: &RoleName,
        over: u64,
        record: &Record,
        timeout: Duration,
    ) -> impl Future<Output = Result<u64, StoreError>> + Send + use<'_> {
        self.put(self.subject(role), over, record.to_json(), timeout)
    }

    /// The request is made at once, and the future keeps nothing but it: there is one for each
    /// heartbeat.
    pub(super) fn put(
        &self,
        subject: String,
        over: u64,
        value: Vec<u8>,
        timeout: Duration,
    ) -> impl Future<Output = Result<u64, StoreError>> + Send + use<'_> {
        let request = Request::new()
            .headers(expecting(over))
            .payload(value.into());
        self.publish(subject, request, timeout)
    }

    /// Frees the role with a delete marker over the sequence `over`. The marker shows that the
    /// leader itself wrote it, and names who should lead next.
    pub fn release(
        &self,
        role: &RoleName,
        over: u64,
        release: &Release,
        timeout: Duration,
    ) -> impl Future<Output = Result<u64, StoreError>> + Send + use<'_> {
        let request = Request::new().headers(releasing(over, release));
        self.publish(self.subject(role), request, timeout)
    }

    /// The problem, if the bucket does not take a value of so many bytes.
    pub fn misfit(&self, bytes: usize) -> Option<String> {
        self.too_large(wire_size(&expecting(u64::MAX)) + bytes)
    }

    fn too_large(&self, size: usize) -> Option<String> {
        let most = self.largest_message();
        (size > most).then(|| {
            format!(
                "may need a message of {size} bytes, and the bucket takes {most} (`max_payload` of the server, \
                 `max_msg_size` of the bucket): raise that, or"
            )
        })
    }

    /// Writes the role's fence record over the sequence `over` of the fence key, or 0 if it is
    /// missing. Returns the new sequence.
    pub fn fence(
        &self,
        role: &RoleName,
        over: u64,
        record: &FenceRecord,
        timeout: Duration,
    ) -> impl Future<Output = Result<u64, StoreError>> + Send + use<'_> {
        self.put(self.fence_subject(role), over, record.to_json(), timeout)
    }

    pub(super) async fn publish(
        &self,
        subject: String,
        request: Request,
        timeout: Duration,
    ) -> Result<u64, StoreError> {
        let headers = request.headers.as_ref();
        let size = headers.map_or(0, wire_size) + request.payload.as_ref().map_or(0, Bytes::len);
        if let Some(misfit) = self.too_large(size) {
            return Err(StoreError::Unsupported(format!(
                "a record {misfit} shorten the ids and the metadata of the instance"
            )));
        }
        let expected = headers.map_or(0, expected_in);
        let ack: Ack = self.ask(subject, request, None, timeout).await?;
        self.require_own_stream(&ack.stream, ack.domain.as_deref())?;
        require_above(expected, ack.seq)?;
        Ok(ack.seq)
    }

    /// Checks that the confirmation is from our stream. The server confirms a write to any reply
    /// subject that its writer names, including ours. A write to another stream is not ours.
    /// Neither is a write to a stream of the same name in another domain, which receives the same
    /// message.
    pub(super) fn require_own_stream(
        &self,
        stream: &str,
        domain: Option<&str>,
    ) -> Result<(), StoreError> {
        if stream != self.stream() {
            let why = format_args!("it is of stream {:?}", printable(stream));
            return Err(StoreError::unreadable("confirmation", why));
        }
        if domain != self.domain().as_deref() {
            let domain = printable(domain.unwrap_or_default());
            let why = format_args!("it is of domain {domain:?}");
            return Err(StoreError::unreadable("confirmation", why));
        }
        Ok(())
    }
}

/// Returns the size of headers on the wire, in bytes. The server counts them with the message.
pub(super) fn wire_size(headers: &HeaderMap) -> usize {
    let lines = headers.iter().flat_map(|(name, values)| {
        let name: &str = name.as_ref();
        values
            .iter()
            .map(move |value| name.len() + ": \r\n".len() + value.as_str().len())
    });
    "NATS/1.0\r\n\r\n".len() + lines.sum::<usize>()
}

/// Checks that the message's sequence is above the expected one. The server stores a message above
/// all earlier ones, and so above the key that its writer expected.
pub(super) fn require_above(expected: u64, sequence: u64) -> Result<(), StoreError> {
    if sequence > expected {
        return Ok(());
    }
    let why = format_args!("its sequence {sequence} is not above {expected}");
    Err(StoreError::unreadable("confirmation", why))
}

/// Returns the sequence that a message is conditional on, or 0 if it has no condition.
fn expected_in(headers: &HeaderMap) -> u64 {
    let condition = headers.get(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE);
    condition.map_or(0, |it| it.as_str().parse().unwrap_or(0))
}

/// Returns the headers of a release.
pub(super) fn releasing(over: u64, release: &Release) -> HeaderMap {
    let mut headers = expecting(over);
    headers.insert(OPERATION_HEADER, DELETE);
    if let Some(nonce) = release.nonce {
        headers.insert(RELEASE_HEADER, nonce.to_string());
    }
    if let Some(secret) = release.secret {
        headers.insert(RELEASE_SECRET_HEADER, secret.expose());
    }
    if let Some(heir) = release.heir {
        headers.insert(HEIR_HEADER, heir.to_string());
    }
    if !release.line.is_empty() {
        headers.insert(LINE_HEADER, release.line.to_string());
    }
    headers
}

pub(super) fn expecting(sequence: u64) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, sequence.to_string());
    headers
}

/// Returns headers that expect the sequence of another subject than the message's own.
pub(super) fn expecting_of(subject: &str, sequence: u64) -> HeaderMap {
    expecting_of_with(subject, sequence, &[])
}

/// Returns the same headers, with further ones.
///
/// Servers up to 2.11.6 look for the first header's name and stop at the second's, because the
/// first name is its beginning. In the wrong order the message carries no condition for them and is
/// stored (nats-server#7065). The map has no order of its own, but each new map has another order.
/// So maps are created until one has the right order.
pub(super) fn expecting_of_with(
    subject: &str,
    sequence: u64,
    further: &[(&str, &str)],
) -> HeaderMap {
    loop {
        let mut headers = expecting(sequence);
        headers.insert(EXPECTED_SUBJECT, subject);
        for (name, value) in further {
            headers.insert(*name, *value);
        }
        let mut names = headers.iter().map(|(name, _)| name.as_ref());
        let first = names.find(|name: &&str| name.starts_with(CONDITION));
        if first == Some(CONDITION) {
            return headers;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_condition_is_sent_before_the_subject_that_it_is_about() {
        for sequence in 0..1000 {
            let headers = expecting_of("$KV.b.r", sequence);
            let names: Vec<String> = headers.iter().map(|(name, _)| name.to_string()).collect();
            assert_eq!(names, [CONDITION, EXPECTED_SUBJECT]);
            let headers = expecting_of_with("$KV.b.r", sequence, &[("A", "1"), ("B", "2")]);
            let at = |wanted: &str| {
                let mut names = headers.iter().map(|(name, _)| name.to_string());
                names.position(|name| name == wanted).unwrap()
            };
            assert!(at(CONDITION) < at(EXPECTED_SUBJECT));
            assert_eq!(headers.len(), 4);
        }
    }
}
