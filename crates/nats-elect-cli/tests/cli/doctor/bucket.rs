//! The bucket: its settings, its replicas, and what is in it.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use async_nats::jetstream::{self, stream};
use nats_elect::Error;
use nats_elect_testing::{NatsCluster, NatsServer, eventually};
use serde_json::json;

use super::{bucket_with, doctor, examined, position, put};
use crate::ended;
use crate::fleet::SOON;
use crate::maps::write_map;
use crate::pair::{builder, leads, started};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_survive_the_loss_of_one_if_the_ttl_is_long_enough() {
    let cluster = NatsCluster::start(3).expect("a cluster");
    let manager = started(builder(cluster.urls(), "node-1").replicas(3)).await;
    for role in ["scheduler", "metrics"] {
        leads(&manager, role).await;
    }
    let _second = started(builder(cluster.urls(), "node-2").replicas(3)).await;
    let urls = cluster.urls();
    let checkup = eventually(SOON, "all replicas to be current", async || {
        let checkup = examined(&urls, &[]);
        (checkup.warned() == ["user"]).then_some(checkup)
    })
    .await;
    assert_eq!(checkup.code, Some(0), "{:#}", checkup.report);
    checkup.says("bucket", "ok", "replicas: 3");
    checkup.says("stream leader", "ok", "2 more replicas are current");
    checkup.says("stream leader", "ok", "while 1 of them are down");
    checkup.says("instances", "ok", "2 found");
    checkup.says("candidates", "ok", "2 roles");
    checkup.says("last will", "ok", "no instance has a companion");
    checkup.says("records", "ok", "2 led, 0 free");
    let short = examined(&urls, &["--ttl", "5s"]);
    assert_eq!(short.code, Some(0));
    short.says("ttl", "warn", "4 to 6 seconds");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_replica_on_a_cluster_and_two_are_told_for_what_they_risk() {
    let cluster = NatsCluster::start(3).expect("a cluster");
    let url = cluster.urls();
    let node = cluster.node(0).url();
    bucket_with(&node, |it| it.num_replicas = 1).await;
    examined(&url, &[]).says("replicas", "warn", "replica");
    bucket_with(&node, |it| it.num_replicas = 2).await;
    let before = position(&node).await;
    examined(&url, &[]).says("quorum", "warn", "if either is down");
    assert_eq!(position(&node).await, before, "nothing was written");
}

#[tokio::test]
async fn what_a_bucket_risks_is_told_with_what_to_change() {
    let server = NatsServer::start().expect("a server");
    let url = server.url();
    bucket_with(&url, |it| {
        it.storage = stream::StorageType::Memory;
        it.max_age = Duration::from_secs(5);
        it.max_messages_per_subject = 3;
        it.allow_atomic_publish = false;
        it.allow_message_ttl = false;
        it.first_sequence = None;
        it.allow_direct = true;
        it.allow_rollup = true;
    })
    .await;
    let checkup = examined(&url, &[]);
    assert_eq!(checkup.code, Some(1));
    assert_eq!(
        checkup.verdicts("fail"),
        ["max age and ttl"],
        "{:#}",
        checkup.report
    );
    for (check, words) in [
        ("storage", "in memory"),
        ("max age", "expire after 5s"),
        ("history", "more than the last value"),
        ("batches", "off"),
        ("times to live", "off"),
        ("first sequence", "start low"),
        ("rollups", "empty the bucket"),
        ("direct gets", "direct gets are on"),
    ] {
        checkup.says(check, "warn", words);
    }
    let fits = examined(&url, &["--ttl", "4s"]);
    assert_eq!(fits.verdicts("fail"), [""; 0], "{:#}", fits.report);

    let jetstream = bucket_with(&url, |it| it.max_bytes = 10_000).await;
    put(&jetstream, "_data.a.b", "x".repeat(8_500)).await;
    examined(&url, &[]).says("fill", "warn", "of 10000 bytes");
    put(&jetstream, "_data.a.c", "x".repeat(1_200)).await;
    let full = examined(&url, &[]);
    full.says("fill", "fail", "a full bucket refuses heartbeats");
    full.says("size limits", "warn", "refuses heartbeats");
    let jetstream = bucket_with(&url, |it| it.max_messages = 4).await;
    let three = ["--role", "a", "--role", "b", "--role", "c"];
    let few = examined(&url, &three);
    few.says("size limits", "fail", "2 of 3 roles");
    assert_eq!(few.code, Some(1));
    let enough = examined(&url, &three[..4]);
    assert_eq!(enough.verdicts("fail"), [""; 0], "{:#}", enough.report);
    for key in ["_data.a.b", "_data.a.c", "_data.a.d"] {
        put(&jetstream, key, "x").await;
    }
    let other = examined(&url, &[]);
    other.says("fill", "fail", "3 of 4 messages");

    bucket_with(&url, |it| it.subjects = vec!["$KV.leaders.x".into()]).await;
    examined(&url, &[]).says("bucket", "fail", "does not listen");
}

#[tokio::test]
async fn what_is_wrong_with_groups_is_told_and_a_bucket_with_groups_must_keep_keys() {
    let server = NatsServer::start().expect("a server");
    let age = |config: &mut stream::Config| config.max_age = Duration::from_secs(60);
    bucket_with(&server.url(), age).await;
    let connected = async_nats::connect(server.url()).await;
    let jetstream = jetstream::new(connected.expect("connect"));
    let store = jetstream
        .get_key_value("leaders")
        .await
        .expect("the bucket");
    write_map(&server, "jobs", 3, 1, |unit| (unit < 2).then_some(0)).await;
    let odd = store.put("_groups.odd.map", "x".into()).await;
    odd.expect("put");
    let checkup = examined(&server.url(), &["--group", "partitions"]);
    assert_eq!(checkup.code, Some(1));
    checkup.says("max age and groups", "fail", "\"partitions\"");
    checkup.says("groups", "skipped", "\"partitions\" is not in the bucket");
    for what in [
        "\"jobs\" has no member",
        "\"jobs\": units of a member that has no record: 2",
        "\"jobs\": units without an owner that is alive: 3 of 3",
        "\"odd\" has no map that is understood",
    ] {
        checkup.says("groups", "warn", what);
    }
    let unnamed = examined(&server.url(), &[]);
    unnamed.says("max age and groups", "fail", "\"jobs\"");
}

#[tokio::test]
async fn a_bucket_without_room_for_a_single_role_or_that_drops_keys_is_unfit() {
    let no_room = "no room for one role";
    let mend = "`nats stream edit KV_leaders --max-msgs=-1 --max-bytes=-1`";
    for (bytes, messages, drops, words) in [
        (100, -1, false, no_room),
        (-1, 1, false, no_room),
        (300, -1, true, no_room),
        (-1, 1, true, no_room),
        (-1, 20, true, mend),
    ] {
        let server = NatsServer::start().expect("a server");
        let url = server.url();
        bucket_with(&url, |it| {
            (it.max_bytes, it.max_messages) = (bytes, messages);
            if drops {
                it.discard = stream::DiscardPolicy::Old;
            }
        })
        .await;
        let checkup = examined(&url, &[]);
        checkup.says("bucket", "fail", words);
        assert_eq!(checkup.code, Some(1));
        let start = builder(&*url, "node-1").start().await;
        assert!(matches!(start, Err(Error::BucketUnfit(_))), "{start:?}");
    }
}

#[tokio::test]
async fn records_that_others_wrote_or_left_behind_are_told() {
    let server = NatsServer::start().expect("a server");
    let jetstream = bucket_with(&server.url(), |_| {}).await;
    put(&jetstream, "other", r#"{"id":"go-1","token":"s3cret"}"#).await;
    put(&jetstream, "odd", "not JSON").await;
    let dead = json!({ "id": "node-7", "token": "s3cret", "ttl_ms": 100 });
    put(&jetstream, "left", dead.to_string()).await;
    let url = server.url();
    let checkup = eventually(SOON, "the lease to have passed", async || {
        let checkup = examined(&url, &[]);
        let output = checkup
            .on("records")
            .iter()
            .any(|it| it.1.contains("the leader is gone"));
        output.then_some(checkup)
    })
    .await;
    checkup.says(
        "records",
        "warn",
        "\"left\": the last heartbeat of \"node-7\" was",
    );
    checkup.says("records", "warn", "\"other\" is led by \"go-1\"");
    checkup.says("records", "warn", "\"odd\" can't be read");
    assert!(!checkup.report.to_string().contains("s3cret"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_no_client_can_read_is_named_with_what_removes_it() {
    let server = NatsServer::start().expect("a server");
    bucket_with(&server.url(), |_| {}).await;
    let key = "_groups.jobs.map";
    let headers = "NATS/1.0\r\nno colon\r\n\r\n";
    let mut stream = TcpStream::connect(server.url().trim_start_matches("nats://")).expect("it");
    let message = format!(
        "CONNECT {{\"verbose\":false,\"headers\":true}}\r\nHPUB $KV.leaders.{key} {0} {0}\r\n{headers}\r\nPING\r\n",
        headers.len()
    );
    stream.write_all(message.as_bytes()).expect("sent");
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "PONG"));
    let checkup = examined(&server.url(), &[]);
    checkup.says("groups", "warn", key);
    let told = ended(&mut doctor(&server.url(), &[]));
    told.says("nats kv del leaders _groups.jobs.map");
}
