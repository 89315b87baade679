//! Every metric that this crate records, in one table. [`labels`] records them.
//!
//! The library installs no exporter. The recorder that the application has set for the `metrics`
//! crate receives them.

mod labels;

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

pub(crate) use labels::{InstanceLabels, Labels};

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A counter only grows.
    Counter,
    /// A gauge goes up and down.
    Gauge,
    /// A histogram is a distribution.
    Histogram,
}

/// The subject of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricScope {
    /// One role on one instance. The metric has the labels `role`, `instance_id` and `bucket`.
    Role,
    /// The instance itself. The metric has the labels `instance_id` and `bucket`.
    Instance,
}

/// The unit of a metric's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetricUnit {
    /// A number of things, or a share of a whole.
    Count,
    /// Seconds.
    Seconds,
}

/// One metric that this crate records.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Metric {
    /// The name.
    pub name: &'static str,
    /// The kind.
    pub kind: MetricKind,
    /// The unit.
    pub unit: MetricUnit,
    /// The subject.
    pub scope: MetricScope,
    /// Labels besides those of the scope. Their values are closed sets.
    pub labels: &'static [&'static str],
    /// Upper bounds of fitting buckets, in the metric's unit. Empty unless the metric is a
    /// histogram.
    pub buckets: &'static [f64],
    /// The meaning of the value.
    pub description: &'static str,
}

/// Upper bounds in seconds for the buckets of `election_heartbeat_duration_seconds`: from a round
/// trip on loopback to one that costs the lease.
pub const HEARTBEAT_BUCKETS: [f64; 12] = [
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
];

/// Upper bounds in seconds for the buckets of `election_leader_duration_seconds`: from a flap to a
/// month.
pub const LEADER_BUCKETS: [f64; 10] = [
    1.0,
    10.0,
    60.0,
    600.0,
    3600.0,
    21_600.0,
    86_400.0,
    259_200.0,
    604_800.0,
    2_592_000.0,
];

/// Buckets for shares of a whole: a request's time, a lease.
const SHARE_BUCKETS: [f64; 11] = [0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0];

/// Buckets for the time without a leader: from a handoff to a lease of an hour.
const GAP_BUCKETS: [f64; 13] = [
    0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 60.0, 3600.0,
];

/// Buckets for a timer's lateness: from a scheduler's tick to a process that was paused.
const LAG_BUCKETS: [f64; 10] = [
    0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5, 10.0,
];

const IS_LEADER: &str = "election_is_leader";
const PAUSED: &str = "election_paused";
const TRANSITIONS: &str = "election_transitions_total";
const FAILURES: &str = "election_failures_total";
const HEARTBEAT: &str = "election_heartbeat_duration_seconds";
const HEARTBEAT_BUDGET: &str = "election_heartbeat_budget_ratio";
const LEADER_DURATION: &str = "election_leader_duration_seconds";
const ACQUIRE: &str = "election_acquire_attempts_total";
const VALIDATION_FAILURES: &str = "election_token_validation_failures_total";
const CONNECTION: &str = "election_connection_status";
const LEASE_REMAINING: &str = "election_lease_remaining_seconds";
const LEASE_SLACK: &str = "election_lease_slack_ratio";
const LEASE_TTL: &str = "election_lease_ttl_seconds";
const HEARTBEAT_INTERVAL: &str = "election_heartbeat_interval_seconds";
const REQUEST_TIMEOUT: &str = "election_request_timeout_seconds";
const STANDING: &str = "election_standing";
const LEADER_KNOWN: &str = "election_leader_known";
const LEADERLESS: &str = "election_leaderless_seconds";
const FAILOVER_GAP: &str = "election_failover_gap_seconds";
const TERMS_ENDED: &str = "election_terms_ended_total";
const FENCING_SEQUENCE: &str = "election_fencing_token_sequence";
const HANDOFFS: &str = "election_handoffs_total";
const HANDOFFS_REFUSED: &str = "election_handoffs_refused_total";
const HEALTH_FAILURES: &str = "election_health_check_failures_total";
const OVERRUNS: &str = "election_handler_overruns_total";
const CIRCUIT_OPEN: &str = "election_circuit_open";
const UNTRUSTED: &str = "election_untrusted_records_total";
const FENCED_WRITES: &str = "election_fenced_writes_total";
const TIMER_LAG: &str = "election_timer_lag_seconds";
const WATCH_RESTARTS: &str = "election_watch_restarts_total";
const INFO: &str = "election_info";

/// Every metric that this crate records.
pub const METRICS: &[Metric] = &[
    Metric {
        name: IS_LEADER,
        kind: MetricKind::Gauge,
        unit: MetricUnit::Count,
        scope: MetricScope::Role,
        labels: &[],
        buckets: &[],
        description: "1 while this instance leads the role, else 0",
    },
    Metric {
        name: PAUSED,
        kind: MetricKind::Gauge,
        unit: MetricUnit::Count,
        scope: MetricScope::Role,
        labels: &[],
        buckets: &[],
        description: "1 while this instance is paused, and stands for no new term, else 0",
    },
    Metric {
        name: TRANSITIONS,
        kind: MetricKind::Counter,
        unit: MetricUnit::Count,
        scope: MetricScope::Role,
        labels: &["from_state", "to_state"],
        buckets: &[],
        description: "Changes of this instance's state in the role's election",
    },
    Metric {
        name: FAILURES,
        kind: MetricKind::Counter,
        unit: MetricUnit::Count,
        scope: MetricScope::Role,
        labels: &["error_type"],
        buckets: &[],
        description: "Failed requests and other failures, by kind",
    },
    Metric {
        name: HEARTBEAT,
        kind: MetricKind::Histogram,
        unit: MetricUnit::Seconds,
        scope: MetricScope::Role,
        labels: &["status"],
        buckets: &HEARTBEAT_BUCKETS,
        description: "From sending a heartbeat to its answer, by outcome",
    },
    Metric {
        name: HEARTBEAT_BUDGET,
        kind: MetricKind::Histogram,
        unit: MetricUnit::Count,
        scope: MetricScope::Role,
        labels: &[],
        buckets: &SHARE_BUCKETS,
        description: "The share of the request timeout that a heartbeat took, whatever its outcome; at 1 it fails",
    },
    Metric {
        name: LEADER_DURATION,
        kind: MetricKind::Histogram,
        unit: MetricUnit::Seconds,
        scope: MetricScope::Role,
        labels: &[],
        buckets: &LEADER_BUCKETS,
        description: "Length of this instance's terms, from promotion to the end of the handler",
    },
    Metric {
        name: ACQUIRE,
        kind: MetricKind::Counter,
        unit: MetricUnit::Count,
        scope: MetricScope::Role,
        labels: &["status"],
        buckets: &[],
        description: "Claims of the role by this instance, by outcome",
    },
    Metric {
        name: VALIDATION_FAILURES,
        kind: MetricKind::Counter,
        unit: MetricUnit::Count,
        scope: MetricScope::Role,
        labels: &[],
        buckets: &[],
        description: "Times this instance's lease could not be proved because somebody else wrote",
    },
    Metric {
        name: CONNECTION,
        kind: MetricKind::Gauge,
        unit: MetricUnit::Count,
        scope: MetricScope::Role,
        labels: &[],
        buckets: &[],
        description: "What of NATS the role can rely on: 2 connected, 1 suspended, 0 lost",
    },
    Metric {
        name: LEASE_REMAINING,
        kind: MetricKind::Gauge,
        unit: MetricUnit::Seconds,
        scope: MetricScope::Role,
        labels: &[],
        buckets: &[],
        description: "Time until this instance's lease ends unless it is renewed, brought up to date at least once a second; 0 if it holds none",
    },
    Metric {
        name: LEASE_SLACK,
        kind: MetricKind::Histogram,
        unit: MetricUnit::Count,
        scope: MetricScope::Role,
        labels: &[],
        buckets: &SHARE_BUCKETS,
        description: "The share of the lease that was left when a renewal was confirmed; at 0 it would have ended",
    },
    Metric {
        name: LEASE_TTL,
        kind: MetricKind::Gauge,
        unit: MetricUnit::Seconds,
        scope: MetricScope::Role,
        labels: &[],
        buckets: &[],
        description: "How long the role's lease lasts without renewal, as configured here",
    },
    Metric {
        name: HEARTBEAT_INTERVAL,
        kind: MetricKind::Gauge,
        unit: MetricUnit::Seconds,
        scope: MetricScope::Role,
        labels: &[],
        buckets: &[],
        description: "Time between renewals, as configured here",
    },
    Metric {
        name: REQUEST_TIMEOUT,
        kind: MetricKind::Gauge,
        unit: MetricUnit::Seconds,
        scope: MetricScope::Role,
        labels: &[],
        buckets: &[],
        description: "How long one request to NATS may take, as configured here",
    },
    Metric {
        name: STANDING,
        kind: MetricKind::Gauge,
        unit: MetricUnit::Count,
        scope: MetricScope::Role,
        labels: &[],
        buckets: &[],
        description: "1 from the time the role is added on this instance until it has been left, whatever its state; else 0",
    },
    Metric {
        name: LEADER_KNOWN,
        kind: MetricKind::Gauge,
        unit: MetricUnit::Count,
        scope: MetricScope::Role,
        labels: &[],
        buckets: &[],
        description: "1 while this instance knows who leads the role, itself included, else 0",
    },
    Metric {
        name: LEADERLESS,
        kind: MetricKind::Gauge,
        unit: MetricUnit::Seconds,
        scope: MetricScope::Role,
        labels: &[],
        buckets: &[],
        description: "How long this instance has known of no leader, brought up to date at least once a second; 0 while it knows one",
    },
    Metric {
        name: FAILOVER_GAP,
        kind: MetricKind::Histogram,
        unit: MetricUnit::Seconds,
        scope: MetricScope::Role,
        labels: &[],
        buckets: &GAP_BUCKETS,
        description: "From the last sign of a leader to the next one's claim, as this instance saw them",
    },
    Metric {
        name: TERMS_ENDED,
        kind: MetricKind::Counter,
        unit: MetricUnit::Count,
        scope: MetricScope::Role,
        labels: &["cause"],
        buckets: &[],
        description: "Terms of this instance that are over, by cause",
    },
    Metric {
        name: FENCING_SEQUENCE,
        kind: MetricKind::Gauge,
        unit: MetricUnit::Count,
        scope: MetricScope::Role,
        labels: &[],
        buckets: &[],
        description: "Sequence of the fencing token of this instance's last term; absent until it has led",
    },
    Metric {
        name: HANDOFFS,
        kind: MetricKind::Counter,
        unit: MetricUnit::Count,
        scope: MetricScope::Role,
        labels: &["outcome"],
        buckets: &[],
        description: "Times this instance freed the role in the name of an heir, by what became of it",
    },
    Metric {
        name: HANDOFFS_REFUSED,
        kind: MetricKind::Counter,
        unit: MetricUnit::Count,
        scope: MetricScope::Role,
        labels: &["reason"],
        buckets: &[],
        description: "Times a successor asked for by name did not take the role, so that this instance led on",
    },
    Metric {
        name: HEALTH_FAILURES,
        kind: MetricKind::Counter,
        unit: MetricUnit::Count,
        scope: MetricScope::Role,
        labels: &["reason"],
        buckets: &[],
        description: "Health checks of this instance's handler that failed, did not end in time, or found its runtime blocked",
    },
    Metric {
        name: OVERRUNS,
        kind: MetricKind::Counter,
        unit: MetricUnit::Count,
        scope: MetricScope::Role,
        labels: &[],
        buckets: &[],
        description: "Handlers that still ran when their lease had ended",
    },
    Metric {
        name: CIRCUIT_OPEN,
        kind: MetricKind::Gauge,
        unit: MetricUnit::Count,
        scope: MetricScope::Role,
        labels: &[],
        buckets: &[],
        description: "1 while so many requests in a row have failed that they are tried more slowly, else 0",
    },
    Metric {
        name: UNTRUSTED,
        kind: MetricKind::Counter,
        unit: MetricUnit::Count,
        scope: MetricScope::Role,
        labels: &["reason"],
        buckets: &[],
        description: "Records seen that no trusted key signed, where trusted keys are set",
    },
    Metric {
        name: FENCED_WRITES,
        kind: MetricKind::Counter,
        unit: MetricUnit::Count,
        scope: MetricScope::Role,
        labels: &["status"],
        buckets: &[],
        description: "Fenced writes of this instance's terms, single or in batches, by outcome",
    },
    Metric {
        name: TIMER_LAG,
        kind: MetricKind::Histogram,
        unit: MetricUnit::Seconds,
        scope: MetricScope::Role,
        labels: &[],
        buckets: &LAG_BUCKETS,
        description: "From the time a timer of the election was due to its being handled",
    },
    Metric {
        name: WATCH_RESTARTS,
        kind: MetricKind::Counter,
        unit: MetricUnit::Count,
        scope: MetricScope::Instance,
        labels: &[],
        buckets: &[],
        description: "Times the watch of the bucket ended by itself and was begun anew",
    },
    Metric {
        name: INFO,
        kind: MetricKind::Gauge,
        unit: MetricUnit::Count,
        scope: MetricScope::Instance,
        labels: &["version"],
        buckets: &[],
        description: "Always 1; the label tells this crate's version",
    },
];

/// Describes every metric to the recorder that is installed now.
pub(crate) fn describe() {
    for metric in METRICS {
        let unit = match metric.unit {
            MetricUnit::Count => Unit::Count,
            MetricUnit::Seconds => Unit::Seconds,
        };
        match metric.kind {
            MetricKind::Counter => describe_counter!(metric.name, unit, metric.description),
            MetricKind::Gauge => describe_gauge!(metric.name, unit, metric.description),
            MetricKind::Histogram => {
                describe_histogram!(metric.name, unit, metric.description);
            }
        }
    }
}
