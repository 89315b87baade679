//! Health over HTTP, for orchestrators and load balancers.
//!
//! | path | 200 means | 503 means |
//! | --- | --- | --- |
//! | `/livez` | the instance meets its own deadlines | it does not: restart the process |
//! | `/readyz` | it can take part in its elections, and has joined its groups | it can't, or has not joined yet |
//! | `/leaderz/{role}` | this instance leads the role now | it does not lead the role |
//! | `/metrics` | the text that the closure given to [`metrics`] returned | |
//!
//! The body of a 503 of `/livez` gives the reason: see [`Error::NotLive`](crate::Error::NotLive). `/readyz`
//! answers 503 if NATS or the bucket is out of reach for longer than a lease, if so many requests in a
//! row have failed that `problem` says why (a full disk takes reads and no writes), if the instance
//! has not joined its groups, or if it has stopped. `/leaderz/{role}` answers 404 if the instance does not take part in the election of
//! the role.
//!
//! [`metrics`]: HealthServerBuilder::metrics
//!
//! Bodies are JSON, except for `/metrics`. Each connection is closed after one answer. Role names
//! stand in the path as they are, not percent-encoded.
//!
//! Leadership is not readiness: a follower is as ready as the leader. A service that should reach
//! only the leader asks `/leaderz/{role}`. A request that it routes may still arrive after the
//! leader has changed. This can't be avoided, so guard critical operations with the fencing token.
//!
//! There is no authentication and no TLS. The server serves 64 connections at a time, each for 10 s
//! at most. Any client that reaches the port learns the leaders, and can keep the orchestrator from
//! being answered. Restrict access to the port.

mod answer;
#[doc(hidden)]
pub mod connections;

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio_util::sync::{CancellationToken, DropGuard};

use self::answer::Asked;
use crate::manager::Probe;

/// The number of connections that are served at once. More connections wait.
const MOST_CONNECTIONS: usize = 64;
/// The time that a client has to send its request. A slower client is cut off.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest time of a connection. A connection is for one request. A client that does not read
/// its answer must not block others.
const LONGEST: Duration = Duration::from_secs(10);

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
    /// Returns a builder for a server.
    pub fn builder() -> HealthServerBuilder {
        HealthServerBuilder::default()
    }

    /// Listens on this address, for [`serve`](HealthServerBuilder::serve). Clients that connect before
    /// that wait.
    ///
    /// Call it before the manager starts: if it fails afterwards, an application that returns the
    /// error drops its manager, and its roles wait for their leases.
    ///
    /// # Errors
    /// Returns an error that names the address if it can't be resolved or listened on.
    pub async fn bind(address: impl ToSocketAddrs + fmt::Debug) -> io::Result<TcpListener> {
        let named = |error: io::Error| {
            let text = format!("can't listen on {address:?} for health: {error}");
            io::Error::new(error.kind(), text)
        };
        TcpListener::bind(&address).await.map_err(named)
    }

    /// Returns the address on which it listens, with the actual port if port 0 was requested.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl HealthServerBuilder {
    /// Sets the text that `/metrics` returns, for example the rendered text of the handle of
    /// `metrics-exporter-prometheus`. Default: there is no such path.
    #[must_use]
    pub fn metrics(mut self, render: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.metrics = Some(Arc::new(render));
        self
    }

    /// Listens, and answers on the runtime on which this method is called.
    ///
    /// The runtime should have threads that handlers can't block. Otherwise `/livez` reports the
    /// state of those threads, not of the elections.
    ///
    /// To find out that an address is taken before the manager starts, use
    /// [`bind`](HealthServer::bind) and [`serve`](Self::serve) instead.
    ///
    /// # Errors
    /// The same as [`bind`](HealthServer::bind).
    pub async fn start(
        self,
        address: impl ToSocketAddrs + fmt::Debug,
        probe: Probe,
    ) -> io::Result<HealthServer> {
        self.serve(HealthServer::bind(address).await?, probe)
    }

    /// Answers on a socket that listens already, on the runtime on which this method is called.
    ///
    /// ```no_run
    /// use nats_elect::RoleManager;
    /// use nats_elect::health::HealthServer;
    ///
    /// # async fn run() -> Result<(), nats_elect::BoxError> {
    /// let socket = HealthServer::bind("127.0.0.1:8080").await?; // before the manager starts
    /// let manager = RoleManager::builder().with_env().start().await?;
    /// let health = HealthServer::builder().serve(socket, manager.probe())?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns an error if the socket has no address.
    ///
    /// # Panics
    /// Panics outside of a runtime.
    pub fn serve(self, listener: TcpListener, probe: Probe) -> io::Result<HealthServer> {
        let address = listener.local_addr()?;
        let asked = Arc::new(Asked {
            probe,
            metrics: self.metrics,
        });
        let end = CancellationToken::new();
        let ended = end.clone();
        tokio::spawn(end.clone().run_until_cancelled_owned(async move {
            let conversed = |(stream, _)| converse(stream, Arc::clone(&asked), ended.clone());
            connections::serve(MOST_CONNECTIONS, || listener.accept(), conversed).await;
        }));
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

async fn converse(stream: TcpStream, asked: Arc<Asked>, ended: CancellationToken) {
    let service = service_fn(|request| {
        let asked = Arc::clone(&asked);
        async move { Ok::<_, Infallible>(asked.answer(&request).await) }
    });
    let conversation = connections::http(PATIENCE)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // A client that breaks off or is too slow needs no answer.
    let conversation = tokio::time::timeout(LONGEST, conversation);
    let _ = ended.run_until_cancelled(conversation).await;
}
