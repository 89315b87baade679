//! A role's settings, as written and as resolved.
//!
//! [`RoleConfig`] is what a program or a configuration file sets. Unset durations derive from the
//! ttl. [`RoleConfig::settings`] checks every rule and returns [`RoleSettings`], whose values fit
//! together. The election runs on those.

mod role;
mod rules;
mod settings;
#[cfg(test)]
mod tests;

pub use role::{Overrun, RoleConfig, Takeover};
// For this project's crates.
#[doc(hidden)]
pub use rules::{DAY, check_meta, data_limit, ensure, range};
pub(crate) use settings::drift_margin;
pub use settings::{HealthSettings, RetrySettings, RoleSettings};

/// The error for a setting that breaks a rule. Nothing was started or changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` is {value}, but {rule}")]
#[non_exhaustive]
pub struct ConfigError {
    /// The setting, as a dotted path in the configuration that was checked: `events.keep`.
    pub field: String,
    /// Its value in the form of a configuration file, without credentials.
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
