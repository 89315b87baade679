//! The identity of this instance.

use std::collections::BTreeMap;
use std::sync::Arc;

use tracing::Span;
use tracing::field::Empty;
use uuid::Uuid;

use crate::metrics::Labels;
use nats_elect_core::application::Application;
use nats_elect_core::assignment::UnitKey;
use nats_elect_core::name::{BucketName, InstanceId, RoleName};
use nats_elect_core::token::{CorrelationId, FencingToken};

/// The data that all roles of an instance share: the identity of the instance, and the bucket in
/// which it meets the others.
#[derive(Clone, Debug)]
pub(crate) struct Instance {
    pub id: InstanceId,
    /// Names this start of the instance. Together with the id it is the instance's identity.
    pub incarnation: Uuid,
    pub bucket: BucketName,
    /// Which application it is of.
    pub application: Arc<Application>,
    /// Facts about it, for people and observers.
    pub meta: BTreeMap<String, String>,
}

impl Instance {
    pub fn labels(&self, role: &RoleName) -> Labels {
        Labels::new(role.as_str(), self.id.as_str(), self.bucket.as_str())
    }

    /// Returns the span for log records that concern all roles.
    ///
    /// These spans are of the level of errors: a filter that shows a warning shows where it belongs.
    pub fn span(&self) -> Span {
        tracing::error_span!(parent: None, "instance", instance_id = %self.id, bucket = %self.bucket)
    }

    /// Returns the span for records about a role outside its terms.
    pub fn election_span(&self, role: &RoleName) -> Span {
        tracing::error_span!(
            parent: None,
            "election",
            %role,
            instance_id = %self.id,
            bucket = %self.bucket
        )
    }

    /// Returns the span of one term of a unit.
    pub fn unit_span(&self, unit: &UnitKey, id: &CorrelationId, token: FencingToken) -> Span {
        tracing::error_span!(
            parent: None,
            "term",
            group = %unit.group,
            unit = %unit.unit,
            instance_id = %self.id,
            bucket = %self.bucket,
            correlation_id = %id,
            fencing_token = %token
        )
    }

    /// Returns the span of one term, and of the claim from which the term comes. It is a root span,
    /// so that a trace covers one term and not the whole process.
    pub fn term_span(&self, role: &RoleName, id: &CorrelationId) -> Span {
        tracing::error_span!(
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
