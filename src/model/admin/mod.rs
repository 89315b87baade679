//! What is asked of a running instance by those who operate it, and what it answers: the subjects, the requests, the reports.
//!
//! All of it comes from outside and is hostile until parsed. Requests that act are read strictly: a condition that this
//! version does not know must not be skipped. Answers are read tolerantly: a later version may say more.

pub mod micro;
mod problem;
mod report;
mod request;
mod subjects;

use serde::de::DeserializeOwned;

pub use problem::{Problem, ProblemCode};
pub use report::{FailureReport, InstanceReport, LeaderReport, RoleReport};
pub use request::{AdminRequest, Done, Ended, LONGEST_HOLD_OFF};
pub use subjects::{AdminSubjects, ENDPOINTS, Endpoint, SERVICE, Verb};

/// Requests larger than this are not read.
pub const MAX_REQUEST_BYTES: usize = 4096;
/// Answers larger than this are not read.
pub const MAX_REPORT_BYTES: usize = 8 << 20;

/// Reads an answer: JSON of the type that was asked for; nothing if it is anything else.
pub fn parse<T: AdminReply>(payload: &[u8]) -> Option<T> {
    if payload.len() > MAX_REPORT_BYTES {
        return None;
    }
    let answer: T = serde_json::from_slice(payload).ok()?;
    (answer.kind() == T::KIND).then(|| answer.cleaned())
}

/// An answer that says what it is.
pub trait AdminReply: DeserializeOwned {
    const KIND: &'static str;

    fn kind(&self) -> &str;

    /// With all text from outside made printable.
    #[must_use]
    fn cleaned(self) -> Self;
}
