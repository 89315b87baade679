//! The reason why an instance did not do what was requested.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::AdminReply;
use nats_elect_core::labels;
use nats_elect_core::text::printable;

/// The reason why an instance did not do what was requested, in a form for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ProblemCode {
    /// The request is not understood. The other side may be of another version. Nothing was done.
    BadRequest,
    /// The instance has no such role. Nothing was done.
    UnknownRole,
    /// The instance takes no part in such a group. Nothing was done.
    UnknownGroup,
    /// The group has no such unit. Nothing was done.
    UnknownUnit,
    /// The unit can't have an owner now, the group's record is missing or not understood, or the
    /// instance is not a member just now. Nothing was done.
    NotReady,
    /// The instance takes no units: it is cordoned, stops, or has only just started. Nothing was
    /// done.
    TakesNone,
    /// The instance owns the unit already. Nothing was done.
    AlreadyThere,
    /// The group's policy would take the unit away again. Nothing was done.
    TakenBack,
    /// The instance does not lead the role. Nothing was done.
    NotLeader,
    /// The instance leads, but in another term than the one that was named. Nothing was done.
    UnexpectedTerm,
    /// The instance does not wait for the role, or sees another message under its key than the one
    /// that was named. Nothing was done.
    Changed,
    /// The named successor does not answer. Nothing was done.
    SuccessorAbsent,
    /// The named successor can't take the role now. Nothing was done.
    SuccessorRefused,
    /// The role or the instance is being stopped.
    Stopped,
    /// The operation was begun and goes on, but was not done in time.
    Unfinished,
    /// The answer is too large for one message. Ask about one role at a time.
    TooLarge,
    /// The instance is asked for the status of all its roles, or for plans and units of groups, more
    /// often than it can answer.
    /// Nothing was done.
    Busy,
    /// A reason that this version does not know.
    #[serde(other)]
    Other,
}

labels!(ProblemCode {
    BadRequest => "bad_request",
    UnknownRole => "unknown_role",
    UnknownGroup => "unknown_group",
    UnknownUnit => "unknown_unit",
    NotReady => "not_ready",
    TakesNone => "takes_none",
    AlreadyThere => "already_there",
    TakenBack => "taken_back",
    NotLeader => "not_leader",
    UnexpectedTerm => "unexpected_term",
    Changed => "changed",
    SuccessorAbsent => "successor_absent",
    SuccessorRefused => "successor_refused",
    Stopped => "stopped",
    Unfinished => "unfinished",
    TooLarge => "too_large",
    Busy => "busy",
    Other => "other",
});

impl ProblemCode {
    /// Returns the number in the header `Nats-Service-Error-Code`, in the style of HTTP.
    pub(crate) const fn number(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::UnknownRole | Self::UnknownGroup | Self::UnknownUnit => 404,
            Self::NotLeader
            | Self::NotReady
            | Self::TakesNone
            | Self::AlreadyThere
            | Self::TakenBack => 409,
            Self::UnexpectedTerm | Self::Changed => 412,
            Self::TooLarge => 413,
            Self::SuccessorAbsent | Self::SuccessorRefused => 424,
            Self::Busy => 429,
            Self::Other => 500,
            Self::Stopped => 503,
            Self::Unfinished => 504,
        }
    }
}

/// The reason why an order was not carried out, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error("{reason}")]
#[non_exhaustive]
pub struct Problem {
    /// The reason, for programs.
    pub code: ProblemCode,
    /// The reason, in words.
    #[serde(default)]
    pub reason: String,
}

impl Problem {
    pub(crate) fn new(code: ProblemCode, reason: impl fmt::Display) -> Self {
        Self {
            code,
            reason: reason.to_string(),
        }
    }

    /// The problem as an answer has it, which is on one line, and not longer than a name: the reason
    /// is also sent in a header.
    pub(crate) fn printable(self) -> Self {
        let reason = printable(&self.reason);
        Self { reason, ..self }
    }
}

impl AdminReply for Problem {
    const KIND: &'static str = "io.nats-elect.admin.v1.error";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_reason_of_a_later_version_is_still_a_refusal() {
        let json = br#"{"type":"io.nats-elect.admin.v1.error","code":"full_moon","reason":"a\nb","since":1}"#;
        let problem: Problem = crate::model::admin::parse(json).expect("a problem");
        assert_eq!(problem.code, ProblemCode::Other);
        assert_eq!(problem.reason, "ab");
    }

    #[test]
    fn a_code_is_the_same_in_json_and_in_text() {
        for code in ProblemCode::ALL {
            assert_eq!(serde_json::json!(code), code.to_string());
        }
    }

    #[test]
    fn a_reason_in_a_header_has_one_line() {
        let problem = Problem::new(ProblemCode::BadRequest, "a\r\nNats-Rollup: all").printable();
        assert_eq!(problem.reason, "aNats-Rollup: all");
        // A caller of the library reads all of it: what to do stands at its end.
        let long = Problem::new(ProblemCode::TakenBack, "x".repeat(300));
        assert_eq!(long.reason.len(), 300);
        assert_eq!(long.printable().reason.len(), 255);
    }
}
