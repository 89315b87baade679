//! Operations: leaders step down, instances take orders, and units move. They are what the commands
//! `step-down`, `pause`, `resume`, `cordon`, `group move` and `group drain` do, for requests that show
//! the secret.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Bytes, to_bytes};
use axum::extract::{Extension, Path, Request, State};
use axum::http::header::{CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use nats_elect::admin::AdminClient;
use nats_elect::{FencingToken, ManagerConfig};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::api::{Parsed, Where, query, told};
use super::names::{Names, is_cross_origin};
use super::now;
use super::problem::Problem;
use super::server::Lasting;
use crate::exit::{Code, Failure};
use crate::operating::orders::{self, Order, failure_of};
use crate::operating::{Whose, drain, operating, step_down, unit_move};
use crate::secret::Secret;
use crate::text::clean;

/// The largest body of a request.
const MOST_BYTES: usize = 4 * 1024;
/// How long units are waited for if nobody says how long, and at most: a drain ends before its
/// connection does.
const DRAIN: Duration = Duration::from_secs(5 * 60);
const MOST_DRAIN: Duration = Duration::from_secs(50 * 60);
/// Between two refusals that are logged.
const REFUSALS: Duration = Duration::from_secs(1);

/// Who may operate what.
#[derive(Clone)]
pub struct Operate {
    secret: Secret,
    /// How the buckets are reached.
    buckets: Arc<[ManagerConfig]>,
    names: Names,
    /// How long a body may take.
    patience: Duration,
    /// When a refusal was logged last.
    refused: Arc<Mutex<Option<Instant>>>,
}

/// Who sent a request: the other end of its connection.
#[derive(Clone, Copy)]
pub struct Peer(pub SocketAddr);

/// What came of an operation.
struct Came {
    words: String,
    json: Value,
    /// Why it is no success, if it is none.
    shortfall: Option<Code>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SteppingDown {
    /// A request that is sent twice, or comes late, must not end another term.
    expected_fencing_token: FencingToken,
    to: Option<String>,
    #[serde(default, with = "nats_elect::duration::seconds::option")]
    hold_off_seconds: Option<Duration>,
    #[serde(default)]
    force: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ordered {
    #[serde(default)]
    roles: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Moving {
    to: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Draining {
    #[serde(default, with = "nats_elect::duration::seconds::option")]
    timeout_seconds: Option<Duration>,
}

pub fn routes(operate: Operate) -> Router {
    Router::new()
        .route("/api/v1/roles/{role}/step-down", post(stepping_down))
        .route("/api/v1/groups/{group}/units/{unit}/move", post(moving))
        .route("/api/v1/instances/{instance}/pause", post(pause))
        .route("/api/v1/instances/{instance}/resume", post(resume))
        .route("/api/v1/instances/{instance}/cordon", post(cordon))
        .route("/api/v1/instances/{instance}/drain", post(draining))
        .layer(middleware::from_fn_with_state(operate.clone(), permitted))
        .with_state(operate)
}

/// Lets requests pass that show the secret, and come from no page of another site. Then reads the
/// body.
async fn permitted(
    State(operate): State<Operate>,
    Extension(peer): Extension<Peer>,
    request: Request,
    next: Next,
) -> Response {
    let (head, body) = request.into_parts();
    if let Err(problem) = operate.permits(&head.uri, &head.headers) {
        operate.tell_refusal(peer, head.uri.path(), &problem);
        let response = problem.into_response();
        return if response.status() == StatusCode::UNAUTHORIZED {
            ([(WWW_AUTHENTICATE, "Bearer")], response).into_response()
        } else {
            response
        };
    }
    match timeout(operate.patience, to_bytes(body, MOST_BYTES)).await {
        Ok(Ok(body)) => next.run(Request::from_parts(head, body.into())).await,
        Ok(Err(_)) => {
            let why = format!("the body was cut off, or has more than {MOST_BYTES} bytes");
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, why).into_response()
        }
        Err(_) => {
            let why = "the body did not come in time";
            Problem::new(StatusCode::REQUEST_TIMEOUT, why).into_response()
        }
    }
}

impl Operate {
    pub fn new(
        secret: Secret,
        buckets: Vec<ManagerConfig>,
        names: Names,
        patience: Duration,
    ) -> Self {
        Self {
            secret,
            buckets: buckets.into(),
            names,
            patience,
            refused: Arc::default(),
        }
    }

    /// Logs that a request was refused. Anyone can send such requests: it is one line a second.
    fn tell_refusal(&self, peer: Peer, path: &str, problem: &Problem) {
        let mut last = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let now = now();
        if last.is_none_or(|last| now.duration_since(last) >= REFUSALS) {
            *last = Some(now);
            let (path, why) = (clean(path), problem.detail());
            tracing::warn!(from = %peer.0, "{path}: refused: {why}");
        }
    }

    fn permits(&self, target: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        if !self.names.has(target, headers) {
            let why = "operations are for requests under a name of this server: see --host";
            return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, why));
        }
        if is_cross_origin(headers) {
            let why = "a page of another site sent this request";
            return Err(Problem::new(StatusCode::FORBIDDEN, why));
        }
        if !self.secret.is_shown(headers) {
            let why = "send the secret of --token-file: `Authorization: Bearer SECRET`";
            return Err(Problem::new(StatusCode::UNAUTHORIZED, why));
        }
        let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
        let kind = kind.and_then(|it| it.split(|byte| *byte == b';').next());
        if !kind.is_some_and(|it| it.trim_ascii().eq_ignore_ascii_case(b"application/json")) {
            let why = "send a body of the content type application/json";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
        }
        Ok(())
    }

    /// The bucket that is meant.
    fn bucket(&self, asked: Parsed<Where>) -> Result<ManagerConfig, Problem> {
        let bucket = query(asked)?.bucket;
        let found = match (&*self.buckets, bucket) {
            ([only], None) => Some(only),
            (several, None) => {
                let names: Vec<_> = several.iter().map(|it| &*it.bucket).collect();
                let why = format!("name one of the buckets: {}", names.join(", "));
                return Err(Problem::bad_request(why));
            }
            (served, Some(bucket)) => served.iter().find(|it| it.bucket == bucket),
        };
        let found = found.cloned();
        found.ok_or_else(|| Problem::not_found("that bucket is not served here"))
    }
}

async fn stepping_down(
    State(operate): State<Operate>,
    Path(role): Path<String>,
    asked: Parsed<Where>,
    Extension(peer): Extension<Peer>,
    Extension(lasting): Extension<Lasting>,
    body: Bytes,
) -> Result<Response, Problem> {
    let config = operate.bucket(asked)?;
    let said: SteppingDown = read(&body)?;
    let request = step_down::Request {
        role,
        to: said.to,
        hold_off: said.hold_off_seconds,
        expected: Some(said.expected_fencing_token),
        force: said.force,
        wait: true,
    };
    request.validate()?;
    let what = format!("step-down of {}, {}", request.role, config.bucket);
    let act = async move {
        let acting = async |admin: AdminClient| step(&request, &admin, &config).await;
        operating(&config, Whose::Read, acting).await
    };
    carried_out(what, peer, &lasting, act).await
}

async fn step(
    request: &step_down::Request,
    admin: &AdminClient,
    config: &ManagerConfig,
) -> Result<Came, Failure> {
    let done = request.carry_out(admin, config, |_| {}).await?;
    let mut json = done.json();
    json["bucket"] = json!(config.bucket);
    json["warning"] = json!(request.warning(admin, &done, config.start_timeout).await);
    Ok(Came {
        words: done.words(),
        json,
        shortfall: done.shortfall(),
    })
}

/// What each order comes with.
type Asked = (
    State<Operate>,
    Path<String>,
    Parsed<Where>,
    Extension<Peer>,
    Extension<Lasting>,
);

async fn pause(asked: Asked, body: Bytes) -> Result<Response, Problem> {
    ordered(Order::Pause, asked, &body).await
}

async fn resume(asked: Asked, body: Bytes) -> Result<Response, Problem> {
    ordered(Order::Resume, asked, &body).await
}

async fn cordon(asked: Asked, body: Bytes) -> Result<Response, Problem> {
    ordered(Order::Cordon, asked, &body).await
}

async fn ordered(order: Order, asked: Asked, body: &[u8]) -> Result<Response, Problem> {
    let (State(operate), Path(name), asked, Extension(peer), Extension(lasting)) = asked;
    let config = operate.bucket(asked)?;
    let said: Ordered = read(body)?;
    let request = orders::Request::new(order, said.roles)?;
    let roles = match &*request.roles {
        [] => "all roles".to_owned(),
        roles => roles.join(", "),
    };
    let what = format!("{} of {name} for {roles}, {}", order.word(), config.bucket);
    let act = async move {
        let acting = async |admin: AdminClient| give(&request, &name, &admin, &config).await;
        operating(&config, Whose::Read, acting).await
    };
    carried_out(what, peer, &lasting, act).await
}

async fn give(
    request: &orders::Request,
    name: &str,
    admin: &AdminClient,
    config: &ManagerConfig,
) -> Result<Came, Failure> {
    let patience = config.start_timeout;
    let instance = admin.instance(name, patience).await;
    let instance = instance.map_err(|error| failure_of(&error))?;
    let done = request.give(admin, instance, patience).await;
    let mut json = done.json();
    json["bucket"] = json!(config.bucket);
    let did = std::slice::from_ref(&done.instance);
    let warning = match done.failure() {
        Some(_) => None,
        None => request.warning(admin, did, patience).await,
    };
    json["warning"] = json!(warning);
    let mut words = request.words(&done);
    words.extend(done.failure().map(|it| it.what));
    Ok(Came {
        words: words.join("; "),
        json,
        shortfall: done.shortfall(),
    })
}

async fn draining(asked: Asked, body: Bytes) -> Result<Response, Problem> {
    let (State(operate), Path(instance), asked, Extension(peer), Extension(lasting)) = asked;
    let config = operate.bucket(asked)?;
    let said: Draining = read(&body)?;
    let timeout = said.timeout_seconds.unwrap_or(DRAIN);
    if timeout > MOST_DRAIN {
        return Err(Problem::bad_request("timeout_seconds: at most 3000"));
    }
    let what = format!("drain of {instance}, {}", config.bucket);
    let request = drain::Request { instance, timeout };
    let act = async move {
        let acting = async |admin: AdminClient| {
            let patience = config.start_timeout;
            let mut warning = None;
            let warn = |what: &str| warning = Some(what.to_owned());
            let done = request.carry_out(&admin, patience, |_| {}, warn).await?;
            let mut json = done.json();
            json["bucket"] = json!(config.bucket);
            json["warning"] = json!(warning);
            let mut words = done.words();
            words.extend(done.failure().map(|it| it.what));
            Ok(Came {
                words: words.join("; "),
                json,
                shortfall: done.shortfall(),
            })
        };
        operating(&config, Whose::Read, acting).await
    };
    carried_out(what, peer, &lasting, act).await
}

async fn moving(
    State(operate): State<Operate>,
    Path((group, unit)): Path<(String, String)>,
    asked: Parsed<Where>,
    Extension(peer): Extension<Peer>,
    Extension(lasting): Extension<Lasting>,
    body: Bytes,
) -> Result<Response, Problem> {
    let config = operate.bucket(asked)?;
    let said: Moving = read(&body)?;
    let to = said.to;
    let what = format!("move of unit {unit} of {group} to {to}, {}", config.bucket);
    let request = unit_move::Request { group, unit, to };
    request.validate()?;
    let act = async move {
        let acting = async |admin: AdminClient| {
            let patience = config.start_timeout;
            let done = request.carry_out(&admin, patience, |_| {}).await?;
            let mut json = done.json();
            json["bucket"] = json!(config.bucket);
            Ok(Came {
                words: done.words(),
                json,
                shortfall: None,
            })
        };
        operating(&config, Whose::Read, acting).await
    };
    carried_out(what, peer, &lasting, act).await
}

/// Does it to its end, also if nobody waits for the answer any more; and logs who asked for what,
/// and what came of it.
async fn carried_out(
    what: String,
    peer: Peer,
    lasting: &Lasting,
    act: impl Future<Output = Result<Came, Failure>> + Send + 'static,
) -> Result<Response, Problem> {
    let Some(room) = lasting.operation() else {
        tracing::warn!(from = %peer.0, "{}: refused: there are too many", clean(&what));
        return Err(Problem::unavailable("too many operations are under way"));
    };
    let longest = lasting.longest();
    let task = tokio::spawn(async move {
        let _taken = room;
        let what = clean(&what);
        tracing::info!(from = %peer.0, "asked for: {what}");
        let late = || Failure::new(Code::Unreachable, "it did not end in time, and may go on");
        let came = timeout(longest, act).await.unwrap_or_else(|_| Err(late()));
        match &came {
            Ok(came) => {
                let (words, is_done) = (clean(&came.words), came.shortfall.is_none());
                tracing::info!(from = %peer.0, is_done, "{what}: {words}");
            }
            Err(failure) => {
                let why = clean(&failure.what);
                tracing::warn!(from = %peer.0, "{what}: {}: {why}", failure.code.word());
            }
        }
        came
    });
    let came = task.await.map_err(|_| {
        let why = "the operation broke off";
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, why)
    })??;
    match came.shortfall {
        None => Ok(told(&came.json)),
        Some(code) => Err(Problem::of_result(code, came.words, came.json)),
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let read = serde_json::from_slice(body);
    read.map_err(|error| Problem::bad_request(format!("the body can't be read: {error}")))
}

#[cfg(test)]
mod tests {
    use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};

    use super::*;

    #[test]
    fn on_every_address_only_own_names_are_for_operations() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        std::fs::write(&file, "0123456789abcdef").unwrap();
        let secret = Secret::read(&file).unwrap();
        let names = Names::new(vec!["leaders.example.org".to_owned()]);
        let operate = Operate::new(secret, Vec::new(), names, Duration::ZERO);
        let status = |host, origin: Option<&'static str>| {
            let kind = "Application/JSON; charset=utf-8";
            let headers = [
                (HOST, Some(host)),
                (ORIGIN, origin),
                (CONTENT_TYPE, Some(kind)),
                (AUTHORIZATION, Some("Bearer 0123456789abcdef")),
            ];
            let said = headers.into_iter();
            let said = said.filter_map(|(name, it)| Some((name, HeaderValue::from_static(it?))));
            let permitted = operate.permits(&Uri::default(), &said.collect());
            permitted.map_err(|problem| problem.into_response().status())
        };
        let own = "leaders.example.org";
        assert_eq!(status(own, None), Ok(()));
        assert_eq!(status(own, Some("https://leaders.example.org")), Ok(()));
        assert_eq!(status("127.0.0.1:8642", None), Ok(()));
        // A page under a name of its own that leads to this address is of that origin.
        let (evil, of_evil) = ("evil.example.org", Some("http://evil.example.org"));
        let misdirected = Err(StatusCode::MISDIRECTED_REQUEST);
        assert_eq!(status(evil, of_evil), misdirected);
        assert_eq!(status(own, of_evil), Err(StatusCode::FORBIDDEN));
    }
}
