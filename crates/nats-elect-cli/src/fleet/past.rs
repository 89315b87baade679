//! The history: what leaders published of their terms.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::{Seconds, Time, Token, Whole};
use crate::past_event::{Gap, PastEvent};
use crate::text::stamp_of;

/// The start or the end of a term, as its leader reported it
#[derive(Serialize, JsonSchema)]
pub struct Event {
    at: Time,
    #[serde(flatten)]
    #[schemars(with = "Published")]
    published: Value,
    /// For how long nobody had led before this term, if that is known
    gap_seconds: Option<Seconds>,
    /// Whether `gap_seconds` is a bound: after a crash nobody led for at most that long
    gap_is_at_most: bool,
}

impl From<&PastEvent> for Event {
    fn from(PastEvent { event, gap }: &PastEvent) -> Self {
        let (gap, is_bound) = match *gap {
            Some(Gap::Of(gap)) => (Some(gap), false),
            Some(Gap::AtMost(gap)) => (Some(gap), true),
            None => (None, false),
        };
        Self {
            at: Time(stamp_of(event.at_ms)),
            published: serde_json::from_str(&event.to_json()).unwrap_or_default(),
            gap_seconds: gap.map(Seconds),
            gap_is_at_most: is_bound,
        }
    }
}

// What a leader publishes.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "of a schema no value is made")]
struct Published {
    v: u32,
    bucket: String,
    role: String,
    instance_id: String,
    incarnation: Uuid,
    /// Names the term in the logs of its leader
    correlation_id: String,
    fencing_token: Token,
    /// By the clock of that instance
    at_ms: Whole,
    #[schemars(extend("enum" = ["term_started", "term_ended"]))]
    event: String,
    /// How the role had become free
    #[serde(skip_serializing_if = "String::is_empty")]
    vacancy: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    previous: Option<String>,
    /// Time from the last sign of the previous leader to this promotion, if the new leader measured
    /// it
    #[serde(skip_serializing_if = "Option::is_none")]
    silence_seconds: Option<Seconds>,
    /// Why the term ended
    #[serde(skip_serializing_if = "String::is_empty")]
    cause: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    lasted_seconds: Option<Seconds>,
    /// Whether the role was freed at once
    #[serde(skip_serializing_if = "Option::is_none")]
    released: Option<bool>,
}
