//! Which instance this is.

use tracing::Span;
use tracing::field::Empty;
use uuid::Uuid;

use crate::metrics::Labels;
use nats_elect_core::name::{BucketName, InstanceId, RoleName};
use nats_elect_core::token::CorrelationId;

/// What all roles of an instance share: who it is, and where it meets the others.
#[derive(Clone, Debug)]
pub(crate) struct Instance {
    pub id: InstanceId,
    /// This start of it: with the id, its identity.
    pub incarnation: Uuid,
    pub bucket: BucketName,
}

impl Instance {
    pub fn labels(&self, role: &RoleName) -> Labels {
        Labels::new(role.as_str(), self.id.as_str(), self.bucket.as_str())
    }

    /// The span of what is said about a role apart from its terms.
    pub fn election_span(&self, role: &RoleName) -> Span {
        tracing::info_span!(
            parent: None,
            "election",
            %role,
            instance_id = %self.id,
            bucket = %self.bucket
        )
    }

    /// The span of one term, and of the claim from which it comes: a root, so that a trace is a term's and not a process's.
    pub fn term_span(&self, role: &RoleName, id: &CorrelationId) -> Span {
        tracing::info_span!(
            parent: None,
            "term",
            %role,
            instance_id = %self.id,
            bucket = %self.bucket,
            correlation_id = %id,
            fencing_token = Empty
        )
    }
}
