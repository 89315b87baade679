//! Messages whose headers the client can't read. Such a message costs each client that receives it
//! its connection, and each new watch receives it again. A read has the headers as base64 in an
//! answer, and so does not break.

use std::time::Duration;

use async_nats::jetstream::stream::RawMessage;
use data_encoding::BASE64;
use serde_json::json;

use super::bucket::Bucket;
use super::error::StoreError;
use super::read::{StoredMessage, last_message};
use nats_elect_core::group::{GroupKey, UnitRecord};

impl Bucket {
    /// Writes over each message under the keys of groups that comes after this sequence and may be
    /// unreadable: that a unit has no owner, and nothing under other keys. Returns their subjects.
    ///
    /// To the protocol that is a stranger's record, as the message was.
    pub async fn clear_unreadable(
        &self,
        after: u64,
        timeout: Duration,
    ) -> Result<Vec<String>, StoreError> {
        let mut cleared = Vec::new();
        let mut after = after;
        while let Some(message) = self.next_of_groups(after, timeout).await? {
            after = message.sequence;
            if has_plain_headers(&message) {
                continue;
            }
            let subject = message.subject;
            let key = subject.strip_prefix(self.prefix());
            let value = match key.and_then(GroupKey::parse) {
                Some(GroupKey::Unit(_)) => UnitRecord::Nobody.to_json(),
                _ => Vec::new(),
            };
            match self.put(subject.clone(), after, value, timeout).await {
                Ok(_) => cleared.push(subject),
                // Another instance was first.
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(cleared)
    }

    async fn next_of_groups(
        &self,
        after: u64,
        timeout: Duration,
    ) -> Result<Option<RawMessage>, StoreError> {
        let action = format!("STREAM.MSG.GET.{}", self.stream());
        let filter = format!("{}{}", self.prefix(), GroupKey::ALL);
        let next = json!({ "seq": after.saturating_add(1), "next_by_subj": filter });
        let answer: Result<StoredMessage, _> = self.read_api(&action, &next, timeout).await;
        last_message(answer)
    }
}

fn has_plain_headers(message: &RawMessage) -> bool {
    message.headers.as_ref().is_none_or(|encoded| {
        let decoded = BASE64.decode(encoded.as_bytes());
        decoded.is_ok_and(|headers| are_plain(&headers))
    })
}

/// Returns whether headers are as clients write them. Then each client can read them.
fn are_plain(headers: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(headers) else {
        return false;
    };
    let Some(lines) = text.strip_prefix("NATS/1.0\r\n") else {
        return false;
    };
    lines.strip_suffix("\r\n").is_some_and(|lines| {
        lines.split_terminator("\r\n").all(|line| {
            line.split_once(':').is_some_and(|(name, value)| {
                !name.is_empty()
                    && name.bytes().all(|byte| byte.is_ascii_graphic())
                    && !value.chars().any(char::is_control)
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_clients_are_plain() {
        for headers in [
            "NATS/1.0\r\n\r\n",
            "NATS/1.0\r\nKV-Operation: DEL\r\n\r\n",
            "NATS/1.0\r\nA:b\r\nA: \u{e9}: c \r\nEmpty:\r\n\r\n",
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
