//! The two tokens of a term: a secret one, and one that may be shown.

use std::fmt;
use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use crate::name::NameError;
use crate::text::beginning;

/// The secret of one term. Knowledge of it proves that its bearer held the lease.
///
/// `Debug` and `Display` show four characters of it, enough to tell two apart in a log.
/// [`expose`](Self::expose) returns all of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseToken(Uuid);

impl LeaseToken {
    /// Makes a token. For this project's crates and for drivers.
    #[doc(hidden)]
    pub const fn new(uuid: Uuid) -> Self {
        Self(uuid)
    }

    /// The whole token. Do not log it or put it in an error.
    pub const fn expose(&self) -> Uuid {
        self.0
    }
}

impl fmt::Debug for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LeaseToken({self})")
    }
}

impl fmt::Display for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.simple().to_string();
        write!(f, "{}…", &text[..4])
    }
}

/// The ordered number of a term: of two terms of a role, the later one has the greater token.
///
/// It may be logged and passed to other systems. They protect themselves against a stale leader:
/// they remember the greatest token that they saw, and refuse smaller ones. It is ordered by the
/// bucket's creation time first, then by the stream sequence of the term's fence record. So it also
/// grows when the bucket is recreated. If an old state of the bucket is restored, tokens may go
/// back with it: see `docs/operations.md`.
///
/// Its text has 32 lower-case hexadecimal digits: those of [`to_u128`](Self::to_u128). Texts sort as
/// their tokens do. `Display`, `Debug` and serde write this text, in every format, and `FromStr` and
/// serde read it and no other. So JSON has a string, because many readers of JSON round large numbers.
///
/// ```
/// # use nats_elect_core::token::FencingToken;
/// let earlier = FencingToken { epoch: 1_790_000_000_000_000_000, sequence: 99 };
/// let later = FencingToken { epoch: 1_790_000_000_000_000_000, sequence: 100 };
/// assert!(earlier < later);
/// assert!(earlier.to_u128() < later.to_u128());
/// assert!(earlier.to_string() < later.to_string());
/// assert_eq!(later.to_string(), "18d75b8423f300000000000000000064");
/// assert_eq!(later.to_string().parse(), Ok(later));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken {
    /// The creation time of the bucket, in nanoseconds since the Unix epoch, by the server's clock.
    pub epoch: u64,
    /// The stream sequence of the term's fence record.
    pub sequence: u64,
}

impl FencingToken {
    /// Both numbers in one, in the same order: the epoch in the upper half, the sequence in the
    /// lower.
    pub const fn to_u128(self) -> u128 {
        (self.epoch as u128) << 64 | self.sequence as u128
    }

    /// The token whose [`to_u128`](Self::to_u128) is this number.
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
    pub const fn from_u128(number: u128) -> Self {
        Self {
            epoch: (number >> 64) as u64,
            sequence: number as u64,
        }
    }
}

impl FromStr for FencingToken {
    type Err = NameError;

    /// Parses the text that `Display` writes, and no other: one token has one text.
    ///
    /// # Errors
    ///
    /// The text is not 32 lower-case hexadecimal digits.
    fn from_str(text: &str) -> Result<Self, NameError> {
        let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_one = text.len() == 32 && text.bytes().all(digit);
        let number = is_one.then(|| u128::from_str_radix(text, 16).ok());
        number
            .flatten()
            .map(Self::from_u128)
            .ok_or_else(|| NameError {
                kind: "fencing token",
                name: beginning(text),
                problem: "it is another text".into(),
                rule: "a fencing token is text of 32 lower-case hexadecimal digits",
            })
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:032x}", self.to_u128()))
    }
}

impl fmt::Debug for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FencingToken({self})")
    }
}

impl Serialize for FencingToken {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for FencingToken {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

/// The name of one term in logs, spans, published events, and answers about its instance.
///
/// Every claim has one, whether it leads to a term or not. It is no secret, and proves nothing. To
/// compare terms, use the fencing token.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CorrelationId(String);

impl CorrelationId {
    /// An id that is unique as long as an incarnation uses each pair of numbers once. For this
    /// project's crates and for drivers.
    #[doc(hidden)]
    pub fn new(incarnation: Uuid, generation: u64, term: u64) -> Self {
        let incarnation = incarnation.simple().to_string();
        let start = &incarnation[..12];
        Self(format!("{start}-{generation}-{term}"))
    }

    /// Makes an id from outside fit to be shown, as [`printable`](crate::text::printable) does. For
    /// this project's crates.
    #[doc(hidden)]
    #[must_use]
    pub fn printable(self) -> Self {
        Self(crate::text::printable(&self.0))
    }

    /// The id as text. One made by an instance has letters, digits and `-` only.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CorrelationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_and_display_of_a_lease_token_show_only_its_beginning() {
        let uuid = Uuid::from_u128(0x1234_5678_9abc_def0_1234_5678_9abc_def0);
        let token = LeaseToken::new(uuid);
        for shown in [format!("{token:?}"), format!("{token}")] {
            assert!(shown.contains("1234…"), "{shown}");
            assert!(!shown.contains("5678"), "{shown}");
        }
        assert_eq!(token.expose(), uuid);
    }

    proptest::proptest! {
        #[test]
        fn every_form_sorts_as_the_tokens_do(epochs: [u64; 2], sequences: [u64; 2], same_epoch: bool) {
            let token = |i: usize| FencingToken {
                epoch: epochs[if same_epoch { 0 } else { i }],
                sequence: sequences[i],
            };
            let (a, b) = (token(0), token(1));
            assert_eq!(a.to_u128().cmp(&b.to_u128()), a.cmp(&b));
            assert_eq!(a.to_string().cmp(&b.to_string()), a.cmp(&b));
            assert_eq!(FencingToken::from_u128(a.to_u128()), a);
            assert_eq!(a.to_string().parse(), Ok(a));
            let json = serde_json::to_string(&a).expect("JSON");
            assert_eq!(json, format!("\"{a}\""));
            assert_eq!(serde_json::from_str::<FencingToken>(&json).expect("a token"), a);
        }
    }

    #[test]
    fn only_32_lower_case_digits_are_parsed() {
        let zeros = "0".repeat(32);
        assert!(zeros.parse::<FencingToken>().is_ok());
        for text in [
            String::new(),
            "1.2".into(),
            "0".repeat(31),
            "0".repeat(33),
            format!("+{}", "0".repeat(31)),
            "A".repeat(32),
            "é".repeat(16),
        ] {
            let error = text.parse::<FencingToken>().unwrap_err();
            assert_eq!(error.kind, "fencing token", "{text}");
            let json = serde_json::json!(text).to_string();
            let error = serde_json::from_str::<FencingToken>(&json).expect_err(&text);
            assert!(error.to_string().contains("32 lower-case"), "{error}");
        }
        for odd in ["7", r#"{"epoch":1,"sequence":2}"#, "null", "[1,2]"] {
            assert!(serde_json::from_str::<FencingToken>(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn a_token_of_a_recreated_bucket_is_greater_than_every_old_one() {
        let old = FencingToken {
            epoch: 1,
            sequence: u64::MAX,
        };
        let new = FencingToken {
            epoch: 2,
            sequence: 1,
        };
        assert!(old < new);
    }
}
