//! What dashboards and logs show, and what they must not.
#![expect(clippy::float_cmp, reason = "small whole numbers")]

use std::collections::BTreeSet;
use std::fmt::Write;

use nats_elect::testing::{NatsServer, TcpProxy, eventually};
use nats_elect::{METRICS, MetricKind, RoleState, StepDown};

use crate::support::apart::Apart;
use crate::support::bucket::Stranger;
use crate::support::dashboard::{self, Scrape};
use crate::support::instance::instance;
use crate::support::journal::{Journal, Tenure};
use crate::support::{BUCKET, ROLE, SOON, leased_for, logs, ms};

const OUTCOMES: [&str; 5] = ["confirmed", "conflict", "timed_out", "failed", "too_late"];
const FAILURES: [&str; 8] = [
    "timeout",
    "unavailable",
    "permission_denied",
    "bucket_missing",
    "bucket_unfit",
    "rejected",
    "regression",
    "actor_crashed",
];
const DISTRUST: [&str; 7] = [
    "unsigned",
    "malformed",
    "untrusted_key",
    "bad_signature",
    "expired",
    "not_yet_valid",
    "mismatch",
];

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

/// The values that a label may have.
fn values_of(metric: &str, label: &str) -> Vec<&'static str> {
    match (metric, label) {
        (_, "from_state" | "to_state") => RoleState::ALL.map(RoleState::as_str).to_vec(),
        (_, "error_type") => FAILURES.to_vec(),
        ("election_fenced_writes_total", "status") => FENCED_WRITES.to_vec(),
        (_, "status") => OUTCOMES.to_vec(),
        (_, "reason") => DISTRUST.to_vec(),
        _ => panic!("an unknown label {label} of {metric}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_metric_is_there_after_a_failover_and_says_the_truth() {
    dashboard::install();
    let server = NatsServer::start().expect("start");
    let proxy = TcpProxy::start(server.url()).expect("start");
    let journal = Journal::default();
    let ttl = ms(2000);
    let (one, other) = ("metered-1", "metered-2");
    let a = instance(one, proxy.url(), &journal).standing(leased_for(ttl));
    let a = a.start().await;
    journal.started(ROLE, 0).await;
    let b = instance(other, server.url(), &journal).standing(leased_for(ttl));
    let b = b.start().await;
    b.wait_until_following(one).await;

    eventually(SOON, "a heartbeat", async || {
        let (beats, status) = ("election_heartbeat_duration_seconds", "confirmed");
        let confirmed = Scrape::now().value(beats, one, Some(("status", status)));
        (confirmed >= 1.0).then_some(())
    })
    .await;

    // A failover, then a record that was replaced by hand.
    proxy.black_hole();
    journal.started(ROLE, 1).await;
    proxy.restore();
    a.wait_until_following(other).await;
    let stranger = Stranger::connect(&server.url()).await;
    let usurper = br#"{"id":"usurper","token":"t","ttl_ms":300}"#.as_slice();
    let store = stranger.store().await;
    store.put(ROLE, usurper.into()).await.expect("put");
    let third = journal.started(ROLE, 2).await;
    let (leader, follower) = if third.instance == one {
        (&a, &b)
    } else {
        (&b, &a)
    };
    leader.wait_until_leader().await;
    follower.wait_until_following(&third.instance).await;
    eventually(SOON, "a scrape of the new leader", async || {
        let scrape = Scrape::now();
        let leads = scrape.value("election_is_leader", &leader.id, None) == 1.0;
        let connected = [one, other]
            .iter()
            .all(|id| scrape.value("election_connection_status", id, None) == 2.0);
        (leads && connected).then_some(())
    })
    .await;
    // One scrape is not one moment: in the first that shows the new leader other metrics may still lack it.
    let scrape = Scrape::now();
    let terms = journal.tenures(ROLE);

    assert_eq!(METRICS.len(), 13);
    for metric in METRICS {
        let kind = match metric.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        let name = metric.name;
        assert_eq!(
            scrape.kinds.get(name).map(String::as_str),
            Some(kind),
            "{name}"
        );
        assert!(scrape.text.contains(&format!("# HELP {name} ")), "{name}");
        let samples: Vec<_> = [one, other]
            .iter()
            .flat_map(|id| scrape.of(name, id))
            .collect();
        assert!(!samples.is_empty(), "no sample of {name}");
        let mut expected = BTreeSet::from(["role", "instance_id", "bucket"]);
        expected.extend(metric.labels);
        for sample in samples {
            let labels: BTreeSet<_> = sample.labels.keys().map(String::as_str).collect();
            assert_eq!(labels, expected, "{name}");
            assert_eq!(sample.labels["role"], ROLE);
            assert_eq!(sample.labels["bucket"], BUCKET);
            for label in metric.labels {
                let value = sample.labels[*label].as_str();
                assert!(values_of(name, label).contains(&value), "{name}: {value}");
            }
        }
    }

    let value = |metric, id: &str| scrape.value(metric, id, None);
    assert_eq!(value("election_is_leader", &follower.id), 0.0);
    assert!(value("election_lease_remaining_seconds", &leader.id) > 0.0);
    assert_eq!(value("election_lease_remaining_seconds", &follower.id), 0.0);
    assert!(value("election_token_validation_failures_total", other) >= 1.0);
    assert_eq!(value("election_handler_overruns_total", one), 0.0);
    let of = |id: &str, is_it: fn(&Tenure) -> bool| {
        let terms = terms
            .iter()
            .filter(|term| term.instance == id && is_it(term));
        f64::from(u32::try_from(terms.count()).expect("a few"))
    };
    for id in [one, other] {
        let promotions = Some(("to_state", "leader"));
        let promotions = scrape.value("election_transitions_total", id, promotions);
        assert_eq!(promotions, of(id, |_| true), "{id}");
        let ended = value("election_leader_duration_seconds", id);
        assert_eq!(ended, of(id, |term| term.end.is_some()), "{id}");
        // Some may have been told as lost, and found to have landed.
        let claims = value("election_acquire_attempts_total", id);
        assert!(claims >= promotions, "{id}");
    }
    let timeouts = Some(("error_type", "timeout"));
    assert!(scrape.value("election_failures_total", one, timeouts) >= 1.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocked_handler_is_counted_as_an_overrun() {
    dashboard::install();
    let server = NatsServer::start().expect("start");
    let journal = Journal::default();
    let ttl = ms(500);
    let id = "overrunning";
    let apart = Apart::new();
    let a = instance(id, server.url(), &journal).working(ROLE, leased_for(ttl), |_| async {
        std::thread::sleep(ms(3000));
        Ok(())
    });
    let a = apart.start(a).await;
    journal.started(ROLE, 0).await;
    let role = a.role(ROLE);
    tokio::spawn(async move { role.step_down(StepDown::any()).await });
    eventually(SOON, "the count", async || {
        let overruns = Scrape::now().value("election_handler_overruns_total", id, None);
        (overruns == 1.0).then_some(())
    })
    .await;
    assert_eq!(Scrape::now().value("election_is_leader", id, None), 0.0);
    journal.ended(ROLE, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lease_tokens_show_up_nowhere_but_in_the_bucket() {
    dashboard::install();
    let logs = logs::install();
    let server = NatsServer::start().expect("start");
    let proxy = TcpProxy::start(server.url()).expect("start");
    let journal = Journal::default();
    let ttl = ms(1000);
    let id = "discreet";
    let a = instance(id, proxy.url(), &journal)
        .standing(leased_for(ttl))
        .start()
        .await;
    let stranger = Stranger::connect(&server.url()).await;
    let mut shown = String::new();
    for n in 0..4 {
        let tenure = journal.started(ROLE, n).await;
        a.wait_until_leader().await;
        let token = tenure.term().lease_token();
        let record = stranger.record().await;
        assert_eq!(record["token"], token.expose().to_string());
        let role = a.role(ROLE);
        let (status, manager) = (role.status(), a.manager());
        let json = serde_json::to_string(&status).expect("JSON");
        let term = tenure.term();
        write!(
            shown,
            "{term:?} {token:?} {token} {role:?} {status:?} {json} {manager:?} {:?} {:?}",
            a.log().all(),
            role.leader(),
        )
        .expect("text");
        // Each term ends in another way; what goes wrong meanwhile is told in errors.
        match n {
            0 => {
                role.step_down(StepDown::any()).await.expect("a leader");
            }
            1 => proxy.cut(),
            2 => {
                let usurper = br#"{"id":"x","token":"t","ttl_ms":200}"#.as_slice();
                let store = stranger.store().await;
                store.put(ROLE, usurper.into()).await.expect("put");
            }
            _ => {
                proxy.drop_acks();
                let error = role.validate().await.expect_err("no ack");
                write!(shown, "{error} {error:?}").expect("text");
                proxy.restore();
                continue;
            }
        }
        journal.ended(ROLE, n).await;
        let error = tenure.term().validate().await.expect_err("it is over");
        write!(shown, "{error} {error:?}").expect("text");
        proxy.restore();
    }
    a.stop().await;
    let logged = logs.text();
    assert!(
        logged.contains("term started") && logged.contains(id),
        "{logged}"
    );
    shown.push_str(&logged);
    shown.push_str(&Scrape::now().text);
    for tenure in journal.tenures(ROLE) {
        let token = tenure.term().lease_token().expose();
        for secret in [token.to_string(), token.simple().to_string()] {
            let at = shown.to_lowercase().find(&secret);
            assert!(at.is_none(), "…{}…", &shown[at.unwrap_or(0)..][..100]);
        }
    }
}
