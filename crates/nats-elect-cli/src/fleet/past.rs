//! The history: what leaders published of their terms.

use nats_elect::LeaderEvent;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{Seconds, Time};
use crate::past_event::gap;
use crate::text::stamp_of;

/// The start or the end of a term, as its leader reported it
#[derive(Serialize, JsonSchema)]
pub struct Event {
    at: Time,
    /// As docs/events.md has it
    #[serde(flatten)]
    published: Map<String, Value>,
    /// For how long nobody had led before this term, if that is known
    gap_seconds: Option<Seconds>,
    /// Whether `gap_seconds` is a bound: after a crash nobody led for at most that long
    gap_is_at_most: bool,
}

impl From<&LeaderEvent> for Event {
    fn from(event: &LeaderEvent) -> Self {
        let gap = gap(event);
        Self {
            at: Time(stamp_of(event.at_ms)),
            published: serde_json::from_str(&event.to_json()).unwrap_or_default(),
            gap_seconds: gap.map(|it| Seconds(it.time)),
            gap_is_at_most: gap.is_some_and(|it| it.is_bound),
        }
    }
}
