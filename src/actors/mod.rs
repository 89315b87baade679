//! The actors: they turn messages into inputs of the election and its effects into work.
//!
//! ```text
//! supervisor ─┬─ connection monitor   the connection, the bucket, what becomes of them
//!             ├─ bucket watch         one watch over all role keys
//!             ├─ peers                requests of other instances
//!             ├─ publisher            publishes who leads, if that is configured
//!             ├─ admin service        requests of those who operate this instance
//!             └─ election × role      one state machine each
//! ```
//!
//! They live on a thread of their own, so that no handler, however it blocks, can cost a role its lease. No handler of
//! theirs waits for NATS: requests are spawned, and their answers come back as messages.

mod admin;
mod announce;
mod children;
mod connection;
mod election;
mod lasting_failure;
mod latest_task;
mod leaderless;
mod linked;
mod messages;
mod monitor;
mod peers;
mod publisher;
mod rate_limit;
mod routes;
mod signatures;
mod supervisor;
mod thread;
mod watch;
mod watch_backoff;

pub(crate) use connection::{Connection, StartFailure, lasting, problem, tuned};
pub(crate) use messages::{ElectionMsg, Link, MonitorMsg, SupervisorMsg};
pub(crate) use monitor::{MonitorActor, MonitorSetup};
pub(crate) use publisher::PublisherSetup;
pub(crate) use routes::Routes;
pub(crate) use signatures::Signatures;
pub(crate) use thread::{ElectionThread, Setup};
pub(crate) use watch_backoff::WatchBackoff;
