//! A role's settings: what users write, and what it comes to.
//!
//! [`RoleConfig`] is what a program or a configuration file says. Unset durations derive from the ttl.
//! [`RoleConfig::settings`] checks every rule and resolves it to [`RoleSettings`], which the election runs on. The values of
//! a `RoleSettings` fit together.

mod role;
mod rules;
mod settings;
#[cfg(test)]
mod tests;

pub use role::{
    DEFAULT_CLAIM_DELAY, FencingConfig, HealthConfig, Overrun, RetryConfig, RoleConfig, Takeover,
};
pub use rules::{DAY, ensure, range};
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
    /// An error about a field, its value and the rule that it breaks.
    pub fn new(
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
