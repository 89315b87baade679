//! The settings of groups, and of the lease that an instance keeps for all that it owns of them.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{ConfigError, RoleConfig, RoleSettings};
use nats_elect_core::duration::exact;
use nats_elect_core::group::{HANDLER, LONGEST_LEASE, MOST_LABELS};
use nats_elect_core::setters;
use nats_elect_core::text::printable;

/// The shortest lease of a member. A watch that has gone silent is noticed after 2.5 s.
const SHORTEST_LEASE: Duration = Duration::from_secs(3);

/// The lease that an instance keeps for all units that it owns, of all its groups in the bucket.
///
/// In configuration files, durations are written like `15s`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct MemberConfig {
    /// How long the lease lasts without renewal. It is about the time for which the units of an
    /// instance have no owner after it crashed. Default 15 s. 3 s to 60 s.
    #[serde(with = "humantime_serde")]
    pub ttl: Duration,

    /// How long a unit's handler may take to wind down before it is aborted. Default: a fifth of
    /// ttl, at most 3 s.
    #[serde(with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub stop_budget: Option<Duration>,

    /// Whether `Term::authorize` always asks NATS, however recent the last proof is. Default false. If
    /// not, it asks if the last proof is older than a third of ttl.
    pub validate_on_critical_ops: bool,

    /// What [`Group::requires`](crate::Group::requires) and [`prefers`](crate::Group::prefers) look
    /// for, such as `disk=ssd`. At most 32, each of 1 to 255 printable characters. Default: none.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub labels: BTreeSet<String>,

    /// How many units of each group this instance owns at most. Units that find no place have no
    /// owner. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_units: Option<u32>,
}

impl Default for MemberConfig {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(15),
            stop_budget: None,
            validate_on_critical_ops: false,
            labels: BTreeSet::new(),
            max_units: None,
        }
    }
}

/// What plans are made from, of one instance.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seat {
    pub labels: BTreeSet<String>,
    pub max_units: Option<u32>,
}

setters!(MemberConfig {
    ttl: Duration => ttl;
    stop_budget: Duration => Some(stop_budget);
    validate_on_critical_ops: bool => validate_on_critical_ops;
    max_units: u32 => Some(max_units);
});

impl MemberConfig {
    /// Adds one of the [`labels`](field@Self::labels).
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.labels.insert(label.into());
        self
    }

    /// Checks what plans are made from.
    ///
    /// # Errors
    /// Returns the first broken rule.
    pub(crate) fn seat(&self) -> Result<Seat, ConfigError> {
        if self.labels.len() > MOST_LABELS {
            let rule = format!("must be at most {MOST_LABELS}");
            let count = self.labels.len().to_string();
            return Err(ConfigError::new("member.labels", count, rule));
        }
        let is_label = |label: &&String| {
            !label.is_empty() && printable(label) == **label && !label.starts_with(HANDLER)
        };
        if let Some(label) = self.labels.iter().find(|label| !is_label(label)) {
            let rule = "must be 1 to 255 printable characters each, and not begin with `handler=`";
            return Err(ConfigError::new("member.labels", printable(label), rule));
        }
        Ok(Seat {
            labels: self.labels.clone(),
            max_units: self.max_units,
        })
    }

    /// Checks every rule and fills in every default.
    ///
    /// # Errors
    /// Returns the first broken rule.
    pub(crate) fn settings(&self) -> Result<RoleSettings, ConfigError> {
        if !(SHORTEST_LEASE..=LONGEST_LEASE).contains(&self.ttl) {
            let (least, most) = (exact(SHORTEST_LEASE), exact(LONGEST_LEASE));
            let rule = format!("must be {least} to {most} for a member of groups");
            return Err(ConfigError::new(
                "member.ttl",
                exact(self.ttl).to_string(),
                rule,
            ));
        }
        let mut role = RoleConfig::default();
        role.ttl = self.ttl;
        role.stop_budget = self.stop_budget;
        role.validate_on_critical_ops = self.validate_on_critical_ops;
        role.settings().map_err(|error| {
            let ConfigError {
                field, value, rule, ..
            } = error;
            ConfigError::new(format!("member.{field}"), value, rule)
        })
    }
}
