//! What Prometheus scrapes.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

use nats_elect::{METRICS, Release, StopOptions};
use nats_elect_testing::NatsServer;
use serde_json::json;

use super::{Answer, serving};
use crate::fleet::{ROLE, bucket, client, instance, led};
use crate::group::{all_owned, member};
use crate::maps::foreign_group;
use crate::programs::programs;
use crate::serve::serving_behind_proxy;

/// The samples that begin with this.
fn samples<'a>(answer: &'a Answer, name: &str) -> Vec<&'a str> {
    let lines = answer.body.lines();
    lines.filter(|line| line.starts_with(name)).collect()
}

/// `promtool` reads it, and finds no fault but names that it would choose otherwise.
#[track_caller]
pub fn is_read_by_promtool(text: &str) {
    let mut promtool = Command::new(programs().join("promtool"))
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool");
    let mut stdin = promtool.stdin.take().expect("a pipe");
    stdin.write_all(text.as_bytes()).expect("written");
    drop(stdin);
    let output = promtool.wait_with_output().expect("its end");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}\n{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_is_told_while_it_is_led_and_while_it_is_not() {
    let (server, a) = led().await;
    let b = instance(&server, "node-2").start().await.expect("start");
    // What is told of groups is told of one that has members, too.
    let _member = member(&server, "node-3").start().await.expect("start");
    let serve = serving(&server, &[]);
    let led = |answer: &Answer| {
        let has = |sample: &str| answer.body.lines().any(|line| line == sample);
        has(
            "election_observed_leader_info{bucket=\"leaders\",role=\"scheduler\",instance_id=\"node-1\"} 1",
        ) && has("election_observed_leader_known{bucket=\"leaders\",role=\"scheduler\"} 1")
            && has("election_observed_leaderless_seconds{bucket=\"leaders\",role=\"scheduler\"} 0")
            && has("election_observed_lease_ttl_seconds{bucket=\"leaders\",role=\"scheduler\"} 3")
            && has("election_observed_candidates{bucket=\"leaders\",role=\"scheduler\"} 2")
            && has("election_observed_instances_silent{bucket=\"leaders\"} 0")
            && has("election_observed_current{bucket=\"leaders\"} 1")
            && samples(answer, "election_observed_fencing_token_sequence").len() == 1
            && samples(answer, "election_observed_member_lease_ttl_seconds").len() == 1
            && samples(answer, "election_observed_group_unowned_seconds").len() == 2
    };
    let led = serve.until("a leader's series", "/metrics", led).await;
    let kind = led.header("content-type");
    assert_eq!(kind, Some("text/plain; version=0.0.4; charset=utf-8"));
    is_read_by_promtool(&led.body);
    let named: BTreeSet<_> = (led.body.lines())
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .collect();
    for metric in METRICS {
        assert!(
            !named.contains(metric.name),
            "{} is an instance's",
            metric.name
        );
    }
    let page = include_str!("../../../../../docs/serve.md");
    for name in &named {
        assert!(page.contains(&format!("`{name}`")), "{name} is in no table");
    }
    let tables = page.lines().filter(|line| line.starts_with("| `election_"));
    for name in tables.flat_map(|line| line.split(" | ").next().unwrap_or_default().split('`')) {
        let is_name = name.starts_with("election_");
        assert!(!is_name || named.contains(name), "{name} is not told");
    }

    a.stop(StopOptions::default()).await.expect("a stop");
    b.stop(StopOptions::default()).await.expect("a stop");
    let released =
        "election_observed_changes_total{bucket=\"leaders\",role=\"scheduler\",cause=\"released\"}";
    let free = |answer: &Answer| {
        let known = "election_observed_leader_known{bucket=\"leaders\",role=\"scheduler\"} 0";
        let counted = samples(answer, released);
        answer.body.lines().any(|line| line == known)
            && counted.first().is_some_and(|line| !line.ends_with(" 0"))
    };
    let free = serve.until("a role without leader", "/metrics", free).await;
    assert_eq!(samples(&free, "election_observed_leader_info{"), [""; 0]);
    is_read_by_promtool(&free.body);
}

/// The value of the one sample that begins with this.
#[track_caller]
pub fn value(answer: &Answer, name: &str) -> f64 {
    let [sample] = samples(answer, name)[..] else {
        panic!("{name}: {}", answer.body)
    };
    let value = sample.rsplit(' ').next().expect("a value");
    value.parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn units_of_a_group_are_counted_with_and_without_their_owner() {
    let server = NatsServer::start().expect("start");
    let a = member(&server, "node-1").start().await.expect("start");
    all_owned(&[&a]).await;
    foreign_group(&server, "odd", 3).await;
    let serve = serving(&server, &[]);
    let of = |name: &str, group: &str, more: &str| {
        format!("election_observed_group_{name}{{bucket=\"leaders\",group=\"{group}\"{more}}}")
    };
    let seconds = of("unowned_seconds", "partitions", "");
    let is_owned = |answer: &Answer| {
        let sample = format!("{seconds} 0");
        answer.body.lines().any(|line| line == sample)
    };
    let told = serve.until("owned units", "/metrics", is_owned).await;
    is_read_by_promtool(&told.body);
    for (name, group, more, expected) in [
        ("units", "partitions", "", 12.0),
        ("members", "partitions", "", 1.0),
        ("units_unowned", "partitions", ",standing=\"free\"", 0.0),
        ("units", "odd", "", 3.0),
        ("units_unowned", "odd", ",standing=\"free\"", 3.0),
        ("members", "odd", "", 0.0),
    ] {
        let name = of(name, group, more);
        assert!(
            (value(&told, &name) - expected).abs() < 0.1,
            "{name}: {}",
            told.body
        );
    }
    let ttl = value(&told, "election_observed_member_lease_ttl_seconds{");
    assert!((ttl - 3.0).abs() < 0.1, "{ttl}");

    // It keeps all records, and sends no heartbeat any more.
    let kept = StopOptions::default().release(Release::Keep);
    a.stop(kept).await.expect("a stop");
    let expired = of("units_unowned", "partitions", ",standing=\"expired\"");
    let gone = |answer: &Answer| value(answer, &expired) > 11.0 && value(answer, &seconds) > 1.0;
    serve.until("units without owner", "/metrics", gone).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_that_strangers_made_up_keep_no_real_one_from_being_told_of() {
    let server = NatsServer::start().expect("start");
    let a = member(&server, "node-1").start().await.expect("start");
    all_owned(&[&a]).await;
    let bucket = bucket(&server).await;
    foreign_group(&server, "odd", 3).await;
    for forged in 0..300 {
        let key = format!("_groups.a{forged}.map");
        bucket.put(key, "x".into()).await.expect("put");
    }
    let serve = serving(&server, &[]);
    let units = "election_observed_group_units{";
    let is_full = |answer: &Answer| samples(answer, units).len() >= 256;
    let told = serve.until("all groups", "/metrics", is_full).await;
    assert_eq!(samples(&told, units).len(), 256);
    for (group, units) in [("control", 2.0), ("partitions", 12.0), ("odd", 3.0)] {
        let name = format!("election_observed_group_units{{bucket=\"leaders\",group=\"{group}\"}}");
        assert!((value(&told, &name) - units).abs() < 0.1, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_that_vanishes_takes_its_series_along() {
    let server = NatsServer::start().expect("start");
    let bucket = bucket(&server).await;
    let record = json!({ "id": "node-1", "ttl_ms": 1000 }).to_string();
    bucket.put("gone", record.into()).await.expect("put");
    let serve = serving(&server, &[]);
    let has = |answer: &Answer| answer.body.contains("role=\"gone\"");
    serve.until("its series", "/metrics", has).await;
    // The bucket is made anew: nothing in it is of before.
    let jetstream = async_nats::jetstream::new(client(&server).await);
    let deleted = jetstream.delete_key_value("leaders").await;
    deleted.expect("delete");
    crate::fleet::bucket(&server).await;
    let is_gone = |answer: &Answer| answer.status == 200 && !has(answer);
    serve
        .until("the end of its series", "/metrics", is_gone)
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_is_told_and_no_leader_is_known_beyond_the_lease() {
    let (server, _a) = led().await;
    foreign_group(&server, "odd", 3).await;
    let (proxy, serve) = serving_behind_proxy(&server);
    let known = format!("election_observed_leader_known{{bucket=\"leaders\",role=\"{ROLE}\"}}");
    let says =
        |answer: &Answer, value: &str| samples(answer, &known) == [format!("{known} {value}")];
    serve
        .until("a leader", "/metrics", |it| says(it, "1"))
        .await;
    proxy.black_hole();
    let cut_off = |answer: &Answer| {
        let is_stale = "election_observed_current{bucket=\"leaders\"} 0";
        says(answer, "0") && answer.body.lines().any(|line| line == is_stale)
    };
    let cut_off = serve.until("the outage", "/metrics", cut_off).await;
    // Nobody can tell how long. (Groups have a watch of their own, which notices by itself.)
    let untold =
        |answer: &Answer| samples(answer, "election_observed_group_unowned_seconds{").is_empty();
    serve.until("untold times", "/metrics", untold).await;
    let leaderless = samples(&cut_off, "election_observed_leaderless_seconds{");
    assert_eq!(leaderless, [""; 0]);
    assert_eq!(
        samples(&cut_off, "election_observed_lease_remaining_seconds{"),
        [""; 0]
    );
}
