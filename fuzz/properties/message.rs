//! Messages as anyone may write them to the bucket.

use arbitrary::{Arbitrary, Result, Unstructured};
use async_nats::header::{HeaderMap, HeaderName, HeaderValue};
use uuid::Uuid;

pub use super::made_up::{nonce, number, secret, value};

/// Headers: the ones that mean something, and others.
pub fn headers(u: &mut Unstructured<'_>) -> Result<Option<HeaderMap>> {
    if u.ratio(1, 4)? {
        return Ok(None);
    }
    let mut headers = HeaderMap::new();
    for _ in 0..u.int_in_range(0..=4)? {
        let name = match u.int_in_range(0..=9)? {
            0..=2 => "KV-Operation",
            3 => "Nats-Marker-Reason",
            4 | 5 => "Nats-Elect-Release",
            6 => "Nats-Last-Consumer",
            8 => "Nats-Elect-Release-Secret",
            9 => "Nats-Elect-Heir",
            _ => <&str>::arbitrary(u)?,
        };
        let value = match u.int_in_range(0..=10)? {
            0..=2 => "DEL".to_owned(),
            3 => "PURGE".to_owned(),
            4 => "MaxAge".to_owned(),
            5 | 6 => nonce(u)?.to_string(),
            9 => secret(u)?.expose(),
            10 => Uuid::from_u128(u.int_in_range(0..=2)?).to_string(),
            _ => String::arbitrary(u)?,
        };
        // What the client refuses to read never comes this far.
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), value.parse::<HeaderValue>()) {
            headers.append(name, value);
        }
    }
    Ok(Some(headers))
}
