//! Leader election for control planes over NATS JetStream Key-Value.
#![forbid(unsafe_code)]

mod actors;
mod clock;
mod election;
mod manager;
mod metrics;
mod model;
mod role;
mod store;
#[cfg(all(feature = "testing", unix))]
pub mod testing;

pub use crate::manager::{
    Error, Release, RoleHandle, RoleManager, RoleManagerBuilder, StepDown, SteppedDown, StopOptions,
};
pub use crate::metrics::{HEARTBEAT_BUCKETS, LEADER_BUCKETS, METRICS, Metric, MetricKind};
pub use crate::model::config::{
    ConfigError, FencingConfig, HealthConfig, ManagerConfig, Overrun, RetryConfig, RoleConfig,
    Storage,
};
pub use crate::model::event::{EndCause, Event, FailureKind, Outcome};
pub use crate::model::name::{BucketName, InstanceId, NameError, NameProblem, RoleName};
pub use crate::model::status::{ConnectionStatus, LeaderInfo, RoleState, RoleStatus};
pub use crate::model::token::{FencingToken, LeaseToken};
pub use crate::role::{BoxError, RoleHandler, Term, TermError, handler_fn};
