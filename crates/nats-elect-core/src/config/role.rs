//! The settings of a role, as users write them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

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
    /// so; at most the max age of the bucket, if it has one.
    ///
    /// On a replicated bucket, keep it at 10 s or more. Below that, an ordinary change of the
    /// stream's leader in NATS may cost a leader its lease; see
    /// [`RoleSettings::warnings`](super::RoleSettings::warnings).
    #[serde(with = "humantime_serde")]
    pub ttl: Duration,

    /// The time between renewals of the lease. Default: a fifth of ttl, at most 1 s. At least 10
    /// ms, at most a third of ttl, so that one lost renewal does not end a term.
    #[serde(with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub heartbeat_interval: Option<Duration>,

    /// How long a leader goes on while it cannot reach NATS. Unset: as long as its lease lasts, so
    /// that it survives the loss of one NATS node. Set it to stop earlier. At least two heartbeats,
    /// because one late heartbeat is no outage; at most a day. The lease always ends a term,
    /// however long the grace period is.
    #[serde(with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub disconnect_grace_period: Option<Duration>,

    /// How long a handler may take to wind down. Default: a fifth of ttl, at most 3 s. At least 10
    /// ms, and it leaves room for two heartbeats: stop budget + drift margin + 2 × heartbeat ≤ ttl.
    ///
    /// It is taken from the end of the lease: the handler of a leader without a confirmed renewal
    /// is cancelled this much before its deadline.
    #[serde(with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub stop_budget: Option<Duration>,

    /// How long the instance stays out after its handler has ended. It doubles with each failure in
    /// a row, up to 30 s, or up to the cool-down itself if that is longer. Default: two heartbeats. At
    /// least 1 ms, so that a failing handler does not spin; at most a day.
    #[serde(with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub cooldown: Option<Duration>,

    /// The instance's priority: a higher one is preferred. Default 0, any value. It is written to the
    /// record. [`takeover`](Self::takeover) tells whether a living leader is replaced for it.
    pub priority: i64,

    /// Whether this instance takes the role over from a living leader of lower priority: `never`, the
    /// default, or `cooperative`. A leader agrees to the request of any instance of higher priority,
    /// whatever is set here, unless it leads by an order or that instance keeps failing. Between equal priorities no role changes hands.
    ///
    /// Before it asks, it must have been a candidate that sees the same leader of lower priority for a
    /// ttl. That keeps two instances from taking the role from each other again and again. After the
    /// end of its term an instance starts from zero, after a cool-down that doubles while its handler
    /// fails. The time doubles, up to 64 times, each time that a leader hands over and this instance
    /// does not come to lead.
    pub takeover: Takeover,

    /// Whether `Term::authorize` always asks NATS, however recent the last proof is. Default false,
    /// because it costs a round trip each time. If not, it asks if the last proof is older than a
    /// third of ttl.
    pub validate_on_critical_ops: bool,

    /// The longest pause before a failed request is tried again. Default 4 s. From 50 ms, which is the
    /// first pause, to an hour, so that a recovered server is found. Pauses double. A claim that
    /// failed is sent again after a second (or the ttl, or this, if that is shorter) at the earliest.
    #[serde(with = "humantime_serde")]
    pub max_backoff: Duration,

    /// The reaction to an aborted handler that still runs at the deadline: `abort`, the default, only
    /// reports it; `exit` ends the process.
    pub overrun: Overrun,

    /// Whether a stopped manager frees the role for the others at once. Default true. If false the
    /// record stays until its lease runs out. That is for a restart that should find its role
    /// unclaimed.
    pub delete_on_stop: bool,

    /// The limit on the bytes that the role keeps by `Term::store()`. At least 1024. Unset: as
    /// many as the bucket has room for, so that one role can fill it, and the account, for all.
    ///
    /// The library counts and refuses, so the limit holds for everything written by it.
    /// `FencedStore` tells what is counted, and what that guarantees. All instances of the role
    /// should have the same limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_limit: Option<u64>,

    /// Facts about this instance in the role's record, for people and observers: a region, an
    /// address. Default empty. At most 4 KiB as JSON, with those of the instance, because each
    /// heartbeat carries them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub meta: BTreeMap<String, String>,
}

impl Default for RoleConfig {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(15),
            heartbeat_interval: None,
            disconnect_grace_period: None,
            stop_budget: None,
            cooldown: None,
            priority: 0,
            takeover: Takeover::default(),
            validate_on_critical_ops: false,
            max_backoff: Duration::from_secs(4),
            overrun: Overrun::default(),
            delete_on_stop: true,
            data_limit: None,
            meta: BTreeMap::new(),
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
    disconnect_grace_period: Duration => Some(disconnect_grace_period);
    stop_budget: Duration => Some(stop_budget);
    cooldown: Duration => Some(cooldown);
    priority: i64 => priority;
    takeover: Takeover => takeover;
    validate_on_critical_ops: bool => validate_on_critical_ops;
    max_backoff: Duration => max_backoff;
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
