//! The rules for settings, for each one and for all together.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::settings::{FIRST_BACKOFF, drift_margin};
use super::{ConfigError, HealthSettings, RetrySettings, RoleConfig, RoleSettings};
use crate::duration::{exact, rounded_up};

const MIN_TTL: Duration = Duration::from_millis(100);
const MAX_TTL: Duration = Duration::from_secs(60 * 60);
/// Faster renewals would only load NATS: round trips and timers are in milliseconds.
const MIN_HEARTBEAT: Duration = Duration::from_millis(10);
/// Half of it is the smallest abort allowance.
const MIN_STOP_BUDGET: Duration = Duration::from_millis(10);
/// The resolution of timers. As a lower bound it also excludes zero.
const TICK: Duration = Duration::from_millis(1);
/// A day. A longer setting is taken for a mistake, and the limit keeps clock arithmetic from
/// overflow.
pub const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const MAX_BACKOFF: Duration = Duration::from_secs(60 * 60);
/// Where the doubling of a short cool-down ends.
const MAX_COOLDOWN: Duration = Duration::from_secs(30);
const MAX_META_BYTES: usize = 4096;
/// The least limit on a role's data, in bytes.
const LEAST_DATA: u64 = 1024;

impl RoleConfig {
    /// Checks every rule and fills in every default.
    ///
    /// # Errors
    ///
    /// The first broken rule, with the field that was set, its value and the rule. Defaults never
    /// break a rule by themselves.
    pub fn settings(&self) -> Result<RoleSettings, ConfigError> {
        let ttl = self.ttl;
        range("ttl", ttl, MIN_TTL, MAX_TTL)?;
        ensure(
            ttl.subsec_nanos().is_multiple_of(1_000_000),
            "ttl",
            exact(ttl),
            "must be a whole number of milliseconds, as the record carries it in milliseconds",
        )?;

        let heartbeat = self
            .heartbeat_interval
            .unwrap_or((ttl / 5).min(Duration::from_secs(1)));
        at_least("heartbeat_interval", heartbeat, MIN_HEARTBEAT, "")?;
        ensure(
            heartbeat.saturating_mul(3) <= ttl,
            "heartbeat_interval",
            exact(heartbeat),
            format_args!("`ttl` ({}) must be at least 3 heartbeats", exact(ttl)),
        )?;
        let two_heartbeats = heartbeat.saturating_mul(2);

        if let Some(grace) = self.disconnect_grace_period {
            at_least(
                "disconnect_grace_period",
                grace,
                two_heartbeats,
                " (2 heartbeats)",
            )?;
            ensure(
                grace <= DAY,
                "disconnect_grace_period",
                exact(grace),
                format_args!("must be at most {}", exact(DAY)),
            )?;
        }

        let stop_budget = self
            .stop_budget
            .unwrap_or((ttl / 5).min(Duration::from_secs(3)));
        let drift = drift_margin(ttl);
        at_least("stop_budget", stop_budget, MIN_STOP_BUDGET, "")?;
        ensure(
            stop_budget
                .saturating_add(drift)
                .saturating_add(two_heartbeats)
                <= ttl,
            "stop_budget",
            exact(stop_budget),
            format_args!(
                "stop_budget + drift margin ({}) + 2 heartbeats ({}) must be at most `ttl` ({})",
                exact(drift),
                exact(two_heartbeats),
                exact(ttl)
            ),
        )?;

        let cooldown = self.cooldown.unwrap_or(two_heartbeats);
        range("cooldown", cooldown, TICK, DAY)?;
        range("max_backoff", self.max_backoff, FIRST_BACKOFF, MAX_BACKOFF)?;
        let third = (ttl / 3).max(heartbeat);

        Ok(RoleSettings {
            ttl,
            heartbeat,
            request_timeout: heartbeat / 2,
            grace: self.disconnect_grace_period,
            stop_budget,
            cooldown,
            max_cooldown: cooldown.max(MAX_COOLDOWN),
            // By measurement: with three candidates any delay only costs time, and even among a
            // hundred it takes 20 ms until fewer candidates try.
            claim_delay: Duration::ZERO,
            priority: self.priority,
            takeover: self.takeover,
            takeover_hysteresis: ttl,
            validation_interval: third,
            validate_on_critical_ops: self.validate_on_critical_ops,
            health: HealthSettings {
                interval: third,
                timeout: third / 2,
                max_consecutive_failures: 3,
            },
            retry: RetrySettings {
                max_backoff: self.max_backoff,
                ..RetrySettings::default()
            },
            overrun: self.overrun,
            delete_on_stop: self.delete_on_stop,
            data_limit: data_limit(self.data_limit)?,
            meta: {
                check_meta(&self.meta)?;
                self.meta.clone()
            },
        })
    }
}

/// Checks the limit on the data of a role or of a unit.
///
/// # Errors
///
/// The limit and the rule, if it is too small.
pub fn data_limit(limit: Option<u64>) -> Result<Option<u64>, ConfigError> {
    if let Some(limit) = limit {
        let rule =
            format_args!("must be at least {LEAST_DATA} bytes: less has no room for a single key");
        ensure(limit >= LEAST_DATA, "data_limit", limit, rule)?;
    }
    Ok(limit)
}

/// Checks the size of metadata.
pub fn check_meta(meta: &BTreeMap<String, String>) -> Result<(), ConfigError> {
    let bytes = serde_json::to_vec(meta).map_or(usize::MAX, |json| json.len());
    ensure(
        bytes <= MAX_META_BYTES,
        "meta",
        format_args!("{bytes} bytes as JSON"),
        format_args!("must be at most {MAX_META_BYTES} bytes, as each heartbeat carries it"),
    )
}

/// Checks that a duration is within bounds, both included.
///
/// # Errors
///
/// The field, its value and the bounds, if it is not.
pub fn range(
    field: &str,
    value: Duration,
    min: Duration,
    max: Duration,
) -> Result<(), ConfigError> {
    ensure(
        (min..=max).contains(&value),
        field,
        exact(value),
        format_args!("must be from {} to {}", exact(min), exact(max)),
    )
}

fn at_least(field: &str, value: Duration, min: Duration, what: &str) -> Result<(), ConfigError> {
    ensure(
        value >= min,
        field,
        exact(value),
        format_args!("must be at least {}{what}", rounded_up(min)),
    )
}

/// Checks a rule.
///
/// # Errors
///
/// The field, its value and the rule, if the rule does not hold.
pub fn ensure(
    holds: bool,
    field: &str,
    value: impl fmt::Display,
    rule: impl fmt::Display,
) -> Result<(), ConfigError> {
    if holds {
        return Ok(());
    }
    Err(ConfigError::new(field, value.to_string(), rule.to_string()))
}
