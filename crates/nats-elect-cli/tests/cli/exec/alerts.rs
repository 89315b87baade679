//! The alerts of `deploy/prometheus` on roles that `exec` alone runs.

use std::collections::BTreeSet;
use std::process::Stdio;

use nats_elect::METRICS;
use nats_elect_testing::{NatsServer, eventually};

use crate::exec::deploy;
use crate::exec::http::{address, becomes, get, shows};
use crate::exec::instance::exec;
use crate::exec::prometheus::{Prometheus, Series};
use crate::fleet::SOON;
use crate::running::Process;

#[tokio::test]
async fn prometheus_sees_who_leads_who_waits_and_whose_command_is_down() {
    let server = NatsServer::start().expect("a server");
    let start = |id: &str, role: &str, script: &str| {
        let address = address();
        let child = exec(id, &server.url())
            .args(["--bucket", role, "--listen", &address.to_string()])
            .args([
                "--ttl",
                "3s",
                "--restart",
                "on-failure",
                "--restart-delay",
                "1h",
            ])
            .args(["--", "sh", "-c", script])
            .stdout(Stdio::null())
            .spawn()
            .expect("start exec");
        (Process(child), address)
    };
    let (mut leader, first) = start("first", "works", "exec sleep 600");
    becomes(first, "/leaderz/worker", 200).await;
    let (_waiting, second) = start("second", "works", "exec sleep 600");
    let (_failing, third) = start("third", "fails", "exit 1");
    shows(third, "election_command_down", &[], 1.0).await;
    let prometheus = Prometheus::start().await;
    prometheus.scrape(&[first, second, third]);

    let is = |wanted: f64| {
        move |series: &[Series]| {
            let [only] = series else { return false };
            (only.value - wanted).abs() < f64::EPSILON
        }
    };
    let leaders = "role:election_leaders:sum{bucket=\"works\"}";
    prometheus.until("one leader", leaders, is(1.0)).await;
    let candidates = "role:election_candidates:count{bucket=\"works\"}";
    prometheus
        .until("two that could lead", candidates, is(2.0))
        .await;
    let down = |bucket| format!("standing:election_command_down:avg5m{{bucket=\"{bucket}\"}}");
    prometheus
        .until("no command down", &down("works"), is(0.0))
        .await;
    prometheus.until("one down", &down("fails"), is(1.0)).await;
    // It fires when two minutes are over.
    let alert = "ALERTS{alertname=\"NatsElectCommandDown\"}";
    let of_fails = |series: &[Series]| {
        let [only] = series else { return false };
        only.label("bucket") == "fails" && only.label("instance_id") == "third"
    };
    prometheus.until("the alert", alert, of_fails).await;

    // The leader dies, and Prometheus sees the next one.
    leader.kill();
    let next = "election_is_leader{bucket=\"works\", instance_id=\"second\"}";
    prometheus.until("the next leader", next, is(1.0)).await;
    prometheus.until("one candidate", candidates, is(1.0)).await;
    let gap = "role:election_failover_gap_seconds:p95_1h{bucket=\"works\"}";
    let some = |series: &[Series]| series.iter().any(|it| !it.value.is_nan());
    prometheus.until("the gap", gap, some).await;
    for (rule, error) in prometheus.rules() {
        assert_eq!(error, None, "{rule}");
    }
}

/// What a series of this name is to be, so that rules can use it.
fn kind(name: &str) -> (&str, &str) {
    let parts = ["_bucket", "_sum", "_count"];
    let whole = parts.iter().find_map(|part| name.strip_suffix(part));
    let whole = whole.unwrap_or(name);
    match METRICS.iter().find(|metric| metric.name == whole) {
        Some(metric) => (whole, metric.kind),
        // Its own.
        None => (name, "gauge"),
    }
}

#[tokio::test]
async fn a_leader_serves_all_that_the_rules_ask_for() {
    let server = NatsServer::start().expect("a server");
    let address = address();
    let child = exec("only", &server.url())
        .args(["--ttl", "3s", "--listen", &address.to_string()])
        .args(["--", "sleep", "600"])
        .spawn()
        .expect("start exec");
    let _only = Process(child);
    let rules = std::fs::read_to_string(deploy().join("prometheus/recording_rules.yml"));
    let rules = rules.expect("the rules");
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let names = rules.split(|c| !is_part(c));
    // `serve` tells those of roles as they are seen from the outside. `exec` has no groups.
    let of_others = ["election_observed_", "election_group_", "election_member_"];
    let wanted: BTreeSet<_> = names
        .filter(|name| name.starts_with("election_"))
        .filter(|name| !of_others.iter().any(|other| name.starts_with(other)))
        .map(kind)
        .collect();
    assert!(wanted.len() > 20, "{wanted:?}");
    // With its first heartbeats it has all of them.
    eventually(SOON, &format!("all of {wanted:?}"), async || {
        let (_, metrics) = get(address, "/metrics")?;
        let types = metrics.lines().filter_map(|it| it.strip_prefix("# TYPE "));
        let found: BTreeSet<_> = types.filter_map(|it| it.split_once(' ')).collect();
        wanted.is_subset(&found).then_some(())
    })
    .await;
}
