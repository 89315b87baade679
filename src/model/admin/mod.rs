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

pub use bucket_id::{BucketId, Search};
pub use group::{ExplanationReply, GroupReport, PlanReply, Taken};
pub use problem::{Problem, ProblemCode};
pub use report::{InstanceReport, LastFailure, LeaderReport, RoleReport};
pub use request::{AdminRequest, Done, Ended, LONGEST_HOLD_OFF};
pub use subjects::{AdminSubjects, ENDPOINTS, Endpoint, SERVICE, Verb, endpoints};

/// Requests larger than this are not read.
pub const MAX_REQUEST_BYTES: usize = 4096;
/// Answers larger than this are not read.
pub const MAX_REPORT_BYTES: usize = 8 << 20;

/// Reads an answer. Returns `None` unless it is JSON of the requested type.
pub fn parse<T: AdminReply>(payload: &[u8]) -> Option<T> {
    if payload.len() > MAX_REPORT_BYTES {
        return None;
    }
    let answer: T = serde_json::from_slice(payload).ok()?;
    (answer.kind() == T::KIND).then(|| answer.cleaned())
}

/// An answer that contains its own type.
pub trait AdminReply: DeserializeOwned {
    const KIND: &'static str;

    fn kind(&self) -> &str;

    /// Returns the answer with all text from outside made printable.
    #[must_use]
    fn cleaned(self) -> Self;
}
