//! Requests and answers.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Extension, Path, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::sse::{self, Sse};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router, routing};
use futures::stream::{self, PollNext, select_with_strategy};
use futures::{Stream, StreamExt};
use nats_elect::lock::lock;
use nats_elect::{
    EndCause, FencingToken, Handoff, Overrun, RoleConfig, RoleHandle, RoleManager, RoleStatus,
    StepDown, Term,
};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::application::{self, Application};
use super::attach::Attached;
use super::{keys, openapi};
use crate::fleet::{Token, or_null};
use crate::operating::stepped::how;
use crate::problem::{Problem, ok_or_unavailable, refusing};
use crate::secret::Secret;

/// The largest body of a request, but for that of a fenced key.
const MOST_BYTES: usize = 64 << 10;
/// How often a stream says that it goes on.
const ALIVE: Duration = Duration::from_secs(1);

/// What the answers are made from.
#[derive(Clone)]
pub struct Agent {
    pub attached: Arc<Attached>,
    /// The settings of the roles that applications may stand for. If none are known, they may stand
    /// for any role, and bring its settings along.
    pub roles: Arc<BTreeMap<String, RoleConfig>>,
    pub bucket: Arc<str>,
    /// The secret of every request.
    pub secret: Option<Secret>,
    /// Cancelled when the agent stops: nothing new begins then.
    pub stopping: CancellationToken,
}

/// What stood for roles over a connection, for when the connection ends: one at a time.
#[derive(Clone, Default)]
pub struct OverConnection(Arc<Mutex<Vec<Arc<Application>>>>);

impl OverConnection {
    pub fn take(&self) -> Vec<Arc<Application>> {
        std::mem::take(&mut lock(&self.0))
    }

    fn add(&self, application: &Arc<Application>) {
        let mut applications = lock(&self.0);
        applications.retain(|it| !it.is_over());
        applications.push(Arc::clone(application));
    }
}

impl Agent {
    fn manager(&self) -> &RoleManager {
        &self.attached.manager
    }

    fn handle(&self, role: &str) -> Result<RoleHandle, Problem> {
        let handle = self.manager().role(role);
        handle.map_err(|_| Problem::not_attached(role))
    }

    fn application(&self, role: &str) -> Result<Arc<Application>, Problem> {
        let application = self.attached.application(role);
        application.ok_or_else(|| Problem::not_attached(role))
    }

    /// The term of this token, while the application leads in it.
    pub fn term(&self, role: &str, token: FencingToken) -> Result<Term, Problem> {
        let term = self.application(role)?.term(token);
        term.ok_or_else(Problem::not_leader)
    }
}

// Answers: their fields are in alphabetical order, in which they were always sent.

#[derive(Serialize, JsonSchema)]
pub struct Instance {
    bucket: String,
    instance_id: String,
    version: &'static str,
}

#[derive(Serialize, JsonSchema)]
pub struct Ready {
    ready: bool,
}

/// Counts from before the request was sent
#[derive(Serialize, JsonSchema)]
pub struct Promise {
    fencing_token: Token,
    remaining_seconds: f64,
    /// Whether to finish the work: there will be no longer promise
    winding_down: bool,
}

#[derive(Serialize, JsonSchema)]
pub struct Proved {
    fencing_token: Token,
}

#[derive(Serialize, JsonSchema)]
pub struct SteppedDown {
    /// What became of the handoff, if there was one
    #[schemars(with = "Option<String>", extend("enum" = or_null(Handoff::ALL)))]
    handoff: Option<Handoff>,
    /// Whether the role was freed at once
    released: bool,
}

pub fn router(agent: Agent) -> Router {
    let routes = Router::new()
        .route("/v1", routing::get(instance))
        .route("/v1/ready", routing::get(is_ready))
        .route("/v1/openapi.json", routing::get(openapi::document))
        .route("/v1/roles", routing::get(roles))
        .route("/v1/roles/{role}", routing::get(role).post(stand))
        .route("/v1/roles/{role}/step-down", routing::post(step_down))
        .nest("/v1/roles/{role}/terms/{token}", of_term());
    refusing(routes)
        .layer(DefaultBodyLimit::max(MOST_BYTES))
        .layer(middleware::from_fn_with_state(agent.clone(), authorized))
        .with_state(agent)
}

fn of_term() -> Router<Agent> {
    Router::new()
        .route("/renew", routing::post(renew))
        .route("/done", routing::post(done))
        .route("/validate", routing::post(validate))
        .route("/authorize", routing::post(authorize))
        .merge(keys::routes())
}

/// Lets requests pass that have the secret.
async fn authorized(State(agent): State<Agent>, request: Request, next: Next) -> Response {
    let secret = agent.secret.as_ref();
    if secret.is_none_or(|secret| secret.is_shown(request.headers())) {
        return next.run(request).await;
    }
    let detail = "send the agent's token: `Authorization: Bearer TOKEN`";
    let problem = Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail);
    ([(header::WWW_AUTHENTICATE, "Bearer")], problem).into_response()
}

/// What a body says; nothing if there is none.
fn body<T: DeserializeOwned + Default>(bytes: &Bytes) -> Result<T, Problem> {
    if bytes.is_empty() {
        return Ok(T::default());
    }
    // A list would count as the values of the fields, in their order.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(Problem::bad_request("the body must be a JSON object"));
    }
    let read = serde_json::from_slice(bytes);
    read.map_err(|error| Problem::bad_request(format!("the body can't be read: {error}")))
}

async fn instance(State(agent): State<Agent>) -> Json<Instance> {
    Json(Instance {
        bucket: agent.bucket.to_string(),
        instance_id: agent.manager().instance_id().to_string(),
        version: env!("CARGO_PKG_VERSION"),
    })
}

async fn is_ready(State(agent): State<Agent>) -> Response {
    let ready = agent.manager().probe().ready().ready;
    (ok_or_unavailable(ready), Json(Ready { ready })).into_response()
}

async fn roles(State(agent): State<Agent>) -> Json<BTreeMap<String, RoleStatus>> {
    Json(agent.manager().status())
}

async fn role(
    State(agent): State<Agent>,
    Path(role): Path<String>,
) -> Result<Json<RoleStatus>, Problem> {
    Ok(Json(agent.handle(&role)?.status()))
}

/// Stands for the role as long as the connection is open. The answer is the stream of its terms.
async fn stand(
    State(agent): State<Agent>,
    Extension(over): Extension<OverConnection>,
    Path(role): Path<String>,
    bytes: Bytes,
) -> Result<Response, Problem> {
    if agent.stopping.is_cancelled() {
        let detail = "the agent is being stopped: connect to another one";
        return Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "stopping",
            detail,
        ));
    }
    let config = match agent.roles.get(&role) {
        Some(_) if !bytes.is_empty() => {
            return Err(Problem::bad_request(format!(
                "the settings of {role:?} are in the agent's file: send no body"
            )));
        }
        Some(config) => config.clone(),
        None if agent.roles.is_empty() => {
            let config = body::<RoleConfig>(&bytes)?;
            // It would end the agent, and with it the terms of other applications.
            if config.overrun != Overrun::default() {
                return Err(Problem::bad_request("`overrun` is for the agent's file"));
            }
            config
        }
        None => {
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                "unknown_role",
                format!(
                    "the agent's file has no role {role:?}: add it there, and start the agent again"
                ),
            ));
        }
    };
    let attaching = |application: &_| over.add(application);
    let attached = agent.attached.attach(role.clone(), config, attaching);
    let application = attached.await?;
    let first = Told::Standing {
        bucket: agent.bucket.to_string(),
        instance_id: agent.manager().instance_id().to_string(),
        role,
    };
    // A client that sent more than its request hides the end of its connection: a write finds it.
    let alive = sse::KeepAlive::new().interval(ALIVE);
    let stream = Sse::new(stream(&application, first)).keep_alive(alive);
    Ok(([(header::CACHE_CONTROL, "no-store")], stream).into_response())
}

/// What the stream of an application tells it
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "StreamEvent")]
pub enum Told {
    /// `standing`: the first one
    Standing {
        bucket: String,
        instance_id: String,
        role: String,
    },
    /// `promoted`: it leads, once it has asked for a promise
    Promoted {
        fencing_token: Token,
        renew_every_seconds: f64,
    },
    /// `wind_down`: it should end its work; and `ended`: its term is over
    Over {
        cause: &'static str,
        fencing_token: Token,
    },
    /// `leader`: who leads now
    Leader {
        #[schemars(with = "Option<Map<String, Value>>")]
        leader: Value,
    },
}

/// The events of an application's terms.
fn stream(
    application: &Application,
    first: Told,
) -> impl Stream<Item = Result<sse::Event, axum::Error>> + use<> {
    let pace = application.pace();
    let mut states = application.states();
    // The state from before this stream is told, too.
    states.mark_changed();
    let states = changes(states).filter_map(move |state| ready(event(state, pace)));
    let leaders = changes(application.leaders()).map(|leader| {
        let leader = json!(leader);
        ("leader", Told::Leader { leader })
    });
    let later = select_with_strategy(states, leaders, |(): &mut ()| PollNext::Left);
    let told = stream::iter([("standing", first)]).chain(later);
    told.map(|(name, told)| sse::Event::default().event(name).json_data(told))
}

/// Values that follow one another faster than they are read are left out, but never the last one.
fn changes<T: Clone>(receiver: watch::Receiver<T>) -> impl Stream<Item = T> {
    stream::unfold(receiver, async |mut receiver| {
        receiver.changed().await.ok()?;
        let value = receiver.borrow_and_update().clone();
        Some((value, receiver))
    })
}

fn event(state: application::State, pace: Duration) -> Option<(&'static str, Told)> {
    use application::State::{Ended, Leading, Standing, WindingDown};
    let over = |token, cause: EndCause| Told::Over {
        cause: cause.as_str(),
        fencing_token: Token(token),
    };
    Some(match state {
        Standing => return None,
        Leading(token) => {
            let promoted = Told::Promoted {
                fencing_token: Token(token),
                renew_every_seconds: pace.as_secs_f64(),
            };
            ("promoted", promoted)
        }
        WindingDown(token, cause) => ("wind_down", over(token, cause)),
        Ended(token, cause) => ("ended", over(token, cause)),
    })
}

pub type OfTerm = Path<(String, FencingToken)>;

async fn renew(
    State(agent): State<Agent>,
    Path((role, token)): OfTerm,
) -> Result<Json<Promise>, Problem> {
    let promise = agent.application(&role)?.renew(token);
    let promise = promise.ok_or_else(Problem::not_leader)?;
    Ok(Json(Promise {
        fencing_token: Token(token),
        remaining_seconds: promise.remaining.as_secs_f64(),
        winding_down: promise.winding_down,
    }))
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Done {
    /// Why the application could not go on. The instance then stays out of the election for its
    /// cool-down
    error: Option<String>,
}

async fn done(
    State(agent): State<Agent>,
    Path((role, token)): OfTerm,
    bytes: Bytes,
) -> Result<StatusCode, Problem> {
    let Done { error } = body(&bytes)?;
    let how = error.map_or(Ok(()), Err);
    if agent.application(&role)?.stopped(token, how) {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(Problem::not_leader())
    }
}

async fn validate(
    State(agent): State<Agent>,
    Path((role, token)): OfTerm,
) -> Result<Json<Proved>, Problem> {
    let fencing_token = Token(agent.term(&role, token)?.validate().await?);
    Ok(Json(Proved { fencing_token }))
}

async fn authorize(
    State(agent): State<Agent>,
    Path((role, token)): OfTerm,
) -> Result<Json<Proved>, Problem> {
    let fencing_token = Token(agent.term(&role, token)?.authorize().await?);
    Ok(Json(Proved { fencing_token }))
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SteppingDown {
    /// The instance id of the next leader
    to: Option<String>,
    /// The time for which this instance stays out of the election
    #[serde(default, with = "nats_elect::duration::seconds::option")]
    #[schemars(with = "Option<f64>")]
    hold_off_seconds: Option<Duration>,
    #[schemars(with = "Option<Token>")]
    expected_fencing_token: Option<FencingToken>,
}

async fn step_down(
    State(agent): State<Agent>,
    Path(role): Path<String>,
    bytes: Bytes,
) -> Result<Json<SteppedDown>, Problem> {
    let said: SteppingDown = body(&bytes)?;
    let handle = agent.handle(&role)?;
    let hold_off = said.hold_off_seconds;
    if hold_off.is_some_and(|time| time > StepDown::MAX_HOLD_OFF) {
        return Err(Problem::bad_request("`hold_off_seconds` is at most a day"));
    }
    let how = how(said.to.as_deref(), hold_off, said.expected_fencing_token);
    let stepped = handle.step_down(how).await?;
    Ok(Json(SteppedDown {
        handoff: stepped.handoff,
        released: stepped.released,
    }))
}
