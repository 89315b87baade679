//! Refusals, as RFC 9457 has them.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use nats_elect::{Error, FencedError, TermError};
use schemars::JsonSchema;
use serde::Serialize;

/// Why a request was refused, as RFC 9457 has it
#[derive(Debug, Serialize, JsonSchema)]
pub struct Problem {
    #[serde(skip)]
    status: StatusCode,
    /// For programs
    code: &'static str,
    /// For people
    detail: String,
    /// The revision that a key is at, if it is not the one that was required. Null: the key is
    /// missing
    #[serde(skip_serializing_if = "Option::is_none")]
    #[expect(clippy::option_option, reason = "nothing is said, or null")]
    revision: Option<Option<String>>,
    #[serde(rename = "status")]
    number: u16,
    title: &'static str,
}

impl Problem {
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self {
            status,
            code,
            detail: detail.into(),
            revision: None,
            number: status.as_u16(),
            title: status.canonical_reason().unwrap_or("Refused"),
        }
    }

    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", detail)
    }

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

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self)).into_response();
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }
}

impl From<TermError> for Problem {
    fn from(error: TermError) -> Self {
        match error {
            TermError::Unproven { .. } => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "unproven",
                error.to_string(),
            ),
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
                return Self {
                    revision: Some(revision),
                    ..Self::new(status, "conflict", detail)
                };
            }
            FencedError::Unconfirmed { .. } => (StatusCode::GATEWAY_TIMEOUT, "unconfirmed"),
            FencedError::Unavailable { .. } => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
            FencedError::Unsupported(_) => (StatusCode::NOT_IMPLEMENTED, "unsupported"),
            _ => (StatusCode::BAD_GATEWAY, "refused"),
        };
        Self::new(status, code, detail)
    }
}
