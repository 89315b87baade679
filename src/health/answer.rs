//! The answer to a request.

use hyper::body::Incoming;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};

use super::Render;
use crate::manager::Probe;
use crate::model::status::RoleStatus;
use nats_elect_core::duration::seconds::Seconds;

const JSON: &str = "application/json";
/// The text format of Prometheus.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The state that answers are made from.
pub(super) struct Asked {
    pub probe: Probe,
    pub metrics: Option<Render>,
}

impl Asked {
    pub async fn answer(&self, request: &Request<Incoming>) -> Response<String> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut refused = told(
                StatusCode::METHOD_NOT_ALLOWED,
                &json!({"error": "only GET and HEAD"}),
            );
            let allowed = HeaderValue::from_static("GET, HEAD");
            refused.headers_mut().insert(ALLOW, allowed);
            return refused;
        }
        match request.uri().path() {
            "/livez" => self.live().await,
            "/readyz" => {
                let readiness = self.probe.ready();
                told(good(readiness.ready), &json!(readiness))
            }
            "/metrics" => match &self.metrics {
                Some(render) => answer(StatusCode::OK, METRICS, render()),
                None => self.unknown(),
            },
            path => match path.strip_prefix("/leaderz/") {
                Some(role) => self.leader(role),
                None => self.unknown(),
            },
        }
    }

    async fn live(&self) -> Response<String> {
        match self.probe.live().await {
            Ok(()) => told(StatusCode::OK, &json!({"live": true})),
            Err(why) => told(
                StatusCode::SERVICE_UNAVAILABLE,
                &json!({"live": false, "reason": why.to_string()}),
            ),
        }
    }

    fn leader(&self, role: &str) -> Response<String> {
        match self.probe.role(role) {
            Some(status) => told(good(status.is_leader), &leadership(role, &status)),
            None => told(
                StatusCode::NOT_FOUND,
                &json!({"error": "this instance does not stand for that role"}),
            ),
        }
    }

    fn unknown(&self) -> Response<String> {
        let mut paths = vec!["/livez", "/readyz", "/leaderz/{role}"];
        if self.metrics.is_some() {
            paths.push("/metrics");
        }
        told(StatusCode::NOT_FOUND, &json!({"paths": paths}))
    }
}

fn leadership(role: &str, status: &RoleStatus) -> Value {
    json!({
        "role": role,
        "is_leader": status.is_leader,
        "state": status.state,
        "leader": status.leader.as_ref().map(|leader| &leader.instance_id).filter(|id| !id.is_empty()),
        "fencing_token": status.fencing_token,
        "correlation_id": status.correlation_id,
        "lease_remaining_seconds": status.lease_remaining.map(Seconds),
        "connection": status.connection,
    })
}

const fn good(good: bool) -> StatusCode {
    if good {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    }
}

fn told(status: StatusCode, body: &Value) -> Response<String> {
    answer(status, JSON, format!("{body}\n"))
}

fn answer(status: StatusCode, kind: &'static str, body: String) -> Response<String> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    // A status that was true a moment ago may be wrong now.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
