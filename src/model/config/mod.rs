//! Settings: what users write, and what it comes to.
//!
//! [`RoleConfig`] and [`ManagerConfig`] are what a program or a configuration file says; unset durations derive from the ttl.
//! [`RoleConfig::settings`] checks every rule and resolves them to [`RoleSettings`], which the core runs on: whoever holds one
//! holds values that fit together.

mod access;
mod admin;
mod environment;
mod events;
mod manager;
mod secret;
mod subjects;

pub(crate) use access::HIDDEN;
pub use access::{AuthConfig, TlsConfig};
pub(crate) use admin::check_prefix;
pub use admin::{AdminConfig, DEFAULT_SUBJECT_PREFIX};
pub(crate) use environment::listed;
pub use events::EventsConfig;
pub use manager::{ManagerConfig, Storage};
pub use nats_elect_core::config::{
    ConfigError, FencingConfig, HealthConfig, HealthSettings, Overrun, RetryConfig, RoleConfig,
    RoleSettings, Takeover,
};
pub use secret::Secret;
