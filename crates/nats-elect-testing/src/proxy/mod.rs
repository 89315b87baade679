//! A network with faults on request.

mod connection;
mod faults;
mod line;
mod protocol;
mod published;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::connection::Connection;
use self::faults::{AckFault, Faults};
use self::published::Transcript;
use super::TestingError;

/// The direction in which bytes flow through a [`TcpProxy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server: publishes, subscriptions, `PING`s.
    ToServer,
    /// From the server to the client: acks, messages, `PONG`s.
    ToClient,
}

/// A TCP proxy on loopback, between a NATS client and a server. Tests can make it fail in several
/// ways.
///
/// The proxy runs on a thread of its own. A blocked test runtime does not stall it, and its methods
/// neither block nor need a runtime. Each fault takes effect before its method returns. Afterwards
/// no byte passes that the fault forbids, on new and existing connections alike. Faults add up
/// until [`TcpProxy::restore`].
///
/// Faults that single out acks need to read the protocol, so they do nothing on connections with
/// TLS. All the others work there too. At most 8 MiB are held back per connection and direction.
/// Then the sender's writes stall.
///
/// A client that learns addresses from the server leaves the proxy when it reconnects. The servers
/// of this crate advertise none. With other servers, switch that off in the client.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
/// use nats_elect_testing::{NatsServer, TcpProxy};
///
/// # fn main() -> Result<(), nats_elect_testing::TestingError> {
/// let server = NatsServer::start()?;
/// let proxy = TcpProxy::start(server.url())?;
/// println!("connect the client to {}", proxy.url());
/// proxy.black_hole(); // the client still believes that it is connected
/// proxy.restore(); // what was held back arrives now
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TcpProxy {
    port: u16,
    faults: watch::Sender<Faults>,
    counters: Arc<Counters>,
    transcript: Arc<Transcript>,
    stop: Option<DropGuard>,
    thread: Option<JoinHandle<()>>,
}

/// The counters of all connections of a proxy.
#[derive(Debug, Default)]
struct Counters {
    connections: AtomicUsize,
    acks_held: AtomicUsize,
    acks_dropped: AtomicUsize,
}

impl TcpProxy {
    /// Listens on a free loopback port and passes everything to `upstream`: `nats://host:port` or
    /// `host:port`.
    ///
    /// The upstream need not be up. Connections are closed while it is not.
    ///
    /// # Errors
    ///
    /// Returns an error if `upstream` has no port, or the operating system grants no socket or
    /// thread.
    pub fn start(upstream: impl Into<String>) -> Result<Self, TestingError> {
        let upstream = upstream.into();
        let upstream = address_of(&upstream)?;
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .map_err(TestingError::io("the proxy cannot listen"))?;
        let failed = || TestingError::io("the proxy cannot start");
        let port = listener.local_addr().map_err(failed())?.port();
        listener.set_nonblocking(true).map_err(failed())?;
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(failed())?;
        let stop = CancellationToken::new();
        let stopped = stop.clone().cancelled_owned();
        let counters = Arc::new(Counters::default());
        let (faults, watched) = watch::channel(Faults::default());
        let transcript = Arc::new(Transcript::default());
        let template = Connection {
            upstream: upstream.into(),
            faults: watched,
            counters: counters.clone(),
            transcript: transcript.clone(),
        };
        let thread = thread::Builder::new()
            .name("nats-elect-proxy".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = accept(listener, template) => {}
                        () = stopped => {}
                    }
                });
            })
            .map_err(failed())?;
        Ok(Self {
            port,
            faults,
            counters,
            transcript,
            stop: Some(stop.drop_guard()),
            thread: Some(thread),
        })
    }

    /// Returns the address to which clients connect: `nats://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Returns the port on which the proxy listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Closes all connections, and loses the data on its way. New connections are closed as soon as
    /// they are made.
    pub fn cut(&self) {
        self.faults.send_modify(Faults::cut);
    }

    /// Lets bytes in that direction arrive `delay` after they were sent. Zero ends the delay.
    ///
    /// The proxy acts like a long wire. It keeps the order and the throughput, and counts the time
    /// from each byte's own sending.
    pub fn delay(&self, direction: Direction, delay: Duration) {
        self.faults
            .send_modify(|faults| faults.way_mut(direction).delay = delay);
    }

    /// Lets a share of the messages in that direction, drawn at random, arrive `by` later.
    /// Everything sent after such a message arrives later with it, as in TCP where packets are
    /// lost. The stall comes on top of [`TcpProxy::delay`]. A share of zero ends it.
    ///
    /// In the direction to the server, the bytes of one read count as one message.
    pub fn stall(&self, direction: Direction, share: f64, by: Duration) {
        self.faults
            .send_modify(|faults| faults.way_mut(direction).stall(share, by));
    }

    /// Holds acks of `JetStream` publishes until [`TcpProxy::restore`]. Everything else overtakes
    /// them: `PONG`s, messages of subscriptions and answers of the `JetStream` API.
    pub fn hold_acks(&self) {
        self.faults
            .send_modify(|faults| faults.acks = AckFault::Hold);
    }

    /// Loses acks of `JetStream` publishes, including those that are held. Everything else passes.
    pub fn drop_acks(&self) {
        self.faults
            .send_modify(|faults| faults.acks = AckFault::Drop);
    }

    /// Goes silent in both directions and closes nothing. To both sides this is a partition.
    ///
    /// New connections are accepted and get no further. Data that is sent meanwhile, including the
    /// end of a connection, arrives after [`TcpProxy::restore`], as TCP would retransmit it.
    pub fn black_hole(&self) {
        self.faults.send_modify(|faults| {
            for direction in [Direction::ToServer, Direction::ToClient] {
                faults.way_mut(direction).silent = true;
            }
        });
    }

    /// Goes silent in one direction, while the other one goes on.
    pub fn black_hole_direction(&self, direction: Direction) {
        self.faults
            .send_modify(|faults| faults.way_mut(direction).silent = true);
    }

    /// Ends all faults. Data that was held back flows on, in order.
    pub fn restore(&self) {
        self.faults.send_modify(Faults::clear);
    }

    /// Begins to record what clients publish, and forgets what was recorded before.
    ///
    /// Connections with TLS can't be read.
    pub fn record(&self) {
        self.transcript.begin();
    }

    /// Returns the subjects of the messages that clients have published since
    /// [`TcpProxy::record`], in their order. Requests are among them.
    pub fn published(&self) -> Vec<String> {
        self.transcript.so_far()
    }

    /// Returns the number of client connections that are open now.
    pub fn connections(&self) -> usize {
        self.counters.connections.load(Ordering::SeqCst)
    }

    /// Returns the number of acks that a fault is holding back now. Await it to know that a fault
    /// has hit.
    pub fn acks_held(&self) -> usize {
        self.counters.acks_held.load(Ordering::SeqCst)
    }

    /// Returns the number of acks that [`TcpProxy::drop_acks`] has lost.
    pub fn acks_dropped(&self) -> usize {
        self.counters.acks_dropped.load(Ordering::SeqCst)
    }
}

impl Drop for TcpProxy {
    /// Closes all connections.
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed. Repeating it here would hide the test's own
            // panic.
            let _ = thread.join();
        }
    }
}

async fn accept(listener: std::net::TcpListener, template: Connection) {
    let listener = TcpListener::from_std(listener).expect("a non-blocking listener in a runtime");
    loop {
        match listener.accept().await {
            Ok((client, _)) => {
                tokio::spawn(template.clone().run(client));
            }
            // The process is out of file descriptors, or the client is gone already.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

fn address_of(upstream: &str) -> Result<&str, TestingError> {
    let address = upstream.rsplit("://").next().unwrap_or_default();
    match address.rsplit_once(':') {
        Some((_, port)) if port.parse::<u16>().is_ok() => Ok(address),
        _ => Err(TestingError::BadAddress(format!(
            "`{upstream}` is no address of a server; give it as `nats://host:port` or `host:port`"
        ))),
    }
}
