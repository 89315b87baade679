//! What a leader states of itself when it signs its records.

use std::collections::BTreeMap;
use std::time::Duration;

use uuid::Uuid;

use nats_elect_core::name::{BucketName, InstanceId, RoleName};
use nats_elect_core::token::FencingToken;

/// That an instance leads a role until a time, as it says itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    pub bucket: BucketName,
    pub role: RoleName,
    /// With the bucket's epoch in it.
    pub fencing_token: FencingToken,
    pub instance_id: InstanceId,
    pub incarnation: Uuid,
    pub priority: i64,
    pub meta: BTreeMap<String, String>,
    /// By the signer's wall clock, in milliseconds since the Unix epoch.
    pub issued_at: u64,
    /// The end of the lease by that clock, or before it.
    pub expires_at: u64,
}

/// A statement that was signed with a trusted key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedStatement {
    pub statement: Statement,
    /// The public key that signed it.
    pub signer: String,
    /// From now on, the skew of clocks included.
    pub valid_for: Duration,
}
