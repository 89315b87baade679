//! The name of one claim of a member's lease.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::record::FOREIGN_LEASE;

/// The longest lease of a member. All waits that have no better witness last this long. It is a
/// constant, as a record that told it could be wrong.
pub const LONGEST_LEASE: Duration = Duration::from_secs(60);

/// The leases that a member's record may tell.
pub(crate) const MEMBER_LEASE: RangeInclusive<Duration> = FOREIGN_LEASE.0..=LONGEST_LEASE;

/// The characters of an epoch's text.
const TEXT_BYTES: usize = 22;

/// The name of one claim of a member's lease. No epoch is used twice.
///
/// It has 128 random bits. Its text has 22 characters of base64 for URLs, without padding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch([u8; 16]);

impl Epoch {
    /// The epoch with these bytes as its name.
    pub const fn new(name: [u8; 16]) -> Self {
        Self(name)
    }

    /// Its 16 bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
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
