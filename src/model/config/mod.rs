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
mod role;
mod rules;
mod secret;
mod settings;
#[cfg(test)]
mod tests;

pub(crate) use access::HIDDEN;
pub use access::{AuthConfig, TlsConfig};
pub(crate) use admin::check_prefix;
pub use admin::{AdminConfig, DEFAULT_SUBJECT_PREFIX};
pub(crate) use environment::listed;
pub use events::EventsConfig;
pub use manager::{ManagerConfig, Storage};
pub use role::{
    DEFAULT_CLAIM_DELAY, FencingConfig, HealthConfig, Overrun, RetryConfig, RoleConfig, Takeover,
};
pub use secret::Secret;
pub use settings::{HealthSettings, RoleSettings};

/// A setting that breaks a rule. Nothing was started or changed; mend the setting and try again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` is {value}, but {rule}")]
#[non_exhaustive]
pub struct ConfigError {
    /// The setting, as a dotted path in the configuration that was checked: `retry.jitter`.
    pub field: String,
    /// Its value, written as a configuration file would; without credentials.
    pub value: String,
    /// The rule that it breaks, in words.
    pub rule: String,
}

impl ConfigError {
    pub(crate) fn new(
        field: impl Into<String>,
        value: impl Into<String>,
        rule: impl Into<String>,
    ) -> Self {
        Self {
            field: field.into(),
            value: value.into(),
            rule: rule.into(),
        }
    }
}
