//! Messages that the client can't read. Such a message costs each client that receives it its
//! connection, and each new watch receives it again. A read has headers as base64 in its answer, and
//! so does not break.

use std::time::Duration;

use async_nats::Request;
use async_nats::jetstream::stream::RawMessage;
use data_encoding::BASE64;

use super::bucket::Bucket;
use super::error::StoreError;
use super::write::expecting_of;
use crate::clock;
use nats_elect_core::group::{GroupKey, UnitRecord};

/// The longest time for one look.
const LONGEST: Duration = Duration::from_secs(10);

/// The result of a look for unreadable messages.
#[derive(Debug, Default)]
pub struct Looked {
    /// All that stands up to this sequence can be read. Nothing if all was looked at.
    pub to: Option<u64>,
    /// The subjects of what was written over.
    pub cleared: Vec<String>,
    /// Why the first message that still can't be read was not written over.
    pub left: Option<StoreError>,
}

impl Bucket {
    /// Looks at the messages under these keys of groups after this sequence, and writes over those that
    /// may be unreadable: that a unit has no owner, and nothing under other keys.
    ///
    /// To the protocol that is a stranger's record, as the message was: it shows no condition on its
    /// own key.
    pub async fn clear_unreadable(
        &self,
        keys: &str,
        after: u64,
        timeout: Duration,
    ) -> Result<Looked, StoreError> {
        let begun = clock::now();
        // Later ones come while this looks. Without an end it would not keep up with them.
        let last = self.standing_since(begun, timeout).await?.last_sequence;
        let (filter, mut looked) = (self.subject(keys), Looked::default());
        let mut at = after;
        while clock::now().since(begun) < LONGEST {
            let next = self.next_after(at, &filter, timeout).await?;
            let Some(message) = next.filter(|it| it.sequence <= last) else {
                return Ok(looked);
            };
            at = message.sequence;
            if is_readable(&message) {
                continue;
            }
            let subject = message.subject.clone();
            match self.write_over(message, timeout).await {
                Ok(()) => looked.cleared.push(subject),
                Err(error) => looked.left = looked.left.or(Some(error)),
            }
        }
        looked.to = Some(at);
        Ok(looked)
    }

    async fn write_over(&self, message: RawMessage, timeout: Duration) -> Result<(), StoreError> {
        let (subject, sequence) = (message.subject, message.sequence);
        if !is_one_word(&subject) {
            let detail =
                format!("clients can't read the key of message {sequence}, {subject:?}: purge it");
            return Err(StoreError::Rejected { code: 0, detail });
        }
        let key = subject.strip_prefix(self.prefix());
        let value = match key.and_then(GroupKey::parse) {
            Some(GroupKey::Unit(_)) => UnitRecord::Nobody.to_json(),
            _ => Vec::new(),
        };
        let request = Request::new()
            .headers(expecting_of(&subject, sequence))
            .payload(value.into());
        match self.publish(subject, request, timeout).await {
            // Another instance was first.
            Ok(_) | Err(StoreError::Conflict { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn is_readable(message: &RawMessage) -> bool {
    let Some(encoded) = &message.headers else {
        return !message.subject.contains(char::REPLACEMENT_CHARACTER);
    };
    let decoded = BASE64.decode(encoded.as_bytes());
    is_one_word(&message.subject) && decoded.is_ok_and(|headers| are_plain(&headers))
}

/// Returns whether a subject is one word to the client, in the line of a message with headers.
fn is_one_word(subject: &str) -> bool {
    !subject.contains(|c: char| c.is_whitespace() || c == char::REPLACEMENT_CHARACTER)
}

/// Returns whether headers are as clients write them. Then each client can read them.
fn are_plain(headers: &[u8]) -> bool {
    let text = std::str::from_utf8(headers).ok();
    let lines = text.and_then(|text| text.strip_prefix("NATS/1.0\r\n")?.strip_suffix("\r\n"));
    lines.is_some_and(|lines| lines.split_terminator("\r\n").all(is_plain_line))
}

fn is_plain_line(line: &str) -> bool {
    let Some((name, value)) = line.split_once(':') else {
        return false;
    };
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
    is_name && !value.contains(|c: char| c.is_control() && c != '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_clients_are_plain() {
        for headers in [
            "NATS/1.0\r\n\r\n",
            "NATS/1.0\r\nKV-Operation: DEL\r\n\r\n",
            "NATS/1.0\r\nA:b\r\nA: \u{e9}:\tc \r\nEmpty:\r\n\r\n",
        ] {
            assert!(are_plain(headers.as_bytes()), "{headers:?}");
        }
    }

    #[test]
    fn others_are_not() {
        for headers in [
            &b""[..],
            b"junk\r\n\r\n",
            b"NATS/1.0 100 Idle Heartbeat\r\n\r\n",
            b"NATS/1.0\nA: b\r\n\r\n",
            b"NATS/1.0\r\nno colon\r\n\r\n",
            b"NATS/1.0\r\n: no name\r\n\r\n",
            b"NATS/1.0\r\nA b: c\r\n\r\n",
            b"NATS/1.0\r\nA: \xff\r\n\r\n",
            b"NATS/1.0\r\nA: b\rc\r\n\r\n",
            b"NATS/1.0\r\nA: b\r\r\n c\r\n\r\n",
            b"NATS/1.0\r\nA: b\nB: c\r\n\r\n",
            b"NATS/1.0\r\nA: b\r\n\r\nB: c\r\n\r\n",
        ] {
            assert!(!are_plain(headers), "{headers:?}");
        }
    }
}
