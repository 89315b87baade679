//! The server: connections with limits, routes, and what every answer bears.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::{Extension, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderName, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::uri::Authority;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_io_timeout::TimeoutStream;

use super::metrics::Counts;
use super::problem::Problem;
use super::{Served, api, events, page};

/// Connections at a time. More of them wait.
const MOST_CONNECTIONS: usize = 256;
/// How long a client may take to send its request.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a client may read nothing while there is something to read.
const UNREAD: Duration = Duration::from_secs(10);
/// How long a connection may take. It is for one request.
const LONGEST: Duration = Duration::from_secs(30);
/// Streams of events at a time, and how long one takes. Then its reader comes back.
const MOST_STREAMS: usize = 64;
const LONGEST_STREAM: Duration = Duration::from_secs(60 * 60);
/// The longest request line, and the longest headers.
const MOST_BYTES: usize = 16 * 1024;
const MOST_HEADERS: usize = 64;
/// The pause before the next accept after a failed one, for instance for want of file descriptors.
const RETRY: Duration = Duration::from_millis(100);

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
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
];

/// The connection of a request, which may last.
#[derive(Clone)]
pub struct Lasting {
    room: Arc<Semaphore>,
    lasts: Arc<AtomicBool>,
}

impl Lasting {
    /// Lets this connection last, if there is room for one more of these.
    pub fn room(&self) -> Option<OwnedSemaphorePermit> {
        let room = Arc::clone(&self.room).try_acquire_owned().ok()?;
        self.lasts.store(true, Ordering::Relaxed);
        Some(room)
    }
}

/// What every request goes through.
#[derive(Clone)]
struct Gate {
    /// The names under which this server may be asked, besides addresses. If none, under all.
    names: Option<Arc<[String]>>,
    counts: Arc<Counts>,
}

/// Answers for ever.
pub async fn run(listener: TcpListener, hosts: Vec<String>, served: Served) {
    // Nobody but a browser on this machine reaches a loopback address; and no page of another site
    // may use that browser under a name of its own.
    let is_near = listener.local_addr().is_ok_and(|it| it.ip().is_loopback());
    let names = (is_near || !hosts.is_empty()).then_some(hosts);
    let counts = Arc::clone(&served.counts);
    let gate = Gate {
        names: names.map(Arc::from),
        counts: Arc::clone(&counts),
    };
    let routes = routes(gate, served);
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let streams = Arc::new(Semaphore::new(MOST_STREAMS));
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let (routes, counts) = (routes.clone(), Arc::clone(&counts));
                let lasting = Lasting {
                    room: Arc::clone(&streams),
                    lasts: Arc::default(),
                };
                tokio::spawn(async move {
                    counts.connections.fetch_add(1, Ordering::Relaxed);
                    converse(stream, routes, lasting).await;
                    counts.connections.fetch_sub(1, Ordering::Relaxed);
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "no connection could be accepted");
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

fn routes(gate: Gate, served: Served) -> Router {
    Router::new()
        .route("/", get(page::page))
        .route("/{file}", get(page::asset))
        .route("/metrics", get(api::metrics))
        .route("/livez", get(api::live))
        .route("/readyz", get(api::ready))
        .route("/api/v1/roles", get(api::roles))
        .route("/api/v1/roles/{role}", get(api::role))
        .route("/api/v1/instances", get(api::instances))
        .route("/api/v1/history", get(api::history))
        .route("/api/v1/events", get(events::events))
        .route("/api/v1/openapi.json", get(api::openapi))
        .route("/api/v1/leader/{role}/{instance}", get(api::leader))
        .fallback(async || Problem::not_found("there is nothing at this path"))
        .method_not_allowed_fallback(async || {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD")
        })
        .with_state(served)
        .layer(middleware::map_response(understood))
        .layer(middleware::from_fn_with_state(gate, guarded))
}

async fn converse(stream: TcpStream, routes: Router, lasting: Lasting) {
    let lasts = Arc::clone(&lasting.lasts);
    let routes = routes.layer(Extension(lasting));
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(UNREAD));
    let service = TowerToHyperService::new(routes);
    let conversation = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_buf_size(MOST_BYTES)
        .max_headers(MOST_HEADERS)
        .keep_alive(false)
        .serve_connection(TokioIo::new(Box::pin(stream)), service);
    // A client that breaks off or is too slow needs no answer.
    let over = async {
        tokio::time::sleep(LONGEST).await;
        if lasts.load(Ordering::Relaxed) {
            tokio::time::sleep(LONGEST_STREAM).await;
        }
    };
    tokio::select! {
        _ = conversation => {}
        () = over => {}
    }
}

/// Makes a problem of what axum itself refuses: a path that it can't read.
async fn understood(response: Response) -> Response {
    let status = response.status();
    let kind = response.headers().get(CONTENT_TYPE);
    let is_text = kind.is_some_and(|it| it.as_bytes().starts_with(b"text/plain"));
    if !status.is_client_error() || !is_text {
        return response;
    }
    let text = axum::body::to_bytes(response.into_body(), 4096).await;
    let text = text.unwrap_or_default();
    Problem::new(status, String::from_utf8_lossy(&text)).into_response()
}

/// Refuses requests under a name that is not this server's, and sets the headers of each answer.
async fn guarded(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    let mut hosts = request.headers().get_all(HOST).iter();
    let (host, second) = (hosts.next(), hosts.next());
    // A target with a name of its own overrides the header.
    let host = match request.uri().authority() {
        Some(name) => Some(name.as_str()),
        None => host.and_then(|host| host.to_str().ok()),
    };
    let mut response = if second.is_some() {
        Problem::bad_request("the header Host stands there twice").into_response()
    } else if gate.allows(host) {
        next.run(request).await
    } else {
        let why = "this server is not known by that name: see --host";
        Problem::new(StatusCode::MISDIRECTED_REQUEST, why).into_response()
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

impl Gate {
    /// Addresses are no names: for them nobody else's name server answers.
    fn allows(&self, host: Option<&str>) -> bool {
        let Some(names) = &self.names else {
            return true;
        };
        let host = host.and_then(|host| host.parse::<Authority>().ok());
        let Some(host) = host else { return false };
        let name = host.host();
        let address = name.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        address.unwrap_or(name).parse::<IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || names.iter().any(|it| it.eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_own_names_are_allowed_and_no_others() {
        let gate = |names: Option<&str>| Gate {
            names: names.map(|name| [name.to_owned()].into()),
            counts: Arc::default(),
        };
        let near = gate(Some("leaders.example.org"));
        for host in [
            "127.0.0.1:8642",
            "[::1]:8642",
            "[::1]",
            "localhost",
            "LOCALHOST:1",
            "Leaders.example.org:443",
        ] {
            assert!(near.allows(Some(host)), "{host}");
        }
        for host in [
            "evil.example.org:8642",
            "127.0.0.1.example.org",
            "",
            "[localhost",
        ] {
            assert!(!near.allows(Some(host)), "{host}");
        }
        assert!(!near.allows(None));
        assert!(gate(None).allows(None));
    }
}
