//! How an instance signs what it writes as a leader, and whose signature it asks of others.

use std::sync::Arc;

use super::statement::{Statement, VerifiedStatement};
use nats_elect_core::event::Distrust;

/// What an instance has of keys; by default it signs nothing and asks for no signature.
#[derive(Clone, Default)]
pub(crate) struct Keyring {
    pub signer: Option<Signer>,
    pub verify: Option<Verify>,
}

/// Makes a proof's text.
#[derive(Clone)]
pub(crate) struct Signer {
    /// The public key.
    pub key: String,
    pub sign: Arc<dyn Fn(Statement) -> String + Send + Sync>,
}

/// Reads a proof's text, at this time of the wall clock.
pub(crate) type Verify = Arc<dyn Fn(&str) -> Result<VerifiedStatement, Distrust> + Send + Sync>;
