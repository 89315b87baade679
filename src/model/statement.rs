//! The statement that a leader makes about itself, and how an instance signs it and verifies that
//! of others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use uuid::Uuid;

use nats_elect_core::event::Distrust;
use nats_elect_core::name::RoleName;
use nats_elect_core::token::FencingToken;

/// An instance's own statement that it leads a role until a given time.
///
/// A [signer](crate::RoleManagerBuilder::signer) makes it a proof, and a
/// [verifier](crate::RoleManagerBuilder::verifier) returns it from a proof. By itself it proves
/// nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderStatement {
    /// The Key-Value bucket in which the role is elected.
    pub bucket: String,
    /// The role.
    pub role: RoleName,
    /// The term's fencing token. Its epoch distinguishes the bucket from earlier and later ones of
    /// the same name.
    pub fencing_token: FencingToken,
    /// The leader's instance id.
    pub instance_id: String,
    /// The start of that instance.
    pub incarnation: Uuid,
    /// The leader's priority.
    pub priority: i64,
    /// The metadata that the leader gives about itself.
    pub meta: BTreeMap<String, String>,
    /// The time of signing by the leader's wall clock, to the millisecond.
    pub issued_at: SystemTime,
    /// The end of the lease unless it is renewed, by the leader's wall clock, to the millisecond.
    /// It is never later than the end of the lease itself.
    pub expires_at: SystemTime,
    /// The public key that signs the statement.
    pub signer: String,
}

/// The key that signs an instance's records, and the check of those of others. By default it signs
/// nothing and requires no signature.
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
    pub sign: Arc<dyn Fn(LeaderStatement) -> String + Send + Sync>,
}

/// Reads the text of a proof and verifies it. Returns also the time for which it is valid from now
/// on, including the skew of clocks.
pub(crate) type Verify =
    Arc<dyn Fn(&str) -> Result<(LeaderStatement, Duration), Distrust> + Send + Sync>;
