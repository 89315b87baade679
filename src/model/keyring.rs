//! The keys of an instance: the key that signs its records, and the keys that it trusts for the
//! records of others.

use std::sync::Arc;

use super::statement::{Statement, VerifiedStatement};
use nats_elect_core::event::Distrust;

/// The keys of an instance. By default it signs nothing and requires no signature.
#[derive(Clone, Default)]
pub(crate) struct Keyring {
    pub signer: Option<Signer>,
    pub verify: Option<Verify>,
}

/// Makes the text of a proof.
#[derive(Clone)]
pub(crate) struct Signer {
    /// The public key.
    pub key: String,
    pub sign: Arc<dyn Fn(Statement) -> String + Send + Sync>,
}

/// Reads the text of a proof and verifies it, at the current time of the wall clock.
pub(crate) type Verify = Arc<dyn Fn(&str) -> Result<VerifiedStatement, Distrust> + Send + Sync>;
