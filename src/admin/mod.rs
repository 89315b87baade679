//! Operating running instances remotely, over NATS: list them, ask for their status, and hand over
//! roles.
//!
//! Every manager answers, unless its [`AdminConfig`](crate::AdminConfig) says otherwise.
//! [`AdminClient`] sends the requests. It takes part in no election and needs no access to the
//! bucket. `docs/security.md` lists the permissions that its NATS user needs.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use nats_elect::admin::AdminClient;
//! use nats_elect::{BoxError, StepDown};
//!
//! # async fn run() -> Result<(), BoxError> {
//! let client = async_nats::connect("nats://127.0.0.1:4222").await?;
//! let admin = AdminClient::new(client, "leaders")?;
//! for (instance, report) in admin.fleet(Duration::from_secs(2)).await? {
//!     match report {
//!         Ok(report) => println!("{instance} has {} roles", report.roles.len()),
//!         Err(error) => println!("{instance}: {error}"),
//!     }
//! }
//! // The leader of the scheduler hands it to node-2, if it still leads in the term that was found.
//! let leader = admin.leader("scheduler", Duration::from_secs(2)).await?;
//! let down = admin.step_down_leader(&leader, StepDown::to("node-2")).await?;
//! println!("{:?}", down.handoff);
//! # Ok(())
//! # }
//! ```
//!
//! # How reliable an answer is
//!
//! An answer is the statement of the instance, or of any other client that may answer on these
//! subjects. It does not prove which instance leads. Nothing here decides about leadership. No
//! request can make two instances lead, with one exception: [`AdminClient::end_lease`], if its
//! caller is wrong about the leader that is gone.

mod client;
mod discovery;
mod error;
mod instance;

pub use self::client::{AdminClient, LeaderFound};
pub use self::error::AdminError;
pub use self::instance::Instance;
pub use crate::model::admin::{
    BucketId, GroupReport, InstanceReport, LeaderReport, Problem, ProblemCode, RoleReport,
};
