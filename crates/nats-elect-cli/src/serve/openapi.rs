//! The description of all paths. A test compares it with what is answered.

use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

use super::api::JSON;

/// `/api/v1/openapi.json`.
pub async fn document() -> impl IntoResponse {
    ([(CONTENT_TYPE, JSON)], include_str!("openapi.json"))
}
