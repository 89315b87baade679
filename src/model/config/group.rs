//! The settings of groups, and of the lease that an instance keeps for all that it owns of them.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{ConfigError, FencingConfig, HealthConfig, RoleConfig, RoleSettings};
use nats_elect_core::duration::{self, exact};
use nats_elect_core::group::policy::MOST_WEIGHT;
use nats_elect_core::group::{HANDLER, LONGEST_LEASE, MOST_LABELS};
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
    #[serde(with = "duration::text")]
    pub ttl: Duration,

    /// The time between renewals. Default: a fifth of ttl, at most 1 s. At most a third of ttl.
    #[serde(
        with = "duration::text::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub heartbeat_interval: Option<Duration>,

    /// How long one request to NATS may take. Default: half a heartbeat.
    #[serde(
        with = "duration::text::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub request_timeout: Option<Duration>,

    /// How long a unit's handler may take to wind down before it is aborted. Default: a fifth of
    /// ttl, at most 3 s.
    #[serde(
        with = "duration::text::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub stop_budget: Option<Duration>,

    /// When the ownership of a unit is proved again, in addition to the heartbeats.
    pub fencing: FencingConfig,

    /// When the health of units is checked whose handlers implement
    /// [`RoleHandler::healthy`](crate::RoleHandler::healthy). After enough failures in a row the
    /// unit moves to another instance, if one may take it.
    pub health: HealthConfig,

    /// What [`Group::requires`](crate::Group::requires) and [`prefers`](crate::Group::prefers) look
    /// for, such as `disk=ssd`. At most 32, each of 1 to 255 printable characters. Default: none.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub labels: BTreeSet<String>,

    /// How much work this instance takes, compared with the others. Default 1,000, as for each
    /// instance. 1 to 1,000,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u32>,

    /// How many units of each group this instance owns at most. Units that find no place have no
    /// owner. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_units: Option<u32>,
}

impl Default for MemberConfig {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(15),
            heartbeat_interval: None,
            request_timeout: None,
            stop_budget: None,
            fencing: FencingConfig::default(),
            health: HealthConfig::default(),
            labels: BTreeSet::new(),
            capacity: None,
            max_units: None,
        }
    }
}

/// What plans are made from, of one instance.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seat {
    pub labels: BTreeSet<String>,
    pub capacity: Option<u32>,
    pub max_units: Option<u32>,
}

impl MemberConfig {
    /// Sets [`ttl`](field@Self::ttl).
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets [`heartbeat_interval`](field@Self::heartbeat_interval).
    #[must_use]
    pub const fn heartbeat_interval(mut self, interval: Duration) -> Self {
        self.heartbeat_interval = Some(interval);
        self
    }

    /// Sets [`request_timeout`](field@Self::request_timeout).
    #[must_use]
    pub const fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = Some(timeout);
        self
    }

    /// Sets [`stop_budget`](field@Self::stop_budget).
    #[must_use]
    pub const fn stop_budget(mut self, budget: Duration) -> Self {
        self.stop_budget = Some(budget);
        self
    }

    /// Sets [`health`](field@Self::health).
    #[must_use]
    pub fn health(mut self, health: HealthConfig) -> Self {
        self.health = health;
        self
    }

    /// Adds one of the [`labels`](field@Self::labels).
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.labels.insert(label.into());
        self
    }

    /// Sets [`capacity`](field@Self::capacity).
    #[must_use]
    pub const fn capacity(mut self, capacity: u32) -> Self {
        self.capacity = Some(capacity);
        self
    }

    /// Sets [`max_units`](field@Self::max_units).
    #[must_use]
    pub const fn max_units(mut self, units: u32) -> Self {
        self.max_units = Some(units);
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
        if let Some(capacity) = self.capacity.filter(|it| !(1..=MOST_WEIGHT).contains(it)) {
            let rule = format!("must be 1 to {MOST_WEIGHT}");
            let capacity = capacity.to_string();
            return Err(ConfigError::new("member.capacity", capacity, rule));
        }
        Ok(Seat {
            labels: self.labels.clone(),
            capacity: self.capacity,
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
        role.heartbeat_interval = self.heartbeat_interval;
        role.request_timeout = self.request_timeout;
        role.stop_budget = self.stop_budget;
        role.fencing = self.fencing.clone();
        role.health = self.health.clone();
        role.settings().map_err(|error| {
            let ConfigError {
                field, value, rule, ..
            } = error;
            ConfigError::new(format!("member.{field}"), value, rule)
        })
    }
}
