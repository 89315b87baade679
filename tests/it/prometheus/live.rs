//! Every expression on a control plane to which things happen.

use std::collections::BTreeSet;
use std::time::Duration;

use async_nats::jetstream::stream::StorageType;
use nats_elect::METRICS;
use nats_elect_testing::{NatsServer, TcpProxy};
use tokio::time::timeout;

use super::expressions::{Expression, OF_EXEC, OF_SERVE, alerts, all, recorded};
use super::fleet::Process;
use super::instance::{BUCKET, ROLES, TTL};
use super::server::{Prometheus, Series};
use crate::full_account::{fill_account, small_account};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_expression_has_series_on_a_control_plane_that_fails_over() {
    let nats = NatsServer::start().expect("start");
    let proxy = TcpProxy::start(nats.url()).expect("start");
    let mut fleet: Vec<_> = ["node-1", "node-2"]
        .map(|id| Process::start(id, &nats.url()))
        .into();
    fleet.push(Process::start("node-3", &proxy.url()));
    let prometheus = Prometheus::start().await;
    let addresses: Vec<_> = fleet.iter().map(|process| process.address).collect();
    prometheus.scrape(&addresses);
    every_role_is_led(&prometheus, "at the start").await;
    let known = "sum by (role) (election_leader_known)";
    let by_all = |series: &[Series]| series.len() == 3 && series.iter().all(|it| it.value >= 3.0);
    prometheus
        .until("leaders known to all", known, by_all)
        .await;

    hand_over(&prometheus, &mut fleet).await;
    replace_the_fence(&nats, &prometheus).await;

    // A failover: the leader's process is killed. Another instance follows it, and so does what
    // Prometheus sees.
    let victim = leader_of(&prometheus, "scheduler").await;
    let position = fleet
        .iter()
        .position(|process| process.id == victim)
        .expect("an instance");
    fleet[position].kill();
    another_leads(&prometheus, "scheduler", &victim).await;
    fleet[position] = Process::start("node-4", &proxy.url());
    let addresses: Vec<_> = fleet.iter().map(|process| process.address).collect();
    prometheus.scrape(&addresses);
    let known = "sum by (role) (election_leader_known{instance_id=\"node-4\"}) == 1";
    let all_roles = |series: &[Series]| series.len() == ROLES.len();
    prometheus.until("the new instance", known, all_roles).await;
    every_role_is_led(&prometheus, "after the failover").await;

    // A leader stands still until another follows it, and then goes on.
    let frozen = leader_of(&prometheus, "network").await;
    let process = fleet.iter().find(|process| process.id == frozen);
    let process = process.expect("an instance");
    process.pause();
    another_leads(&prometheus, "network", &frozen).await;
    process.resume();
    let lag =
        format!("increase(election_timer_lag_seconds_sum{{instance_id=\"{frozen}\"}}[1m]) > 0.5");
    let some = |series: &[Series]| !series.is_empty();
    prometheus.until("a late timer", &lag, some).await;

    // Whoever is behind the proxy does not reach NATS.
    proxy.black_hole();
    let cut_off = "election_connection_status < 2";
    prometheus
        .until("a suspended connection", cut_off, some)
        .await;
    proxy.restore();
    every_role_is_led(&prometheus, "in the end").await;

    every_metric_arrived(&prometheus).await;
    check_rules(&prometheus);
    check_truths(&prometheus, &victim).await;
    let fires = "ALERTS{alertname=\"NatsElectFencedWritesRefused\", alertstate=\"firing\", role=\"metrics\"}";
    prometheus.until("an alert", fires, some).await;
    check_expressions(&prometheus).await;
}

/// Longer than the alert waits.
const SLOWED_DOWN: Duration = Duration::from_secs(240);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes as long as the alert waits"]
async fn a_full_account_opens_the_circuits_and_room_closes_them() {
    let nats = small_account();
    let fleet = ["node-1", "node-2"].map(|id| Process::start(id, &nats.url()));
    let prometheus = Prometheus::start().await;
    prometheus.scrape(&fleet.each_ref().map(|process| process.address));
    every_role_is_led(&prometheus, "at the start").await;
    let client = async_nats::connect(nats.url()).await.expect("connect");
    let jetstream = async_nats::jetstream::new(client);
    let heap = fill_account(&jetstream, StorageType::Memory).await;
    let some = |series: &[Series]| !series.is_empty();
    let fires =
        "ALERTS{alertname=\"NatsElectCircuitOpen\", alertstate=\"firing\", role=\"scheduler\"}";
    prometheus
        .within(SLOWED_DOWN, "the alert", fires, some)
        .await;

    heap.purge().await.expect("purged");
    prometheus
        .until("the alert's end", fires, <[_]>::is_empty)
        .await;
    every_role_is_led(&prometheus, "once there is room").await;
}

/// By one instance each, and no more.
async fn every_role_is_led(prometheus: &Prometheus, when: &str) {
    let what = format!("leaders of every role {when}");
    let each_by_one = |series: &[Series]| {
        series.len() == ROLES.len() && series.iter().all(|it| is(it.value, 1.0))
    };
    prometheus
        .until(&what, "role:election_leaders:sum", each_by_one)
        .await;
}

async fn leader_of(prometheus: &Prometheus, role: &str) -> String {
    let leads = format!("election_is_leader{{role=\"{role}\"}} == 1");
    let leader = prometheus
        .until("a leader", &leads, |series| series.len() == 1)
        .await;
    leader[0].label("instance_id").to_owned()
}

async fn another_leads(prometheus: &Prometheus, role: &str, old: &str) {
    let others = format!("election_is_leader{{role=\"{role}\", instance_id!=\"{old}\"}} == 1");
    let one = |series: &[Series]| series.len() == 1;
    prometheus.until("a new leader", &others, one).await;
}

/// A role goes to an instance by name, and another does not.
async fn hand_over(prometheus: &Prometheus, fleet: &mut [Process]) {
    for _ in 0..10 {
        let leader = leader_of(prometheus, "scheduler").await;
        let (leaders, others): (Vec<_>, Vec<_>) =
            fleet.iter_mut().partition(|process| process.id == leader);
        let process = leaders.into_iter().next().expect("the leader");
        let heir = &others.first().expect("another").id;
        let said = process.step_down("scheduler", "nobody");
        assert!(said.starts_with("leads on"), "{said}");
        if process.step_down("scheduler", heir) == "stepped down Some(Accepted)" {
            let leads =
                format!("election_is_leader{{role=\"scheduler\", instance_id=\"{heir}\"}} == 1");
            let one = |series: &[Series]| series.len() == 1;
            let led = prometheus.until("the heir's leadership", &leads, one);
            if timeout(TTL * 5, led).await.is_ok() {
                return;
            }
        }
        // The leader had lost the role before it was asked, or the heir has by now, or led not long
        // ago.
        tokio::time::sleep(TTL).await;
    }
    panic!("nothing was handed over");
}

/// Somebody writes over a role's fence record: the leader's next fenced write is refused.
async fn replace_the_fence(nats: &NatsServer, prometheus: &Prometheus) {
    let client = async_nats::connect(nats.url()).await.expect("connect");
    let jetstream = async_nats::jetstream::new(client);
    let bucket = jetstream.get_key_value(BUCKET).await.expect("the bucket");
    let refused = "sum(election_fenced_writes_total{role=\"metrics\", status=\"superseded\"}) >= 1";
    let some = |series: &[Series]| !series.is_empty();
    for _ in 0..10 {
        leader_of(prometheus, "metrics").await;
        let replaced = bucket.put("_fence.metrics", "replaced".into()).await;
        replaced.expect("put");
        let refusal = prometheus.until("a refusal", refused, some);
        if timeout(TTL * 3, refusal).await.is_ok() {
            return;
        }
        // The leader has found out by its own look at the fence, before its next write.
    }
    panic!("no fenced write was refused");
}

/// Histograms as such: with buckets.
async fn every_metric_arrived(prometheus: &Prometheus) {
    for metric in METRICS {
        let suffix = match metric.kind {
            "histogram" => "_bucket",
            _ => "",
        };
        let series = format!("{}{suffix}", metric.name);
        let some = |series: &[Series]| !series.is_empty();
        prometheus.until(metric.name, &series, some).await;
    }
}

/// All of them are loaded, and none fails.
fn check_rules(prometheus: &Prometheus) {
    let loaded = prometheus.rules();
    for (name, error) in &loaded {
        assert_eq!(*error, None, "{name}");
    }
    let loaded: BTreeSet<_> = loaded.into_iter().map(|(name, _)| name).collect();
    let recorded = recorded().into_iter().map(|rule| rule.place);
    let written: BTreeSet<_> = recorded
        .chain(alerts().into_iter().map(|alert| alert.name))
        .collect();
    assert_eq!(loaded, written);
}

/// What happened is what Prometheus tells, in numbers.
async fn check_truths(prometheus: &Prometheus, victim: &str) {
    let ttl = TTL.as_secs_f64();
    // Of a failover after a crash it is most of a lease that passes; what a histogram tells is the
    // bucket.
    let gap = "max(role:election_failover_gap_seconds:p95_1h{role=\"scheduler\"})";
    prometheus
        .until("the gap", gap, |series| {
            series.iter().any(|it| it.value > ttl / 2.0)
        })
        .await;
    let gone = format!("election_is_leader{{instance_id=\"{victim}\"}}");
    prometheus
        .until("the end of the victim's series", &gone, <[_]>::is_empty)
        .await;
    let two = "ALERTS{alertname=\"NatsElectTwoLeaders\", alertstate=\"firing\"}";
    assert_eq!(prometheus.query(two).expect("an answer").len(), 0);
}

/// Each has at least one series whose value is a number.
async fn check_expressions(prometheus: &Prometheus) {
    let of_others: Vec<_> = OF_EXEC.iter().chain(&OF_SERVE).collect();
    let is_of_others = |it: &Expression| of_others.iter().any(|metric| it.text.contains(*metric));
    let expressions: Vec<_> = all().into_iter().filter(|it| !is_of_others(it)).collect();
    println!(
        "{} expressions; series, of them numbers, place, expression:",
        expressions.len()
    );
    for Expression { place, text } in expressions {
        let what = format!("series of {place}: {text}");
        let is_number = |series: &&Series| !series.value.is_nan();
        let some = |series: &[Series]| series.iter().any(|series| is_number(&series));
        let series = prometheus.until(&what, &text, some).await;
        let numbers = series.iter().filter(is_number).count();
        println!("{:>4} {numbers:>4}  {place:<62} {text}", series.len());
    }
}

fn is(value: f64, other: f64) -> bool {
    (value - other).abs() < f64::EPSILON
}
