//! Health over HTTP, for orchestrators and load balancers.
//!
//! | path | 200 means | 503 means |
//! | --- | --- | --- |
//! | `/livez` | the instance meets its own deadlines | start the process anew: [`NotLive`](crate::NotLive) says why |
//! | `/readyz` | it can take part in its elections | NATS or the bucket is out of reach for longer than a lease, or it has stopped |
//! | `/leaderz/{role}` | this instance leads the role now | it does not; 404 if it does not stand for it |
//! | `/metrics` | what the closure given to [`metrics`](HealthServerBuilder::metrics) returned | |
//!
//! Bodies are JSON, but for `/metrics`. Each connection is closed after one answer. Role names stand in the path as they are, not
//! percent-encoded. Leadership is not readiness: an instance that follows is as ready as the leader. A
//! service that should reach the leader alone asks `/leaderz/{role}`; that a request which it routes arrives after the leader has
//! changed can't be helped, so what is critical is guarded by the fencing token.
//!
//! There is no authentication and no TLS, and 64 connections are served at a time, each for 10 s at most: whoever reaches the
//! port learns who leads, and can keep the orchestrator from being answered. Let only those reach it who are meant to.

mod answer;

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::sync::Semaphore;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::answer::Asked;
use crate::manager::Probe;

/// Connections beyond this wait.
const MOST_CONNECTIONS: usize = 64;
/// A client that takes longer to ask is cut off.
const PATIENCE: Duration = Duration::from_secs(5);
/// A connection is for one request, and is cut off after this time: who does not read its answer must not keep others out.
const LONGEST: Duration = Duration::from_secs(10);
/// Before another connection is accepted after that failed, for want of file descriptors, say.
const RETRY: Duration = Duration::from_millis(100);

type Render = Arc<dyn Fn() -> String + Send + Sync>;

/// Serves an instance's health over HTTP until it is dropped.
#[must_use = "dropping the server ends it"]
#[derive(Debug)]
pub struct HealthServer {
    address: SocketAddr,
    _running: DropGuard,
}

/// How health is served.
#[derive(Clone, Default)]
pub struct HealthServerBuilder {
    metrics: Option<Render>,
}

impl HealthServer {
    /// Begins to put a server together.
    pub fn builder() -> HealthServerBuilder {
        HealthServerBuilder::default()
    }

    /// Where it listens: the port too, if it was asked for port 0.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl HealthServerBuilder {
    /// What `/metrics` returns: for example what the handle of `metrics-exporter-prometheus` renders. Default: there is no
    /// such path.
    #[must_use]
    pub fn metrics(mut self, render: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.metrics = Some(Arc::new(render));
        self
    }

    /// Listens, and answers on the runtime on which this is called.
    ///
    /// The server should have threads that handlers can't block, or `/livez` tells of those, not of the elections.
    ///
    /// # Errors
    /// The address can't be resolved or listened on.
    pub async fn start(
        self,
        address: impl ToSocketAddrs,
        probe: Probe,
    ) -> io::Result<HealthServer> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let asked = Arc::new(Asked {
            probe,
            metrics: self.metrics,
        });
        let end = CancellationToken::new();
        tokio::spawn(
            end.clone()
                .run_until_cancelled_owned(accept(listener, asked, end.clone())),
        );
        Ok(HealthServer {
            address,
            _running: end.drop_guard(),
        })
    }
}

impl fmt::Debug for HealthServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HealthServerBuilder")
            .field("metrics", &self.metrics.is_some())
            .finish()
    }
}

async fn accept(listener: TcpListener, asked: Arc<Asked>, end: CancellationToken) {
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let (asked, end) = (Arc::clone(&asked), end.clone());
                tokio::spawn(async move {
                    end.run_until_cancelled(converse(stream, asked)).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "no connection to the health endpoints could be accepted");
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

async fn converse(stream: TcpStream, asked: Arc<Asked>) {
    let service = service_fn(|request| {
        let asked = Arc::clone(&asked);
        async move { Ok::<_, Infallible>(asked.answer(&request).await) }
    });
    let conversation = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // A client that breaks off, or is too slow, is its own problem.
    let _ = tokio::time::timeout(LONGEST, conversation).await;
}
