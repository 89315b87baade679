//! Durations as whole milliseconds in messages, for serde's `with` attribute.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Writes a duration as whole milliseconds, rounded down, at most `u64::MAX`.
pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    of(*duration).serialize(serializer)
}

/// Reads a duration from whole milliseconds.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    u64::deserialize(deserializer).map(Duration::from_millis)
}

fn of(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The same for an optional duration.
pub mod option {
    use super::{Deserialize, Deserializer, Duration, Serialize, Serializer, of};

    /// Writes a duration as whole milliseconds, or `null`.
    pub fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        duration.map(of).serialize(serializer)
    }

    /// Reads a duration from whole milliseconds, or `None` from `null`.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        let millis = Option::<u64>::deserialize(deserializer)?;
        Ok(millis.map(Duration::from_millis))
    }
}
