//! The two tokens of a term: one secret, one to show around.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The secret of one term: whoever knows it can prove to have held the lease.
///
/// `Debug` and `Display` show four characters of it, enough to tell two apart in a log; [`expose`](Self::expose) gives
/// the whole.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseToken(Uuid);

impl LeaseToken {
    /// Used in the crate itself and to drive its core.
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
/// Safe to log and to hand to other systems; they protect themselves against a stale leader by remembering the greatest
/// token they saw and refusing smaller ones. It is ordered by the bucket's creation time first, then by the stream
/// sequence of the term's fence record, and so grows across a recreation of the bucket too. If an old state of the
/// bucket is brought back, tokens may go back with it: see `docs/operations.md`.
///
/// Systems that can't compare two numbers compare one: [`to_u128`](Self::to_u128), or the text of
/// [`to_sortable`](Self::to_sortable), whose bytes are in the order of the tokens.
///
/// ```
/// # use nats_elect_core::token::FencingToken;
/// let earlier = FencingToken { epoch: 1_790_000_000_000_000_000, sequence: 99 };
/// let later = FencingToken { epoch: 1_790_000_000_000_000_000, sequence: 100 };
/// assert!(earlier < later);
/// assert!(earlier.to_u128() < later.to_u128());
/// assert!(earlier.to_sortable() < later.to_sortable());
/// assert_eq!(later.to_sortable().parse(), Ok(later));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FencingToken {
    /// Creation time of the bucket, in nanoseconds since the Unix epoch, by the server's clock.
    pub epoch: u64,
    /// Stream sequence of the term's fence record.
    pub sequence: u64,
}

impl FencingToken {
    /// Both numbers in one, in the same order: the epoch above, the sequence below.
    pub const fn to_u128(self) -> u128 {
        (self.epoch as u128) << 64 | self.sequence as u128
    }

    /// The token of which this is [`to_u128`](Self::to_u128).
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
    pub const fn from_u128(number: u128) -> Self {
        Self {
            epoch: (number >> 64) as u64,
            sequence: number as u64,
        }
    }

    /// The number as 32 lower-case hexadecimal digits: text that sorts as the tokens do. `parse` reads it.
    pub fn to_sortable(self) -> String {
        format!("{:032x}", self.to_u128())
    }
}

/// A text that is not a token's sortable form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a fencing token is written as 32 lower-case hexadecimal digits, as `to_sortable` gives them"
)]
pub struct NotAFencingToken;

impl FromStr for FencingToken {
    type Err = NotAFencingToken;

    /// Reads what [`to_sortable`](Self::to_sortable) wrote, and nothing else: one token has one text.
    fn from_str(text: &str) -> Result<Self, NotAFencingToken> {
        let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 32 || !text.bytes().all(digit) {
            return Err(NotAFencingToken);
        }
        u128::from_str_radix(text, 16)
            .map(Self::from_u128)
            .map_err(|_| NotAFencingToken)
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.sequence)
    }
}

/// What one term is called wherever it is spoken of: in logs, spans, published events, and answers about its instance.
///
/// Every claim has one, whether a term comes of it or not. It is no secret, and proves nothing; to compare terms, there is
/// the fencing token.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CorrelationId(String);

impl CorrelationId {
    /// Unique as long as an incarnation uses each pair of numbers once.
    pub fn new(incarnation: Uuid, generation: u64, term: u64) -> Self {
        let incarnation = incarnation.simple().to_string();
        let start = &incarnation[..12];
        Self(format!("{start}-{generation}-{term}"))
    }

    /// One that was read, perhaps from anybody.
    #[must_use]
    pub fn printable(self) -> Self {
        Self(crate::text::printable(&self.0))
    }

    /// Its text: letters, digits and `-`.
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
    fn a_lease_token_never_shows_itself_whole() {
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
        fn every_form_has_the_order_of_the_tokens(epochs: [u64; 2], sequences: [u64; 2], same_epoch: bool) {
            let token = |i: usize| FencingToken {
                epoch: epochs[if same_epoch { 0 } else { i }],
                sequence: sequences[i],
            };
            let (a, b) = (token(0), token(1));
            assert_eq!(a.to_u128().cmp(&b.to_u128()), a.cmp(&b));
            assert_eq!(a.to_sortable().cmp(&b.to_sortable()), a.cmp(&b));
            assert_eq!(FencingToken::from_u128(a.to_u128()), a);
            assert_eq!(a.to_sortable().parse(), Ok(a));
        }
    }

    #[test]
    fn only_the_sortable_form_is_read() {
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
            assert_eq!(
                text.parse::<FencingToken>(),
                Err(NotAFencingToken),
                "{text}"
            );
        }
    }

    #[test]
    fn a_recreated_bucket_outranks_every_sequence_of_the_old_one() {
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
