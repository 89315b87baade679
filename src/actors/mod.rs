//! The actors: they turn messages into inputs of the election and its effects into work.
//!
//! ```text
//! supervisor ─┬─ connection monitor   the connection, the bucket, what becomes of them
//!             ├─ bucket watch         one watch over all role keys
//!             ├─ courier              questions of other instances
//!             ├─ herald               publishes who leads, if that is wished
//!             ├─ admin service        requests of those who operate this instance
//!             └─ election × role      one state machine each
//! ```
//!
//! They live on a thread of their own, so that no handler, however it blocks, can cost a role its lease. No handler of
//! theirs waits for NATS: requests are spawned, and their answers come back as messages.

mod admin;
mod announce;
mod connection;
mod courier;
mod election;
mod floodgate;
mod herald;
mod latest;
mod messages;
mod monitor;
mod pace;
mod reign;
mod routes;
mod staff;
mod supervisor;
mod thread;
mod trouble;
mod vouching;
mod watch;

pub(crate) use connection::{Connection, StartFailure, lasting, problem, tuned};
pub(crate) use herald::HeraldSetup;
pub(crate) use messages::{ElectionMsg, Link, MonitorMsg, SupervisorMsg};
pub(crate) use monitor::{MonitorActor, MonitorSetup};
pub(crate) use pace::Pace;
pub(crate) use routes::Routes;
pub(crate) use thread::{ElectionThread, Setup};
pub(crate) use vouching::Vouching;
