//! Keys: NATS nkeys of users. The public key's text begins with `U`, and the seed begins with `SU`.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use ed25519_dalek::{Signature, Signer, VerifyingKey};
use nkeys::KeyPairType;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use zeroize::{Zeroize, Zeroizing};

/// The prefix of a user's seed.
const USER_SEED: &str = "SU";
/// The length of a seed in bytes.
const SEED_BYTES: usize = 58;

/// A text that is not a key of a NATS user, or a file that contains none. The error never repeats a
/// seed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The text is not a public nkey: its length, its alphabet or its checksum is wrong.
    #[error("{0:?} is no public nkey: those have 56 characters, and a user's begins with 'U'")]
    NotAKey(String),
    /// The public key belongs to something else: an account, an operator or a server.
    #[error(
        "{0:?} is not the public key of a user: leaders sign as users, whose keys begin with 'U'"
    )]
    NotAUser(String),
    /// The key is not a point of the curve, or is one of the few for which anyone can make
    /// signatures.
    #[error("{0:?} is no safe key: its signatures prove nothing")]
    Unsafe(String),
    /// The text is not a seed of a user.
    #[error("this is no seed of a NATS user: those have 58 characters and begin with \"SU\"")]
    NotASeed,
    /// The file can't be read, or contains no seed of a user.
    #[error("no seed of a NATS user in {path}: {reason}")]
    File {
        /// The file.
        path: String,
        /// The problem with the file.
        reason: String,
    },
}

/// The public key of a NATS user. It identifies the data that the user signed. The text of the key
/// begins with `U`.
///
/// ```
/// use nats_elect_signing::PublicKey;
///
/// let text = "UBCXCMGAZQZN55X5TTTWMB5CZNZIKJHEDZJOJ3TV63NKPJ6FRXSR2ZO4";
/// assert_eq!(text.parse::<PublicKey>().unwrap().as_str(), text);
/// assert!("UBCX".parse::<PublicKey>().is_err());
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PublicKey {
    text: Arc<str>,
    key: VerifyingKey,
}

impl PublicKey {
    /// Returns the key as text: 56 characters, the first of them `U`.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether this key signed these bytes. Of all the signatures that other rules would
    /// accept, only one is valid.
    pub(crate) fn signed(&self, bytes: &[u8], signature: &Signature) -> bool {
        self.key.verify_strict(bytes, signature).is_ok()
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        // The refused text may be anything, and megabytes long.
        let shown = || text.chars().take(64).collect::<String>();
        let (prefix, bytes) =
            nkeys::from_public_key(text).map_err(|_| KeyError::NotAKey(shown()))?;
        if KeyPairType::from(prefix) != KeyPairType::User {
            return Err(KeyError::NotAUser(shown()));
        }
        let key = VerifyingKey::from_bytes(&bytes).map_err(|_| KeyError::Unsafe(shown()))?;
        if key.is_weak() {
            return Err(KeyError::Unsafe(shown()));
        }
        Ok(Self {
            text: text.into(),
            key,
        })
    }
}

impl TryFrom<String> for PublicKey {
    type Error = KeyError;

    fn try_from(text: String) -> Result<Self, KeyError> {
        text.parse()
    }
}

impl From<PublicKey> for String {
    fn from(key: PublicKey) -> Self {
        key.as_str().to_owned()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

/// The keys that are trusted. Without any keys, no statement is trusted.
///
/// ```
/// use nats_elect_signing::TrustedKeys;
///
/// let keys = TrustedKeys::parse(["UBCXCMGAZQZN55X5TTTWMB5CZNZIKJHEDZJOJ3TV63NKPJ6FRXSR2ZO4"])?;
/// assert_eq!(keys.len(), 1);
/// # Ok::<(), nats_elect_signing::KeyError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct TrustedKeys(BTreeMap<Arc<str>, PublicKey>);

impl TrustedKeys {
    /// Reads the text of each key.
    ///
    /// # Errors
    /// Returns an error for the first text that is not a key of a NATS user.
    pub fn parse<T: AsRef<str>>(keys: impl IntoIterator<Item = T>) -> Result<Self, KeyError> {
        keys.into_iter().map(|key| key.as_ref().parse()).collect()
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no keys, so that nothing is trusted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether this key is one of them.
    pub fn contains(&self, key: &PublicKey) -> bool {
        self.0.contains_key(key.as_str())
    }

    pub(crate) fn find(&self, key: &str) -> Option<&PublicKey> {
        self.0.get(key)
    }
}

impl FromIterator<PublicKey> for TrustedKeys {
    fn from_iter<I: IntoIterator<Item = PublicKey>>(keys: I) -> Self {
        Self(
            keys.into_iter()
                .map(|key| (Arc::clone(&key.text), key))
                .collect(),
        )
    }
}

impl From<PublicKey> for TrustedKeys {
    fn from(key: PublicKey) -> Self {
        Self::from_iter([key])
    }
}

/// The secret with which a leader signs: the seed of a NATS user.
///
/// It may be the seed with which the instance connects. A separate one is better, and the NATS
/// servers need not know it. `Debug` shows only the public key. The secret is wiped from memory
/// when the last clone is dropped. Copies that were made while its text was read may outlive that.
#[derive(Clone)]
pub struct SigningKey {
    secret: Arc<ed25519_dalek::SigningKey>,
    public: PublicKey,
}

impl SigningKey {
    /// Reads a seed: 58 characters that begin with `SU`. White space around it is ignored.
    ///
    /// # Errors
    /// Returns [`KeyError::NotASeed`], also for the seed of an account, an operator or a server.
    pub fn from_seed(seed: &str) -> Result<Self, KeyError> {
        let seed = seed.trim();
        let (prefix, mut bytes) = nkeys::decode_seed(seed).map_err(|_| KeyError::NotASeed)?;
        let secret = ed25519_dalek::SigningKey::from_bytes(&bytes);
        bytes.zeroize();
        if KeyPairType::from(prefix) != KeyPairType::User {
            return Err(KeyError::NotASeed);
        }
        let pair = nkeys::KeyPair::from_seed(seed).map_err(|_| KeyError::NotASeed)?;
        let public = pair.public_key().parse().map_err(|_| KeyError::NotASeed)?;
        Ok(Self {
            secret: Arc::new(secret),
            public,
        })
    }

    /// Reads the seed from a file. The file contains the seed alone, or among other text as in a
    /// NATS credentials file. The first word that looks like the seed of a user is taken.
    ///
    /// # Errors
    /// Returns [`KeyError::File`].
    pub fn from_seed_file(path: impl AsRef<Path>) -> Result<Self, KeyError> {
        let path = path.as_ref();
        let failed = |reason: String| KeyError::File {
            path: path.display().to_string(),
            reason,
        };
        let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        let text = Zeroizing::new(text);
        let looks_like_one = |word: &&str| word.len() == SEED_BYTES && word.starts_with(USER_SEED);
        let seed = text.split_whitespace().find(looks_like_one);
        let seed = seed.ok_or_else(|| failed("no word in it looks like one".to_owned()))?;
        Self::from_seed(seed).map_err(|error| failed(error.to_string()))
    }

    /// Returns the key by which others recognise the data that this key signed. It is safe to show.
    pub fn public_key(&self) -> &PublicKey {
        &self.public
    }

    pub(crate) fn sign(&self, bytes: &[u8]) -> Signature {
        self.secret.sign(bytes)
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.public)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(kind: KeyPairType) -> (String, String) {
        let pair = nkeys::KeyPair::new(kind);
        (pair.seed().expect("a seed"), pair.public_key())
    }

    #[test]
    fn only_the_key_of_a_user_is_read_from_its_text() {
        let (seed, public) = pair(KeyPairType::User);
        let key = SigningKey::from_seed(&format!(" {seed}\n")).expect("a seed");
        assert_eq!(key.public_key().as_str(), public);
        assert_eq!(public.parse(), Ok(key.public_key().clone()));
        for kind in [
            KeyPairType::Account,
            KeyPairType::Operator,
            KeyPairType::Server,
            KeyPairType::Cluster,
            KeyPairType::Module,
            KeyPairType::Service,
            KeyPairType::Curve,
        ] {
            let (seed, public) = pair(kind);
            assert_eq!(SigningKey::from_seed(&seed).err(), Some(KeyError::NotASeed));
            let refused = public.parse::<PublicKey>();
            assert!(matches!(refused, Err(KeyError::NotAUser(_))), "{refused:?}");
        }
    }

    #[test]
    fn an_invalid_key_is_refused_with_the_start_of_its_text() {
        let (seed, public) = pair(KeyPairType::User);
        let mut turned = public.clone().into_bytes();
        turned[20] = if turned[20] == b'A' { b'B' } else { b'A' };
        for text in [
            String::new(),
            "U".repeat(56),
            public.to_lowercase(),
            public[..55].to_owned(),
            format!("{public}="),
            String::from_utf8(turned).expect("text"),
            "é".repeat(28),
            seed.clone(),
            "x".repeat(1 << 20),
        ] {
            let refused = text.parse::<PublicKey>();
            let Err(KeyError::NotAKey(shown)) = refused else {
                panic!("{refused:?}");
            };
            assert!(shown.chars().count() <= 64);
            assert!(SigningKey::from_seed(&text).is_err() || text == seed);
        }
        let mixed = TrustedKeys::parse([public.as_str(), "?"]);
        assert_eq!(mixed.err(), Some(KeyError::NotAKey("?".to_owned())));
    }

    #[test]
    fn a_key_for_which_anyone_can_sign_is_refused() {
        // This is the neutral element: under it the same signature fits any message. Its checksum
        // is right.
        let mut neutral = [0; 32];
        neutral[0] = 1;
        let mut raw = vec![20 << 3];
        raw.extend(neutral);
        raw.extend([0; 2]);
        let found = (0..=u16::MAX).find_map(|sum| {
            raw[33..].copy_from_slice(&sum.to_le_bytes());
            let text = data_encoding::BASE32_NOPAD.encode(&raw);
            match text.parse::<PublicKey>() {
                Err(KeyError::NotAKey(_)) => None,
                other => Some(other),
            }
        });
        let refused = found.expect("one checksum is right");
        assert!(matches!(refused, Err(KeyError::Unsafe(_))), "{refused:?}");
    }

    #[test]
    fn a_seed_is_read_from_a_file_and_shown_nowhere() {
        let (seed, public) = pair(KeyPairType::User);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("seed");
        let credentials = format!(
            "-----BEGIN NATS USER JWT-----\neyJ0eXAi.x.y\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        );
        for text in [format!("{seed}\n"), credentials] {
            fs::write(&path, text).expect("write");
            let key = SigningKey::from_seed_file(&path).expect("a seed");
            assert_eq!(key.public_key().as_str(), public);
            let shown = format!("{key:?} {key:#?}");
            assert!(shown.contains(&public) && !shown.contains(&seed), "{shown}");
        }
        let broken = format!("SU{}", "A".repeat(56));
        for text in ["nothing", &broken, &pair(KeyPairType::Account).0] {
            fs::write(&path, text).expect("write");
            let refused = SigningKey::from_seed_file(&path)
                .expect_err("no seed")
                .to_string();
            assert!(refused.contains("seed of a NATS user"), "{refused}");
            assert!(!refused.contains(text) || text == "nothing", "{refused}");
        }
        let missing = SigningKey::from_seed_file(folder.path().join("none"));
        assert!(matches!(missing, Err(KeyError::File { .. })));
    }
}
