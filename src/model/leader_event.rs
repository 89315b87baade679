//! The event that is published when the leader of a role changes.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::model::cleaned;
use nats_elect_core::duration::seconds;
use nats_elect_core::event::{EndCause, Vacancy};
use nats_elect_core::token::{CorrelationId, FencingToken};
use nats_elect_core::whole;

/// Events larger than this are not read.
const MAX_BYTES: usize = 8192;

/// The begin or the end of a term, as reported by the instance that led. It is published as JSON,
/// if [`EventsConfig`](crate::EventsConfig) enables it.
///
/// An event is not a proof. Any client that may publish to the subject can send it. An instance
/// that crashes does not report the end of its term. The [`LeaderChange::TermStarted`] of the next
/// leader then says that the lease had run out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LeaderEvent {
    /// The bucket in which the role is elected.
    pub bucket: String,
    /// The role.
    pub role: String,
    /// The instance that leads, or did.
    pub instance_id: String,
    /// The start of that instance.
    pub incarnation: Uuid,
    /// The name of the term in that instance's logs and spans.
    pub correlation_id: CorrelationId,
    /// The term's fencing token. Of two terms, the later one has the greater token.
    pub fencing_token: FencingToken,
    /// The time of the event, in milliseconds since the Unix epoch by that instance's wall clock.
    #[serde(with = "whole")]
    pub at_ms: u64,
    /// The change.
    #[serde(flatten)]
    pub change: LeaderChange,
}

/// A change of a term.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum LeaderChange {
    /// The term began.
    #[non_exhaustive]
    TermStarted {
        /// How the role had become free: the name of a [`Vacancy`].
        vacancy: String,
        /// The previous leader, as far as the new leader knew.
        #[serde(default)]
        previous: Option<String>,
        /// Time from the last sign of the previous leader to this promotion: from its release, or
        /// else from its last heartbeat. The new leader measured it on its monotonic clock, from
        /// when it received that sign. After a release it is the time for which nobody led. After a
        /// crash nobody led for at most this long.
        ///
        /// `None` if there was no leader before, if the new leader
        /// did not see that sign as it came, and from versions that do not measure it.
        #[serde(
            rename = "silence_seconds",
            with = "seconds::option",
            default,
            skip_serializing_if = "Option::is_none"
        )]
        silence: Option<Duration>,
    },
    /// The term is over, and its handler has ended.
    TermEnded {
        /// The reason: the name of an [`EndCause`].
        cause: String,
        /// The time from promotion to the end of the handler.
        #[serde(rename = "lasted_seconds", with = "seconds")]
        lasted: Duration,
        /// Whether the role was freed for others at once.
        released: bool,
    },
}

/// The JSON of an event.
#[derive(Serialize, Deserialize)]
struct Json {
    v: u32,
    #[serde(flatten)]
    event: LeaderEvent,
}

impl LeaderChange {
    pub(crate) fn started(
        vacancy: Vacancy,
        previous: Option<String>,
        silence: Option<Duration>,
    ) -> Self {
        Self::TermStarted {
            vacancy: vacancy.as_str().to_owned(),
            previous,
            silence,
        }
    }

    pub(crate) fn ended(cause: EndCause, lasted: Duration, released: bool) -> Self {
        Self::TermEnded {
            cause: cause.as_str().to_owned(),
            lasted,
            released,
        }
    }
}

impl LeaderEvent {
    /// Returns the name of the change: `term_started` or `term_ended`.
    pub const fn name(&self) -> &'static str {
        match self.change {
            LeaderChange::TermStarted { .. } => "term_started",
            LeaderChange::TermEnded { .. } => "term_ended",
        }
    }

    /// Returns the JSON of the event, as it is published.
    pub fn to_json(&self) -> String {
        let event = self.clone();
        serde_json::json!(Json { v: 1, event }).to_string()
    }

    /// Reads a published event. Returns `None` if it is not an event of this version. Names in it
    /// are made printable.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        if payload.len() > MAX_BYTES {
            return None;
        }
        let Json { event, .. } = serde_json::from_slice(payload).ok()?;
        cleaned(&event)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn event(change: LeaderChange) -> LeaderEvent {
        LeaderEvent {
            bucket: "leaders".into(),
            role: "scheduler".into(),
            instance_id: "node-1".into(),
            incarnation: Uuid::from_u128(7),
            correlation_id: CorrelationId::new(Uuid::from_u128(7), 1, 3),
            fencing_token: FencingToken {
                epoch: u64::MAX,
                sequence: 3,
            },
            at_ms: 1_800_000_000_000,
            change,
        }
    }

    #[test]
    fn an_event_is_read_as_it_was_written() {
        for change in [
            LeaderChange::started(
                Vacancy::Expired,
                Some("node-2".into()),
                Some(Duration::from_micros(3_204_512)),
            ),
            LeaderChange::started(Vacancy::Untouched, None, None),
            LeaderChange::ended(EndCause::SteppedDown, Duration::from_millis(1500), true),
        ] {
            let event = event(change);
            let json = event.to_json();
            assert!(
                json.contains(&format!("\"event\":\"{}\"", event.name())),
                "{json}"
            );
            let value = serde_json::from_str(&json).expect("JSON");
            let rounded = crate::model::rounded(&value).to_string();
            for json in [json, rounded] {
                assert_eq!(LeaderEvent::parse(json.as_bytes()), Some(event.clone()));
            }
        }
    }

    #[test]
    fn names_from_outside_are_made_printable() {
        let mut event = event(LeaderChange::started(Vacancy::Expired, None, None));
        event.instance_id = "a\u{1b}[31mb".into();
        let read = LeaderEvent::parse(event.to_json().as_bytes()).expect("it is one");
        assert!(!read.instance_id.contains('\u{1b}'), "{read:?}");
    }

    #[test]
    fn an_event_without_the_measured_silence_is_read() {
        let event = event(LeaderChange::started(Vacancy::Released, None, None));
        let json = event.to_json();
        assert!(!json.contains("silence"), "{json}");
        assert_eq!(LeaderEvent::parse(json.as_bytes()), Some(event));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_fail(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = LeaderEvent::parse(&bytes);
        }
    }
}
