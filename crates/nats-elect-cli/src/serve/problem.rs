//! Answers that are errors, as RFC 9457 has them.

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::exit::{Code, Failure};
use crate::output;

/// What is wrong with a request, or why it can't be answered now.
#[derive(Debug)]
pub struct Problem {
    status: StatusCode,
    detail: String,
    /// What to do about it.
    advice: Option<String>,
    /// What was done nevertheless.
    result: Option<Value>,
}

impl Problem {
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            status,
            detail: detail.into(),
            advice: None,
            result: None,
        }
    }

    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    /// It is not known just now.
    pub fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, detail)
    }

    /// An operation that was carried out, and did not come to what was wanted. A command would end
    /// with this code.
    pub fn of_result(code: Code, detail: impl Into<String>, result: Value) -> Self {
        Self {
            result: Some(result),
            ..Self::new(status_of(code), detail)
        }
    }

    pub fn detail(&self) -> &str {
        &self.detail
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        Self {
            advice: failure.advice,
            ..Self::new(status_of(failure.code), failure.what)
        }
    }
}

/// The status that says what the exit code of a command does.
const fn status_of(code: Code) -> StatusCode {
    match code {
        Code::Usage => StatusCode::BAD_REQUEST,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::Refused => StatusCode::CONFLICT,
        Code::Unreachable => StatusCode::GATEWAY_TIMEOUT,
        Code::Failed | Code::NotLed => StatusCode::BAD_GATEWAY,
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut body = json!({
            "type": "about:blank",
            "title": self.status.canonical_reason(),
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        if let Some(advice) = self.advice {
            body["advice"] = json!(advice);
        }
        if let Some(result) = self.result {
            body["result"] = result;
        }
        let mut response = (self.status, output::json(&body) + "\n").into_response();
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        response
    }
}
