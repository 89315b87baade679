//! The settings of groups, and of the lease that an instance keeps for all that it owns of them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{ConfigError, FencingConfig, RoleConfig, RoleSettings};
use nats_elect_core::duration::{self, exact};
use nats_elect_core::group::LONGEST_LEASE;

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
}

impl Default for MemberConfig {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(15),
            heartbeat_interval: None,
            request_timeout: None,
            stop_budget: None,
            fencing: FencingConfig::default(),
        }
    }
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
        role.settings().map_err(|error| {
            let ConfigError {
                field, value, rule, ..
            } = error;
            ConfigError::new(format!("member.{field}"), value, rule)
        })
    }
}
