//! The fenced keys of a role: HTTP's own conditions are those of the store.

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router, routing};
use nats_elect::{FencedStore, FencingToken};
use schemars::JsonSchema;
use serde::Serialize;

use super::api::{Agent, OfTerm};
use crate::fleet::Whole;
use crate::problem::Problem;

/// The largest value: NATS takes no larger message.
const MOST_BYTES: usize = 8 << 20;

type Key = Path<(String, FencingToken, String)>;

pub fn routes() -> Router<Agent> {
    let key = routing::get(read).put(write).delete(delete);
    let key = key.layer(DefaultBodyLimit::max(MOST_BYTES));
    Router::new()
        .route("/keys", routing::get(list))
        .route("/keys/{*key}", key)
}

#[derive(Serialize, JsonSchema)]
pub struct Keys {
    keys: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
pub struct Written {
    revision: Whole,
}

/// What a write requires of its key.
enum Requires {
    Nothing,
    Missing,
    Revision(u64),
}

impl Requires {
    fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        let text = |name| {
            let mut values = headers.get_all(name).iter();
            let value = values.next()?;
            // Two of them are a list, which is no condition here.
            let value = value.to_str().ok().filter(|_| values.next().is_none());
            Some(value.unwrap_or_default().trim())
        };
        match (text(header::IF_NONE_MATCH), text(header::IF_MATCH)) {
            (None, None) => Ok(Self::Nothing),
            (Some("*"), None) => Ok(Self::Missing),
            (None, Some(revision)) => {
                let number = revision.trim_matches('"').parse();
                number.map(Self::Revision).map_err(|_| {
                    Problem::bad_request("If-Match must be a revision, as an ETag has it")
                })
            }
            _ => Err(Problem::bad_request(
                "a write takes `If-None-Match: *` or `If-Match: \"REVISION\"`, not another condition",
            )),
        }
    }
}

fn store(agent: &Agent, role: &str, token: FencingToken) -> Result<FencedStore, Problem> {
    Ok(agent.term(role, token)?.store())
}

async fn list(
    State(agent): State<Agent>,
    Path((role, token)): OfTerm,
) -> Result<Response, Problem> {
    let keys = store(&agent, &role, token)?.list().await?;
    Ok(Json(Keys { keys }).into_response())
}

async fn read(
    State(agent): State<Agent>,
    Path((role, token, key)): Key,
) -> Result<Response, Problem> {
    let entry = store(&agent, &role, token)?.get(&key).await?;
    let entry = entry.ok_or_else(|| {
        Problem::new(
            StatusCode::NOT_FOUND,
            "no_such_key",
            format!("{key:?} is missing"),
        )
    })?;
    let headers = [
        (header::ETAG, format!("\"{}\"", entry.revision)),
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
    ];
    Ok((headers, entry.value).into_response())
}

async fn write(
    State(agent): State<Agent>,
    Path((role, token, key)): Key,
    headers: HeaderMap,
    value: Bytes,
) -> Result<Response, Problem> {
    let store = store(&agent, &role, token)?;
    let revision = match Requires::of(&headers)? {
        Requires::Nothing => store.put(&key, value).await?,
        Requires::Missing => store.create(&key, value).await?,
        Requires::Revision(revision) => store.update(&key, value, revision).await?,
    };
    Ok(written(revision))
}

async fn delete(
    State(agent): State<Agent>,
    Path((role, token, key)): Key,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let Requires::Nothing = Requires::of(&headers)? else {
        return Err(Problem::bad_request("a delete takes no condition"));
    };
    Ok(written(store(&agent, &role, token)?.delete(&key).await?))
}

fn written(revision: u64) -> Response {
    let tag = [(header::ETAG, format!("\"{revision}\""))];
    let revision = revision.into();
    (tag, Json(Written { revision })).into_response()
}
