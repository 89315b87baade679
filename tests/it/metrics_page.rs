//! The table of metrics, and the page that has a row for each.

use nats_elect::{
    Distrust, EndCause, FailureKind, Handoff, METRICS, Metric, Outcome, Refusal, RoleState, Vacancy,
};

const FENCED_WRITES: [&str; 9] = [
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

fn labels<T: Copy>(all: &[T], as_str: fn(T) -> &'static str) -> Vec<&'static str> {
    all.iter().copied().map(as_str).collect()
}

const UNIT_TERM_ENDS: [&str; 6] = [
    "given",
    "drained",
    "handler",
    "unhealthy",
    "overrun",
    "lost",
];

pub const STAGES: [&str; 4] = ["detection", "claim", "fence", "start"];

/// The values that a label may have.
pub fn values_of(metric: &str, label: &str) -> Vec<&'static str> {
    match (metric, label) {
        (_, "from_state" | "to_state") => labels(RoleState::ALL, RoleState::as_str),
        (_, "error_type") => labels(FailureKind::ALL, FailureKind::as_str),
        ("election_fenced_writes_total", "status") => FENCED_WRITES.to_vec(),
        (_, "status") => labels(Outcome::ALL, Outcome::as_str),
        ("election_handoffs_refused_total", "reason") => {
            let reasons = labels(Refusal::ALL, Refusal::as_str);
            ["absent"].into_iter().chain(reasons).collect()
        }
        ("election_health_check_failures_total", "reason") => {
            vec!["unhealthy", "runtime_blocked"]
        }
        (_, "reason") => labels(Distrust::ALL, Distrust::as_str),
        ("election_group_terms_ended_total", "cause") => UNIT_TERM_ENDS.to_vec(),
        (_, "cause") => labels(EndCause::ALL, EndCause::as_str),
        (_, "outcome") => {
            let outcomes = labels(Handoff::ALL, Handoff::as_str);
            outcomes.into_iter().chain(["not_awaited"]).collect()
        }
        (_, "stage") => STAGES.to_vec(),
        (_, "found") => labels(Vacancy::ALL, Vacancy::as_str),
        (_, "version") => vec![env!("CARGO_PKG_VERSION")],
        _ => panic!("an unknown label {label} of {metric}"),
    }
}

/// A row of the table for each metric, up to what it tells; states stand there once, the version
/// not at all.
fn documented(metric: &Metric) -> String {
    let labels: Vec<_> = metric
        .labels
        .iter()
        .map(|label| {
            let values = values_of(metric.name, label);
            let values: Vec<_> = values.iter().map(|it| format!("`{it}`")).collect();
            match *label {
                "from_state" | "version" => format!("`{label}`"),
                _ => format!("`{label}`: {}", values.join(" ")),
            }
        })
        .collect();
    let (name, kind, labels) = (metric.name, metric.kind, labels.join(", "));
    format!("| `{name}` | {kind} | {labels} |").replace("|  |", "| |")
}

#[test]
fn the_page_on_metrics_has_a_row_for_each_and_no_other() {
    let page = include_str!("../../docs/metrics.md");
    let rows: Vec<_> = page
        .lines()
        .filter(|line| line.starts_with("| `election_"))
        .collect();
    for (metric, row) in METRICS.iter().zip(&rows) {
        let expected = documented(metric);
        assert!(row.starts_with(&expected), "\n{expected}\n{row}");
    }
    assert_eq!(rows.len(), METRICS.len());
}

#[test]
fn every_histogram_has_buckets_that_rise_and_nothing_else_has_any() {
    for metric in METRICS {
        let is_histogram = metric.kind == "histogram";
        assert_eq!(!metric.buckets.is_empty(), is_histogram, "{}", metric.name);
        assert!(metric.buckets.is_sorted_by(|a, b| a < b), "{}", metric.name);
    }
}
