//! An instance as discovery finds it.

use std::fmt;

use serde::Serialize;
use uuid::Uuid;

use crate::model::admin::SERVICE;
use crate::model::admin::micro::Info;
use nats_elect_core::name::BucketName;

/// A running instance: where to send what is meant for it, and for no other that has its id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[non_exhaustive]
pub struct Instance {
    /// What people call it. Two processes may have one id.
    pub instance_id: String,
    /// This start of it: no two are the same.
    pub incarnation: Uuid,
    /// The version of this crate that it runs.
    pub version: String,
}

impl Instance {
    /// Reads an answer to a search; nothing if it is not an instance of this bucket that is asked under this prefix.
    pub(super) fn of(info: &Info, bucket: &BucketName, prefix: &str) -> Option<Self> {
        let identity = &info.identity;
        let is_meant = identity.name == SERVICE
            && identity.says("bucket")? == bucket.as_str()
            && identity.says("subject_prefix")? == prefix;
        is_meant.then_some(Self {
            instance_id: identity.says("instance_id")?,
            incarnation: identity.says("incarnation")?.parse().ok()?,
            version: identity.version.clone(),
        })
    }
}

impl fmt::Display for Instance {
    /// The id, and enough of the incarnation to tell two of them apart.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let incarnation = self.incarnation.simple().to_string();
        write!(f, "{} ({})", self.instance_id, &incarnation[..8])
    }
}
