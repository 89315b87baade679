//! Records the metrics. The metrics of a role mostly come from its events.

use std::sync::Arc;
use std::time::Duration;

use metrics::{Histogram, Label, counter, gauge, histogram};

use super::{
    ACQUIRE, CIRCUIT_OPEN, CONNECTION, FAILING, FAILOVER_GAP, FAILOVER_STAGE, FAILURES,
    FENCED_WRITES, FENCING_SEQUENCE, HANDOFFS, HANDOFFS_REFUSED, HEALTH_FAILURES, HEARTBEAT,
    HEARTBEAT_BUDGET, HEARTBEAT_INTERVAL, INFO, IS_LEADER, LAST_WILL, LAST_WILL_ENDED,
    LEADER_DURATION, LEADER_KNOWN, LEADERLESS, LEASE_REMAINING, LEASE_SLACK, LEASE_TTL, METRICS,
    Metric, OVERRUNS, PAUSED, REQUEST_TIMEOUT, STANDING, TERMS_ENDED, TERMS_STARTED, TIMER_LAG,
    TRANSITIONS, UNTRUSTED, VALIDATION_FAILURES, WATCH_RESTARTS,
};
use crate::model::config::RoleSettings;
use nats_elect_core::event::{Distrust, EndCause, Event, FailureKind, Outcome, Vacancy};
use nats_elect_core::handoff::Handoff;
use nats_elect_core::peer::Refusal;
use nats_elect_core::status::{ConnectionStatus, RoleState};

/// A stage of winning a role.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stage {
    /// From the last sign of the leader before to the sending of the claim.
    Detection,
    /// From there to the claim's confirmation.
    Claim,
    /// From there to the promotion: the fence record.
    Fence,
    /// From there to the handler's first step.
    Start,
}

nats_elect_core::labels!(Stage {
    Detection => "detection",
    Claim => "claim",
    Fence => "fence",
    Start => "start",
});

/// The labels of one role, group or instance, and what is recorded under them.
#[derive(Clone, Debug)]
pub(crate) struct Labels(Arc<[Label]>);

type More<'a> = &'a [(&'static str, &'static str)];

impl Labels {
    pub fn new(role: &str, instance_id: &str, bucket: &str) -> Self {
        Self::of(&[
            ("role", role),
            ("instance_id", instance_id),
            ("bucket", bucket),
        ])
    }

    pub(super) fn of(labels: &[(&'static str, &str)]) -> Self {
        let labels = labels.iter();
        let labels = labels.map(|(key, value)| Label::new(*key, Arc::<str>::from(*value)));
        Self(labels.collect())
    }

    fn with(&self, more: More<'_>) -> Vec<Label> {
        let more = more.iter();
        let more = more.map(|(key, value)| Label::from_static_parts(key, value));
        self.0.iter().cloned().chain(more).collect()
    }

    pub(super) fn set(&self, metric: Metric, value: f64) {
        gauge!(metric.name, self.with(&[])).set(value);
    }

    pub(super) fn add(&self, metric: Metric, more: More<'_>, times: u64) {
        counter!(metric.name, self.with(more)).increment(times);
    }

    /// Shows a counter with one more label, for each of its values.
    fn count_from_zero(&self, metric: Metric, values: impl IntoIterator<Item = &'static str>) {
        for value in values {
            self.add(metric, &[(metric.labels[0], value)], 0);
        }
    }

    fn histogram(&self, metric: Metric, more: More<'_>) -> Histogram {
        histogram!(metric.name, self.with(more))
    }

    fn observe(&self, metric: Metric, value: f64) {
        self.histogram(metric, &[]).record(value);
    }

    /// Creates the gauges and counters before anything happens. So dashboards show zeros instead of
    /// gaps, and a rule sees the first increase too.
    pub fn register(&self, settings: &RoleSettings) {
        let bare = METRICS
            .iter()
            .filter(|it| it.scope == "role" && it.labels.is_empty());
        for metric in bare.filter(|it| it.name != FENCING_SEQUENCE.name) {
            match metric.kind {
                "gauge" => self.set(*metric, 0.0),
                "counter" => self.add(*metric, &[], 0),
                _ => drop(self.histogram(*metric, &[])),
            }
        }
        self.set(STANDING, 1.0);
        self.set(CONNECTION, connection(ConnectionStatus::Suspended));
        self.set(LEASE_TTL, settings.ttl.as_secs_f64());
        self.set(HEARTBEAT_INTERVAL, settings.heartbeat.as_secs_f64());
        self.set(REQUEST_TIMEOUT, settings.request_timeout.as_secs_f64());
        self.count_from_zero(HEALTH_FAILURES, ["unhealthy", "runtime_blocked"]);
        let _ = self.histogram(HEARTBEAT, &[("status", Outcome::Confirmed.as_str())]);
        for &from in RoleState::ALL {
            for &to in RoleState::ALL.iter().filter(|to| from.may_become(**to)) {
                self.changed(from, to, 0);
            }
        }
        self.count_from_zero(FAILURES, FailureKind::ALL.iter().map(|it| it.as_str()));
        self.count_from_zero(ACQUIRE, Outcome::ALL.iter().map(|it| it.as_str()));
        for stage in Stage::ALL {
            let _ = self.histogram(FAILOVER_STAGE, &[("stage", stage.as_str())]);
        }
        self.count_from_zero(TERMS_STARTED, Vacancy::ALL.iter().map(|it| it.as_str()));
        self.count_from_zero(TERMS_ENDED, EndCause::ALL.iter().map(|it| it.as_str()));
        for outcome in Handoff::ALL.iter().copied().map(Some).chain([None]) {
            self.handed_over(outcome, 0);
        }
        self.handoff_refused(None, 0);
        self.count_from_zero(UNTRUSTED, Distrust::ALL.iter().map(|it| it.as_str()));
        self.count_from_zero(FENCED_WRITES, ["written", "superseded"]);
    }

    /// Records the end of a fenced write.
    pub fn fenced_write(&self, status: &'static str) {
        self.add(FENCED_WRITES, &[("status", status)], 1);
    }

    pub fn lease_remaining(&self, remaining: Duration) {
        self.set(LEASE_REMAINING, remaining.as_secs_f64());
    }

    /// Records a confirmed renewal, with the part of the lease that was left.
    pub fn renewed(&self, remaining: Duration, settings: &RoleSettings) {
        self.observe(LEASE_SLACK, share(remaining, settings.ttl));
    }

    /// Records how long no leader has been known. `None` means that a leader is known.
    pub fn leaderless(&self, since: Option<Duration>) {
        self.set(LEADER_KNOWN, since.is_none().into());
        self.set(LEADERLESS, since.unwrap_or_default().as_secs_f64());
    }

    /// Records the time between a leader and the next one, or a new term of the same leader.
    pub fn failed_over(&self, gap: Duration) {
        self.observe(FAILOVER_GAP, gap.as_secs_f64());
    }

    /// Records how long a stage of winning the role took.
    pub fn stage(&self, stage: Stage, took: Duration) {
        let labels = [("stage", stage.as_str())];
        self.histogram(FAILOVER_STAGE, &labels)
            .record(took.as_secs_f64());
    }

    /// Records that a term started, and how the role had been found to be free.
    pub fn term_started(&self, found: Vacancy) {
        self.add(TERMS_STARTED, &[("found", found.as_str())], 1);
    }

    /// Records how late a timer was handled.
    pub fn timer_lag(&self, lag: Duration) {
        self.observe(TIMER_LAG, lag.as_secs_f64());
    }

    pub fn failed(&self, kind: FailureKind) {
        self.add(FAILURES, &[("error_type", kind.as_str())], 1);
    }

    fn changed(&self, from: RoleState, to: RoleState, times: u64) {
        let states = [("from_state", from.as_str()), ("to_state", to.as_str())];
        self.add(TRANSITIONS, &states, times);
    }

    fn handed_over(&self, outcome: Option<Handoff>, times: u64) {
        let outcome = outcome.map_or("not_awaited", Handoff::as_str);
        self.add(HANDOFFS, &[("outcome", outcome)], times);
    }

    fn handoff_refused(&self, why: Option<Refusal>, times: u64) {
        let reason = why.map_or("absent", Refusal::as_str);
        self.add(HANDOFFS_REFUSED, &[("reason", reason)], times);
    }

    fn health_failed(&self, reason: &'static str) {
        self.add(HEALTH_FAILURES, &[("reason", reason)], 1);
    }

    fn state_is(&self, state: RoleState) {
        self.set(IS_LEADER, (state == RoleState::Leader).into());
        let stands = state != RoleState::Stopped;
        self.set(STANDING, stands.into());
        if !stands {
            // The instance does not look for the leader any more.
            self.set(LEADER_KNOWN, 0.0);
            self.set(LEADERLESS, 0.0);
            self.begins_anew();
        }
    }

    /// The next election of the role begins with a closed circuit, and has seen no term fail.
    fn begins_anew(&self) {
        self.set(CIRCUIT_OPEN, 0.0);
        self.set(FAILING, 0.0);
    }

    pub fn record(&self, event: &Event, settings: &RoleSettings) {
        match event {
            Event::StateChanged { from, to } => {
                self.changed(*from, *to, 1);
                self.state_is(*to);
            }
            Event::TermStarted { fencing_token } => {
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "microseconds since 1970 are exact for 200 years more"
                )]
                self.set(FENCING_SEQUENCE, fencing_token.sequence as f64);
            }
            Event::Paused => self.set(PAUSED, 1.0),
            Event::Resumed => self.set(PAUSED, 0.0),
            Event::Failing { .. } => self.set(FAILING, 1.0),
            Event::FailingOver => self.set(FAILING, 0.0),
            Event::ClaimEnded { outcome } => {
                self.add(ACQUIRE, &[("status", outcome.as_str())], 1);
            }
            Event::HeartbeatEnded { outcome, took } => {
                self.histogram(HEARTBEAT, &[("status", outcome.as_str())])
                    .record(took.as_secs_f64());
                self.observe(HEARTBEAT_BUDGET, share(*took, settings.request_timeout));
                if *outcome == Outcome::TooLate {
                    self.lease_remaining(Duration::ZERO);
                }
            }
            Event::TermEnded { lasted, cause, .. } => {
                self.observe(LEADER_DURATION, lasted.as_secs_f64());
                self.add(TERMS_ENDED, &[("cause", cause.as_str())], 1);
                self.lease_remaining(Duration::ZERO);
            }
            Event::HandedOver { outcome } => self.handed_over(*outcome, 1),
            Event::HandoffRefused { why } => self.handoff_refused(*why, 1),
            Event::HealthCheckFailed { .. } => self.health_failed("unhealthy"),
            Event::HealthCheckUnanswered => self.health_failed("runtime_blocked"),
            Event::ValidationFailed => self.add(VALIDATION_FAILURES, &[], 1),
            Event::ConnectionChanged(status) => self.set(CONNECTION, connection(*status)),
            Event::Failure { kind, .. } => {
                self.failed(*kind);
                if *kind == FailureKind::ActorCrashed {
                    self.begins_anew();
                }
            }
            Event::CircuitOpened => self.set(CIRCUIT_OPEN, 1.0),
            Event::CircuitClosed => self.set(CIRCUIT_OPEN, 0.0),
            Event::HandlerOverrun { .. } => self.add(OVERRUNS, &[], 1),
            Event::UntrustedRecord { why } => {
                self.add(UNTRUSTED, &[("reason", why.as_str())], 1);
            }
            _ => {}
        }
    }
}

/// The labels of an instance.
#[derive(Clone, Debug)]
pub(crate) struct InstanceLabels(Labels);

impl InstanceLabels {
    pub fn new(instance_id: &str, bucket: &str) -> Self {
        let labels = [("instance_id", instance_id), ("bucket", bucket)];
        Self(Labels::of(&labels))
    }

    pub fn register(&self) {
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        gauge!(INFO.name, self.0.with(&version)).set(1.0);
        self.0.add(WATCH_RESTARTS, &[], 0);
        // A companion may be there already.
        gauge!(LAST_WILL.name, self.0.with(&[])).increment(0.0);
        self.0.add(LAST_WILL_ENDED, &[], 0);
    }

    /// Records whether a companion process watches and is connected.
    pub fn last_will(&self, is_ready: bool) {
        self.0.set(LAST_WILL, is_ready.into());
    }

    /// Records that a companion process ended by itself.
    pub fn last_will_ended(&self) {
        self.0.add(LAST_WILL_ENDED, &[], 1);
    }

    /// Records that the watch of the bucket ended by itself and is restarted.
    pub fn watch_restarted(&self) {
        self.0.add(WATCH_RESTARTS, &[], 1);
    }
}

/// The value is shared, because each recording clones its labels.
fn share(part: Duration, whole: Duration) -> f64 {
    part.as_secs_f64() / whole.as_secs_f64()
}

const fn connection(status: ConnectionStatus) -> f64 {
    match status {
        ConnectionStatus::Connected => 2.0,
        ConnectionStatus::Suspended => 1.0,
        ConnectionStatus::Lost => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;
    use crate::model::config::RoleConfig;

    #[test]
    fn a_role_that_ends_or_crashes_fails_no_more() {
        let settings = RoleConfig::default().settings().unwrap();
        let ends = [
            Event::StateChanged {
                from: RoleState::Candidate,
                to: RoleState::Stopped,
            },
            Event::Failure {
                request: None,
                kind: FailureKind::ActorCrashed,
                detail: String::new(),
            },
        ];
        for end in ends {
            let recorder = PrometheusBuilder::new().build_recorder();
            let shown = |value: &str| {
                let text = recorder.handle().render();
                let mut lines = text.lines().filter(|it| it.starts_with(FAILING.name));
                lines.any(|line| line.ends_with(value))
            };
            metrics::with_local_recorder(&recorder, || {
                let labels = Labels::new("scheduler", "a", "leaders");
                let failing = Event::Failing {
                    terms: 3,
                    pause: Duration::from_secs(60),
                };
                labels.record(&failing, &settings);
                assert!(shown(" 1"));
                labels.record(&end, &settings);
            });
            assert!(shown(" 0"), "{end:?}");
        }
    }
}
