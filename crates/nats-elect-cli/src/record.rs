//! What stands under a role's keys, as it was written, but for the lease token.

use std::time::{Duration, SystemTime};

use async_nats::jetstream::kv::{self, Operation};
use serde_json::{Map, Value, json};

use crate::exit::{Code, Failure};
use crate::seen::time_of;
use crate::text::{clean, stamp};

/// Longer values are not shown to people in full, in characters.
const SHOWN: usize = 120;

/// The last message under a key.
pub struct Written {
    entry: kv::Entry,
    /// Its JSON object, if it is one. No token is left in it.
    pub fields: Option<Map<String, Value>>,
    /// What it shows as the leader's signed word.
    pub proof: Option<String>,
}

impl Written {
    /// Reads a key; nothing if nothing stands there.
    pub async fn read(bucket: &kv::Store, key: &str) -> Result<Option<Self>, Failure> {
        let entry = bucket.entry(key).await.map_err(|error| {
            let what = format!("the key {key:?} could not be read: {error}");
            Failure::new(Code::Unreachable, what)
        })?;
        Ok(entry.map(|entry| {
            let mut fields = fields(&entry);
            if let Some(fields) = &mut fields {
                mask(fields);
            }
            let proof = fields.as_ref().and_then(|fields| fields.get("proof"));
            let proof = proof.and_then(Value::as_str).map(ToOwned::to_owned);
            Self {
                entry,
                fields,
                proof,
            }
        }))
    }

    pub const fn revision(&self) -> u64 {
        self.entry.revision
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
    pub const fn is_marker(&self) -> bool {
        !matches!(self.entry.operation, Operation::Put)
    }

    /// When the server stored it, by its clock.
    pub fn time(&self) -> SystemTime {
        time_of(&self.entry)
    }

    /// What it is, on one line.
    pub fn title(&self) -> String {
        let what = match self.entry.operation {
            Operation::Put => format!("{} bytes", self.entry.value.len()),
            Operation::Delete => "a marker that frees or deletes it".into(),
            Operation::Purge => "a marker that purges it".into(),
        };
        let (revision, at) = (self.entry.revision, stamp(time_of(&self.entry)));
        format!("revision {revision}, {at}, {what}")
    }

    /// Its fields with their values, or a word on why there are none.
    pub fn lines(&self) -> Vec<String> {
        match &self.fields {
            Some(fields) => fields.iter().map(line).collect(),
            None if self.entry.operation == Operation::Put => {
                vec![
                    "not readable: it is no JSON object; it is not shown, because it may contain secrets"
                        .into(),
                ]
            }
            None => Vec::new(),
        }
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let operation = match self.entry.operation {
            Operation::Put => "put",
            Operation::Delete => "delete",
            Operation::Purge => "purge",
        };
        json!({
            "revision": self.entry.revision,
            "written_at": stamp(time_of(&self.entry)),
            "operation": operation,
            "bytes": self.entry.value.len(),
            "value": self.fields,
        })
    }
}

fn fields(entry: &kv::Entry) -> Option<Map<String, Value>> {
    if entry.operation != Operation::Put {
        return None;
    }
    serde_json::from_slice(&entry.value).ok()
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

/// Takes out what only the leader is to know, wherever it stands: whatever is called a token, but
/// for its first four characters.
fn mask(fields: &mut Map<String, Value>) {
    for (name, value) in fields {
        if name.to_lowercase().contains("token") {
            let shown = value.as_str().filter(|text| text.len() >= 16);
            let shown: String = shown.unwrap_or("").chars().take(4).collect();
            *value = format!("{shown}…").into();
        } else {
            mask_within(value);
        }
    }
}

fn mask_within(value: &mut Value) {
    match value {
        Value::Object(fields) => mask(fields),
        Value::Array(items) => items.iter_mut().for_each(mask_within),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_lease_token_is_left_wherever_it_stands() {
        let mut fields = json!({
            "token": "3f9a0000-1111-2222-3333-444455556666",
            "Token": 77_001_122_334_455_u64,
            "old": [{"lease_token": {"x": "444455556666"}, "id": "a"}],
        });
        mask(fields.as_object_mut().expect("an object"));
        let text = fields.to_string();
        assert!(
            !text.contains("5556666") && !text.contains("7700"),
            "{text}"
        );
        assert_eq!(fields["token"], "3f9a…");
        assert_eq!(fields["old"][0]["id"], "a");
    }
}
