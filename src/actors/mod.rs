//! The actors: they turn messages into inputs of the election and its effects into work.
//!
//! ```text
//! supervisor ─┬─ connection monitor   the connection, the bucket, what becomes of them
//!             ├─ bucket watch         one watch over all role keys
//!             ├─ courier              questions of other instances
//!             └─ election × role      one state machine each
//! ```
//!
//! They live on a thread of their own, so that no handler, however it blocks, can cost a role its lease. No handler of
//! theirs waits for NATS: requests are spawned, and their answers come back as messages.

mod announce;
mod connection;
mod courier;
mod election;
mod floodgate;
mod messages;
mod monitor;
mod routes;
mod supervisor;
mod thread;
mod vouching;
mod watch;

pub(crate) use connection::{Connection, StartFailure, lasting, problem, tuned};
pub(crate) use messages::{ElectionMsg, Link, SupervisorMsg};
pub(crate) use routes::Routes;
pub(crate) use thread::{ElectionThread, Setup};
