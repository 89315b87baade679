//! Why the agent refuses requests.

use axum::http::StatusCode;
use nats_elect::{Error, FencedError, TermError};

use crate::problem::Problem;

impl Problem {
    pub fn not_attached(role: &str) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "not_attached",
            format!(
                "no application stands for {role:?} here: open its stream with POST /v1/roles/{role}"
            ),
        )
    }

    /// For all that only the leader may do.
    pub fn not_leader() -> Self {
        Self::new(
            StatusCode::CONFLICT,
            "not_leader",
            "this term is over, or was never this application's: stop acting as its leader",
        )
    }
}

impl From<TermError> for Problem {
    fn from(error: TermError) -> Self {
        match error {
            TermError::Unproven { .. } => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                Self::new(status, "unproven", error.to_string())
            }
            _ => Self::not_leader(),
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let (status, code) = match &error {
            Error::Name(_) | Error::RoleConfig { .. } | Error::Config(_) => {
                (StatusCode::BAD_REQUEST, "bad_request")
            }
            Error::NotLeader => return Self::not_leader(),
            Error::SuccessorAbsent { .. } => (StatusCode::FAILED_DEPENDENCY, "successor_absent"),
            Error::SuccessorRefused { .. } => (StatusCode::FAILED_DEPENDENCY, "successor_refused"),
            _ => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
        };
        Self::new(status, code, error.to_string())
    }
}

impl From<FencedError> for Problem {
    fn from(error: FencedError) -> Self {
        let detail = error.to_string();
        let (status, code) = match &error {
            FencedError::Key(_) | FencedError::Batch(_) => (StatusCode::BAD_REQUEST, "bad_request"),
            FencedError::TooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
            FencedError::OverLimit { .. } => (StatusCode::INSUFFICIENT_STORAGE, "over_limit"),
            FencedError::NotLeader => return Self::not_leader(),
            FencedError::Superseded { .. } => (StatusCode::CONFLICT, "superseded"),
            FencedError::Conflict { current, .. } => {
                let revision = current.as_ref().map(|entry| entry.revision.to_string());
                let status = StatusCode::PRECONDITION_FAILED;
                let mut conflict = Self::new(status, "conflict", detail);
                conflict.revision = Some(revision);
                return conflict;
            }
            FencedError::Unconfirmed { .. } => (StatusCode::GATEWAY_TIMEOUT, "unconfirmed"),
            FencedError::Unavailable { .. } => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
            FencedError::Unsupported(_) => (StatusCode::NOT_IMPLEMENTED, "unsupported"),
            _ => (StatusCode::BAD_GATEWAY, "refused"),
        };
        Self::new(status, code, detail)
    }
}
