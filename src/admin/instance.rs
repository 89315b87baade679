//! An instance as discovery finds it.

use std::fmt;

use serde::Serialize;
use uuid::Uuid;

use crate::model::admin::SERVICE;
use crate::model::admin::micro::Info;
use nats_elect_core::name::BucketName;

/// A running instance. Requests go to this instance only, and to no other one with the same id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[non_exhaustive]
pub struct Instance {
    /// The name of the instance for people. Two processes may have the same id.
    pub instance_id: String,
    /// Names this start of the instance. No two starts have the same incarnation.
    pub incarnation: Uuid,
    /// The version of this crate that it runs.
    pub version: String,
}

impl Instance {
    /// Reads an answer to a search. Returns `None` if the answer is not from an instance of this
    /// bucket with this prefix.
    pub(super) fn of(info: &Info, bucket: &BucketName, prefix: &str) -> Option<Self> {
        let identity = &info.identity;
        let is_meant = identity.name == SERVICE
            && identity.says("bucket")? == bucket.as_str()
            && identity.says("subject_prefix")? == prefix;
        is_meant.then_some(Self {
            instance_id: identity.says("instance_id")?.to_owned(),
            incarnation: identity.says("incarnation")?.parse().ok()?,
            version: identity.version.clone(),
        })
    }
}

impl fmt::Display for Instance {
    /// Writes the id, and enough of the incarnation to distinguish two of them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let incarnation = self.incarnation.simple().to_string();
        write!(f, "{} ({})", self.instance_id, &incarnation[..8])
    }
}
