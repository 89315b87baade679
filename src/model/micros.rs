//! Durations as whole microseconds, as messages carry those that are short.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[expect(clippy::ref_option, reason = "serde calls it so")]
pub fn serialize<S: Serializer>(
    duration: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let micros = duration.map(|duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX));
    micros.serialize(serializer)
}

pub fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    let micros = Option::<u64>::deserialize(deserializer)?;
    Ok(micros.map(Duration::from_micros))
}
