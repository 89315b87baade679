//! Every metric that this crate records, in one table. [`labels`] records them.
//!
//! The library installs no exporter. The recorder that the application has set for the `metrics`
//! crate receives them.

mod groups;
mod labels;

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

pub(crate) use groups::{GroupGauges, GroupLabels, MemberLeases, UnitTermEnd};
pub(crate) use labels::{InstanceLabels, Labels, Stage};

/// One metric that this crate records.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Metric {
    /// The name. It ends in `_seconds` if that is the unit.
    pub name: &'static str,
    /// The kind: `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// What it is about, on one instance: a `role`, a `group` or the `instance` itself. A role and a
    /// group are named by a label beside `instance_id` and `bucket`.
    pub scope: &'static str,
    /// Labels besides those. Their values are closed sets.
    pub labels: &'static [&'static str],
    /// Upper bounds of fitting buckets, in the metric's unit. Empty unless the metric is a
    /// histogram.
    pub buckets: &'static [f64],
    /// The meaning of the value.
    pub description: &'static str,
}

impl Metric {
    /// Returns a number of things on a role, without labels of its own.
    const fn new(kind: &'static str, name: &'static str, description: &'static str) -> Self {
        Self {
            name,
            kind,
            scope: "role",
            labels: &[],
            buckets: &[],
            description,
        }
    }

    const fn of_instance(mut self) -> Self {
        self.scope = "instance";
        self
    }

    const fn of_group(mut self) -> Self {
        self.scope = "group";
        self
    }

    const fn labelled(mut self, labels: &'static [&'static str]) -> Self {
        self.labels = labels;
        self
    }
}

const fn counter(name: &'static str, description: &'static str) -> Metric {
    Metric::new("counter", name, description)
}

const fn gauge(name: &'static str, description: &'static str) -> Metric {
    Metric::new("gauge", name, description)
}

const fn histogram(
    name: &'static str,
    description: &'static str,
    buckets: &'static [f64],
) -> Metric {
    let mut metric = Metric::new("histogram", name, description);
    metric.buckets = buckets;
    metric
}

/// Buckets for a heartbeat's duration: from a round trip on loopback to one that costs the lease.
const HEARTBEAT_BUCKETS: [f64; 12] = [
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
];

/// Buckets for the duration of a term: from a flap to a month.
const LEADER_BUCKETS: [f64; 10] = [
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

/// Buckets for a stage of a failover: from a round trip to a lease.
const STAGE_BUCKETS: [f64; 8] = [0.001, 0.005, 0.02, 0.1, 0.5, 2.5, 20.0, 3600.0];

/// Buckets for a timer's lateness: from a scheduler's tick to a process that was paused.
const LAG_BUCKETS: [f64; 10] = [
    0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5, 10.0,
];

const IS_LEADER: Metric = gauge(
    "election_is_leader",
    "1 while this instance leads the role, else 0",
);
const PAUSED: Metric = gauge(
    "election_paused",
    "1 while this instance is paused and begins no new term, else 0",
);
const FAILING: Metric = gauge(
    "election_failing",
    "1 while the terms of this instance keep failing, so that others go first, else 0",
);
const TRANSITIONS: Metric = counter(
    "election_transitions_total",
    "Changes of this instance's state in the role's election",
)
.labelled(&["from_state", "to_state"]);
const FAILURES: Metric = counter(
    "election_failures_total",
    "Failed requests and other failures, by kind",
)
.labelled(&["error_type"]);
const HEARTBEAT: Metric = histogram(
    "election_heartbeat_duration_seconds",
    "From sending a heartbeat to its answer, by outcome",
    &HEARTBEAT_BUCKETS,
)
.labelled(&["status"]);
const HEARTBEAT_BUDGET: Metric = histogram(
    "election_heartbeat_budget_ratio",
    "The share of the request timeout that a heartbeat took, whatever its outcome; at 1 it fails",
    &SHARE_BUCKETS,
);
const LEADER_DURATION: Metric = histogram(
    "election_leader_duration_seconds",
    "Length of this instance's terms, from promotion to the end of the handler",
    &LEADER_BUCKETS,
);
const ACQUIRE: Metric = counter(
    "election_acquire_attempts_total",
    "Claims of the role by this instance, by outcome",
)
.labelled(&["status"]);
const VALIDATION_FAILURES: Metric = counter(
    "election_token_validation_failures_total",
    "Times this instance's lease could not be proved because another client wrote",
);
const CONNECTION: Metric = gauge(
    "election_connection_status",
    "The role's connection to NATS: 2 connected, 1 suspended, 0 lost",
);
const LEASE_REMAINING: Metric = gauge(
    "election_lease_remaining_seconds",
    "Time until this instance's lease ends unless it is renewed, brought up to date at least once a second; 0 if it holds none",
);
const LEASE_SLACK: Metric = histogram(
    "election_lease_slack_ratio",
    "The share of the lease that was left when a renewal was confirmed; at 0 it would have ended",
    &SHARE_BUCKETS,
);
const LEASE_TTL: Metric = gauge(
    "election_lease_ttl_seconds",
    "How long the role's lease lasts without renewal, as configured here",
);
const HEARTBEAT_INTERVAL: Metric = gauge(
    "election_heartbeat_interval_seconds",
    "Time between renewals, as configured here",
);
const REQUEST_TIMEOUT: Metric = gauge(
    "election_request_timeout_seconds",
    "How long one request to NATS may take, as configured here",
);
const STANDING: Metric = gauge(
    "election_standing",
    "1 from the time the role is added on this instance until it has been left, whatever its state; else 0",
);
const LEADER_KNOWN: Metric = gauge(
    "election_leader_known",
    "1 while this instance knows the leader of the role, itself included, else 0",
);
const LEADERLESS: Metric = gauge(
    "election_leaderless_seconds",
    "How long this instance has known of no leader, brought up to date at least once a second; 0 while it knows one",
);
const FAILOVER_GAP: Metric = histogram(
    "election_failover_gap_seconds",
    "From the last sign of a leader to the next one's claim, as this instance saw them",
    &GAP_BUCKETS,
);
const FAILOVER_STAGE: Metric = histogram(
    "election_failover_stage_seconds",
    "How long each stage of winning the role took",
    &STAGE_BUCKETS,
)
.labelled(&["stage"]);
const TERMS_STARTED: Metric = counter(
    "election_terms_started_total",
    "Terms of this instance, by how the role was found to be free",
)
.labelled(&["found"]);
const TERMS_ENDED: Metric = counter(
    "election_terms_ended_total",
    "Terms of this instance that are over, by cause",
)
.labelled(&["cause"]);
const FENCING_SEQUENCE: Metric = gauge(
    "election_fencing_token_sequence",
    "Sequence of the fencing token of this instance's last term; absent until it has led",
);
const HANDOFFS: Metric = counter(
    "election_handoffs_total",
    "Times this instance freed the role in the name of an heir, by what became of it",
)
.labelled(&["outcome"]);
const HANDOFFS_REFUSED: Metric = counter(
    "election_handoffs_refused_total",
    "Times a successor asked for by name did not take the role, so that this instance led on",
)
.labelled(&["reason"]);
const HEALTH_FAILURES: Metric = counter(
    "election_health_check_failures_total",
    "Health checks of this instance's handler that failed, did not end in time, or found its runtime blocked",
)
.labelled(&["reason"]);
const OVERRUNS: Metric = counter(
    "election_handler_overruns_total",
    "Handlers that still ran when their lease had ended",
);
const CIRCUIT_OPEN: Metric = gauge(
    "election_circuit_open",
    "1 while so many requests in a row have failed that they are tried more slowly, else 0",
);
const UNTRUSTED: Metric = counter(
    "election_untrusted_records_total",
    "Records seen that no trusted key signed, where trusted keys are set",
)
.labelled(&["reason"]);
const FENCED_WRITES: Metric = counter(
    "election_fenced_writes_total",
    "Fenced writes of this instance's terms, single or in batches, by outcome",
)
.labelled(&["status"]);
const TIMER_LAG: Metric = histogram(
    "election_timer_lag_seconds",
    "From the time a timer of the election was due to its being handled",
    &LAG_BUCKETS,
);
const WATCH_RESTARTS: Metric = counter(
    "election_watch_restarts_total",
    "Times the watch of the bucket ended by itself and was started again",
)
.of_instance();
const LAST_WILL: Metric = gauge(
    "election_last_will_ready",
    "1 while the companion process of last_will watches and is connected, else 0",
)
.of_instance();
const LAST_WILL_ENDED: Metric = counter(
    "election_last_will_ended_total",
    "Times the companion process of last_will ended by itself and was started again",
)
.of_instance();
const INFO: Metric = gauge(
    "election_info",
    "Always 1; the label has this crate's version",
)
.of_instance()
.labelled(&["version"]);

const GROUP_UNITS: Metric = gauge(
    "election_group_units",
    "Units of the group whose handlers run here and may act",
)
.of_group();
const GROUP_UNOWNED: Metric = gauge(
    "election_group_units_unowned",
    "Units of the group without a living owner, as this instance sees them, brought up to date each second while something changes",
)
.of_group();
const GROUP_UNOWNED_FOR: Metric = gauge(
    "election_group_unowned_seconds",
    "How long without a break some unit of the group has had no living owner, as this instance sees them; 0 while all have one",
)
.of_group();
const GROUP_IDLE_FOR: Metric = gauge(
    "election_group_idle_seconds",
    "How long without a break some unit that this instance owns by its record has had no handler that runs; 0 while all have one",
)
.of_group();
const GROUP_MEMBERS: Metric = gauge(
    "election_group_members",
    "Living members that take units of the group, as this instance sees them",
)
.of_group();
const GROUP_COORDINATOR: Metric = gauge(
    "election_group_coordinator",
    "1 while this instance plans for the group, else 0",
)
.of_group();
const GROUP_IMBALANCE: Metric = gauge(
    "election_group_imbalance_ratio",
    "By how much the member with the most load is above its fair share, as a share of that; 0 unless this instance plans for the group",
)
.of_group();
const GROUP_IMBALANCE_PLANNED: Metric = gauge(
    "election_group_imbalance_planned_ratio",
    "The imbalance that is left when all planned moves have ended; 0 unless this instance plans for the group",
)
.of_group();
const GROUP_TERMS_STARTED: Metric = counter(
    "election_group_terms_started_total",
    "Terms of this instance on units of the group",
)
.of_group();
const GROUP_TERMS_ENDED: Metric = counter(
    "election_group_terms_ended_total",
    "Terms of this instance on units of the group that are over, by cause",
)
.of_group()
.labelled(&["cause"]);
const MEMBER_LEASE_REMAINING: Metric = gauge(
    "election_member_lease_remaining_seconds",
    "Time until the first of this instance's leases as a member of groups ends unless it is renewed, brought up to date at least once a second; 0 if it holds none in one of them",
)
.of_instance();
const MEMBER_LEASE_TTL: Metric = gauge(
    "election_member_lease_ttl_seconds",
    "How long this instance's lease as a member of groups lasts without renewal; 0 once it has left them",
)
.of_instance();

/// Every metric that this crate records.
pub const METRICS: &[Metric] = &[
    IS_LEADER,
    PAUSED,
    FAILING,
    TRANSITIONS,
    FAILURES,
    HEARTBEAT,
    HEARTBEAT_BUDGET,
    LEADER_DURATION,
    ACQUIRE,
    VALIDATION_FAILURES,
    CONNECTION,
    LEASE_REMAINING,
    LEASE_SLACK,
    LEASE_TTL,
    HEARTBEAT_INTERVAL,
    REQUEST_TIMEOUT,
    STANDING,
    LEADER_KNOWN,
    LEADERLESS,
    FAILOVER_GAP,
    FAILOVER_STAGE,
    TERMS_STARTED,
    TERMS_ENDED,
    FENCING_SEQUENCE,
    HANDOFFS,
    HANDOFFS_REFUSED,
    HEALTH_FAILURES,
    OVERRUNS,
    CIRCUIT_OPEN,
    UNTRUSTED,
    FENCED_WRITES,
    TIMER_LAG,
    WATCH_RESTARTS,
    LAST_WILL,
    LAST_WILL_ENDED,
    INFO,
    GROUP_UNITS,
    GROUP_UNOWNED,
    GROUP_UNOWNED_FOR,
    GROUP_IDLE_FOR,
    GROUP_MEMBERS,
    GROUP_COORDINATOR,
    GROUP_IMBALANCE,
    GROUP_IMBALANCE_PLANNED,
    GROUP_TERMS_STARTED,
    GROUP_TERMS_ENDED,
    MEMBER_LEASE_REMAINING,
    MEMBER_LEASE_TTL,
];

/// Describes every metric to the recorder that is installed now.
pub(crate) fn describe() {
    for metric in METRICS {
        let unit = if metric.name.ends_with("_seconds") {
            Unit::Seconds
        } else {
            Unit::Count
        };
        match metric.kind {
            "counter" => describe_counter!(metric.name, unit, metric.description),
            "gauge" => describe_gauge!(metric.name, unit, metric.description),
            _ => describe_histogram!(metric.name, unit, metric.description),
        }
    }
}
