//! The actors. They turn messages into inputs of the election, and its effects into work.
//!
//! ```text
//! supervisor ─┬─ connection monitor   the state of the connection and of the bucket, grace periods
//!             ├─ bucket watch         one watch over all role keys
//!             ├─ peers                peer requests, from other instances
//!             ├─ publisher            publishes leader changes, if that is configured
//!             ├─ admin service        admin requests, from this instance's operators
//!             ├─ member × group       one state machine each
//!             └─ election × role      one state machine each
//! ```
//!
//! The watch, the peers, the publisher and the admin service are tasks that begin with each link to
//! the bucket, as `linked.rs` has it; the others are actors.
//!
//! The actors live on a thread of their own, so that no handler, however it blocks, can cost a role
//! its lease. No message handler of an actor waits for NATS. Requests are spawned, and their
//! answers come back as messages.

mod admin;
mod announce;
mod asked;
mod children;
mod connection;
mod election;
mod group;
mod health_checks;
mod lasting_failure;
mod latest_task;
mod leaderless;
mod linked;
mod loads;
mod membership;
mod messages;
mod monitor;
mod namesake;
pub(crate) mod outcomes;
mod peers;
mod publisher;
mod rate_limit;
mod routes;
mod signatures;
mod stages;
mod supervisor;
mod thread;
mod watch;
mod watch_backoff;

pub(crate) use connection::{Connection, Own, Target, lasting, problem, tuned};
pub(crate) use linked::{Linked, Reached, attend};
pub(crate) use membership::Groups;
pub(crate) use messages::{ElectionMsg, Link, MonitorMsg, SupervisorMsg};
pub(crate) use monitor::{MonitorActor, MonitorSetup};
pub use namesake::TWO_APPLICATIONS;
pub(crate) use routes::Routes;
pub(crate) use signatures::Signatures;
pub(crate) use supervisor::Supervise;
pub(crate) use thread::ElectionThread;
