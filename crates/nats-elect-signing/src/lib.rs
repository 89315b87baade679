//! Signed leadership: statements that a leader of `nats-elect` makes about itself. Anyone with its
//! public key can read and check them, without asking anybody.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use nats_elect::RoleManager;
//! use nats_elect_signing::{KeyError, SigningBuilder, SigningKey, TrustedKeys, TrustingBuilder};
//!
//! # fn build() -> Result<(), KeyError> {
//! let key = SigningKey::from_seed_file("/etc/app/signing.nk")?;
//! let trusted = TrustedKeys::parse(["UCFIRY65OQE7DFP5KLNS2PF2LVZMUZYJX4OZIEQ36N2IQANUB5XVZ45L"])?;
//! let builder = RoleManager::builder()
//!     .signing_key(key)
//!     .trusted_keys(trusted, Duration::from_secs(5));
//! # Ok(())
//! # }
//! ```
//!
//! A leader's handler takes the text of its proof from [`Term::proof`](nats_elect::Term::proof).
//! Whoever receives it parses it as a [`LeaderProof`] and [verifies](LeaderProof::verify) it.
//!
//! A proof is for third parties. It decides nothing in an election: a follower that trusts the
//! wrong keys must not claim the role over a living leader because of a proof.
//!
//! The page `docs/signing.md` of `nats-elect` has what a proof says and what it does not, its form,
//! and how to replace a key.
#![forbid(unsafe_code)]

mod builders;
mod keys;
mod proof;
mod statement;
#[cfg(test)]
mod tests;

pub use builders::{SigningBuilder, TrustingBuilder};
pub use keys::{KeyError, PublicKey, SigningKey, TrustedKeys};
pub use proof::{LeaderProof, ProofError};
