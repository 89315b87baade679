//! The settings of a role, as users write them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::duration;
use crate::setters;

/// How one role is elected and led. The defaults suit a control plane on a replicated NATS cluster.
///
/// In configuration files, durations are written like `15s` or `1m 30s`. Unset durations derive
/// from [`ttl`](Self::ttl), which is often the only one worth setting. [`settings`](Self::settings)
/// fills them in and checks that all fit together.
///
/// All candidates for a role should have the same ttl. Safety does not need that, because each
/// record carries its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RoleConfig {
    /// How long a lease lasts without renewal. It is about the time for which a role has no leader
    /// after a crash. Default 15 s. 100 ms to 1 h, in whole milliseconds, because records carry it
    /// so.
    ///
    /// On a replicated bucket, keep it at 10 s or more. Below that, an ordinary change of the
    /// stream's leader in NATS may cost a leader its lease; see
    /// [`RoleSettings::warnings`](super::RoleSettings::warnings).
    #[serde(with = "duration::text")]
    pub ttl: Duration,

    /// The time between renewals of the lease. Default: a fifth of ttl, at most 1 s. At least 10
    /// ms, at most a third of ttl, so that one lost renewal does not end a term.
    #[serde(
        with = "duration::text::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub heartbeat_interval: Option<Duration>,

    /// How long one request to NATS may take. After that it counts as lost, and its outcome is read
    /// back. Default: half a heartbeat. At least 1 ms, and less than a heartbeat, because the
    /// answer is due before the next renewal.
    #[serde(
        with = "duration::text::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub request_timeout: Option<Duration>,

    /// How long a leader goes on while it cannot reach NATS. Unset: as long as its lease lasts, so
    /// that it survives the loss of one NATS node. Set it to stop earlier. At least two heartbeats,
    /// because one late heartbeat is no outage; at most a day. The lease always ends a term,
    /// however long the grace period is.
    #[serde(
        with = "duration::text::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub disconnect_grace_period: Option<Duration>,

    /// How long a handler may take to wind down. Default: a fifth of ttl, at most 3 s. At least 10
    /// ms.
    ///
    /// It is taken from the end of the lease: the handler of a leader without a confirmed renewal
    /// is cancelled this much before its deadline. Therefore it must leave room for two heartbeats:
    /// `stop_budget + drift margin + 2 × heartbeat ≤ ttl`.
    #[serde(
        with = "duration::text::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub stop_budget: Option<Duration>,

    /// How long the instance stays out after its handler has ended. It doubles with each failure in
    /// a row, up to [`max_cooldown`](Self::max_cooldown). Default: two heartbeats. At least 1 ms,
    /// so that a failing handler does not spin; at most a day.
    #[serde(
        with = "duration::text::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub cooldown: Option<Duration>,

    /// The limit of the doubling. Default: 30 s, or the cooldown if that is longer. At least the
    /// cooldown, at most a day.
    #[serde(
        with = "duration::text::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub max_cooldown: Option<Duration>,

    /// The upper bound of the random delay, uniformly drawn, before a candidate claims a free role.
    /// It spreads the candidates, so that some see the winner before they try. At most ttl.
    ///
    /// The default is 0, by measurement: with three candidates any delay only
    /// costs time. Even among a hundred it takes 20 ms until fewer candidates try.
    #[serde(
        with = "duration::text::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub claim_delay: Option<Duration>,

    /// The instance's priority: a higher one is preferred. Default 0, any value.
    /// [`takeover`](Self::takeover) tells whether it has an effect.
    pub priority: i64,

    /// Whether this instance takes the role over from a living leader of lower priority. Default
    /// [`Takeover::Never`]. A leader agrees to the request of any instance of higher priority,
    /// whatever is set here. Between equal priorities no role changes hands.
    pub takeover: Takeover,

    /// How long this instance must have been a candidate that sees the same leader of lower
    /// priority, before it asks for the role. Default: ttl. At least a heartbeat, at most a day.
    ///
    /// It keeps two instances from taking the role from each other again and again. After the end
    /// of its term an instance starts from zero, after a cool-down that doubles while its handler
    /// fails. It must then be healthy for this long before it asks again. The hysteresis doubles,
    /// up to 64 times, each time that a leader hands over and this instance does not come to lead.
    #[serde(
        with = "duration::text::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub takeover_hysteresis: Option<Duration>,

    /// When leadership is proved again, in addition to the heartbeats.
    pub fencing: FencingConfig,

    /// When a leader's health is checked, and when it must give up the role.
    pub health: HealthConfig,

    /// How failed requests are tried again, within the lease.
    pub retry: RetryConfig,

    /// The reaction to a handler that does not end when it is aborted. Default [`Overrun::Abort`].
    pub overrun: Overrun,

    /// Whether a stopped manager frees the role for the others at once. Default true. If false the
    /// record stays until its lease runs out. That is for a restart that should find its role
    /// unclaimed.
    pub delete_on_stop: bool,

    /// The limit on the bytes that the role keeps by `Term::store()`. At least 1 KiB. Unset: as
    /// many as the bucket has room for, so that one role can fill it, and the account, for all.
    ///
    /// The library counts and refuses, so the limit holds for everything written by it.
    /// `FencedStore` tells what is counted, and what that guarantees. All instances of the role
    /// should have the same limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_limit: Option<u64>,

    /// Facts about this instance in the role's record, for people and observers: a region, an
    /// address. Default empty. At most 4 KiB as JSON, because each heartbeat carries it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub meta: BTreeMap<String, String>,
}

impl Default for RoleConfig {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(15),
            heartbeat_interval: None,
            request_timeout: None,
            disconnect_grace_period: None,
            stop_budget: None,
            cooldown: None,
            max_cooldown: None,
            claim_delay: None,
            priority: 0,
            takeover: Takeover::default(),
            takeover_hysteresis: None,
            fencing: FencingConfig::default(),
            health: HealthConfig::default(),
            retry: RetryConfig::default(),
            overrun: Overrun::default(),
            delete_on_stop: true,
            data_limit: None,
            meta: BTreeMap::new(),
        }
    }
}

/// When leadership is proved by a compare-and-set renewal, in addition to the regular heartbeats.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct FencingConfig {
    /// The age of the last proof at which `Term::authorize` asks for a new one. It is also the
    /// period of the validation in the background. Default: a third of ttl, at least a heartbeat.
    /// At least a heartbeat, because each renewal is a proof; at most a day.
    #[serde(
        with = "duration::text::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub validation_interval: Option<Duration>,

    /// Whether `Term::authorize` always asks NATS, however recent the last proof is. Default false,
    /// because it costs a round trip each time.
    pub validate_on_critical_ops: bool,
}

/// Health checks of a leading handler that implements `RoleHandler::healthy`. After enough failures
/// in a row the handler is wound down and the role freed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct HealthConfig {
    /// The time between checks. Default: a third of ttl, at least a heartbeat. 10 ms to a day.
    #[serde(
        with = "duration::text::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub interval: Option<Duration>,

    /// How long one check may take before it counts as failed. Time for which the runtime of the
    /// handlers is blocked does not count. Default: half the interval. At least 1 ms, and at most
    /// the interval, so that checks do not overlap.
    #[serde(
        with = "duration::text::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub timeout: Option<Duration>,

    /// How many checks in a row must fail before the leader gives up the role. Default 3, at least
    /// 1.
    pub max_consecutive_failures: u32,
}

impl Default for HealthConfig {
    fn default() -> Self {
        Self {
            interval: None,
            timeout: None,
            max_consecutive_failures: 3,
        }
    }
}

/// How requests are tried again that failed for a transient reason: exponential backoff with
/// jitter, always within the lease.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RetryConfig {
    /// The number of consecutive failures of one kind of request (reads, writes of the record, writes
    /// of the fence record) that opens the circuit breaker. Even then attempts never
    /// stop. Default 10, at least 1.
    pub max_attempts: u32,

    /// The first pause. Default 50 ms. At least 1 ms, at most [`max_backoff`](Self::max_backoff).
    #[serde(with = "duration::text")]
    pub initial_backoff: Duration,

    /// The longest pause. Default 4 s. At most an hour, so that a recovered server is found.
    #[serde(with = "duration::text")]
    pub max_backoff: Duration,

    /// The factor by which each pause is longer than the one before. Default 2. From 1 (constant)
    /// to 10.
    pub backoff_multiplier: f64,

    /// The part of a pause by which it may randomly be shorter or longer, so that instances do not
    /// retry in step. Default 0.1. From 0 to 1.
    pub jitter: f64,
}

impl Default for RetryConfig {
    fn default() -> Self {
        Self {
            max_attempts: 10,
            initial_backoff: Duration::from_millis(50),
            max_backoff: Duration::from_secs(4),
            backoff_multiplier: 2.0,
            jitter: 0.1,
        }
    }
}

/// Whether an instance takes a role over from a living leader of lower priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Takeover {
    /// It does not: it waits until the role is free.
    #[default]
    Never,
    /// It asks the leader to hand over. The leader winds its handler down first, so two instances
    /// never act at once. A leader that does not answer, or knows no peer requests, keeps the role.
    Cooperative,
    /// It asks the leader, and after some time claims the role over it by compare-and-set.
    ///
    /// **Two instances may act at once then**, until the old leader sees the new record. That takes
    /// a round trip or two if the old leader reaches NATS, and its whole lease if it does not. The
    /// other one is this instance, or the one that leads after it within that lease. Only fencing
    /// protects data that both write. An instance that is not healthy forces nothing, nor does one
    /// that knows that NATS lost writes.
    Forced {
        /// The time from the first request to the claim. At least `stop_budget` + 2 heartbeats, at
        /// most a day.
        #[serde(with = "duration::text")]
        after: Duration,
    },
}

/// The reaction to an aborted handler that still runs at the lease's deadline, because it blocks
/// its thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Overrun {
    /// Reports it and waits. The role stays draining here and is not released, but another instance
    /// may claim it once the lease is over. Only fencing protects against what the blocked handler
    /// still does.
    #[default]
    Abort,
    /// Ends the process at the deadline. No two handlers ever overlap, but every other role of this
    /// process ends with it.
    Exit,
}

setters!(RoleConfig {
    ttl: Duration => ttl;
    heartbeat_interval: Duration => Some(heartbeat_interval);
    request_timeout: Duration => Some(request_timeout);
    disconnect_grace_period: Duration => Some(disconnect_grace_period);
    stop_budget: Duration => Some(stop_budget);
    cooldown: Duration => Some(cooldown);
    max_cooldown: Duration => Some(max_cooldown);
    claim_delay: Duration => Some(claim_delay);
    priority: i64 => priority;
    takeover: Takeover => takeover;
    takeover_hysteresis: Duration => Some(takeover_hysteresis);
    fencing: FencingConfig => fencing;
    health: HealthConfig => health;
    retry: RetryConfig => retry;
    overrun: Overrun => overrun;
    delete_on_stop: bool => delete_on_stop;
    data_limit: u64 => Some(data_limit);
});

impl RoleConfig {
    /// Adds an entry to [`meta`](field@Self::meta), or replaces the one of that key.
    #[must_use]
    pub fn meta(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.meta.insert(key.into(), value.into());
        self
    }

    /// Adds those of these entries to [`meta`](field@Self::meta) whose keys it does not have. For
    /// this project's crates.
    #[doc(hidden)]
    #[must_use]
    pub fn meta_beneath(mut self, meta: &BTreeMap<String, String>) -> Self {
        for (key, value) in meta {
            let entry = self.meta.entry(key.clone());
            entry.or_insert_with(|| value.clone());
        }
        self
    }
}

setters!(FencingConfig {
    validation_interval: Duration => Some(validation_interval);
    validate_on_critical_ops: bool => validate_on_critical_ops;
});

setters!(HealthConfig {
    interval: Duration => Some(interval);
    timeout: Duration => Some(timeout);
    max_consecutive_failures: u32 => max_consecutive_failures;
});

setters!(RetryConfig {
    max_attempts: u32 => max_attempts;
    initial_backoff: Duration => initial_backoff;
    max_backoff: Duration => max_backoff;
    backoff_multiplier: f64 => backoff_multiplier;
    jitter: f64 => jitter;
});
