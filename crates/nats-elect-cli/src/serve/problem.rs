//! Answers that are errors, as RFC 9457 has them.

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

use crate::output;

/// What is wrong with a request, or why it can't be answered now.
#[derive(Debug)]
pub struct Problem {
    status: StatusCode,
    detail: String,
}

/// RFC 9457
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub struct Body<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    title: Option<&'a str>,
    status: u16,
    detail: &'a str,
}

impl Problem {
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            status,
            detail: detail.into(),
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
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = Body {
            kind: "about:blank",
            title: self.status.canonical_reason(),
            status: self.status.as_u16(),
            detail: &self.detail,
        };
        let mut response = (self.status, output::json(&body) + "\n").into_response();
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        response
    }
}
