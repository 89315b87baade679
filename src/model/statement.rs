//! The statement that a leader makes about itself when it signs its records.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use nats_elect_core::name::{BucketName, InstanceId, RoleName};
use nats_elect_core::token::FencingToken;

/// An instance's own statement that it leads a role until a given time. Its JSON has the fields in
/// this order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    pub bucket: BucketName,
    pub role: RoleName,
    /// Contains the bucket's epoch.
    pub fencing_token: FencingToken,
    pub instance_id: InstanceId,
    pub incarnation: Uuid,
    pub priority: i64,
    pub meta: BTreeMap<String, String>,
    /// The time of signing by the signer's wall clock, in milliseconds since the Unix epoch.
    #[serde(rename = "issued_at_ms")]
    pub issued_at: u64,
    /// The end of the lease by that clock, or an earlier time.
    #[serde(rename = "expires_at_ms")]
    pub expires_at: u64,
}

/// A statement that was signed with a trusted key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedStatement {
    pub statement: Statement,
    /// The public key that signed it.
    pub signer: String,
    /// The time for which it is valid from now on, including the skew of clocks.
    pub valid_for: Duration,
}
