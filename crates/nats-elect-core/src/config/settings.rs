//! A role's resolved settings.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Overrun, Takeover};
use crate::duration::exact;

/// The first pause before a failed request is tried again.
pub(super) const FIRST_BACKOFF: Duration = Duration::from_millis(50);

/// A role's settings with every default filled in and every rule checked.
/// [`RoleConfig::settings`](super::RoleConfig::settings) makes them.
///
/// Some fields are settings of [`RoleConfig`](super::RoleConfig), the others follow from them. Nothing
/// checks them again: an explorer may set times that no configuration allows.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RoleSettings {
    /// How long a lease lasts without renewal.
    pub ttl: Duration,
    /// The time between renewals.
    pub heartbeat: Duration,
    /// How long one request may take.
    pub request_timeout: Duration,
    /// How long a leader goes on while it cannot reach NATS. `None`: as long as its lease lasts.
    pub grace: Option<Duration>,
    /// How long a handler may take to wind down.
    pub stop_budget: Duration,
    /// How long the instance stays out after its handler has ended.
    pub cooldown: Duration,
    /// The limit of the doubling of `cooldown`.
    pub max_cooldown: Duration,
    /// The upper bound of the random delay before a claim.
    pub claim_delay: Duration,
    /// The instance's priority: a higher one is preferred.
    pub priority: i64,
    /// Whether this instance takes the role over from a leader of lower priority.
    pub takeover: Takeover,
    /// How long this instance must have seen such a leader before it asks for the role.
    pub takeover_hysteresis: Duration,
    /// The age of the last proof of leadership at which a new one is needed.
    pub validation_interval: Duration,
    /// Whether `Term::authorize` always asks NATS.
    pub validate_on_critical_ops: bool,
    /// Health checks.
    pub health: HealthSettings,
    /// Retries.
    pub retry: RetrySettings,
    /// The reaction to an aborted handler that still runs at the deadline.
    pub overrun: Overrun,
    /// Whether a stopped manager frees the role.
    pub delete_on_stop: bool,
    /// The limit on the bytes that the role keeps by `Term::store()`.
    pub data_limit: Option<u64>,
    /// Facts about this instance in the role's record.
    pub meta: BTreeMap<String, String>,
}

/// Health checks with every default filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HealthSettings {
    /// The time between checks.
    pub interval: Duration,
    /// How long one check may take.
    pub timeout: Duration,
    /// How many checks in a row must fail before the leader gives up the role.
    pub max_consecutive_failures: u32,
}

/// How requests are tried again that failed for a transient reason: exponential backoff with
/// jitter, always within the lease.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RetrySettings {
    /// The first pause. Pauses double.
    pub initial_backoff: Duration,
    /// The longest pause.
    pub max_backoff: Duration,
    /// The part of a pause by which it may randomly be shorter or longer, so that instances do not
    /// retry in step.
    pub jitter: f64,
}

impl Default for RetrySettings {
    fn default() -> Self {
        Self {
            initial_backoff: FIRST_BACKOFF,
            max_backoff: Duration::from_secs(4),
            jitter: 0.1,
        }
    }
}

impl RoleSettings {
    /// The time by which a leader's deadline comes before the end of its lease: 2 % of the ttl, at
    /// least 5 ms.
    ///
    /// It covers clocks that each run within ±1 % of true time. The leader's clock may be slow by
    /// that much while a contender's is fast.
    pub fn drift_margin(&self) -> Duration {
        drift_margin(self.ttl)
    }

    /// How long before the deadline a handler that has not ended is aborted: a tenth of the stop
    /// budget within 5 to 100 ms, but at most half of it.
    ///
    /// The abort may take this time to reach the handler's task.
    pub fn abort_allowance(&self) -> Duration {
        (self.stop_budget / 10)
            .clamp(Duration::from_millis(5), Duration::from_millis(100))
            .min(self.stop_budget / 2)
    }

    /// How long a leader that agreed may take to hand over: the stop budget, a heartbeat for the
    /// request and a heartbeat for the release.
    pub fn handoff_time(&self) -> Duration {
        self.stop_budget + self.heartbeat * 2
    }

    /// How long the other candidates leave a role to the heir that a release names: a heartbeat, in
    /// which a claim can be tried twice.
    pub fn handoff_hold(&self) -> Duration {
        self.heartbeat
    }

    /// The latest time at which another candidate claims the role of a crashed leader, counted from
    /// that leader's last heartbeat: `ttl + claim_delay`.
    ///
    /// A contender counts a full ttl from the moment when it received the last record, then waits
    /// at most the claim delay. Add the round trips: the record's way to the contender, then claim
    /// and fence, each within the request timeout on a healthy cluster. Add up to 1 % of the ttl if
    /// the contender's clock is slow, and 10 ms for each heir that is gone as well, half a
    /// heartbeat more if all three are. On average the last heartbeat was half a heartbeat before the
    /// crash, so counted from the crash it is that much shorter. A leader that *stops* frees the
    /// role at once, so none of this applies.
    pub fn worst_case_failover(&self) -> Duration {
        self.ttl.saturating_add(self.claim_delay)
    }

    /// Warnings about settings that are allowed but probably not intended, for a bucket with that
    /// many replicas. Each gives its reason.
    pub fn warnings(&self, replicas: usize) -> Vec<String> {
        let mut warnings = Vec::new();
        if replicas > 1 && self.ttl < Duration::from_secs(10) {
            warnings.push(format!(
                "`ttl` is {}, below 10s on a bucket with {replicas} replicas: when NATS loses the node that leads the bucket's stream, \
                 nothing can be written for 4 to 6 seconds, so a leader may lose its lease although it is alive",
                exact(self.ttl)
            ));
        }
        if let Some(grace) = self.grace.filter(|&grace| grace > self.ttl) {
            warnings.push(format!(
                "`disconnect_grace_period` is {}, longer than `ttl` ({}): the lease ends first, so it has no effect",
                exact(grace),
                exact(self.ttl)
            ));
        }
        warnings
    }
}

pub(crate) fn drift_margin(ttl: Duration) -> Duration {
    (ttl / 50).max(Duration::from_millis(5))
}
