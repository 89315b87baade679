//! A request to an instance to do something, and its answer.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{AdminReply, MAX_REQUEST_BYTES};
use crate::role::SteppedDown;
use nats_elect_core::duration::seconds;
use nats_elect_core::token::FencingToken;
use nats_elect_core::whole;

/// The longest hold-off. To keep an instance out for longer, remove the role.
pub const LONGEST_HOLD_OFF: Duration = Duration::from_secs(24 * 60 * 60);

/// The body of a request: empty, or JSON. Fields that this version does not know are refused,
/// because they may be conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdminRequest {
    /// The instance id of the successor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// How long the instance then stays out of the election, at least.
    #[serde(
        rename = "hold_off_seconds",
        with = "seconds",
        skip_serializing_if = "Duration::is_zero"
    )]
    pub hold_off: Duration,
    /// The expected term. In any other term nothing is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_fencing_token: Option<FencingToken>,
    /// The revision of the expected message under the role's key. If another message stands there,
    /// nothing is done.
    #[serde(with = "whole::option", skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
    /// The unit of the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// How many shards the group is to have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shards: Option<u32>,
}

impl AdminRequest {
    /// Returns the request for this unit.
    pub fn for_unit(unit: &str) -> Self {
        Self {
            unit: Some(unit.to_owned()),
            ..Self::default()
        }
    }

    /// Reads a request.
    ///
    /// # Errors
    /// Returns the problem in words.
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
            return Err("`hold_off_seconds` is at most a day".into());
        }
        Ok(request)
    }
}

/// The result of a request that changed something.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// The terms that the request ended, by role.
    #[serde(default)]
    pub ended: BTreeMap<String, SteppedDown>,
}

impl AdminReply for Done {
    const KIND: &'static str = "io.nats-elect.admin.v1.done";
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_empty_request_has_the_default_settings() {
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
            revision: Some(u64::MAX),
            unit: Some("17".into()),
            shards: Some(512),
        };
        let json = serde_json::to_value(&request).expect("JSON");
        for json in [crate::model::rounded(&json), json] {
            assert_eq!(
                AdminRequest::parse(json.to_string().as_bytes()),
                Ok(request.clone())
            );
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parsers_fail(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = AdminRequest::parse(&bytes);
        }
    }

    #[test]
    fn an_unknown_condition_is_not_skipped() {
        let error = AdminRequest::parse(br#"{"expected_priority":3}"#).expect_err("it may matter");
        assert!(error.contains("expected_priority"), "{error}");
    }

    #[test]
    fn an_invalid_request_is_refused_in_words() {
        let long = format!("{{\"to\":\"{}\"}}", "x".repeat(MAX_REQUEST_BYTES));
        for odd in [
            &b"\xff"[..],
            b"[3]",
            b"7",
            b"{",
            br#"{"hold_off_seconds":86400.5}"#,
            br#"{"hold_off_seconds":-1}"#,
            long.as_bytes(),
        ] {
            assert!(AdminRequest::parse(odd).is_err(), "{odd:?}");
        }
    }
}
