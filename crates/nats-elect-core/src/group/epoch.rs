//! The facts that an epoch's name proves.

use std::fmt;
use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;
use sha2::{Digest, Sha256};

pub(super) use crate::assignment::MEMBER_LEASE;
pub use crate::assignment::{Epoch, LONGEST_LEASE};
use crate::release::ReleaseHash;

/// The characters of a key's text.
const KEY_TEXT: usize = 43;

/// The Ed25519 public key of an epoch. Its text has 43 characters of base64 for URLs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EpochKey([u8; 32]);

/// The facts that an epoch's name proves: it is the beginning of a hash of all that others have to
/// believe of the member. So no forged record can give an epoch another key, lease or secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// The key that signs the epoch's givings.
    pub key: EpochKey,
    /// The length of its lease, in whole milliseconds.
    pub ttl: Duration,
    /// The hash of the secret that its own tombstone tells.
    pub release: ReleaseHash,
}

impl Identity {
    /// The name of the epoch with this identity.
    pub fn epoch(&self) -> Epoch {
        let ttl_ms = u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX);
        let mut hash = Sha256::new();
        hash.update(b"nats-elect-epoch-1");
        hash.update(self.key.0);
        hash.update(ttl_ms.to_be_bytes());
        hash.update(self.release.as_bytes());
        let hash: [u8; 32] = hash.finalize().into();
        let mut name = [0; 16];
        name.copy_from_slice(&hash[..16]);
        Epoch::new(name)
    }
}

/// Its text is what a tombstone tells: the key, the lease in milliseconds and the release hash, with
/// dots between.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ttl_ms = self.ttl.as_millis();
        write!(f, "{}.{ttl_ms}.{}", self.key, self.release)
    }
}

impl Identity {
    /// Parses such a text. Returns `None` for other text, if it is not true of this epoch, and if no
    /// member's lease may be that long or short: others would wait for it.
    pub fn parse(text: &str, epoch: Epoch) -> Option<Self> {
        let mut parts = text.split('.');
        let (key, ttl_ms, release) = (parts.next()?, parts.next()?, parts.next()?);
        let identity = Self {
            key: EpochKey::parse(key)?,
            ttl: Duration::from_millis(ttl_ms.parse().ok()?),
            release: ReleaseHash::parse(release)?,
        };
        let is_true = parts.next().is_none() && identity.epoch() == epoch;
        (is_true && MEMBER_LEASE.contains(&identity.ttl)).then_some(identity)
    }
}

impl EpochKey {
    /// A public key of these bytes. They are not checked.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Parses 43 characters, as `Display` writes them. Returns `None` for other text.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != KEY_TEXT {
            return None;
        }
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok()?;
        bytes.try_into().ok().map(Self)
    }

    /// Its 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for EpochKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&BASE64URL_NOPAD.encode(&self.0))
    }
}

impl fmt::Debug for EpochKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EpochKey({self})")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::release::ReleaseSecret;

    fn identity() -> Identity {
        Identity {
            key: EpochKey::new([7; 32]),
            ttl: Duration::from_secs(15),
            release: ReleaseSecret::new(1).hash(),
        }
    }

    #[test]
    fn an_epoch_is_the_hash_of_its_key_its_lease_and_its_secret() {
        let epoch = identity().epoch();
        assert_eq!(identity().epoch(), epoch);
        let others = [
            Identity {
                key: EpochKey::new([8; 32]),
                ..identity()
            },
            Identity {
                ttl: Duration::from_secs(16),
                ..identity()
            },
            Identity {
                release: ReleaseSecret::new(2).hash(),
                ..identity()
            },
        ];
        assert!(others.iter().all(|other| other.epoch() != epoch));
    }

    /// Other versions compute the same name.
    #[test]
    fn the_hash_of_an_epoch_is_a_format() {
        assert_eq!(identity().epoch().to_string(), "AUcLFgUS8aynD_3s5lpt4Q");
    }

    #[test]
    fn an_epoch_has_one_text() {
        for bad in [
            "",
            "AAAAAAAAAAAAAAAAAAAAA",
            "AAAAAAAAAAAAAAAAAAAAAB",
            "AAAAAAAAAAAAAAAAAAAAAA==",
            "AAAAAAAAAAAAAAAAAAAAA+",
            "AAAAAAAAAAAAAAAAAAAAA.",
            "AAAAAAAAAAAAAAAAAAAAAAA",
        ] {
            assert_eq!(Epoch::parse(bad), None, "{bad}");
        }
        assert_eq!(
            Epoch::parse("AAAAAAAAAAAAAAAAAAAAAA"),
            Some(Epoch::new([0; 16]))
        );
    }

    #[test]
    fn an_identity_is_read_for_its_own_epoch_alone() {
        let text = identity().to_string();
        assert_eq!(Identity::parse(&text, identity().epoch()), Some(identity()));
        let other = Identity {
            ttl: Duration::from_millis(100),
            ..identity()
        };
        assert_eq!(Identity::parse(&text, other.epoch()), None);
        for text in ["", ".", "..", "a.b.c", &format!("{text}."), &text[1..]] {
            assert_eq!(Identity::parse(text, identity().epoch()), None, "{text}");
        }
    }

    /// It would be waited for.
    #[test]
    fn a_lease_that_no_member_may_have_is_no_identity() {
        for ttl_ms in [0, 99, 60_001, u64::MAX] {
            let strange = Identity {
                ttl: Duration::from_millis(ttl_ms),
                ..identity()
            };
            let text = strange.to_string();
            assert_eq!(Identity::parse(&text, strange.epoch()), None, "{ttl_ms}");
        }
    }

    proptest! {
        #[test]
        fn epochs_and_keys_read_back(bytes in any::<[u8; 32]>()) {
            let key = EpochKey::new(bytes);
            prop_assert_eq!(EpochKey::parse(&key.to_string()), Some(key));
            let epoch = Identity { key, ..identity() }.epoch();
            prop_assert_eq!(epoch.to_string().len(), 22);
            prop_assert_eq!(Epoch::parse(&epoch.to_string()), Some(epoch));
        }

        #[test]
        fn text_that_is_an_epoch_is_its_text(text in "[-_A-Za-z0-9]{20,24}|\\PC{0,50}") {
            if let Some(epoch) = Epoch::parse(&text) {
                prop_assert_eq!(epoch.to_string(), text);
            }
        }
    }
}
