//! Leader election for control planes, over NATS JetStream Key-Value.
//!
//! An application registers a [`RoleHandler`] per role with a [`RoleManager`]. Across all instances
//! of the application exactly one runs each role's handler at a time. The instances elect it over
//! NATS, and all roles of an instance share one NATS connection.
//!
//! Start with [`RoleManager::builder`]. A handler gets a [`Term`]. The term shows when to stop,
//! whether the lease still lasts, and the [`FencingToken`] for systems that compare it. Its
//! [`FencedStore`] keeps state that only the newest term can change. Use a [`RoleHandle`] to ask
//! about a role from the outside. An [`Observer`] watches the roles of a bucket without taking part
//! in elections. Every setting is in [`RoleConfig`], [`GroupConfig`] and [`ManagerConfig`], and on
//! the page about [configuration](docs::configuration).
//!
//! A [`Group`] gives each of thousands of shards, or each of some jobs, one owner among the
//! instances, with one lease for all that an instance owns ([more](docs::groups)). A
//! [`GroupHandle`] tells the owners.
//!
//! The module [`docs`] has all pages, sorted by the question that they answer.
//! [Coming from client-go, Consul or etcd](docs::migrating) has what corresponds.
//!
//! ```no_run
//! use nats_elect::{BoxError, RoleConfig, RoleManager, Term, handler_fn};
//!
//! # async fn run() -> Result<(), BoxError> {
//! let manager = RoleManager::builder()
//!     .servers("nats://127.0.0.1:4222")
//!     .bucket("leaders")
//!     .role("scheduler", RoleConfig::default(), handler_fn(|term: Term| async move {
//!         term.cancelled().await; // lead until then
//!         Ok(())
//!     }))
//!     .start()
//!     .await?;
//! manager.run_until(tokio::signal::ctrl_c()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Examples
//!
//! In a checkout, `cargo run --example NAME` runs one of them:
//!
//! | example | shows |
//! | --- | --- |
//! | `control_plane` | three roles on three instances, and what goes wrong in real life |
//! | `sharded` | 256 shards on six processes that are killed, paused and restarted |
//! | `single_role`, `shared_state` | the least program; a handler and the application around it |
//! | `store` | state that only the newest term can change |
//! | `axum`, `routing` | an HTTP application that leads; one that passes requests on to owners |
//! | `spread` | jobs with handlers of their own, spread over instances |
//! | `health`, `observe`, `admin`, `signing`, `opentelemetry` | what their names say |
//! | `fenced_sqlite`, `fenced_postgres` | a late write that a database refuses |
//! | `chaos` | a cluster broken in every way, and a judge |
//!
//! # Threads
//!
//! Elections, lease timers and the NATS connection run on a thread of their own. Handlers run on
//! the runtime on which [`RoleManagerBuilder::start`] was called. A handler that blocks that
//! runtime costs no role its lease, however few threads the runtime has, because nothing that a
//! lease needs runs there.
//!
//! [Health checks](RoleHandler::healthy), if an application has any, do run there. While the
//! runtime stands still they are not counted, except against the very handler that blocks it.
//!
//! # What is guaranteed
//!
//! [A table](docs::guarantees) lists what you can rely on, what ensures it, and the conditions for
//! it. [The protocol](docs::protocol) explains the reasons. [Fencing](docs::fencing) keeps late
//! writes of an old leader out.
//!
//! # Security
//!
//! [`RoleManagerBuilder`], [`AuthConfig`] and [`TlsConfig`] set authentication and encryption.
//! [`ElectionsConfig::with_env`] takes them, and every other setting, from the environment. The page
//! about [security](docs::security) describes which permissions to grant to each user. With the
//! crate `nats-elect-signing` leaders sign what they lead, and others verify it: see
//! [signing](docs::signing).
//!
//! # Operating it
//!
//! - [`Observer`] reports the leader of each role [without taking part](docs::observing) in
//!   elections.
//! - [`admin`](mod@admin) asks running instances for their status, and has them step down, pause,
//!   resume and cordon. It also ends the wait for a lease whose holder is gone
//!   ([more](docs::admin)).
//! - [`EventsConfig`] has leader changes published on NATS and kept, and [`History`] reads them.
//!   Each term has a [`CorrelationId`] in logs, spans and [events](docs::events).
//! - [`METRICS`] lists the [metrics](docs::metrics). Rules, alerts and a dashboard are in `deploy`,
//!   and there is a [`runbook`].
//! - [`RoleManager::probe`] checks whether an instance is alive and ready. The feature `health`
//!   serves that [over HTTP](docs::health).
//! - The [command](docs::cli) `nats-elect` shows and changes all this from a shell, and runs any
//!   command while it leads.
//!
//! [Operations](docs::operations) helps with planning and on-call work: the choice of the ttl,
//! upgrades, maintenance of NATS, and backup.
//!
//! # Features
//!
//! - `health`: health and metrics over HTTP, for orchestrators; see [`health`].
//! - `testing`: unit tests of handlers [without a server](docs::testing).
#![forbid(unsafe_code)]
// Items that need a feature say so on docs.rs.
#![cfg_attr(docsrs, feature(doc_cfg))]

const _: () = assert!(
    !nats_elect_core::HAS_MUTATIONS,
    "the feature `__mutations` of nats-elect-core is for its own tests"
);

mod access;
mod actors;
pub mod admin;
mod backoff;
mod broadcasts;
mod clock;
mod error;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
#[path = "../fuzz/properties/mod.rs"]
pub mod fuzzing;
mod group;
#[cfg(feature = "health")]
pub mod health;
mod history;
pub mod last_will;
#[doc(hidden)]
pub mod limits;
#[doc(hidden)]
pub mod lock;
mod manager;
mod metrics;
mod model;
mod observer;
// For this project's command.
#[doc(hidden)]
pub mod permissions;
mod repeated;
mod role;
mod store;
#[cfg(all(test, unix))]
#[path = "../tests/it/support/mod.rs"]
#[expect(dead_code, reason = "a part of it serves the tests in this crate")]
mod support;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(all(test, unix))]
mod tests;

#[cfg(test)]
extern crate self as nats_elect;

/// The NATS client. [`ManagerConfig::connect`] returns its connection, and [`admin::AdminClient`]
/// and [`History`] take one.
///
/// So the version of async-nats is a part of this crate's interface. A version that Cargo takes for
/// incompatible, such as 0.52 after 0.51, comes with a new major version of this crate. Use this
/// re-export, or depend on a compatible version.
pub use async_nats;

pub use crate::error::Error;
pub use crate::group::Group;
pub use crate::history::History;
pub use crate::last_will::LastWillStatus;
pub use crate::manager::{
    GroupHandle, GroupReadiness, Probe, Readiness, Release, RoleHandle, RoleManager,
    RoleManagerBuilder, RoleReadiness, StopOptions,
};
pub use crate::metrics::{METRICS, Metric};
pub use crate::model::admin::LastFailure;
pub use crate::model::config::{
    AdminConfig, AuthConfig, ConfigError, ElectionsConfig, EventsConfig, GroupConfig,
    LastWillConfig, ManagerConfig, MemberConfig, Overrun, RoleConfig, Secret, Storage, Takeover,
    TlsConfig,
};
pub use crate::model::leader_event::{LeaderChange, LeaderEvent};
pub use crate::model::statement::LeaderStatement;
pub use crate::model::status::RoleStatus;
pub use crate::observer::{
    Change, ChangeCause, FollowedGroups, GroupProblem, Observed, ObservedGroup, ObservedGroups,
    ObservedMember, ObservedUnit, Observer, ObserverBuilder, RoleChange, Standing, UnitKind,
    UnitStanding, WatchStatus,
};
pub use crate::role::{
    BoxError, BoxHandler, FencedBatch, FencedEntry, FencedError, FencedStore, GroupEvent,
    RoleHandler, StepDown, SteppedDown, Term, TermError, UnitOwner, handler_fn, try_handler_fn,
};
pub use crate::store::Denied;
// For this project's command.
#[doc(hidden)]
pub use crate::actors::TWO_APPLICATIONS;
#[doc(hidden)]
pub use crate::model::config::{HealthSettings, RetrySettings, RoleSettings};
#[doc(hidden)]
pub use crate::model::unit_explanation::{UnitChoice, UnitExplanation};
#[doc(hidden)]
pub use crate::store::{BucketNote, BucketReview};
#[doc(hidden)]
pub use crate::store::{events_stream, inbox_prefix};
#[doc(hidden)]
pub use nats_elect_core::duration;
pub use nats_elect_core::event::{
    BucketRequest, Distrust, EndCause, Event, FailureKind, Outcome, Vacancy, WaitReason,
};
pub use nats_elect_core::handoff::Handoff;
#[doc(hidden)]
pub use nats_elect_core::name::{BucketName, InstanceId};
pub use nats_elect_core::name::{GroupName, NameError, RoleName, UnitName};
pub use nats_elect_core::peer::Refusal;
pub use nats_elect_core::shard::shard_of;
pub use nats_elect_core::status::{ConnectionStatus, LeaderInfo, RoleState};
pub use nats_elect_core::token::{CorrelationId, FencingToken, LeaseToken};
#[doc(hidden)]
pub use nats_elect_core::{assignment::LONGEST_LEASE, whole};

/// The runbook for on-call engineers: the meaning of each alert of `deploy/prometheus`, and the
/// steps to take. It contains no code.
#[cfg(doc)]
#[doc = include_str!("../docs/runbook.md")]
#[doc = include_str!("docs/links.html")]
pub mod runbook {}

/// The pages of the folder `docs`. Their examples are compiled with the tests.
#[cfg(doc)]
pub mod docs;

/// The README's examples are compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
