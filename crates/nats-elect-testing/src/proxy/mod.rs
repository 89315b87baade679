//! A network that can be made to fail.

mod connection;
mod faults;
mod line;
mod protocol;

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
use super::TestingError;

/// Which way bytes flow through a [`TcpProxy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server: publishes, subscriptions, `PING`s.
    ToServer,
    /// From the server to the client: acks, messages, `PONG`s.
    ToClient,
}

/// A TCP proxy on loopback, between a NATS client and a server, that can be told to misbehave.
///
/// It runs on a thread of its own: a blocked test runtime does not stall it, and its methods neither block nor need a
/// runtime. Each fault takes effect before its method returns: afterwards not a byte passes that the fault forbids, on
/// new and existing connections alike. Faults add up until [`TcpProxy::restore`].
///
/// Faults that single out acks need to read the protocol, so they do nothing on connections with TLS; all the others work
/// there too. At most 8 MiB are held back per connection and direction, then the sender's writes stall.
///
/// A client that learns addresses from the server leaves the proxy when it reconnects. The servers of this module
/// advertise none; with others, switch that off in the client.
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
    stop: Option<DropGuard>,
    thread: Option<JoinHandle<()>>,
}

/// What passes through all connections of a proxy.
#[derive(Debug, Default)]
struct Counters {
    connections: AtomicUsize,
    acks_seen: AtomicUsize,
    acks_held: AtomicUsize,
    acks_dropped: AtomicUsize,
}

impl TcpProxy {
    /// Listens on a free loopback port and passes everything to `upstream`: `nats://host:port` or `host:port`.
    ///
    /// The upstream need not be up; connections are closed while it is not.
    ///
    /// # Errors
    ///
    /// If `upstream` has no port, or the operating system grants no socket or thread.
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
        let template = Connection::new(upstream.into(), watched, counters.clone());
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
            stop: Some(stop.drop_guard()),
            thread: Some(thread),
        })
    }

    /// Where clients connect: `nats://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Closes all connections, losing what was on its way, and closes new ones as soon as they are made.
    pub fn cut(&self) {
        self.faults.send_modify(Faults::cut);
    }

    /// Lets bytes arrive `delay` after they were sent, in that direction. Zero ends the delay.
    ///
    /// Like a long wire: order is kept, throughput too, and the time is counted from each byte's own sending.
    pub fn delay(&self, direction: Direction, delay: Duration) {
        self.faults
            .send_modify(|faults| faults.way_mut(direction).delay = delay);
    }

    /// Lets a share of the messages, drawn at random, arrive `by` later in that direction, and with each all that was sent after it: as
    /// TCP does where packets are lost. Comes on top of [`TcpProxy::delay`]. A share of zero ends it.
    ///
    /// To the server, what one read brings counts as one message.
    pub fn stall(&self, direction: Direction, share: f64, by: Duration) {
        self.faults
            .send_modify(|faults| faults.way_mut(direction).stall(share, by));
    }

    /// Lets acks of `JetStream` publishes arrive `delay` after they were sent; everything else overtakes them.
    ///
    /// `PONG`s, messages of subscriptions and answers of the `JetStream` API pass at once. [`Duration::MAX`] holds acks
    /// until [`TcpProxy::restore`]. Zero ends the delay. Beside a [`TcpProxy::delay`] the longer one counts.
    pub fn delay_acks(&self, delay: Duration) {
        self.faults
            .send_modify(|faults| faults.acks = AckFault::Delay(delay));
    }

    /// Loses acks of `JetStream` publishes, those that are held included; everything else passes.
    pub fn drop_acks(&self) {
        self.faults
            .send_modify(|faults| faults.acks = AckFault::Drop);
    }

    /// Goes silent in both directions and closes nothing: a partition, as the two sides see it.
    ///
    /// New connections are accepted and get no further. What is sent meanwhile, an end of a connection included, arrives
    /// after [`TcpProxy::restore`], as TCP would retransmit it.
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

    /// Ends all faults. What was held back flows on, in order.
    pub fn restore(&self) {
        self.faults.send_modify(Faults::clear);
    }

    /// Client connections that are open now.
    pub fn connections(&self) -> usize {
        self.counters.connections.load(Ordering::SeqCst)
    }

    /// Acks of `JetStream` publishes that the server has sent, whatever became of them.
    pub fn acks_seen(&self) -> usize {
        self.counters.acks_seen.load(Ordering::SeqCst)
    }

    /// Acks that a fault is holding back now. Await it to know that a fault has hit.
    pub fn acks_held(&self) -> usize {
        self.counters.acks_held.load(Ordering::SeqCst)
    }

    /// Acks that [`TcpProxy::drop_acks`] has lost.
    pub fn acks_dropped(&self) -> usize {
        self.counters.acks_dropped.load(Ordering::SeqCst)
    }
}

impl Drop for TcpProxy {
    /// Closes all connections.
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed; here it would hide the test's own.
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
            // Out of file descriptors, or the client is gone already.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

fn address_of(upstream: &str) -> Result<&str, TestingError> {
    let address = upstream.rsplit("://").next().unwrap_or_default();
    match address.rsplit_once(':') {
        Some((_, port)) if port.parse::<u16>().is_ok() => Ok(address),
        _ => Err(TestingError::BadUpstream {
            upstream: upstream.to_owned(),
        }),
    }
}
