//! The answers in JSON, in the notation of `docs/admin.md`. A role has the fields that `ls --json`
//! shows, an instance those of `candidates --json`, an event those of `history --json`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use nats_elect::Standing;
use nats_elect::duration::seconds::Seconds;
use serde::Deserialize;
use serde_json::{Value, json};

use super::problem::Problem;
use super::view::{Asked, Freshness, View};
use super::{Served, metrics, now};
use crate::commands::candidates::json_of;
use crate::commands::history::since;
use crate::output;
use crate::past_event::PastEvent;
use crate::seen::{Seen, is_known_alive};
use crate::text::stamp;

/// Events of the history in one answer: the latest ones.
const MOST_EVENTS: usize = 1000;

const NOT_SERVED: &str = "that bucket is not served here";

pub const JSON: &str = "application/json";
/// The text format of Prometheus.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

pub type Answer = Result<Response, Problem>;

/// Which bucket is meant, where several are served.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Where {
    pub bucket: Option<String>,
}

/// Which part of the past is meant.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct When {
    bucket: Option<String>,
    role: Option<String>,
    since: Option<String>,
}

pub async fn roles(State(served): State<Served>, asked: Parsed<Where>) -> Answer {
    let bucket = query(asked)?.bucket;
    let views = served.views(bucket.as_deref(), View::freshness)?;
    let views: Vec<_> = views.into_iter().cloned().collect();
    let make = move || {
        let roles = views.iter().flat_map(|view| {
            let roles = view.roles().into_values();
            roles.map(|seen| role_json(view, &seen)).collect::<Vec<_>>()
        });
        let roles: Vec<_> = roles.collect();
        let views: Vec<_> = views.iter().collect();
        line(&json!({ "views": of_views(&views), "roles": roles }))
    };
    let answers = Arc::clone(&served.answers);
    let answer = answers.roles[&bucket].get(make).await;
    Ok(in_json(answer.to_string()))
}

pub async fn role(
    State(served): State<Served>,
    Path(role): Path<String>,
    asked: Parsed<Where>,
) -> Answer {
    let view = served.view(query(asked)?.bucket.as_deref(), View::freshness)?;
    let Some(seen) = view.role(&role) else {
        return Err(Problem::not_found("the bucket has no such role"));
    };
    let mut answer = role_json(view, &seen);
    answer["view"] = view.json();
    answer["candidates"] = view.asked(|asked| candidates(asked, &role));
    Ok(told(&answer))
}

pub async fn instances(State(served): State<Served>, asked: Parsed<Where>) -> Answer {
    let views = served.views(query(asked)?.bucket.as_deref(), View::freshness)?;
    let mut instances = Vec::new();
    for view in &views {
        view.asked(|asked| {
            let mut namesakes = BTreeMap::<_, usize>::new();
            for (instance, _) in &asked.reports {
                *namesakes.entry(&instance.instance_id).or_default() += 1;
            }
            instances.extend(asked.reports.iter().map(|(instance, report)| {
                let mut json = json_of(instance, report, namesakes[&instance.instance_id]);
                json["bucket"] = json!(view.bucket);
                json
            }));
        });
    }
    let asked: Vec<_> = views
        .iter()
        .map(|view| view.asked(asked_json(view)))
        .collect();
    let answer = json!({ "views": of_views(&views), "asked": asked, "instances": instances });
    Ok(told(&answer))
}

pub async fn history(State(served): State<Served>, asked: Parsed<When>) -> Answer {
    let asked = query(asked)?;
    let views = served.views(asked.bucket.as_deref(), View::freshness)?;
    let since = asked.since.as_deref().map(since).transpose();
    let since = since.map_err(|why| Problem::bad_request(format!("since: {why}")))?;
    let since = since.map_or(0, |since| {
        let since = since.duration_since(SystemTime::UNIX_EPOCH);
        since.unwrap_or_default().as_millis()
    });
    let (mut events, mut problems) = (Vec::new(), Vec::new());
    for view in &views {
        match view.history(asked.role.as_deref()) {
            Ok(past) => events.extend(past),
            Err(why) => problems.push(json!({ "bucket": view.bucket, "reason": why })),
        }
    }
    events.retain(|one| u128::from(one.event.at_ms) >= since);
    if views.len() > 1 {
        events.sort_by_key(|one| one.event.at_ms);
    }
    let left_out = events.len().saturating_sub(MOST_EVENTS);
    let events: Vec<_> = events.iter().skip(left_out).map(PastEvent::json).collect();
    Ok(told(&json!({
        "views": of_views(&views),
        "missing": problems,
        "left_out": left_out,
        "events": events,
    })))
}

/// 200 if this instance is known to lead the role, else 503.
pub async fn leader(
    State(served): State<Served>,
    Path((role, instance)): Path<(String, String)>,
    asked: Parsed<Where>,
) -> Answer {
    let view = served.view(query(asked)?.bucket.as_deref(), View::freshness)?;
    let seen = view.role(&role);
    let reason = match &seen {
        Some(seen) => doubt(seen, &instance),
        None => Some("the bucket has no such role"),
    };
    let status = if reason.is_none() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let leader = seen.as_ref().and_then(|seen| seen.observed.leader.as_ref());
    let body = json!({
        "bucket": view.bucket,
        "role": role,
        "instance_id": instance,
        "is_leader": reason.is_none(),
        "reason": reason,
        "leader": leader.map(|leader| &leader.instance_id),
        "fencing_token": seen.as_ref().and_then(|seen| seen.observed.fencing_token),
        "remaining_seconds": seen.as_ref().and_then(|seen| seen.observed.remaining).map(Seconds),
        "view": view.json(),
    });
    Ok((status, told(&body)).into_response())
}

/// Whether all buckets were read: then there is something to show.
pub async fn ready(State(served): State<Served>) -> Answer {
    for of in [View::freshness, View::groups_freshness] {
        if let Some(view) = served.views.iter().find(|view| !of(view).read) {
            return Err(unread(view, of));
        }
    }
    Ok(told(&json!({ "ready": true })))
}

pub async fn metrics(State(served): State<Served>) -> Response {
    let answers = Arc::clone(&served.answers);
    let answer = answers.metrics.get(move || metrics::render(&served)).await;
    ([(CONTENT_TYPE, METRICS)], answer.to_string()).into_response()
}

pub async fn live() -> Response {
    told(&json!({ "live": true }))
}

/// Why it is not known that this instance leads, if it is not.
fn doubt(seen: &Seen, instance: &str) -> Option<&'static str> {
    let observed = &seen.observed;
    match &observed.leader {
        None if observed.standing == Standing::Unknown => Some("it is not known who leads"),
        None => Some("nobody leads"),
        Some(leader) if leader.instance_id != instance => Some("another instance leads"),
        Some(_) if !observed.confirmed => Some("the leader was not seen alive yet"),
        Some(_) if is_known_alive(observed) => None,
        Some(_) => Some("no heartbeat of the leader was seen for a whole lease"),
    }
}

/// Of what in a bucket it is asked whether it is current: its roles, or its groups.
type Of = fn(&View) -> Freshness;

impl Served {
    /// The buckets that are meant. Of at least one of them this was read.
    pub fn views(&self, bucket: Option<&str>, of: Of) -> Result<Vec<&Arc<View>>, Problem> {
        let is_meant = |view: &&Arc<View>| bucket.is_none_or(|bucket| view.bucket == bucket);
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
    pub fn view(&self, bucket: Option<&str>, of: Of) -> Result<&Arc<View>, Problem> {
        if bucket.is_none() && self.views.len() > 1 {
            let why = "several buckets are served here: name one, as in ?bucket=leaders";
            return Err(Problem::bad_request(why));
        }
        Ok(self.views(bucket, of)?[0])
    }
}

fn unread(view: &View, of: Of) -> Problem {
    let why = of(view).stale.map(|(_, why)| why);
    let why = why.unwrap_or_default();
    Problem::unavailable(format!("bucket {} was not read yet: {why}", view.bucket))
}

fn of_views(views: &[&Arc<View>]) -> Vec<Value> {
    views.iter().map(|view| view.json()).collect()
}

fn role_json(view: &View, seen: &Seen) -> Value {
    let mut json = seen.json();
    json["bucket"] = json!(view.bucket);
    json
}

/// When the instances were asked last, and why they can't be asked now, if so.
fn asked_json(view: &View) -> impl FnOnce(&Asked) -> Value {
    |asked| {
        json!({
            "bucket": view.bucket,
            "at": asked.at.map(|(_, at)| stamp(at)),
            "age_seconds": asked.at.map(|(at, _)| Seconds(now().duration_since(at))),
            "problem": asked.problem,
        })
    }
}

/// The instances that take part in the election of a role, and what they say of it.
fn candidates(asked: &Asked, role: &str) -> Value {
    let candidates = asked.reports.iter().filter_map(|(instance, report)| {
        let says = report.as_ref().ok()?.roles.get(role)?;
        Some(json!({
            "instance_id": instance.instance_id,
            "incarnation": instance.incarnation,
            "version": instance.version,
            "status": says,
        }))
    });
    candidates.collect()
}

/// The parameters of a query, or what is wrong with them.
pub type Parsed<T> = Result<Query<T>, QueryRejection>;

pub fn query<T>(asked: Parsed<T>) -> Result<T, Problem> {
    let wrong = |why: QueryRejection| Problem::bad_request(why.body_text());
    asked.map(|Query(asked)| asked).map_err(wrong)
}

pub fn told(body: &Value) -> Response {
    in_json(line(body))
}

fn line(body: &Value) -> String {
    output::json(body) + "\n"
}

fn in_json(body: String) -> Response {
    ([(CONTENT_TYPE, JSON)], body).into_response()
}
