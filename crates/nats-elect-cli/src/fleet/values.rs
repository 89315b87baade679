//! Values that several types have.

use std::time::{Duration, SystemTime};

use nats_elect::{FencingToken, duration, whole};
use schemars::JsonSchema;
use serde::Serialize;

use crate::text::stamp;

/// A duration in seconds, to the microsecond
#[derive(Clone, Copy, Serialize, JsonSchema)]
pub struct Seconds(
    #[serde(with = "duration::seconds")]
    #[schemars(with = "f64")]
    pub Duration,
);

/// A time as RFC 3339 has it
#[derive(Clone, Serialize, JsonSchema)]
#[schemars(extend("format" = "date-time"))]
pub struct Time(pub String);

impl From<SystemTime> for Time {
    fn from(time: SystemTime) -> Self {
        Self(stamp(time))
    }
}

/// A whole number. Beyond 2^53 it is text of its digits
#[derive(Clone, Copy, Serialize, JsonSchema)]
#[schemars(extend("type" = ["integer", "string"]))]
pub struct Whole(
    #[serde(with = "whole")]
    #[schemars(with = "String")]
    pub i128,
);

impl<T: Into<i128>> From<T> for Whole {
    fn from(number: T) -> Self {
        Self(number.into())
    }
}

/// The token of a term. Texts sort as their tokens do. Only it guards a write
#[derive(Clone, Copy, Serialize, JsonSchema)]
#[schemars(rename = "FencingToken", extend("pattern" = "^[0-9a-f]{32}$"))]
pub struct Token(#[schemars(with = "String")] pub FencingToken);

/// Whether what is told of a bucket is current
#[derive(Serialize, JsonSchema)]
pub struct View {
    pub bucket: String,
    /// If not, everything is as it was last seen
    pub current: bool,
    pub stale_since: Option<Time>,
    pub stale_seconds: Option<Seconds>,
    pub reason: Option<String>,
}

// What is told, and of which bucket. Its comment would be the description of each.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "{T}")]
pub struct In<T> {
    pub bucket: String,
    #[serde(flatten)]
    pub it: T,
}

/// The words of a list that may also be missing.
pub fn or_null<T: Copy>(words: &[T]) -> Vec<Option<T>> {
    words.iter().copied().map(Some).chain([None]).collect()
}
