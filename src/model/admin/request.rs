//! What an instance is asked to do, and what it says once it has.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{AdminReply, MAX_REQUEST_BYTES};
use nats_elect_core::handoff::Handoff;
use nats_elect_core::millis;
use nats_elect_core::text::printable;
use nats_elect_core::token::FencingToken;

/// The longest hold-off: whoever means longer removes the role.
pub const LONGEST_HOLD_OFF: Duration = Duration::from_secs(24 * 60 * 60);

/// What goes with a request: nothing, or JSON. What this version does not know is refused, for it may be a condition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdminRequest {
    /// Who is to lead next, by instance id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// How long the instance then stays out, at least.
    #[serde(rename = "hold_off_ms", with = "millis")]
    pub hold_off: Duration,
    /// The term that is meant: in any other nothing is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_fencing_token: Option<FencingToken>,
    /// The message under the role's key that is meant: where another one stands nothing is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
}

impl AdminRequest {
    /// That the message at this revision of the role's key is over.
    pub fn end_of(revision: u64) -> Self {
        Self {
            revision: Some(revision),
            ..Self::default()
        }
    }

    /// Reads a request.
    ///
    /// # Errors
    /// In words, what is wrong with it.
    pub fn parse(payload: &[u8]) -> Result<Self, String> {
        if payload.len() > MAX_REQUEST_BYTES {
            return Err(format!("a request has at most {MAX_REQUEST_BYTES} bytes"));
        }
        if payload.is_empty() {
            return Ok(Self::default());
        }
        let request: Self = serde_json::from_slice(payload)
            .map_err(|error| format!("the request is not understood: {error}"))?;
        if request.hold_off > LONGEST_HOLD_OFF {
            return Err("`hold_off_ms` is at most a day".into());
        }
        Ok(request)
    }
}

/// What became of a request that acted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    #[serde(rename = "type")]
    kind: String,
    /// The terms that it ended, by role.
    #[serde(default)]
    pub ended: BTreeMap<String, Ended>,
}

/// How a term was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Whether the role was freed for others at once.
    #[serde(default)]
    pub released: bool,
    /// What became of it, if it was freed for a successor.
    #[serde(default, deserialize_with = "super::report::known")]
    pub handoff: Option<Handoff>,
}

impl Done {
    pub fn new(ended: BTreeMap<String, Ended>) -> Self {
        Self {
            kind: Self::KIND.into(),
            ended,
        }
    }
}

impl AdminReply for Done {
    const KIND: &'static str = "io.nats-elect.admin.v1.done";

    fn kind(&self) -> &str {
        &self.kind
    }

    fn cleaned(self) -> Self {
        let ended = self.ended.into_iter();
        Self {
            ended: ended.map(|(role, it)| (printable(&role), it)).collect(),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_empty_request_asks_for_the_ordinary() {
        assert_eq!(AdminRequest::parse(b""), Ok(AdminRequest::default()));
        assert_eq!(AdminRequest::parse(b"{}"), Ok(AdminRequest::default()));
    }

    #[test]
    fn a_request_is_read_as_it_was_written() {
        let request = AdminRequest {
            to: Some("node-2".into()),
            hold_off: Duration::from_secs(5),
            expected_fencing_token: Some(FencingToken {
                epoch: 1_790_000_000_000_000_001,
                sequence: 7,
            }),
            revision: Some(9),
        };
        let json = serde_json::to_vec(&request).expect("JSON");
        assert_eq!(AdminRequest::parse(&json), Ok(request));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parsers_fail(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (AdminRequest::parse(&bytes), crate::model::admin::parse::<Done>(&bytes));
        }
    }

    #[test]
    fn a_condition_that_is_not_known_is_not_skipped() {
        let error = AdminRequest::parse(br#"{"expected_priority":3}"#).expect_err("it may matter");
        assert!(error.contains("expected_priority"), "{error}");
    }

    #[test]
    fn what_is_no_request_is_refused_in_words() {
        let long = format!("{{\"to\":\"{}\"}}", "x".repeat(MAX_REQUEST_BYTES));
        for odd in [
            &b"\xff"[..],
            b"[3]",
            b"7",
            b"{",
            br#"{"hold_off_ms":86400001}"#,
            br#"{"hold_off_ms":-1}"#,
            long.as_bytes(),
        ] {
            assert!(AdminRequest::parse(odd).is_err(), "{odd:?}");
        }
    }
}
