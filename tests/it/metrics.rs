//! What the metrics say while roles and units change hands.
#![expect(clippy::float_cmp, reason = "small whole numbers")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nats_elect::{Group, Handoff, METRICS, Metric, RoleManager, StepDown, Term, handler_fn};
use nats_elect_testing::{NatsServer, TcpProxy, eventually};

use crate::metrics_page::{STAGES, values_of};
use crate::support::bucket::Stranger;
use crate::support::dashboard::{self, Scrape};
use crate::support::instance::{Recorded, hand_over, standing};
use crate::support::journal::{Journal, RecordedTerm};
use crate::support::member::{GROUP, LEASE, member_with, stop, waits};
use crate::support::{BUCKET, ROLE, SOON, comes_true, leased_for, logs, ms, proxied, served};

/// With its kind, its help, the labels of its scope and its own, whose values are in their closed
/// sets.
fn every_metric_is_there(scrape: &Scrape, ids: &[&str], is_meant: fn(&Metric) -> bool) {
    for metric in METRICS.iter().filter(|metric| is_meant(metric)) {
        let name = metric.name;
        let kind = scrape.kinds.get(name).map(String::as_str);
        assert_eq!(kind, Some(metric.kind), "{name}");
        assert!(scrape.text.contains(&format!("# HELP {name} ")), "{name}");
        let samples: Vec<_> = ids.iter().flat_map(|id| scrape.of(name, id)).collect();
        assert!(!samples.is_empty(), "no sample of {name}");
        let mut expected = BTreeSet::from(["instance_id", "bucket"]);
        let subject = match metric.scope {
            "role" => Some(("role", ROLE)),
            "group" => Some(("group", GROUP)),
            _ => None,
        };
        expected.extend(subject.map(|(label, _)| label));
        expected.extend(metric.labels);
        for sample in samples {
            let labels: BTreeSet<_> = sample.labels.keys().map(String::as_str).collect();
            assert_eq!(labels, expected, "{name}");
            if let Some((label, value)) = subject {
                assert_eq!(sample.labels[label], value);
            }
            assert_eq!(sample.labels["bucket"], BUCKET);
            for label in metric.labels {
                let value = sample.labels[*label].as_str();
                assert!(values_of(name, label).contains(&value), "{name}: {value}");
            }
        }
    }
}

/// Whether a metric is told by members of groups alone.
fn is_of_members(metric: &Metric) -> bool {
    metric.scope == "group" || metric.name.starts_with("election_member_")
}

async fn sharded(proxy: &TcpProxy, id: &str, journal: &Journal) -> RoleManager {
    let handler = Recorded::obedient(id, journal);
    member_with(&proxy.url(), id, Group::sharded(GROUP, 12, handler)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_metrics_of_a_group_tell_who_owns_its_units_and_which_nobody_owns() {
    dashboard::install();
    let logs = logs::install();
    let (server, journal) = served();
    let proxies = [(); 2].map(|()| TcpProxy::start(server.url()).expect("start"));
    let (one, other) = ("grouped-1", "grouped-2");
    let both = [one, other];
    let all = 12.0;
    let a = sharded(&proxies[0], one, &journal).await;
    comes_true("all units on one", async || {
        Scrape::now().value("election_group_units", one, None) == all
    })
    .await;
    let b = sharded(&proxies[1], other, &journal).await;
    let sum = |scrape: &Scrape, metric| -> f64 {
        both.iter().map(|id| scrape.value(metric, id, None)).sum()
    };
    eventually(SOON, "an even group", async || {
        let scrape = Scrape::now();
        let value = |metric, id| scrape.value(metric, id, None);
        let is_so = both.iter().all(|id| {
            value("election_group_units", id) == all / 2.0
                && value("election_group_units_unowned", id) == 0.0
                && value("election_group_unowned_seconds", id) == 0.0
                && value("election_group_members", id) == 2.0
                && value("election_group_imbalance_ratio", id) == 0.0
                && value("election_member_lease_remaining_seconds", id) > 0.0
                && value("election_member_lease_ttl_seconds", id) == LEASE.as_secs_f64()
        });
        (is_so && sum(&scrape, "election_group_coordinator") == 1.0).then_some(())
    })
    .await;
    let scrape = Scrape::now();
    every_metric_is_there(&scrape, &both, is_of_members);
    // The first owned them before the second came.
    let given = Some(("cause", "given"));
    assert!(scrape.value("election_group_terms_ended_total", one, given) >= 1.0);
    assert!(sum(&scrape, "election_group_terms_started_total") >= all);

    // One is cut off, and the other takes its units.
    proxies[0].black_hole();
    eventually(SOON, "all units on the other", async || {
        let scrape = Scrape::now();
        let value = |metric, id| scrape.value(metric, id, None);
        let lost = scrape.value(
            "election_group_terms_ended_total",
            one,
            Some(("cause", "lost")),
        );
        let is_so = value("election_group_units", other) == all
            && value("election_group_units_unowned", other) == 0.0
            && value("election_group_members", other) == 1.0
            && value("election_group_coordinator", other) == 1.0
            && value("election_group_units", one) == 0.0
            && value("election_group_coordinator", one) == 0.0
            && value("election_member_lease_remaining_seconds", one) == 0.0;
        (is_so && lost == all / 2.0).then_some(())
    })
    .await;
    let told = logs.text();
    let is_told = |line: &str| {
        line.contains(one)
            && line.contains("the member's lease is lost")
            && line.contains("terms=6")
    };
    assert!(told.lines().any(is_told), "{told}");

    // The other is cut off, too: nobody owns anything.
    proxies[1].black_hole();
    eventually(SOON, "units without an owner", async || {
        let scrape = Scrape::now();
        let value = |metric| scrape.value(metric, other, None);
        let is_so = value("election_group_units_unowned") == all
            && value("election_group_unowned_seconds") >= 1.0
            && value("election_group_units") == 0.0
            && value("election_group_members") == 0.0;
        is_so.then_some(())
    })
    .await;
    for proxy in &proxies {
        proxy.restore();
    }
    eventually(SOON, "owners for all units", async || {
        let scrape = Scrape::now();
        let value = |metric| scrape.value(metric, other, None);
        let unowned =
            value("election_group_units_unowned") + value("election_group_unowned_seconds");
        (unowned == 0.0 && sum(&scrape, "election_group_units") == all).then_some(())
    })
    .await;
    stop(a).await;
    stop(b).await;
    let scrape = Scrape::now();
    let drained = Some(("cause", "drained"));
    assert!(scrape.value("election_group_terms_ended_total", other, drained) >= 1.0);
    for id in both {
        let value = |metric| scrape.value(metric, id, None);
        assert_eq!(value("election_group_units"), 0.0);
        assert_eq!(value("election_member_lease_ttl_seconds"), 0.0);
        let ended = value("election_group_terms_ended_total");
        assert_eq!(value("election_group_terms_started_total"), ended, "{id}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unit_whose_owner_does_not_act_is_idle_and_has_an_owner() {
    dashboard::install();
    let server = NatsServer::start().expect("start");
    let id = "idle-1";
    let works = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&works);
    let handler = handler_fn(move |term: Term| {
        let works = seen.load(Ordering::SeqCst);
        async move {
            if !works {
                return Err("no disk".into());
            }
            term.cancelled().await;
            Ok(())
        }
    });
    let group = Group::spread(GROUP).unit("works", waits());
    let group = group.unit("rests", handler);
    let manager = member_with(&server.url(), id, group).await;
    let value = |metric| Scrape::now().value(metric, id, None);
    // It rests for longer after each failure.
    eventually(SOON, "a unit that rests", async || {
        let is_so = value("election_group_idle_seconds") >= 1.0
            && value("election_group_units") == 1.0
            && value("election_group_units_unowned") == 0.0;
        is_so.then_some(())
    })
    .await;
    works.store(true, Ordering::SeqCst);
    // The longest rest is 32 heartbeats, five of which make a lease.
    eventually(SOON + LEASE * 32 / 5, "both units act", async || {
        let acts = value("election_group_units") == 2.0;
        (acts && value("election_group_idle_seconds") == 0.0).then_some(())
    })
    .await;
    stop(manager).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_metric_is_there_after_a_failover_and_says_the_truth() {
    dashboard::install();
    let (server, proxy, journal) = proxied();
    let ttl = ms(3000);
    let (one, other) = ("metered-1", "metered-2");
    let a = standing(one, proxy.url(), &journal, leased_for(ttl)).await;
    journal.started(ROLE, 0).await;
    let b = standing(other, server.url(), &journal, leased_for(ttl)).await;
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
        let value = |metric, id: &str| scrape.value(metric, id, None);
        // The lease and who is known are brought up to date last.
        let leads = value("election_is_leader", &leader.id) == 1.0
            && value("election_lease_remaining_seconds", &leader.id) > 0.0;
        let known = [one, other].into_iter().all(|id| {
            value("election_connection_status", id) == 2.0
                && value("election_leader_known", id) == 1.0
                && value("election_leaderless_seconds", id) == 0.0
        });
        (leads && known).then_some(())
    })
    .await;
    // One scrape is not one moment: in the first that shows the new leader other metrics may still
    // lack it.
    let scrape = Scrape::now();
    let terms = journal.terms(ROLE);

    every_metric_is_there(&scrape, &[one, other], |it| !is_of_members(it));
    let value = |metric, id: &str| scrape.value(metric, id, None);
    assert_eq!(value("election_is_leader", &follower.id), 0.0);
    assert!(value("election_lease_remaining_seconds", &leader.id) > 0.0);
    assert_eq!(value("election_lease_remaining_seconds", &follower.id), 0.0);
    assert!(value("election_token_validation_failures_total", other) >= 1.0);
    assert_eq!(value("election_handler_overruns_total", one), 0.0);
    let of = |id: &str, is_it: fn(&RecordedTerm) -> bool| {
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
    for id in [one, other] {
        assert_eq!(value("election_leader_known", id), 1.0);
        assert_eq!(value("election_leaderless_seconds", id), 0.0);
        assert_eq!(value("election_standing", id), 1.0);
        assert_eq!(value("election_lease_ttl_seconds", id), 3.0);
        assert_eq!(value("election_heartbeat_interval_seconds", id), 0.6);
        assert_eq!(value("election_request_timeout_seconds", id), 0.3);
        let ended = value("election_leader_duration_seconds", id);
        assert_eq!(value("election_terms_ended_total", id), ended);
        for stage in &STAGES[1..] {
            let stages = "election_failover_stage_seconds";
            let stages = scrape.value(stages, id, Some(("stage", stage)));
            assert!(stages >= 1.0, "{id}: {stage}");
        }
        // From the one to the other, and from the record that was put there to the next.
        assert!(value("election_failover_gap_seconds", id) >= 2.0, "{id}");
    }
    let sequences =
        [&leader.id, &follower.id].map(|id| value("election_fencing_token_sequence", id));
    assert!(sequences[0] > sequences[1], "{sequences:?}");
    let timeouts = Some(("error_type", "timeout"));
    assert!(scrape.value("election_failures_total", one, timeouts) >= 1.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_without_a_leader_and_what_becomes_of_handoffs_are_told() {
    dashboard::install();
    let (server, proxy, journal) = proxied();
    let (one, other) = ("handing-1", "handing-2");
    // The leader looks no longer than a heartbeat and a half whether its heir has taken the role.
    let ttl = ms(3000);
    let a = standing(one, server.url(), &journal, leased_for(ttl)).await;
    journal.started(ROLE, 0).await;
    let b = standing(other, proxy.url(), &journal, leased_for(ttl)).await;
    b.wait_until_following(one).await;

    let refused = a.role(ROLE).step_down(StepDown::to("nobody")).await;
    refused.expect_err("nobody of that name");
    let down = hand_over(&a.role(ROLE), other).await;
    assert_eq!(down.handoff, Some(Handoff::Accepted));
    journal.started(ROLE, 1).await;
    let scrape = Scrape::now();
    let count = |metric, label| scrape.value(metric, one, Some(label));
    assert!(count("election_handoffs_refused_total", ("reason", "absent")) >= 1.0);
    assert_eq!(
        count("election_handoffs_total", ("outcome", "accepted")),
        1.0
    );
    assert_eq!(
        count("election_terms_ended_total", ("cause", "stepped_down")),
        1.0
    );

    // The leader is cut off, and there is nobody else.
    a.stop().await;
    proxy.black_hole();
    eventually(SOON, "time without a leader", async || {
        let scrape = Scrape::now();
        let alone = scrape.value("election_leaderless_seconds", other, None) >= 2.0;
        (alone && scrape.value("election_leader_known", other, None) == 0.0).then_some(())
    })
    .await;
    let scrape = Scrape::now();
    assert_eq!(scrape.value("election_standing", one, None), 0.0, "stopped");
    assert_eq!(scrape.value("election_leaderless_seconds", one, None), 0.0);
    assert_eq!(scrape.value("election_standing", other, None), 1.0);
    proxy.restore();
    b.wait_until_leader().await;
    eventually(SOON, "a leader", async || {
        let scrape = Scrape::now();
        let known = scrape.value("election_leader_known", other, None);
        let without = scrape.value("election_leaderless_seconds", other, None);
        (known == 1.0 && without == 0.0).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fenced_writes_are_counted_by_their_ends() {
    dashboard::install();
    let (server, journal) = served();
    if server.version() < (2, 12, 0) {
        return;
    }
    let id = "fenced-metered";
    let _a = standing(id, server.url(), &journal, leased_for(ms(10_000))).await;
    let first = journal.started(ROLE, 0).await;
    let store = first.term().store();
    store.create("a", "1").await.expect("created");
    store.create("a", "1").await.expect_err("it stands");
    store.put("a..b", "1").await.expect_err("no key");
    let count = |status| {
        let name = "election_fenced_writes_total";
        Scrape::now().value(name, id, Some(("status", status)))
    };
    let counts = ["written", "conflict", "invalid", "superseded"].map(count);
    assert_eq!(counts, [1.0, 1.0, 1.0, 0.0]);
}
