//! The name of one claim of a member's lease.

use std::fmt;
use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The longest lease of a member. Whoever watches a key without a record that tells its lease waits
/// this long.
pub const LONGEST_LEASE: Duration = Duration::from_secs(60);

/// The characters of an epoch's text.
const TEXT_BYTES: usize = 22;

/// The name of one claim of a member's lease: 128 random bits, used once.
///
/// Its text has 22 characters of base64 for URLs, without padding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch([u8; 16]);

impl Epoch {
    /// The epoch of these bits. They must be random, and used once.
    pub const fn new(bits: u128) -> Self {
        Self(bits.to_be_bytes())
    }

    /// Parses 22 characters, as `Display` writes them. Returns `None` for other text.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != TEXT_BYTES {
            return None;
        }
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok()?;
        bytes.try_into().ok().map(Self)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&BASE64URL_NOPAD.encode(&self.0))
    }
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Epoch({self})")
    }
}

impl Serialize for Epoch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Epoch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| de::Error::custom("not an epoch"))
    }
}
