//! What instances say of themselves: objects in the notation of `docs/admin.md`, which the library
//! makes.

use nats_elect::admin::{self, InstanceReport, RoleReport};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::instances;

/// An instance, and what it says
#[derive(Serialize, JsonSchema)]
pub struct Instance<'a> {
    #[serde(flatten)]
    #[schemars(with = "Identity")]
    pub instance: &'a admin::Instance,
    pub processes_of_this_id: usize,
    /// Its own report, as docs/admin.md has it. Later versions may add fields
    #[schemars(with = "Option<Map<String, Value>>")]
    pub status: Option<&'a InstanceReport>,
    /// Why it did not tell its status
    pub error: Option<String>,
}

impl<'a> From<&'a instances::Candidate> for Instance<'a> {
    fn from(one: &'a instances::Candidate) -> Self {
        let report = one.report.as_ref();
        Self {
            instance: &one.instance,
            processes_of_this_id: one.namesakes,
            status: report.ok(),
            error: report.err().map(ToString::to_string),
        }
    }
}

/// An instance that takes part in the election of a role, and what it says of that role
#[derive(Serialize, JsonSchema)]
pub struct Candidate<'a> {
    #[serde(flatten)]
    #[schemars(with = "Identity")]
    pub instance: &'a admin::Instance,
    /// Its own report of the role, as docs/admin.md has it. Later versions may add fields
    #[schemars(with = "Map<String, Value>")]
    pub status: &'a RoleReport,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "of a schema no value is made")]
struct Identity {
    instance_id: String,
    incarnation: Uuid,
    version: String,
}
