//! Operating running instances from elsewhere, over NATS: who is there, what each of them does, and having a role change hands.
//!
//! Every manager answers, unless its [`AdminConfig`](crate::AdminConfig) says otherwise. [`AdminClient`] asks. It takes part in no
//! election and needs no access to the bucket; what its NATS user needs is in `docs/security.md`.
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
//! for member in admin.fleet(Duration::from_secs(2)).await? {
//!     match member.report {
//!         Ok(report) => println!("{} has {} roles", member.instance, report.roles.len()),
//!         Err(error) => println!("{}: {error}", member.instance),
//!     }
//! }
//! // Whoever leads the scheduler hands it to node-2, if it still leads in the term that was seen.
//! let leader = admin.leader("scheduler", Duration::from_secs(2)).await?;
//! let how = StepDown::to("node-2").expecting(leader.fencing_token);
//! let down = admin.step_down(&leader.instance, "scheduler", how).await?;
//! println!("{:?}", down.handoff);
//! # Ok(())
//! # }
//! ```
//!
//! # What an answer is worth
//!
//! It is what the instance says, or whoever else may answer on these subjects: no proof of who leads. Nothing here decides about
//! leadership, and no request can make two instances lead but [`AdminClient::end_lease`], where its caller is wrong about who is gone.

mod client;
mod discovery;
mod error;
mod instance;

pub use self::client::{AdminClient, LeaderFound, Member};
pub use self::error::AdminError;
pub use self::instance::Instance;
pub use crate::model::admin::{
    FailureReport, InstanceReport, LeaderReport, ProblemCode, RoleReport,
};
