//! The server: connections with limits, routes, and what every answer bears.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::{Extension, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderName, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use nats_elect::health::connections;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_io_timeout::TimeoutStream;

use super::limits::Limits;
use super::metrics::Counts;
use super::names::Names;
use super::{Served, api, events, groups, openapi, page};
use crate::problem::{Problem, refusing};

/// What every answer bears. Nothing comes from elsewhere, no other page shows it, nobody keeps it.
const HEADERS: [(HeaderName, &str); 6] = [
    (CACHE_CONTROL, "no-store"),
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; connect-src 'self'; img-src 'self'; script-src 'self'; style-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (RESOURCE_POLICY, "same-origin"),
    (OPENER_POLICY, "same-origin"),
];
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

/// The connection of a request, which may last.
#[derive(Clone)]
pub struct Lasting {
    streams: Arc<Semaphore>,
    lasts: Arc<AtomicBool>,
}

impl Lasting {
    /// Lets this connection last for a stream, if there is room for one more of these.
    pub fn stream(&self) -> Option<OwnedSemaphorePermit> {
        let room = Arc::clone(&self.streams).try_acquire_owned().ok()?;
        self.lasts.store(true, Ordering::Relaxed);
        Some(room)
    }
}

/// What every request goes through.
#[derive(Clone)]
struct Gate {
    /// The names under which this server may be asked. If none, under all.
    names: Option<Names>,
    counts: Arc<Counts>,
}

/// Answers for ever.
pub async fn run(listener: TcpListener, names: Names, served: Served, limits: Limits) {
    // Nobody but a browser on this machine reaches a loopback address; and no page of another site
    // may use that browser under a name of its own.
    let is_near = listener.local_addr().is_ok_and(|it| it.ip().is_loopback());
    let counts = Arc::clone(&served.counts);
    let gate = Gate {
        names: (is_near || !names.0.is_empty()).then_some(names),
        counts: Arc::clone(&counts),
    };
    let routes = routes(gate, served);
    let streams = Arc::new(Semaphore::new(limits.streams));
    let conversed = |(stream, _)| {
        let lasting = Lasting {
            streams: Arc::clone(&streams),
            lasts: Arc::default(),
        };
        let (routes, counts) = (routes.clone(), Arc::clone(&counts));
        async move {
            counts.connections.fetch_add(1, Ordering::Relaxed);
            converse(stream, routes, lasting, limits).await;
            counts.connections.fetch_sub(1, Ordering::Relaxed);
        }
    };
    connections::serve(limits.connections, || listener.accept(), conversed).await;
}

fn routes(gate: Gate, served: Served) -> Router {
    let routes = Router::new()
        .route("/", get(page::page))
        .route("/{file}", get(page::asset))
        .route("/metrics", get(api::metrics))
        .route("/livez", get(api::live))
        .route("/readyz", get(api::ready))
        .route("/api/v1/roles", get(api::roles))
        .route("/api/v1/roles/{role}", get(api::role))
        .route("/api/v1/groups", get(groups::groups))
        .route("/api/v1/groups/{group}", get(groups::group))
        .route("/api/v1/groups/{group}/owner", get(groups::owner))
        .route("/api/v1/instances", get(api::instances))
        .route("/api/v1/history", get(api::history))
        .route("/api/v1/events", get(events::events))
        .route("/api/v1/openapi.json", get(openapi::document))
        .route("/api/v1/leader/{role}/{instance}", get(api::leader))
        .with_state(served);
    refusing(routes).layer(middleware::from_fn_with_state(gate, guarded))
}

async fn converse(stream: TcpStream, routes: Router, lasting: Lasting, limits: Limits) {
    let lasts = Arc::clone(&lasting.lasts);
    let routes = routes.layer(Extension(lasting));
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(limits.unread));
    let service = TowerToHyperService::new(routes);
    let conversation = connections::http(limits.patience)
        .keep_alive(false)
        .serve_connection(TokioIo::new(Box::pin(stream)), service);
    // A client that breaks off or is too slow needs no answer.
    let over = async {
        tokio::time::sleep(limits.longest).await;
        if lasts.load(Ordering::Relaxed) {
            tokio::time::sleep(limits.lasting).await;
        }
    };
    tokio::select! {
        _ = conversation => {}
        () = over => {}
    }
}

/// Refuses requests under a name that is not this server's, and sets the headers of each answer.
async fn guarded(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    let is_meant = |names: &Names| names.has(request.uri(), request.headers());
    let mut response = if request.headers().get_all(HOST).iter().count() > 1 {
        Problem::bad_request("the header Host stands there twice").into_response()
    } else if gate.names.as_ref().is_none_or(is_meant) {
        next.run(request).await
    } else {
        let why = "this server is not known by that name: see --host";
        Problem::new(StatusCode::MISDIRECTED_REQUEST, "misdirected", why).into_response()
    };
    for (name, value) in HEADERS {
        let headers = response.headers_mut();
        headers.insert(name, HeaderValue::from_static(value));
    }
    let class = usize::from(response.status().as_u16() / 100);
    if let Some(count) = gate.counts.requests.get(class) {
        count.fetch_add(1, Ordering::Relaxed);
    }
    response
}
