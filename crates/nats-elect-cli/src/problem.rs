//! Refusals over HTTP, as RFC 9457 has them.

use axum::Router;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

use crate::output;

/// More is not read of what axum says. It may quote a whole query.
const MOST_BYTES: usize = 128 << 10;

/// Why a request was refused, or can't be answered now, as RFC 9457 has it
#[derive(Debug, Serialize, JsonSchema)]
pub struct Problem {
    #[serde(skip)]
    number: StatusCode,
    r#type: &'static str,
    title: &'static str,
    status: u16,
    /// For programs
    code: &'static str,
    /// For people
    detail: String,
    /// The revision that a key is at, if it is not the one that was required. Null: the key is
    /// missing
    #[serde(skip_serializing_if = "Option::is_none")]
    #[expect(clippy::option_option, reason = "nothing is said, or null")]
    pub revision: Option<Option<String>>,
}

impl Problem {
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self {
            number: status,
            r#type: "about:blank",
            title: status.canonical_reason().unwrap_or("Refused"),
            status: status.as_u16(),
            code,
            detail: detail.into(),
            revision: None,
        }
    }

    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", detail)
    }

    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", detail)
    }

    pub fn no_such_path() -> Self {
        let detail = "there is nothing at this path: openapi.json lists all paths";
        Self::new(StatusCode::NOT_FOUND, "no_such_path", detail)
    }

    /// It can't be done or told just now.
    pub fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = output::json(&self) + "\n";
        let kind = HeaderValue::from_static("application/problem+json");
        (self.number, [(header::CONTENT_TYPE, kind)], body).into_response()
    }
}

/// The status of an answer to a question whether something is so.
pub const fn ok_or_unavailable(is_so: bool) -> StatusCode {
    if is_so {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    }
}

/// The same routes; whatever they don't take is refused as a problem.
pub fn refusing<S: Clone + Send + Sync + 'static>(routes: Router<S>) -> Router<S> {
    routes
        .fallback(async || Problem::no_such_path())
        .method_not_allowed_fallback(async || {
            let why = "this path takes another method: see the header Allow";
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "bad_method", why)
        })
        .layer(middleware::map_response(understood))
}

/// Makes a problem of what axum itself refuses: a path or a body that it can't read.
async fn understood(response: Response) -> Response {
    let status = response.status();
    let kind = response.headers().get(header::CONTENT_TYPE);
    let is_text = kind.is_some_and(|it| it.as_bytes().starts_with(b"text/plain"));
    if !status.is_client_error() || !is_text {
        return response;
    }
    let text = axum::body::to_bytes(response.into_body(), MOST_BYTES).await;
    let text = text.unwrap_or_default();
    let code = match status {
        StatusCode::PAYLOAD_TOO_LARGE => "too_large",
        _ => "bad_request",
    };
    Problem::new(status, code, String::from_utf8_lossy(&text)).into_response()
}
