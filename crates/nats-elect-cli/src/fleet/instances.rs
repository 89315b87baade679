//! What instances say of themselves: the library's reports have no schemas, so these are theirs.
#![expect(dead_code, reason = "of schemas alone no value is made")]

use std::collections::BTreeMap;

use nats_elect::admin::{self, AdminError, InstanceReport, RoleReport};
use nats_elect::{ConnectionStatus, RoleState};
use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use super::values::or_null;
use super::{Seconds, Token, Whole};

/// An instance, and what it says
#[derive(Serialize, JsonSchema)]
pub struct Instance<'a> {
    #[serde(flatten)]
    #[schemars(with = "Identity")]
    pub instance: &'a admin::Instance,
    pub processes_of_this_id: usize,
    #[schemars(with = "Option<InstanceStatus>")]
    pub status: Option<&'a InstanceReport>,
    /// Why it did not tell its status
    pub error: Option<String>,
}

impl<'a> Instance<'a> {
    pub fn of(
        instance: &'a admin::Instance,
        report: &'a Result<InstanceReport, AdminError>,
        namesakes: usize,
    ) -> Self {
        Self {
            instance,
            processes_of_this_id: namesakes,
            status: report.as_ref().ok(),
            error: report.as_ref().err().map(ToString::to_string),
        }
    }
}

/// An instance that takes part in the election of a role, and what it says of that role
#[derive(Serialize, JsonSchema)]
pub struct Candidate<'a> {
    #[serde(flatten)]
    #[schemars(with = "Identity")]
    pub instance: &'a admin::Instance,
    #[schemars(with = "RoleStatus")]
    pub status: &'a RoleReport,
}

#[derive(JsonSchema)]
struct Identity {
    instance_id: String,
    incarnation: Uuid,
    version: String,
}

/// What an instance says of itself. Later versions may add fields
#[derive(JsonSchema)]
struct InstanceStatus {
    #[schemars(extend("const" = "io.nats-elect.admin.v1.status"))]
    r#type: String,
    #[serde(flatten)]
    identity: Identity,
    bucket: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    application: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    meta: BTreeMap<String, String>,
    uptime_seconds: Seconds,
    /// Why it can't use its bucket, if so
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<String>,
    /// The state of the process that ends its leases after a crash
    #[serde(skip_serializing_if = "Option::is_none")]
    last_will: Option<String>,
    roles: BTreeMap<String, RoleStatus>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    groups: BTreeMap<String, GroupStatus>,
}

/// What an instance says of its part in a group
#[derive(JsonSchema)]
struct GroupStatus {
    units: Whole,
    /// Handlers that still run of units that it owns no more
    still_running: Whole,
    /// What its handlers report, together
    load: Option<Whole>,
    takes_units: bool,
    answers_within_seconds: Seconds,
}

/// What an instance says of one of its roles. Later versions may add fields
#[derive(JsonSchema)]
struct RoleStatus {
    #[serde(flatten)]
    part: RolePart,
    healthy: Option<bool>,
    priority: Whole,
    /// How it takes the role from a leader of lower priority
    #[schemars(extend("type" = ["string", "object", "null"]))]
    takeover: Option<String>,
    ttl_seconds: Seconds,
    heartbeat_seconds: Seconds,
    stop_budget_seconds: Seconds,
    /// How long it may take to answer a request to step down
    answers_within_seconds: Seconds,
    /// How often its handler still ran when the lease had ended
    overruns: Whole,
}

/// What `agent` and the admin service both say of a role
#[derive(JsonSchema)]
pub struct RolePart {
    #[schemars(extend("enum" = or_null(RoleState::ALL)))]
    state: Option<String>,
    is_leader: bool,
    /// Whether it takes no new term until it is resumed
    paused: bool,
    /// How long it lets others go first, because its terms failed one after the other
    failing_seconds: Option<Seconds>,
    /// How long it keeps the role against higher priorities, as ordered
    kept_seconds: Option<Seconds>,
    leader: Option<LeaderKnown>,
    fencing_token: Option<Token>,
    lease_remaining_seconds: Option<Seconds>,
    last_heartbeat_seconds: Option<Seconds>,
    heartbeat_took_seconds: Option<Seconds>,
    last_transition_seconds: Seconds,
    revision: Option<Whole>,
    #[schemars(extend("enum" = or_null(ConnectionStatus::ALL)))]
    connection: Option<String>,
    last_failure: Option<Failure>,
}

/// A leader, as an instance knows it
#[derive(JsonSchema)]
pub struct LeaderKnown {
    instance_id: String,
    incarnation: Option<Uuid>,
    priority: Whole,
    #[serde(skip_serializing_if = "Option::is_none")]
    signer: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    meta: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_self: Option<bool>,
}

/// A failure after which nothing has succeeded yet
#[derive(JsonSchema)]
struct Failure {
    kind: Option<String>,
    detail: String,
    ago_seconds: Seconds,
}
