//! The proof: a statement and its signature in one line of text, and its verification.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use data_encoding::BASE64URL_NOPAD;
use ed25519_dalek::Signature;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::keys::{SigningKey, TrustedKeys};
use crate::statement::{decode, encode, signed};
use nats_elect::LeaderStatement;
use nats_elect_core::record::MAX_PROOF_BYTES;

/// The longest lease, and so the longest lifetime of a proof.
const MAX_LIFETIME: Duration = Duration::from_secs(3600);
/// The prefix of a proof. Another version would also be signed in another context.
const VERSION: &str = "leader-proof-1";

/// The reason why a proof proves nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProofError {
    /// The text is not a proof of this version. It is too long, or not in the one form that a proof
    /// has.
    #[error("this is no leader proof: it must be the exact text that a leader wrote")]
    Malformed,
    /// The proof names none of the trusted keys as its signer.
    #[error("it names the key {key:?}, which is not trusted here")]
    UntrustedKey {
        /// The key that the proof names. Its signature was not checked.
        key: String,
    },
    /// The key did not sign this.
    #[error("the signature does not match the key that it names: the proof was changed or forged")]
    BadSignature,
    /// The proof claims to last for longer than any lease does.
    #[error("it is valid for more than an hour, longer than any lease")]
    TooLong,
    /// The proof has expired, whatever the difference between the clocks within the bound.
    #[error("it has expired: ask the leader for a newer one")]
    Expired,
    /// The proof was made in the future, further ahead than clocks may differ.
    #[error("it is from the future: the clocks differ by more than the allowed skew")]
    NotYetValid,
}

/// A leader's signed statement that it leads, as text. Anyone may pass it on. Only
/// [verifying](Self::verify) it gives access to its content.
///
/// A leader gets its own proof from [`Term::proof`](nats_elect::Term::proof), as text. The role's
/// record contains it too. Parsing and `Display` (and serde) are exact: one proof has one text, of at most 8 KiB.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LeaderProof {
    /// The bytes as they were signed.
    bytes: Vec<u8>,
    statement: LeaderStatement,
    signature: Signature,
}

impl LeaderProof {
    /// The most that a verifier may allow for the difference between its wall clock and the
    /// signer's: one minute.
    pub const MAX_SKEW: Duration = Duration::from_secs(60);

    /// The statement names this key as its signer.
    pub(crate) fn sign(statement: LeaderStatement, key: &SigningKey) -> Self {
        let bytes = encode(&statement);
        Self {
            signature: key.sign(&signed(&bytes)),
            statement,
            bytes,
        }
    }

    /// Returns what the proof states, if one of these keys signed it and it is valid at this time
    /// of the verifier's wall clock.
    ///
    /// The statement was true when the leader signed it: the instance leads this role of this
    /// bucket, until [`expires_at`](LeaderStatement::expires_at) at most. No other instance could
    /// become leader before that, except in two cases: this leader freed the role earlier, or its
    /// key was deleted by hand. If two statements are both valid, the one with the greater fencing
    /// token is of the current leader.
    ///
    /// `max_skew` is the bound on the difference between that clock and the signer's. More than
    /// [`MAX_SKEW`](Self::MAX_SKEW) counts as that. As long as the bound holds, a valid proof is never
    /// refused, and an expired one is accepted for at most twice that time. The method sends no
    /// request and reads no clock.
    ///
    /// # Errors
    /// Returns every [`ProofError`]. A key that is not trusted is reported before its signature is
    /// checked.
    pub fn verify(
        &self,
        trusted: &TrustedKeys,
        at: SystemTime,
        max_skew: Duration,
    ) -> Result<LeaderStatement, ProofError> {
        let LeaderStatement {
            issued_at,
            expires_at,
            signer,
            ..
        } = &self.statement;
        let Some(key) = trusted.find(signer) else {
            let key = signer.chars().take(64).collect();
            return Err(ProofError::UntrustedKey { key });
        };
        if !key.signed(&signed(&self.bytes), &self.signature) {
            return Err(ProofError::BadSignature);
        }
        let lifetime = expires_at.duration_since(*issued_at);
        if lifetime.unwrap_or_default() > MAX_LIFETIME {
            return Err(ProofError::TooLong);
        }
        let max_skew = max_skew.min(Self::MAX_SKEW);
        if at > *expires_at + max_skew {
            return Err(ProofError::Expired);
        }
        // A time that is too late to add to is later than any statement's.
        if at.checked_add(max_skew).is_some_and(|at| *issued_at > at) {
            return Err(ProofError::NotYetValid);
        }
        Ok(self.statement.clone())
    }
}

impl FromStr for LeaderProof {
    type Err = ProofError;

    /// Reads the text that `Display` writes, and nothing else.
    fn from_str(text: &str) -> Result<Self, ProofError> {
        if text.len() > MAX_PROOF_BYTES {
            return Err(ProofError::Malformed);
        }
        let parse = || {
            let (version, rest) = text.split_once('.')?;
            let (statement, signature) = rest.split_once('.')?;
            let bytes = BASE64URL_NOPAD.decode(statement.as_bytes()).ok()?;
            let signature = BASE64URL_NOPAD.decode(signature.as_bytes()).ok()?;
            let signature = Signature::from_slice(&signature).ok()?;
            let statement = decode(&bytes)?;
            (version == VERSION).then_some(Self {
                bytes,
                statement,
                signature,
            })
        };
        parse().ok_or(ProofError::Malformed)
    }
}

impl TryFrom<String> for LeaderProof {
    type Error = ProofError;

    fn try_from(text: String) -> Result<Self, ProofError> {
        text.parse()
    }
}

impl From<LeaderProof> for String {
    fn from(proof: LeaderProof) -> Self {
        proof.to_string()
    }
}

impl fmt::Display for LeaderProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let statement = BASE64URL_NOPAD.encode(&self.bytes);
        let signature = BASE64URL_NOPAD.encode(&self.signature.to_bytes());
        write!(f, "{VERSION}.{statement}.{signature}")
    }
}

impl fmt::Debug for LeaderProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LeaderProof(not verified: {self})")
    }
}
