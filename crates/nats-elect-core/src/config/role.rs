//! What users set for a role.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The default of [`RoleConfig::claim_delay`].
pub const DEFAULT_CLAIM_DELAY: Duration = Duration::ZERO;

/// How one role is elected and led. The defaults suit a control plane on a replicated NATS cluster.
///
/// Durations are written like `15s` or `1m 30s` in configuration files. Those left unset derive from [`ttl`](Self::ttl), which is
/// often the only one worth setting; [`settings`](Self::settings) tells what they come to and checks that all fit together.
///
/// All instances that stand for a role should have the same ttl. It is not needed for safety, since each record carries its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RoleConfig {
    /// How long a lease lasts without renewal, hence about how long a role stays without a leader after a crash.
    /// Default 15 s; 100 ms to 1 h, in whole milliseconds, since records carry it so.
    ///
    /// Below 10 s on a replicated bucket an ordinary change of the stream's leader in NATS may cost a leader its lease;
    /// see [`RoleSettings::warnings`](super::RoleSettings::warnings).
    #[serde(with = "humantime_serde")]
    pub ttl: Duration,

    /// Time between renewals of the lease. Default: a fifth of ttl, at most 1 s.
    /// At least 10 ms, at most a third of ttl: one lost renewal must not end a term.
    #[serde(with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub heartbeat_interval: Option<Duration>,

    /// How long one request to NATS may take before it counts as lost and its outcome is read back.
    /// Default: half a heartbeat. At least 1 ms, less than a heartbeat: the answer is due before the next renewal.
    #[serde(with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub request_timeout: Option<Duration>,

    /// How long a leader goes on while NATS is out of reach. Unset: as long as its lease lasts, so that the loss of one NATS node
    /// is ridden through; set it to stop earlier. At least two heartbeats (one late heartbeat is no outage), at most a day.
    /// The lease always ends a term, however long the grace period is.
    #[serde(with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub disconnect_grace_period: Option<Duration>,

    /// How long a handler may take to wind down. Default: a fifth of ttl, at most 3 s. At least 10 ms.
    ///
    /// It is taken from the end of the lease: a leader without a fresh renewal is cancelled this much before its deadline.
    /// Therefore it must leave room for two heartbeats: `stop_budget + drift margin + 2 × heartbeat ≤ ttl`.
    #[serde(with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub stop_budget: Option<Duration>,

    /// How long the role stays out after its handler has ended, before it stands again; doubles with each consecutive failure
    /// up to [`max_cooldown`](Self::max_cooldown). Default: two heartbeats. At least 1 ms: a failing handler must not spin.
    #[serde(with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub cooldown: Option<Duration>,

    /// The limit of the doubling. Default: 30 s, or the cooldown if that is longer. At least the cooldown, at most a day.
    #[serde(with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub max_cooldown: Option<Duration>,

    /// The upper bound of the random delay, uniformly drawn, before a candidate claims a free role. It spreads the candidates, so
    /// that some see the winner before they try. Default 0, by measurement (`benches/handoff`): with three candidates any
    /// delay only costs time, and even among a hundred it takes 20 ms to thin the herd. At most ttl.
    #[serde(with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub claim_delay: Option<Duration>,

    /// Which instance should rather lead: higher is preferred. Default 0; any value. Whether it decides anything is for
    /// [`takeover`](Self::takeover) to say.
    pub priority: i64,

    /// Whether this instance takes the role over from a living leader of lower priority. Default [`Takeover::Never`]. A leader agrees
    /// to the request of any instance of higher priority, whatever is set here; between equal priorities nothing changes hands.
    pub takeover: Takeover,

    /// How long this instance must have been standing, and have seen the same leader of lower priority, before it asks for the
    /// role. Default: ttl. At least a heartbeat, at most a day.
    ///
    /// It is what keeps two instances from playing ping-pong: an instance whose term ended starts anew after its cool-down, which
    /// doubles while its handler fails, and must be well for so long before it asks again.
    #[serde(with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub takeover_hysteresis: Option<Duration>,

    /// When leadership is proven again beyond the heartbeats.
    pub fencing: FencingConfig,

    /// When a leader's health is checked, and when it must go.
    pub health: HealthConfig,

    /// How failed requests are tried again, within the lease.
    pub retry: RetryConfig,

    /// What happens if a handler does not end when it is aborted. Default [`Overrun::Abort`].
    pub overrun: Overrun,

    /// Whether a stopped manager frees the role for the others at once. Default true.
    /// If false the record stays, and its lease runs out: for a restart that should find its role unclaimed.
    pub delete_on_stop: bool,

    /// How many bytes the role may keep by `Term::store()`. Unset: as many as the bucket has room for, so that one role can fill it, and the
    /// account, for all. At least 1 KiB. The library counts and refuses, so it holds for whoever writes by it; what is counted, and
    /// what that guarantees, is told with `FencedStore`. All instances of the role should have the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_limit: Option<u64>,

    /// What the role's record says about this instance, for people and observers: a region, an address.
    /// Default empty; at most 4 KiB as JSON, since each heartbeat carries it.
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

/// When leadership is proven by a compare-and-set renewal beyond the regular heartbeats.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct FencingConfig {
    /// How old the last proof may be before `Term::authorize` asks for a new one, and the period of the validation in the
    /// background. Default: a third of ttl, at least a heartbeat. At least a heartbeat, since each renewal is a proof; at most a day.
    #[serde(with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub validation_interval: Option<Duration>,

    /// Whether `Term::authorize` always asks NATS, however young the last proof. Default false: it costs a round trip each time.
    pub validate_on_critical_ops: bool,
}

/// Health checks of a leading handler that has a `RoleHandler::healthy` of its own; after enough failures in a row it
/// winds down and frees the role.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct HealthConfig {
    /// Time between checks. Default: a third of ttl, at least a heartbeat. 10 ms to a day.
    #[serde(with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub interval: Option<Duration>,

    /// How long one check may take before it counts as failed; time in which the runtime of the handlers stands still does not count.
    /// Default: half the interval.
    /// At least 1 ms, at most the interval: checks do not overlap.
    #[serde(with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,

    /// How many checks in a row must fail before the leader goes. Default 3; at least 1.
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

/// How requests that failed for a passing reason are tried again: exponential backoff with jitter, always within the lease.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RetryConfig {
    /// After how many consecutive failures the circuit breaker opens; it never gives up. Default 10; at least 1.
    pub max_attempts: u32,

    /// The first pause. Default 50 ms; at least 1 ms, at most [`max_backoff`](Self::max_backoff).
    #[serde(with = "humantime_serde")]
    pub initial_backoff: Duration,

    /// The longest pause, before jitter. Default 5 s; at most an hour, so that a recovered server is found.
    #[serde(with = "humantime_serde")]
    pub max_backoff: Duration,

    /// By how much each pause is longer than the one before. Default 2; 1 (constant) to 10.
    pub backoff_multiplier: f64,

    /// By which part of itself a pause may randomly be shorter or longer, so that instances do not retry in step.
    /// Default 0.1; 0 to 1.
    pub jitter: f64,
}

impl Default for RetryConfig {
    fn default() -> Self {
        Self {
            max_attempts: 10,
            initial_backoff: Duration::from_millis(50),
            max_backoff: Duration::from_secs(5),
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
    /// It waits until the role is free.
    #[default]
    Never,
    /// It asks the leader to hand over. The leader winds its handler down first, so no two ever act at once. A leader that does not
    /// answer, or knows no requests, keeps the role.
    Cooperative,
    /// It asks, and after this time claims the role over the living leader by compare-and-set.
    ///
    /// **Two may act at once then**, until the old leader sees the new record: a round trip or two if it is in touch with NATS, its
    /// whole lease if it is not. The other is this instance, or whoever leads after it within that lease. Only fencing protects what both
    /// write to. An instance that is not well forces nothing, nor one that knows that NATS lost writes. At least `stop_budget` + 2 heartbeats, at most
    /// a day.
    Forced {
        /// How long after the first request.
        #[serde(with = "humantime_serde")]
        after: Duration,
    },
}

/// What happens if an aborted handler still runs at the lease's deadline, because it blocks its thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Overrun {
    /// Reports it and waits: the role stays draining here and is not released, but another instance may claim it once the lease is
    /// over. Only fencing protects against what the blocked handler still does.
    #[default]
    Abort,
    /// Ends the process at the deadline: no two handlers ever overlap, at the price of every other role of this process.
    Exit,
}

/// Setters to chain from [`Default`]; each sets the field of its name. To unset a duration, assign `None` to the field.
macro_rules! setters {
    ($config:ident { $($field:ident: $given:ty => $value:expr;)* }) => {
        impl $config {
            $(
                #[doc = concat!("Sets [`", stringify!($field), "`](field@Self::", stringify!($field), ").")]
                #[must_use]
                pub fn $field(mut self, $field: $given) -> Self {
                    self.$field = $value;
                    self
                }
            )*
        }
    };
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
