//! The settings that users write, and the checked values that follow from them.
//!
//! [`RoleConfig`] and [`ManagerConfig`] hold the settings of a program or a configuration file.
//! Unset durations derive from the ttl. [`RoleConfig::settings`] checks every rule and resolves the
//! settings to [`RoleSettings`], which the core runs on. So the values of a [`RoleSettings`] always
//! fit together.

mod access;
mod admin;
mod elections;
mod environment;
mod events;
mod group;
mod last_will;
mod manager;
mod overrides;
mod secret;
mod subjects;
mod unknown;

pub(crate) use access::HIDDEN;
pub use access::{AuthConfig, TlsConfig};
pub(crate) use admin::check_prefix;
pub use admin::{AdminConfig, DEFAULT_SUBJECT_PREFIX};
pub use elections::ElectionsConfig;
pub(crate) use elections::table_overridden;
pub(crate) use environment::listed;
pub use events::EventsConfig;
pub(crate) use group::MOST_SHARDS;
pub use group::{GroupConfig, MemberConfig};
pub use last_will::LastWillConfig;
pub use manager::{ManagerConfig, Storage};
pub use nats_elect_core::config::{
    ConfigError, HealthSettings, Overrun, RetrySettings, RoleConfig, RoleSettings, Takeover,
};
pub(crate) use overrides::{Environment, TableOfName};
pub use secret::Secret;
