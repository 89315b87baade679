//! Keys for those who take part in elections or watch them.

use std::time::{Duration, SystemTime};

use nats_elect::{Distrust, LeaderStatement, ObserverBuilder, RoleManagerBuilder};

use crate::{LeaderProof, ProofError, SigningKey, TrustedKeys};

/// Gives a [`RoleManagerBuilder`] a key to sign with.
pub trait SigningBuilder {
    /// Signs each heartbeat of a role that this instance leads. Anyone who trusts the key can then
    /// check which instance leads, see [`Term::proof`](nats_elect::Term::proof).
    ///
    /// This costs a signature for each heartbeat, and one more heartbeat for each term: see
    /// [`RoleManagerBuilder::signer`].
    #[must_use]
    fn signing_key(self, key: SigningKey) -> Self;
}

/// Gives a [`RoleManagerBuilder`] or an [`ObserverBuilder`] keys to trust.
pub trait TrustingBuilder {
    /// Reports another instance as the leader only if one of these keys signed that it leads. Only
    /// the signed data is reported then: see [`RoleManagerBuilder::verifier`] and
    /// [`ObserverBuilder::verifier`].
    ///
    /// `max_skew` is the bound on the difference between this machine's wall clock and those of the
    /// leaders. It is at most [`LeaderProof::MAX_SKEW`]. If the clocks differ by more, leaders may
    /// not be reported, or may be reported for too long.
    #[must_use]
    fn trusted_keys(self, keys: TrustedKeys, max_skew: Duration) -> Self;
}

impl SigningBuilder for RoleManagerBuilder {
    fn signing_key(self, key: SigningKey) -> Self {
        let public = key.public_key().to_string();
        self.signer(public, move |statement| {
            LeaderProof::sign(statement, &key).to_string()
        })
    }
}

impl TrustingBuilder for RoleManagerBuilder {
    fn trusted_keys(self, keys: TrustedKeys, max_skew: Duration) -> Self {
        self.verifier(move |proof| verified(proof, &keys, max_skew))
    }
}

impl TrustingBuilder for ObserverBuilder {
    fn trusted_keys(self, keys: TrustedKeys, max_skew: Duration) -> Self {
        self.verifier(move |proof| verified(proof, &keys, max_skew))
    }
}

/// Returns the statement in this text, and the time for which it is valid from now on, including
/// the skew of clocks.
#[expect(clippy::disallowed_methods, reason = "proofs are about the wall clock")]
fn verified(
    text: &str,
    keys: &TrustedKeys,
    max_skew: Duration,
) -> Result<(LeaderStatement, Duration), Distrust> {
    let at = SystemTime::now();
    let verified = text
        .parse::<LeaderProof>()
        .and_then(|proof| proof.verify(keys, at, max_skew));
    let statement = verified.map_err(|error| distrust(&error))?;
    let over = statement.expires_at + max_skew.min(LeaderProof::MAX_SKEW);
    Ok((statement, over.duration_since(at).unwrap_or_default()))
}

const fn distrust(error: &ProofError) -> Distrust {
    match error {
        ProofError::Malformed | ProofError::TooLong => Distrust::Malformed,
        ProofError::UntrustedKey { .. } => Distrust::UntrustedKey,
        ProofError::BadSignature => Distrust::BadSignature,
        ProofError::Expired => Distrust::Expired,
        ProofError::NotYetValid => Distrust::NotYetValid,
    }
}
