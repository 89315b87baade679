//! Proof that a leader itself wrote its release. Its records carry the hash of a secret, and the
//! release tells the secret.

use std::fmt;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

/// The secret of one acquisition of a role. The release of the role tells it, and nothing does so
/// before, but to the companion of the process that holds it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ReleaseSecret(u128);

/// The SHA-256 of a [`ReleaseSecret`], which the records of a term show.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReleaseHash([u8; 32]);

impl ReleaseSecret {
    /// Makes a secret of these bits. They must be random, and used once.
    pub const fn new(bits: u128) -> Self {
        Self(bits)
    }

    /// The SHA-256 of its 16 bytes, the most significant byte first.
    pub fn hash(self) -> ReleaseHash {
        ReleaseHash(Sha256::digest(self.0.to_be_bytes()).into())
    }

    /// Its text in the header of a release: 32 lower-case hexadecimal digits. There is no
    /// `Display`, so that it is not told by accident.
    pub fn expose(self) -> String {
        format!("{:032x}", self.0)
    }

    /// Parses 32 hexadecimal digits, as [`expose`](Self::expose) writes them. Returns `None` for
    /// other text.
    pub fn parse(text: &str) -> Option<Self> {
        let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let bits = u128::from_str_radix(text, 16).ok().filter(|_| is_hex)?;
        Some(Self(bits))
    }
}

impl fmt::Debug for ReleaseSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReleaseSecret(…)")
    }
}

impl ReleaseHash {
    /// Parses 64 hexadecimal digits, as `Display` writes them. Returns `None` for other text.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?;
        bytes.try_into().ok().map(Self)
    }
}

impl fmt::Display for ReleaseHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl Serialize for ReleaseHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ReleaseHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("not 64 hexadecimal digits"))
    }
}

impl fmt::Debug for ReleaseHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReleaseHash({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_and_hashes_read_back() {
        let secret = ReleaseSecret::new(0x17);
        assert_eq!(ReleaseSecret::parse(&secret.expose()), Some(secret));
        let hash = secret.hash();
        assert_eq!(ReleaseHash::parse(&hash.to_string()), Some(hash));
        assert_ne!(ReleaseSecret::new(0x18).hash(), hash);
        for bad in ["", "+0000000000000000000000000000017", "é"] {
            assert_eq!(ReleaseSecret::parse(bad), None, "{bad}");
            assert_eq!(ReleaseHash::parse(bad), None, "{bad}");
        }
        assert_eq!(ReleaseHash::parse(&"+1".repeat(32)), None);
    }

    #[test]
    fn the_hash_is_the_sha_256_of_the_secrets_bytes() {
        let hash = ReleaseSecret::new(0).hash().to_string();
        assert_eq!(
            hash,
            "374708fff7719dd5979ec875d56cd2286f6d3cf7ec317a3b25632aab28ec37bb"
        );
    }

    #[test]
    fn the_debug_form_does_not_show_the_secret() {
        let secret = ReleaseSecret::new(0x00c0_ffee);
        assert!(!format!("{secret:?}").contains("c0ffee"));
    }
}
