//! Hints as members send them to each other, and operators to members.

use serde_json::{Value, json};

use super::epoch::Epoch;
use super::input::Hint;
use super::key::UnitKey;
use crate::name::{GroupName, UnitName};

/// The version of the message that this crate writes.
const VERSION: u64 = 1;
/// The most hints of one message, so that it stays below the largest that a server takes.
pub const MOST_HINTS: usize = 1000;
/// The largest message that is parsed, in bytes.
const MOST_BYTES: usize = 512 * 1024;

impl Hint {
    /// The message that tells these hints.
    pub fn to_json(hints: &[Self]) -> Vec<u8> {
        let hints: Vec<Value> = hints
            .iter()
            .map(|hint| {
                let UnitKey {
                    group,
                    generation,
                    unit,
                } = &hint.unit;
                json!([
                    group.as_str(),
                    generation,
                    unit.as_str(),
                    hint.sequence,
                    hint.to.to_string()
                ])
            })
            .collect();
        json!({ "v": VERSION, "hints": hints })
            .to_string()
            .into_bytes()
    }

    /// Parses a message. What is no hint in it is left out, and so is what follows the first 1000.
    pub fn parse(message: &[u8]) -> Vec<Self> {
        if message.len() > MOST_BYTES {
            return Vec::new();
        }
        let Ok(message) = serde_json::from_slice::<Value>(message) else {
            return Vec::new();
        };
        if message["v"] != VERSION {
            return Vec::new();
        }
        let hints = message["hints"].as_array();
        let hints = hints.into_iter().flatten().take(MOST_HINTS);
        hints.filter_map(parse_one).collect()
    }
}

fn parse_one(hint: &Value) -> Option<Hint> {
    let text = |index: usize| hint.get(index)?.as_str();
    let generation = u32::try_from(hint.get(1)?.as_u64()?).ok()?;
    (generation > 0).then_some(())?;
    Some(Hint {
        unit: UnitKey {
            group: GroupName::new(text(0)?).ok()?,
            generation,
            unit: UnitName::new(text(2)?).ok()?,
        },
        sequence: hint.get(3)?.as_u64()?,
        to: Epoch::parse(text(4)?)?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hint(unit: u32) -> Hint {
        Hint {
            unit: UnitKey {
                group: GroupName::new("partitions").unwrap(),
                generation: 1,
                unit: UnitName::shard(unit),
            },
            sequence: u64::MAX - u64::from(unit),
            to: Epoch::parse("AAAAAAAAAAAAAAAAAAAAAA").unwrap(),
        }
    }

    #[test]
    fn hints_are_read_as_they_were_written() {
        let hints: Vec<Hint> = (0..1000).map(hint).collect();
        let message = Hint::to_json(&hints);
        assert!(message.len() < 100_000, "{}", message.len());
        assert_eq!(Hint::parse(&message), hints);
    }

    #[test]
    fn what_is_no_hint_is_left_out() {
        let good = r#"["g",1,"17",5,"AAAAAAAAAAAAAAAAAAAAAA"]"#;
        for bad in [
            "7",
            "[]",
            r#"["g.h",1,"17",5,"AAAAAAAAAAAAAAAAAAAAAA"]"#,
            r#"["g",-1,"17",5,"AAAAAAAAAAAAAAAAAAAAAA"]"#,
            r#"["g",0,"17",5,"AAAAAAAAAAAAAAAAAAAAAA"]"#,
            r#"["g",1,"17",5.5,"AAAAAAAAAAAAAAAAAAAAAA"]"#,
            r#"["g",1,"17",5,"A"]"#,
        ] {
            let message = format!(r#"{{"v":1,"hints":[{bad},{good}]}}"#);
            assert_eq!(Hint::parse(message.as_bytes()).len(), 1, "{bad}");
        }
        for bad in [
            "",
            "[]",
            r#"{"v":2,"hints":[]}"#,
            r#"{"v":1}"#,
            r#"{"v":1,"hints":7}"#,
        ] {
            assert_eq!(Hint::parse(bad.as_bytes()), [], "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_message_makes_it_panic(message in proptest::collection::vec(any::<u8>(), 0..200)) {
            Hint::parse(&message);
        }
    }
}
