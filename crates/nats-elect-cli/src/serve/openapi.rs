//! The description of all paths. A test compares it with what is answered.

use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use super::api::JSON;

const LOOKING: &str = include_str!("openapi.json");
/// What is added where operations are allowed.
const OPERATING: &str = include_str!("operate.json");

/// The document, as text.
pub fn document(with_operations: bool) -> Bytes {
    if !with_operations {
        return Bytes::from_static(LOOKING.as_bytes());
    }
    let read = |text| serde_json::from_str::<Value>(text).unwrap_or_default();
    let (mut document, operating) = (read(LOOKING), read(OPERATING));
    merge(&mut document, operating);
    format!("{document:#}\n").into()
}

pub fn answer(document: Bytes) -> Response {
    ([(CONTENT_TYPE, JSON)], document).into_response()
}

fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (name, value) in more {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more,
    }
}
