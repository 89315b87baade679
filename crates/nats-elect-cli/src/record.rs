//! What stands under a role's keys, as it was written, but for the lease token.

use std::time::{Duration, SystemTime};

use async_nats::jetstream::kv::{self, Operation};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::exit::Failure;
use crate::text::{clean, stamp};

/// Longer values are not shown to people in full, in characters.
const SHOWN: usize = 120;

/// The operation of a message that has a value.
const PUT: &str = "put";

/// The last message under a key.
#[derive(Serialize)]
pub struct Written {
    pub revision: u64,
    /// When the server stored it, by its clock.
    #[serde(rename = "written_at", serialize_with = "stamped")]
    pub time: SystemTime,
    /// put, delete or purge.
    operation: &'static str,
    bytes: usize,
    /// Its JSON object, if it is one. No token is left in it.
    #[serde(rename = "value")]
    pub fields: Option<Map<String, Value>>,
}

impl Written {
    /// Reads a key; nothing if nothing stands there.
    pub async fn read(bucket: &kv::Store, key: &str) -> Result<Option<Self>, Failure> {
        let entry = bucket.entry(key).await.map_err(|error| {
            let what = format!("the key {key:?} could not be read: {error}");
            Failure::unreachable(what)
        })?;
        Ok(entry.map(|entry| {
            let operation = match entry.operation {
                Operation::Put => PUT,
                Operation::Delete => "delete",
                Operation::Purge => "purge",
            };
            let value = Some(&entry.value).filter(|_| operation == PUT);
            let mut fields = value.and_then(|value| serde_json::from_slice(value).ok());
            fields.iter_mut().for_each(mask);
            Self {
                revision: entry.revision,
                time: entry.created.into(),
                operation,
                bytes: entry.value.len(),
                fields,
            }
        }))
    }

    /// The record of a role, and its fence record.
    pub async fn of_role(
        bucket: &kv::Store,
        role: &str,
    ) -> Result<(Option<Self>, Option<Self>), Failure> {
        let record = Self::read(bucket, role).await?;
        let fence = Self::read(bucket, &format!("_fence.{role}")).await?;
        Ok((record, fence))
    }

    /// The instance id that it tells.
    pub fn id(&self) -> Option<String> {
        self.text("id")
    }

    /// A text that it tells under this name.
    pub fn text(&self, name: &str) -> Option<String> {
        Some(clean(self.fields.as_ref()?.get(name)?.as_str()?))
    }

    /// The lease that it tells.
    pub fn ttl(&self) -> Option<Duration> {
        let ms = self.fields.as_ref()?.get("ttl_ms")?.as_u64()?;
        Some(Duration::from_millis(ms))
    }

    /// Whether it says that its key is deleted.
    pub fn is_marker(&self) -> bool {
        self.operation != PUT
    }

    /// What it is, on one line.
    pub fn title(&self) -> String {
        let what = match self.operation {
            PUT => format!("{} bytes", self.bytes),
            "delete" => "a marker that frees or deletes it".into(),
            _ => "a marker that purges it".into(),
        };
        let (revision, at) = (self.revision, stamp(self.time));
        format!("revision {revision}, {at}, {what}")
    }

    /// Its fields with their values, or a word on why there are none.
    pub fn lines(&self) -> Vec<String> {
        let why =
            "not readable: it is no JSON object; it is not shown, because it may contain secrets";
        match &self.fields {
            Some(fields) => fields.iter().map(line).collect(),
            None if self.is_marker() => Vec::new(),
            None => vec![why.into()],
        }
    }
}

fn stamped<S: Serializer>(time: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&stamp(*time))
}

fn line((name, value): (&String, &Value)) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let cut = match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}… ({} bytes)", clean(&text[..end]), text.len()),
        None => clean(&text),
    };
    let name: String = name.chars().take(SHOWN).collect();
    format!("{:<14} {cut}", clean(&name))
}

/// Takes out what only the leader is to know: the lease token, but for its first four characters.
fn mask(fields: &mut Map<String, Value>) {
    if let Some(token) = fields.get_mut("token") {
        let shown = token.as_str().filter(|text| text.len() >= 16);
        let shown: String = shown.unwrap_or("").chars().take(4).collect();
        *token = format!("{shown}…").into();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn four_characters_of_a_lease_token_are_left() {
        for (token, shown) in [
            (json!("3f9a0000-1111-2222-3333-444455556666"), "3f9a…"),
            (json!(77_001_122_334_455_u64), "…"),
        ] {
            let mut fields = json!({ "token": token, "id": "a" });
            mask(fields.as_object_mut().expect("an object"));
            assert_eq!(fields, json!({ "token": shown, "id": "a" }));
        }
    }
}
