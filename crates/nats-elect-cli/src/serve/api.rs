//! The answers in JSON, in the notation of `docs/admin.md`. A role has the fields that `ls --json`
//! shows, an instance those of `candidates --json`, an event those of `history --json`.

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use nats_elect::{Observed, Standing};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Served, metrics};
use crate::commands::history::since;
use crate::fleet::{
    self, Candidate, Event, In, Instance, Of, Role, Seconds, Time, Token, Watched, now,
};
use crate::openapi::JSON;
use crate::output;
use crate::problem::{Problem, ok_or_unavailable};
use crate::seen::is_known_alive;

/// Events of the history in one answer: the latest ones.
const MOST_EVENTS: usize = 1000;

const NOT_SERVED: &str = "that bucket is not served here";

/// The text format of Prometheus.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

pub type Answer = Result<Response, Problem>;

/// Which bucket is meant, where several are served.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Where {
    /// Needed for a single role or group if several buckets are served
    pub bucket: Option<String>,
}

/// Which part of the past is meant.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct When {
    /// Only this one, if several buckets are served
    bucket: Option<String>,
    /// Only the events of this one
    role: Option<String>,
    /// A time like 2026-03-01T08:00:00Z, or an age like 90m
    since: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub struct Roles {
    views: Vec<fleet::View>,
    roles: Vec<In<Role>>,
}

/// A role, and its candidates
#[derive(Serialize, JsonSchema)]
pub struct RoleInFull<'a> {
    #[serde(flatten)]
    role: In<Role>,
    view: fleet::View,
    candidates: Vec<Candidate<'a>>,
}

#[derive(Serialize, JsonSchema)]
pub struct Instances<'a> {
    views: Vec<fleet::View>,
    asked: Vec<In<Turn>>,
    instances: Vec<In<Instance<'a>>>,
}

/// When the instances of a bucket were asked last
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Asked")]
pub struct Turn {
    at: Option<Time>,
    age_seconds: Option<Seconds>,
    /// Why the instances can't be asked now
    problem: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub struct History {
    views: Vec<fleet::View>,
    /// Why there is nothing of a bucket
    missing: Vec<In<Missing>>,
    /// Older events that the bucket keeps
    left_out: usize,
    events: Vec<Event>,
}

#[derive(Serialize, JsonSchema)]
pub struct Missing {
    reason: String,
}

/// Whether an instance is known to lead a role
#[derive(Serialize, JsonSchema)]
pub struct Leadership {
    role: String,
    instance_id: String,
    is_leader: bool,
    /// Why it is not known to lead
    reason: Option<&'static str>,
    leader: Option<String>,
    fencing_token: Option<Token>,
    remaining_seconds: Option<Seconds>,
    view: fleet::View,
}

pub async fn roles(State(served): State<Served>, Query(asked): Query<Where>) -> Answer {
    let views = served.views(asked.bucket.as_deref(), Watched::freshness)?;
    let roles = views.iter().flat_map(|view| {
        let roles = view.roles().into_iter();
        roles.map(|(role, seen)| view.of(Role::of(&role, &seen)))
    });
    Ok(told(&Roles {
        roles: roles.collect(),
        views: of_views(&views, Watched::freshness),
    }))
}

pub async fn role(
    State(served): State<Served>,
    Path(role): Path<String>,
    Query(asked): Query<Where>,
) -> Answer {
    let view = served.view(asked.bucket.as_deref(), Watched::freshness)?;
    let Some(seen) = view.role(&role) else {
        return Err(Problem::not_found("the bucket has no such role"));
    };
    let asked = view.asked();
    let candidates = asked.reports.iter().filter_map(|one| {
        let instance = &one.instance;
        one.role(&role).map(|status| Candidate { instance, status })
    });
    Ok(told(&RoleInFull {
        role: view.of(Role::of(&role, &seen)),
        view: view.told(Watched::freshness),
        candidates: candidates.collect(),
    }))
}

pub async fn instances(State(served): State<Served>, Query(asked): Query<Where>) -> Answer {
    let views = served.views(asked.bucket.as_deref(), Watched::freshness)?;
    let asked: Vec<_> = views.iter().map(|view| (view, view.asked())).collect();
    let turns = asked.iter().map(|(view, asked)| {
        let age = asked.at.map(|(at, _)| now().duration_since(at));
        view.of(Turn {
            at: asked.at.map(|(_, at)| at.into()),
            age_seconds: age.map(Seconds),
            problem: asked.problem.clone(),
        })
    });
    let instances = asked.iter().flat_map(|(view, asked)| {
        let reports = asked.reports.iter();
        reports.map(|one| view.of(Instance::from(one)))
    });
    Ok(told(&Instances {
        views: of_views(&views, Watched::freshness),
        asked: turns.collect(),
        instances: instances.collect(),
    }))
}

pub async fn history(State(served): State<Served>, Query(asked): Query<When>) -> Answer {
    let views = served.views(asked.bucket.as_deref(), Watched::freshness)?;
    let since = asked.since.as_deref().map(since).transpose();
    let since = since.map_err(|why| Problem::bad_request(format!("since: {why}")))?;
    let (mut events, mut missing) = (Vec::new(), Vec::new());
    for view in &views {
        match view.history(asked.role.as_deref()) {
            Ok(past) => events.extend(past),
            Err(none) => missing.push(view.of(Missing { reason: none.why })),
        }
    }
    events.retain(|event| event.at_ms >= since.unwrap_or(0));
    if views.len() > 1 {
        events.sort_by_key(|event| event.at_ms);
    }
    let left_out = events.len().saturating_sub(MOST_EVENTS);
    Ok(told(&History {
        views: of_views(&views, Watched::freshness),
        missing,
        left_out,
        events: events[left_out..].iter().map(Event::from).collect(),
    }))
}

/// 200 if this instance is known to lead the role, else 503.
pub async fn leader(
    State(served): State<Served>,
    Path((role, instance)): Path<(String, String)>,
    Query(asked): Query<Where>,
) -> Answer {
    let view = served.view(asked.bucket.as_deref(), Watched::freshness)?;
    let seen = view.role(&role);
    let reason = match &seen {
        Some(seen) => doubt(seen, &instance),
        None => Some("the bucket has no such role"),
    };
    let is_leader = reason.is_none();
    let observed = seen.as_ref();
    let leader = observed.and_then(|it| it.leader.as_ref());
    let body = view.of(Leadership {
        leader: leader.map(|it| it.instance_id.clone()),
        fencing_token: observed.and_then(|it| it.fencing_token).map(Token),
        remaining_seconds: observed.and_then(|it| it.remaining).map(Seconds),
        role,
        instance_id: instance,
        is_leader,
        reason,
        view: view.told(Watched::freshness),
    });
    Ok((ok_or_unavailable(is_leader), told(&body)).into_response())
}

/// Whether all buckets were read: then there is something to show.
pub async fn ready(State(served): State<Served>) -> Answer {
    for of in [Watched::freshness, Watched::groups_freshness] {
        if let Some(view) = served.views.iter().find(|view| !of(view).read) {
            return Err(unread(view, of));
        }
    }
    Ok(told(&json!({ "ready": true })))
}

pub async fn metrics(State(served): State<Served>) -> Response {
    let spaced = served.metrics.clone();
    let answer = spaced.get(move || metrics::render(&served)).await;
    ([(CONTENT_TYPE, METRICS)], answer.to_string()).into_response()
}

pub async fn live() -> Response {
    told(&json!({ "live": true }))
}

/// Why it is not known that this instance leads, if it is not.
fn doubt(observed: &Observed, instance: &str) -> Option<&'static str> {
    match &observed.leader {
        None if observed.standing == Standing::Unknown => Some("it is not known who leads"),
        None => Some("nobody leads"),
        Some(leader) if leader.instance_id != instance => Some("another instance leads"),
        Some(_) if !observed.confirmed => Some("the leader was not seen alive yet"),
        Some(_) if is_known_alive(observed) => None,
        Some(_) => Some("no heartbeat of the leader was seen for a whole lease"),
    }
}

impl Served {
    /// The buckets that are meant. Of at least one of them this was read.
    pub fn views(&self, bucket: Option<&str>, of: Of) -> Result<Vec<&Arc<Watched>>, Problem> {
        let is_meant = |view: &&Arc<Watched>| bucket.is_none_or(|bucket| view.bucket == bucket);
        let views: Vec<_> = self.views.iter().filter(is_meant).collect();
        if views.is_empty() {
            return Err(Problem::not_found(NOT_SERVED));
        }
        if views.iter().all(|view| !of(view).read) {
            return Err(unread(views[0], of));
        }
        Ok(views)
    }

    /// The one bucket that is meant.
    pub fn view(&self, bucket: Option<&str>, of: Of) -> Result<&Arc<Watched>, Problem> {
        if bucket.is_none() && self.views.len() > 1 {
            let why = "several buckets are served here: name one, as in ?bucket=leaders";
            return Err(Problem::bad_request(why));
        }
        Ok(self.views(bucket, of)?[0])
    }
}

fn unread(view: &Watched, of: Of) -> Problem {
    let why = of(view).stale.map(|(_, why)| why);
    let why = why.unwrap_or_default();
    Problem::unavailable(format!("bucket {} was not read yet: {why}", view.bucket))
}

pub fn of_views(views: &[&Arc<Watched>], of: Of) -> Vec<fleet::View> {
    views.iter().map(|view| view.told(of)).collect()
}

pub fn told(body: &impl Serialize) -> Response {
    ([(CONTENT_TYPE, JSON)], output::json(body) + "\n").into_response()
}
