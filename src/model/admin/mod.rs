//! The admin requests to a running instance, and its answers: the subjects, the requests and the
//! reports.
//!
//! All of them come from outside and are hostile until parsed. Requests that change something are
//! read strictly, because a condition that this version does not know must not be skipped. Answers
//! are read tolerantly, because a later version may add data.

mod bucket_id;
mod group;
pub mod micro;
mod problem;
mod report;
mod request;
mod subjects;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::model::cleaned;

pub use bucket_id::{BucketId, Search};
pub use group::{GroupReport, PlanReply, Taken};
pub use problem::{Problem, ProblemCode};
pub(crate) use report::known;
pub use report::{InstanceReport, LastFailure, LeaderReport, RoleReport};
pub use request::{AdminRequest, Done, LONGEST_HOLD_OFF};
pub use subjects::{AdminSubjects, ENDPOINTS, Endpoint, SERVICE, Verb, endpoints};

/// Requests larger than this are not read.
pub const MAX_REQUEST_BYTES: usize = 4096;
/// Answers larger than this are not read.
pub const MAX_REPORT_BYTES: usize = 8 << 20;

/// Reads an answer, with all text in it made printable. Returns `None` unless it is JSON of the
/// requested type.
pub fn parse<T: AdminReply + DeserializeOwned>(payload: &[u8]) -> Option<T> {
    #[derive(Deserialize)]
    struct Typed {
        r#type: String,
    }
    if payload.len() > MAX_REPORT_BYTES {
        return None;
    }
    let Typed { r#type } = serde_json::from_slice(payload).ok()?;
    if r#type != T::KIND {
        return None;
    }
    cleaned(&serde_json::from_slice::<T>(payload).ok()?)
}

/// Returns an answer as JSON, with its type.
pub fn to_json<T: AdminReply>(answer: &T) -> Vec<u8> {
    let mut json = serde_json::json!(answer);
    json["type"] = T::KIND.into();
    json.to_string().into_bytes()
}

/// An answer of a type that its JSON names.
pub trait AdminReply: Serialize {
    const KIND: &'static str;
}
