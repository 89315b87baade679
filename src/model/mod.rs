//! Plain data that the layers above use.

#[allow(missing_docs)]
pub mod admin;
pub mod bequests;
pub mod config;
pub mod leader_event;
pub mod statement;
pub mod status;
pub mod unit_explanation;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use nats_elect_core::text::printable;

/// Returns what came from outside with all text in it made printable.
pub(crate) fn cleaned<T: Serialize + DeserializeOwned>(read: &T) -> Option<T> {
    fn clean(json: Value) -> Value {
        match json {
            Value::String(text) => printable(&text).into(),
            Value::Array(items) => items.into_iter().map(clean).collect(),
            Value::Object(fields) => {
                let fields = fields.into_iter();
                fields
                    .map(|(name, it)| (printable(&name), clean(it)))
                    .collect()
            }
            other => other,
        }
    }
    serde_json::from_value(clean(serde_json::to_value(read).ok()?)).ok()
}

/// JSON as a reader of 64-bit floating point numbers writes it again: jq, JavaScript and others.
#[cfg(test)]
pub(crate) fn rounded(json: &serde_json::Value) -> serde_json::Value {
    match json {
        Value::Number(number) => {
            let read = number.as_f64().expect("a number");
            let written = format!("{read}");
            serde_json::from_str(&written).expect("a number")
        }
        Value::Array(items) => items.iter().map(rounded).collect(),
        Value::Object(fields) => {
            let fields = fields.iter();
            fields
                .map(|(name, value)| (name.clone(), rounded(value)))
                .collect()
        }
        other => other.clone(),
    }
}
