//! Signed leadership: statements that a leader makes about itself. Anyone with its public key can
//! read and check them.
//!
//! A proof is for third parties. It decides nothing in an election: a follower that trusts the
//! wrong keys must not claim the role over a living leader because of a proof.

mod keys;
mod proof;
mod statement;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use crate::clock;
use crate::model::keyring::{Signer, Verify};
use crate::model::statement::VerifiedStatement;

pub use keys::{KeyError, PublicKey, SigningKey, TrustedKeys};
pub use proof::{LeaderProof, ProofError, VerifiedLeader};

/// Returns the signer for elections.
pub(crate) fn signer(key: SigningKey) -> Signer {
    Signer {
        key: key.public_key().to_string(),
        sign: Arc::new(move |statement| LeaderProof::sign(statement, &key).to_string()),
    }
}

/// Returns the verifier for the records of others in elections.
pub(crate) fn verifier(trusted: TrustedKeys, max_skew: Duration) -> Verify {
    Arc::new(move |text| {
        let verify = || {
            let proof: LeaderProof = text.parse()?;
            let at = clock::wall();
            let verified = proof.verify(&trusted, at, max_skew)?;
            let over = verified.expires_at + max_skew.min(LeaderProof::MAX_SKEW);
            Ok(VerifiedStatement {
                statement: proof.statement().clone(),
                signer: verified.signer.to_string(),
                valid_for: over.duration_since(at).unwrap_or_default(),
            })
        };
        verify().map_err(|error: ProofError| error.distrust())
    })
}
