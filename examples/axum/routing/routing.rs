//! Passes each request on to the instance that owns its key.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::{HOST, HeaderName};
use axum::http::{HeaderMap, Method, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use nats_elect::{BoxError, GroupHandle};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::owned::{Operation, Owned};

/// A request with this header comes from another instance, and is not passed on again.
const ROUTED: HeaderName = HeaderName::from_static("x-routed-by");
/// The owner's instance id, in the answer to a sender that took the wrong one for it.
pub const OWNER: HeaderName = HeaderName::from_static("x-owner");
/// How long a client waits while its key has no owner. Longer than a lease.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long one instance waits for another.
const PEER_PATIENCE: Duration = Duration::from_secs(5);
/// The pause after a failure, unless the owner changes earlier.
const PAUSE: Duration = Duration::from_millis(50);

/// The HTTP side of an instance.
#[derive(Clone)]
pub struct Service {
    group: GroupHandle,
    owned: Owned,
}

/// What came of a try to have a request answered.
enum Tried {
    Answered(Response),
    /// By an instance that is not the owner, and says who is.
    Told(String),
    Failed,
}

impl Service {
    pub const fn new(group: GroupHandle, owned: Owned) -> Self {
        Self { group, owned }
    }

    pub fn routes(self) -> Router {
        Router::new()
            .route("/keys/{key}", get(read))
            .route("/keys/{key}/{number}", put(write))
            .with_state(self)
    }

    async fn answer(&self, headers: &HeaderMap, operation: Operation) -> Response {
        if !is_key(&operation.key) {
            return StatusCode::BAD_REQUEST.into_response();
        }
        if headers.contains_key(ROUTED) {
            return self.answer_peer(operation).await;
        }
        match timeout(PATIENCE, self.route(&operation)).await {
            Ok(answer) => answer,
            Err(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        }
    }

    /// Serves a request that another instance passed on, or tells it who the owner is.
    async fn answer_peer(&self, operation: Operation) -> Response {
        let owner = self.group.owner_of(&operation.key);
        if let Some((shard, _)) = &owner
            && let Some(answer) = self.owned.serve(*shard, operation).await
        {
            return answer;
        }
        let mut answer = StatusCode::MISDIRECTED_REQUEST.into_response();
        if let Some((_, Some(owner))) = owner
            && owner.instance_id != self.owned.instance
            && let Ok(id) = owner.instance_id.parse()
        {
            answer.headers_mut().insert(OWNER, id);
        }
        answer
    }

    /// Has the owner answer, again and again until one does.
    async fn route(&self, operation: &Operation) -> Response {
        let mut told = None;
        loop {
            let known = self.group.owner_of(&operation.key);
            if let Some((shard, owner)) = &known {
                let was_told = told.is_some();
                let owner = owner.as_ref().map(|owner| owner.instance_id.clone());
                match self.tried(told.take().or(owner), *shard, operation).await {
                    Tried::Answered(answer) => return answer,
                    Tried::Told(owner) => told = Some(owner),
                    Tried::Failed => {}
                }
                if told.is_some() && !was_told {
                    continue;
                }
            }
            let changed = |group: &GroupHandle| group.owner_of(&operation.key) != known;
            let _ = timeout(PAUSE, self.group.wait_until(changed)).await;
        }
    }

    async fn tried(&self, owner: Option<String>, shard: u32, operation: &Operation) -> Tried {
        let Some(owner) = owner else {
            return Tried::Failed;
        };
        let answer = if owner == self.owned.instance {
            self.owned.serve(shard, operation.clone()).await
        } else {
            // It may have gone, and may have done what was asked. It can be asked again.
            self.ask(&owner, operation).await.ok()
        };
        let Some(answer) = answer else {
            return Tried::Failed;
        };
        match answer.status() {
            StatusCode::MISDIRECTED_REQUEST => {
                let other = answer.headers().get(OWNER).and_then(|id| id.to_str().ok());
                let other = other.filter(|other| *other != owner);
                other.map_or(Tried::Failed, |other| Tried::Told(other.to_owned()))
            }
            StatusCode::SERVICE_UNAVAILABLE => Tried::Failed,
            _ => Tried::Answered(answer),
        }
    }

    /// Passes a request on. A busy service would keep its connections.
    async fn ask(&self, to: &str, operation: &Operation) -> Result<Response, BoxError> {
        let mut request = operation.request(to)?;
        let from = self.owned.instance.parse()?;
        request.headers_mut().insert(ROUTED, from);
        timeout(PEER_PATIENCE, send(to, request)).await?
    }
}

impl Operation {
    /// The request to the instance at this address.
    pub fn request(&self, to: &str) -> Result<Request<Body>, BoxError> {
        let request = Request::builder().header(HOST, to);
        let key = &self.key;
        Ok(match &self.put {
            None => request.uri(format!("/keys/{key}")).body(Body::empty()),
            Some((number, text)) => request
                .method(Method::PUT)
                .uri(format!("/keys/{key}/{number}"))
                .body(Body::from(text.clone())),
        }?)
    }
}

/// Sends a request over a connection of its own.
pub async fn send(to: &str, request: Request<Body>) -> Result<Response, BoxError> {
    let stream = TcpStream::connect(to).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender.send_request(request).await?.map(Body::new))
}

async fn read(
    State(service): State<Service>,
    Path(key): Path<String>,
    headers: HeaderMap,
) -> Response {
    service.answer(&headers, Operation { key, put: None }).await
}

async fn write(
    State(service): State<Service>,
    Path((key, number)): Path<(String, u64)>,
    headers: HeaderMap,
    text: String,
) -> Response {
    let put = Some((number, text));
    service.answer(&headers, Operation { key, put }).await
}

/// A key as it can stand in a path and in the store.
fn is_key(key: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    !key.is_empty() && key.bytes().all(is_plain)
}
