//! Fencing tokens as text in JSON, because JavaScript can't represent their numbers exactly.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

use nats_elect_core::token::FencingToken;

/// Writes the token's sortable form.
pub fn serialize<S: Serializer>(token: &FencingToken, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&token.to_sortable())
}

/// Reads the sortable form.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<FencingToken, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(D::Error::custom)
}
