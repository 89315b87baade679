//! `nats-elect exec`, as processes on a real server: killed, paused and cut off, it never runs its
//! command twice at a time.

mod alerts;
mod command;
mod faults;
mod history;
mod http;
mod instance;
mod last_will;
mod last_will_drill;
mod listening;
#[path = "../../../../../tests/it/prometheus/server.rs"]
mod prometheus;
mod relatives;
mod reports;
mod running;
mod several;
mod slots;
mod soak;
mod typed;
mod waiting;

use std::path::PathBuf;
use std::time::Duration;

use history::History;
use nats_elect_testing::NatsServer;

use crate::programs;

/// A lease that tests can wait for.
const TTL: Duration = Duration::from_millis(1500);
/// A command that ends is started again, under a lease that does not end by itself in a test.
const AGAIN: [&str; 6] = [
    "--ttl",
    "30s",
    "--restart",
    "always",
    "--restart-delay",
    "20ms",
];
/// A server of its own for one test, and an empty history.
fn scene() -> (NatsServer, History) {
    (NatsServer::start().expect("a server"), History::new())
}

/// The folder `deploy` of the repository.
fn deploy() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}
