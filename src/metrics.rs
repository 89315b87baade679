//! Metrics, all derived from events in this one place.
//!
//! The library installs no exporter: whatever recorder the application has set for the `metrics` crate receives them.

use std::sync::Arc;
use std::time::Duration;

use metrics::{
    Label, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use crate::model::event::{Distrust, Event, Outcome};
use crate::model::status::{ConnectionStatus, RoleState};

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A distribution.
    Histogram,
}

/// One metric that this crate records.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// Its kind.
    pub kind: MetricKind,
    /// Its unit.
    pub unit: Unit,
    /// Labels besides `role`, `instance_id` and `bucket`; their values are closed sets.
    pub labels: &'static [&'static str],
    /// What it tells.
    pub description: &'static str,
}

/// Upper bounds in seconds for the buckets of `election_heartbeat_duration_seconds`: from a round trip on loopback to
/// one that costs the lease.
pub const HEARTBEAT_BUCKETS: [f64; 12] = [
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
];

/// Upper bounds in seconds for the buckets of `election_leader_duration_seconds`: from a flap to a month.
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

const IS_LEADER: &str = "election_is_leader";
const PAUSED: &str = "election_paused";
const TRANSITIONS: &str = "election_transitions_total";
const FAILURES: &str = "election_failures_total";
const HEARTBEAT: &str = "election_heartbeat_duration_seconds";
const LEADER_DURATION: &str = "election_leader_duration_seconds";
const ACQUIRE: &str = "election_acquire_attempts_total";
const VALIDATION_FAILURES: &str = "election_token_validation_failures_total";
const CONNECTION: &str = "election_connection_status";
const LEASE_REMAINING: &str = "election_lease_remaining_seconds";
const OVERRUNS: &str = "election_handler_overruns_total";
const UNTRUSTED: &str = "election_untrusted_records_total";
const FENCED_WRITES: &str = "election_fenced_writes_total";
/// How a fenced write can end.
const FENCED_STATUSES: [&str; 9] = [
    "written",
    "conflict",
    "superseded",
    "not_leader",
    "unconfirmed",
    "unavailable",
    "unsupported",
    "refused",
    "invalid",
];

/// Every metric that this crate records.
pub const METRICS: &[Metric] = &[
    Metric {
        name: IS_LEADER,
        kind: MetricKind::Gauge,
        unit: Unit::Count,
        labels: &[],
        description: "1 while this instance leads the role, else 0",
    },
    Metric {
        name: PAUSED,
        kind: MetricKind::Gauge,
        unit: Unit::Count,
        labels: &[],
        description: "1 while this instance is paused, and stands for no new term, else 0",
    },
    Metric {
        name: TRANSITIONS,
        kind: MetricKind::Counter,
        unit: Unit::Count,
        labels: &["from_state", "to_state"],
        description: "Changes of this instance's state in the role's election",
    },
    Metric {
        name: FAILURES,
        kind: MetricKind::Counter,
        unit: Unit::Count,
        labels: &["error_type"],
        description: "Failed requests and other failures, by kind",
    },
    Metric {
        name: HEARTBEAT,
        kind: MetricKind::Histogram,
        unit: Unit::Seconds,
        labels: &["status"],
        description: "From sending a heartbeat to its answer, by outcome",
    },
    Metric {
        name: LEADER_DURATION,
        kind: MetricKind::Histogram,
        unit: Unit::Seconds,
        labels: &[],
        description: "Length of this instance's terms, from promotion to the end of the handler",
    },
    Metric {
        name: ACQUIRE,
        kind: MetricKind::Counter,
        unit: Unit::Count,
        labels: &["status"],
        description: "Claims of the role by this instance, by outcome",
    },
    Metric {
        name: VALIDATION_FAILURES,
        kind: MetricKind::Counter,
        unit: Unit::Count,
        labels: &[],
        description: "Times this instance's lease could not be proved because somebody else wrote",
    },
    Metric {
        name: CONNECTION,
        kind: MetricKind::Gauge,
        unit: Unit::Count,
        labels: &[],
        description: "What of NATS the role can rely on: 2 connected, 1 suspended, 0 lost",
    },
    Metric {
        name: LEASE_REMAINING,
        kind: MetricKind::Gauge,
        unit: Unit::Seconds,
        labels: &[],
        description: "Time until this instance's lease ends unless it is renewed, brought up to date at least once a second; 0 if it holds none",
    },
    Metric {
        name: OVERRUNS,
        kind: MetricKind::Counter,
        unit: Unit::Count,
        labels: &[],
        description: "Handlers that still ran when their lease had ended",
    },
    Metric {
        name: UNTRUSTED,
        kind: MetricKind::Counter,
        unit: Unit::Count,
        labels: &["reason"],
        description: "Records seen that no trusted key signed, where trusted keys are set",
    },
    Metric {
        name: FENCED_WRITES,
        kind: MetricKind::Counter,
        unit: Unit::Count,
        labels: &["status"],
        description: "Fenced writes of this instance's terms, single or in batches, by outcome",
    },
];

/// Describes every metric to the recorder that is installed now.
pub(crate) fn describe() {
    for metric in METRICS {
        match metric.kind {
            MetricKind::Counter => describe_counter!(metric.name, metric.unit, metric.description),
            MetricKind::Gauge => describe_gauge!(metric.name, metric.unit, metric.description),
            MetricKind::Histogram => {
                describe_histogram!(metric.name, metric.unit, metric.description);
            }
        }
    }
}

/// The labels of one role on one instance.
#[derive(Clone, Debug)]
pub(crate) struct Labels(Arc<[Label; 3]>);

impl Labels {
    pub fn new(role: &str, instance_id: &str, bucket: &str) -> Self {
        let label = |key, value: &str| Label::new(key, value.to_owned());
        Self(Arc::new([
            label("role", role),
            label("instance_id", instance_id),
            label("bucket", bucket),
        ]))
    }

    fn with(&self, more: &[(&'static str, &'static str)]) -> Vec<Label> {
        let more = more
            .iter()
            .map(|(key, value)| Label::from_static_parts(key, value));
        self.0.iter().cloned().chain(more).collect()
    }

    /// Makes the gauges and the plain counters exist before anything happens, so that dashboards show zeros, not gaps.
    pub fn register(&self) {
        gauge!(IS_LEADER, self.with(&[])).set(0.0);
        gauge!(PAUSED, self.with(&[])).set(0.0);
        gauge!(CONNECTION, self.with(&[])).set(1.0);
        gauge!(LEASE_REMAINING, self.with(&[])).set(0.0);
        counter!(VALIDATION_FAILURES, self.with(&[])).increment(0);
        counter!(OVERRUNS, self.with(&[])).increment(0);
        self.untrusted(Distrust::Unsigned, 0);
        for status in ["written", "superseded"] {
            counter!(FENCED_WRITES, self.with(&[("status", status)])).increment(0);
        }
    }

    /// A fenced write ended so: one of [`FENCED_STATUSES`].
    pub fn fenced_write(&self, status: &'static str) {
        debug_assert!(FENCED_STATUSES.contains(&status));
        counter!(FENCED_WRITES, self.with(&[("status", status)])).increment(1);
    }

    pub fn lease_remaining(&self, remaining: Duration) {
        gauge!(LEASE_REMAINING, self.with(&[])).set(remaining.as_secs_f64());
    }

    fn untrusted(&self, why: Distrust, records: u64) {
        counter!(UNTRUSTED, self.with(&[("reason", why.as_str())])).increment(records);
    }

    pub fn record(&self, event: &Event) {
        match event {
            Event::StateChanged { from, to } => {
                let states = [("from_state", from.as_str()), ("to_state", to.as_str())];
                counter!(TRANSITIONS, self.with(&states)).increment(1);
                gauge!(IS_LEADER, self.with(&[])).set(if *to == RoleState::Leader {
                    1.0
                } else {
                    0.0
                });
            }
            Event::Paused => gauge!(PAUSED, self.with(&[])).set(1.0),
            Event::Resumed => gauge!(PAUSED, self.with(&[])).set(0.0),
            Event::ClaimEnded { outcome } => {
                counter!(ACQUIRE, self.with(&[("status", outcome.as_str())])).increment(1);
            }
            Event::HeartbeatEnded { outcome, took } => {
                histogram!(HEARTBEAT, self.with(&[("status", outcome.as_str())]))
                    .record(took.as_secs_f64());
                if *outcome == Outcome::TooLate {
                    self.lease_remaining(Duration::ZERO);
                }
            }
            Event::TermEnded { lasted, .. } => {
                histogram!(LEADER_DURATION, self.with(&[])).record(lasted.as_secs_f64());
                self.lease_remaining(Duration::ZERO);
            }
            Event::ValidationFailed => counter!(VALIDATION_FAILURES, self.with(&[])).increment(1),
            Event::ConnectionChanged(status) => {
                let value = match status {
                    ConnectionStatus::Connected => 2.0,
                    ConnectionStatus::Suspended => 1.0,
                    ConnectionStatus::Lost => 0.0,
                };
                gauge!(CONNECTION, self.with(&[])).set(value);
            }
            Event::Failure { kind, .. } => {
                counter!(FAILURES, self.with(&[("error_type", kind.as_str())])).increment(1);
            }
            Event::HandlerOverrun { .. } => counter!(OVERRUNS, self.with(&[])).increment(1),
            Event::UntrustedRecord { why } => self.untrusted(*why, 1),
            _ => {}
        }
    }
}
