//! `doctor`: what it finds, and that it changes nothing.

use std::process::Command;

use async_nats::jetstream::{self, stream};
use nats_elect::{Error, StopOptions};
use nats_elect_testing::{NatsCluster, NatsServer, eventually};
use serde_json::{Value, json};

#[cfg(target_os = "linux")]
use crate::candidates::kill_companion;
use crate::pair::{SOON, answer, builder, leads, started};
use crate::{Ended, ended, nats_elect, with_stdin};
use nats_elect_testing::old_server;

/// What `doctor` said.
struct Checkup {
    code: Option<i32>,
    report: Value,
}

impl Checkup {
    fn of(command: &mut Command) -> Self {
        let Ended {
            code,
            stdout,
            stderr,
        } = ended(command.arg("--json"));
        let report = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stdout}{stderr}"));
        Self { code, report }
    }

    /// The verdicts on a check, each with what was found.
    fn on(&self, check: &str) -> Vec<(&str, &str)> {
        let all = self.report["checks"].as_array().expect("a list").iter();
        let these = all.filter(|it| it["check"] == check);
        these
            .map(|it| {
                (
                    it["verdict"].as_str().expect("text"),
                    it["found"].as_str().expect("text"),
                )
            })
            .collect()
    }

    fn verdicts(&self, verdict: &str) -> Vec<&str> {
        let all = self.report["checks"].as_array().expect("a list").iter();
        let these = all.filter(|it| it["verdict"] == verdict);
        these
            .map(|it| it["check"].as_str().expect("text"))
            .collect()
    }

    /// The checks that warn, but for what is told of a server before 2.12.
    fn warned(&self) -> Vec<&str> {
        let mut warned = self.verdicts("warn");
        if warned.contains(&"server version") {
            warned.retain(|it| !["server version", "batches"].contains(it));
        }
        warned
    }

    fn says(&self, check: &str, verdict: &str, words: &str) {
        let on = self.on(check);
        let said = on
            .iter()
            .any(|(it, found)| *it == verdict && found.contains(words));
        assert!(said, "{check} {verdict} {words}: {:#}", self.report);
    }
}

fn doctor(url: &str, more: &[&str]) -> Command {
    let mut command = nats_elect(&["doctor", "--server", url]);
    command.args(more);
    command
}

/// Makes the stream of a bucket, with changes to its settings.
async fn bucket_with(url: &str, change: impl FnOnce(&mut stream::Config)) -> jetstream::Context {
    let jetstream = jetstream::new(async_nats::connect(url).await.expect("connect"));
    let mut config = stream::Config {
        name: "KV_leaders".into(),
        subjects: vec!["$KV.leaders.>".into()],
        max_messages_per_subject: 1,
        discard: stream::DiscardPolicy::New,
        allow_atomic_publish: true,
        first_sequence: Some(1_793_874_030_000_000),
        ..stream::Config::default()
    };
    change(&mut config);
    // A cluster that has just begun may forget a request as its leader moves.
    eventually(SOON, "a stream", async || {
        jetstream.create_stream(config.clone()).await.ok()
    })
    .await;
    jetstream
}

/// Where the bucket's last message stands, and how many there ever were.
async fn position(url: &str) -> (u64, u64) {
    let jetstream = jetstream::new(async_nats::connect(url).await.expect("connect"));
    let mut stream = jetstream.get_stream("KV_leaders").await.expect("a stream");
    let state = &stream.info().await.expect("its state").state;
    (state.last_sequence, state.messages)
}

/// Puts a value under a key, past every protocol.
async fn put(jetstream: &jetstream::Context, key: &str, value: impl Into<String>) {
    let subject = format!("$KV.leaders.{key}");
    let sent = jetstream
        .publish(subject, value.into().into())
        .await
        .expect("sent");
    sent.await.expect("stored");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_healthy_server_is_found_healthy_and_left_as_it_was() {
    let server = NatsServer::start().expect("a server");
    let manager = started(builder(server.url(), "node-1")).await;
    leads(&manager, "scheduler").await;
    manager.stop(StopOptions::default()).await.expect("stop");
    let before = position(&server.url()).await;
    let url = server.url();
    let roles = ["--role", "scheduler", "--role", "metrics"];
    let checkup = eventually(SOON, "round trips without a pause", async || {
        let checkup = Checkup::of(&mut doctor(&url, &roles));
        let slow = checkup.warned().contains(&"round trips");
        (!slow).then_some(checkup)
    })
    .await;
    assert_eq!(position(&url).await, before, "nothing was written");
    assert_eq!(checkup.code, Some(0), "{:#}", checkup.report);
    assert_eq!(
        checkup.warned(),
        ["user", "replicas"],
        "{:#}",
        checkup.report
    );
    assert_eq!(checkup.verdicts("skipped"), [""; 0]);
    checkup.says("may lead", "ok", "\"scheduler\"");
    checkup.says("may lead", "ok", "\"metrics\"");
    checkup.says("round trips", "ok", "writes that the stream leader refused");
    let strict = Checkup::of(&mut doctor(&server.url(), &["--strict"]));
    assert_eq!(strict.code, Some(1));
}

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
        let checkup = Checkup::of(&mut doctor(&urls, &[]));
        (checkup.warned() == ["user"]).then_some(checkup)
    })
    .await;
    assert_eq!(checkup.code, Some(0), "{:#}", checkup.report);
    checkup.says("replicas", "ok", "3");
    checkup.says("stream leader", "ok", "2 more replicas are current");
    checkup.says("survives", "ok", "the loss of 1 node of 3");
    checkup.says("instances", "ok", "2 found");
    checkup.says("candidates", "ok", "2 roles");
    checkup.says("last will", "ok", "no instance has a companion");
    checkup.says("records", "ok", "2 led, 0 free");
    let short = Checkup::of(&mut doctor(&urls, &["--ttl", "5s"]));
    assert_eq!(short.code, Some(0));
    short.says("ttl", "warn", "4 to 6 seconds");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_replica_on_a_cluster_and_two_are_told_for_what_they_risk() {
    let cluster = NatsCluster::start(3).expect("a cluster");
    let url = cluster.urls();
    let node = cluster.node(0).url();
    let jetstream = bucket_with(&node, |it| it.num_replicas = 1).await;
    Checkup::of(&mut doctor(&url, &[])).says("survives", "warn", "keeps the bucket");
    jetstream
        .delete_stream("KV_leaders")
        .await
        .expect("deleted");
    bucket_with(&node, |it| it.num_replicas = 2).await;
    let before = position(&node).await;
    Checkup::of(&mut doctor(&url, &[])).says("quorum", "warn", "if either is down");
    assert_eq!(position(&node).await, before, "nothing was written");
}

#[test]
fn a_server_that_is_too_old_fails() {
    let url = old_server("2.10.26");
    let checkup = Checkup::of(&mut doctor(&url, &["--timeout", "200ms"]));
    assert_eq!(checkup.code, Some(1));
    checkup.says("server version", "fail", "2.10.26");
    checkup.says("connection", "ok", "2.10.26");
}

#[tokio::test]
async fn what_a_bucket_risks_is_told_with_what_to_change() {
    let server = NatsServer::start().expect("a server");
    let url = server.url();
    let jetstream = bucket_with(&url, |it| {
        it.storage = stream::StorageType::Memory;
        it.max_age = std::time::Duration::from_secs(5);
        it.max_messages_per_subject = 3;
        it.allow_atomic_publish = false;
        it.first_sequence = None;
        it.allow_direct = true;
        it.max_message_size = 1000;
        it.allow_rollup = true;
    })
    .await;
    let checkup = Checkup::of(&mut doctor(&url, &[]));
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
        ("first sequence", "start low"),
        ("value size", "larger than 1000 bytes"),
        ("rollups", "empty the bucket"),
        ("direct gets", "direct gets are on"),
    ] {
        checkup.says(check, "warn", words);
    }
    let fits = Checkup::of(&mut doctor(&url, &["--ttl", "4s"]));
    assert_eq!(fits.verdicts("fail"), [""; 0], "{:#}", fits.report);

    jetstream
        .delete_stream("KV_leaders")
        .await
        .expect("deleted");
    let jetstream = bucket_with(&url, |it| it.max_bytes = 10_000).await;
    put(&jetstream, "_data.a.b", "x".repeat(8_500)).await;
    Checkup::of(&mut doctor(&url, &[])).says("fill", "warn", "of 10000 bytes");
    put(&jetstream, "_data.a.c", "x".repeat(1_200)).await;
    let full = Checkup::of(&mut doctor(&url, &[]));
    full.says("fill", "fail", "a full bucket refuses heartbeats");
    full.says("size limits", "warn", "refuses heartbeats");
    jetstream
        .delete_stream("KV_leaders")
        .await
        .expect("deleted");
    let jetstream = bucket_with(&url, |it| it.max_messages = 4).await;
    let three = ["--role", "a", "--role", "b", "--role", "c"];
    let few = Checkup::of(&mut doctor(&url, &three));
    few.says("size limits", "fail", "2 of 3 roles");
    assert_eq!(few.code, Some(1));
    let enough = Checkup::of(&mut doctor(&url, &three[..4]));
    assert_eq!(enough.verdicts("fail"), [""; 0], "{:#}", enough.report);
    for key in ["_data.a.b", "_data.a.c", "_data.a.d"] {
        put(&jetstream, key, "x").await;
    }
    let other = Checkup::of(&mut doctor(&url, &[]));
    other.says("fill", "fail", "3 of 4 messages");

    jetstream
        .delete_stream("KV_leaders")
        .await
        .expect("deleted");
    bucket_with(&url, |it| it.subjects = vec!["$KV.leaders.x".into()]).await;
    Checkup::of(&mut doctor(&url, &[])).says("bucket", "fail", "does not listen");
}

#[tokio::test]
async fn a_bucket_whose_keys_expire_is_not_for_groups() {
    let server = NatsServer::start().expect("a server");
    let age = |config: &mut stream::Config| config.max_age = std::time::Duration::from_secs(60);
    bucket_with(&server.url(), age).await;
    let checkup = Checkup::of(&mut doctor(&server.url(), &["--group", "partitions"]));
    assert_eq!(checkup.code, Some(1));
    checkup.says("max age and groups", "fail", "\"partitions\"");
    let odd = ended(&mut doctor(&server.url(), &["--group", "a.b"]));
    assert_eq!(odd.code, Some(2), "{}", odd.stderr);
}

#[tokio::test]
async fn what_is_wrong_with_groups_is_told_and_a_bucket_with_groups_must_keep_keys() {
    let server = NatsServer::start().expect("a server");
    let age = |config: &mut stream::Config| config.max_age = std::time::Duration::from_secs(60);
    bucket_with(&server.url(), age).await;
    let connected = async_nats::connect(server.url()).await;
    let jetstream = jetstream::new(connected.expect("connect"));
    let store = jetstream
        .get_key_value("leaders")
        .await
        .expect("the bucket");
    for (key, value) in [
        (
            "_group.g.jobs",
            r#"{"v":1,"kind":"sharded","n":3,"gen":2,"before":1}"#,
        ),
        ("_group.u.jobs.1.0", r#"{"v":1}"#),
        ("_group.u.jobs.2.0", r#"{"v":1}"#),
        ("_group.u.jobs.2.1", "x"),
    ] {
        store.put(key, value.into()).await.expect("put");
    }
    let checkup = Checkup::of(&mut doctor(&server.url(), &["--group", "partitions"]));
    checkup.says("max age and groups", "fail", "\"partitions\"");
    checkup.says("groups", "skipped", "\"partitions\" is not in the bucket");
    for what in [
        "\"jobs\" has no member",
        "without a key: 1",
        "not understood: 1",
        "not closed: 1",
        "without an owner that is alive: 3 of 3",
    ] {
        checkup.says("groups", "warn", what);
    }
    let unnamed = Checkup::of(&mut doctor(&server.url(), &[]));
    unnamed.says("max age and groups", "fail", "\"jobs\"");
}

#[tokio::test]
async fn a_bucket_without_room_for_a_single_role_is_unfit() {
    let server = NatsServer::start().expect("a server");
    let url = server.url();
    let changes: [fn(&mut stream::Config); 4] = [
        |it| it.max_bytes = 100,
        |it| it.max_messages = 1,
        |it| {
            it.max_bytes = 300;
            it.discard = stream::DiscardPolicy::Old;
        },
        |it| {
            it.max_messages = 1;
            it.discard = stream::DiscardPolicy::Old;
        },
    ];
    for change in changes {
        let jetstream = bucket_with(&url, change).await;
        let checkup = Checkup::of(&mut doctor(&url, &[]));
        checkup.says("bucket", "fail", "no room for one role");
        assert_eq!(checkup.code, Some(1));
        let start = builder(&*url, "node-1").start().await;
        assert!(matches!(start, Err(Error::BucketUnfit(_))), "{start:?}");
        jetstream
            .delete_stream("KV_leaders")
            .await
            .expect("deleted");
    }
}

#[tokio::test]
async fn a_bucket_that_drops_keys_when_it_is_full_fails_with_the_command_that_mends_it() {
    let server = NatsServer::start().expect("a server");
    let url = server.url();
    let drops = |it: &mut stream::Config| {
        it.max_messages = 20;
        it.discard = stream::DiscardPolicy::Old;
    };
    bucket_with(&url, drops).await;
    let checkup = Checkup::of(&mut doctor(&url, &[]));
    assert_eq!(checkup.code, Some(1));
    let mend = "`nats stream edit KV_leaders --max-msgs=-1 --max-bytes=-1`";
    checkup.says("bucket", "fail", mend);
}

#[tokio::test]
async fn what_is_missing_altogether_is_told() {
    let server = NatsServer::start().expect("a server");
    let none = Checkup::of(&mut doctor(&server.url(), &[]));
    assert_eq!(none.code, Some(1));
    none.says("JetStream", "ok", "on");
    none.says("bucket", "fail", "does not exist");

    let without = NatsServer::builder()
        .without_jetstream()
        .start()
        .expect("a server");
    let checkup = Checkup::of(&mut doctor(&without.url(), &[]));
    assert_eq!(checkup.code, Some(1));
    assert_eq!(checkup.verdicts("fail"), ["JetStream"]);

    let nobody = Checkup::of(&mut doctor("nats://127.0.0.1:1", &[]));
    assert_eq!(nobody.code, Some(1));
    assert_eq!(nobody.verdicts("fail"), ["connection"]);

    for arguments in [
        &["--ttl", "1ms"][..],
        &["--config", "/nonexistent.toml"],
        &["--role", "a.b"],
        &["--ttl", "1s", "--config", "x"],
    ] {
        let output = ended(&mut doctor(&server.url(), arguments));
        assert_eq!(output.code, Some(2), "{arguments:?}: {}", output.stderr);
    }
}

/// The users of files like those in `deploy/nats`, in one configuration.
pub fn users_of(files: &[&str]) -> String {
    let users = files.iter().map(|file| {
        let (_, users) = file.split_once("users = [").expect("a list of users");
        users.rsplit_once(']').expect("its end").0
    });
    let users: String = users.collect();
    format!("authorization {{ users = [ {users} ] }}\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_permissions_that_are_recommended_are_found_to_be_enough() {
    let users = users_of(&[
        include_str!("../../../../deploy/nats/candidate.conf"),
        include_str!("../../../../deploy/nats/observer.conf"),
        include_str!("../../../../deploy/nats/operator.conf"),
        include_str!("../../../../deploy/nats/admin.conf"),
    ]);
    let server = NatsServer::builder()
        .config(&users)
        .start()
        .expect("a server");
    let login = ["--user", "admin", "--password", "change-me"];
    let made = ended(nats_elect(&["create-bucket", "--server", &server.url()]).args(login));
    assert_eq!(made.code, Some(0), "{}{}", made.stdout, made.stderr);
    let as_user = |user: &str, part: &str, more: &[&str]| {
        let mut command = doctor(
            &server.url(),
            &["--as", part, "--user", user, "--password", "change-me"],
        );
        Checkup::of(command.args(more))
    };
    let roles = ["--role", "scheduler", "--role", "metrics"];
    for part in ["candidate", "observer", "operator"] {
        let checkup = as_user(part, part, &roles);
        assert_eq!(checkup.code, Some(0), "{part}: {:#}", checkup.report);
        let mut warned = checkup.warned();
        // The machine may pause while they are measured.
        warned.retain(|it| *it != "round trips");
        assert!(
            warned.iter().all(|it| *it == "replicas"),
            "{part}: {warned:?}"
        );
    }
    let member = as_user("candidate", "candidate", &["--group", "partitions"]);
    assert_eq!(member.code, Some(0), "{:#}", member.report);
    member.says("may own units", "ok", "\"partitions\"");
    member.says("groups", "skipped", "not in the bucket");
    member.says("may keep data", "ok", "\"partitions\"");
    assert_eq!(member.on("may lead"), [], "no role was named");
    let operator = as_user("operator", "operator", &["--group", "partitions"]);
    assert_eq!(operator.code, Some(0), "{:#}", operator.report);
    let looks = as_user("observer", "operator", &["--group", "partitions"]);
    looks.says("may operate", "fail", "take-unit");
    let looks = as_user("observer", "operator", &["--role", "scheduler"]);
    looks.says("may operate", "fail", "cordon");
    let other = as_user("candidate", "candidate", &["--group", "others"]);
    assert_eq!(other.code, Some(1), "{:#}", other.report);
    for (check, verdict, key) in [
        ("may own units", "fail", "_group.g.others"),
        ("may own units", "fail", "_group.u.others.>"),
        ("may keep data", "warn", "_gdata.others.>"),
        ("may keep data", "warn", "_guard.others.>"),
    ] {
        other.says(check, verdict, &format!("\"$KV.leaders.{key}\""));
    }
    let other = as_user("candidate", "candidate", &["--role", "other"]);
    other.says("may lead", "fail", "\"$KV.leaders.other\"");
    let nameless = as_user("candidate", "candidate", &[]);
    assert_eq!(nameless.code, Some(0), "{:#}", nameless.report);
    nameless.says("may lead", "warn", "the bucket has no role to try");
    let made = builder(server.url(), "node-1").user_and_password("candidate", "change-me");
    let candidate = started(made).await;
    leads(&candidate, "scheduler").await;
    as_user("candidate", "candidate", &[]).says(
        "may lead",
        "ok",
        "in the bucket, but not those of every role",
    );
    let none = as_user("observer", "candidate", &[]);
    none.says("may lead", "fail", "\"$KV.leaders.");
    assert_eq!(none.code, Some(1));
    let passer = as_user("observer", "operator", &[]);
    assert!(
        passer.verdicts("fail").contains(&"may operate"),
        "{:#}",
        passer.report
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_permission_that_is_missing_is_told_by_its_subject() {
    let publish = [
        ("$JS.API.STREAM.INFO.KV_leaders", "bucket", "fail"),
        ("$JS.API.STREAM.MSG.GET.KV_leaders", "may read", "fail"),
        ("$JS.API.CONSUMER.CREATE.KV_leaders.>", "may watch", "fail"),
        ("$JS.FC.KV_leaders.>", "may pace watches", "fail"),
        ("$KV.leaders.scheduler", "may lead", "fail"),
        ("$KV.leaders._fence.scheduler", "may lead", "fail"),
        ("$KV.leaders._data.scheduler.>", "may keep data", "warn"),
        ("$KV.leaders._guard.scheduler", "may keep data", "warn"),
        ("nats-elect.leaders.scheduler", "may hand over", "warn"),
        ("nats-elect.leaders.scheduler.*", "may hand over", "warn"),
        ("nats-elect.leaders._answer.>", "may hand over", "warn"),
        (
            "nats-elect-admin.leaders._answer.>",
            "may be operated",
            "warn",
        ),
        ("$JS.API.INFO", "account limits", "skipped"),
        ("nats-elect-admin.leaders.instances", "instances", "skipped"),
    ];
    let subscribe = [
        ("_INBOX.>", "user", "fail"),
        ("nats-elect.leaders.*", "may hand over", "warn"),
        ("nats-elect.leaders.*.*", "may hand over", "warn"),
        (
            "nats-elect-admin.leaders.cordon.*",
            "may be operated",
            "warn",
        ),
        (
            "nats-elect-admin.leaders.cordon.*.*",
            "may be operated",
            "warn",
        ),
        ("$SRV.PING", "may be operated", "warn"),
    ];
    let kinds = [("publish", &publish[..]), ("subscribe", &subscribe[..])];
    let mut users = String::from("{ user: all, password: p }\n");
    let mut cases = Vec::new();
    for (kind, denied) in kinds {
        for case in denied {
            let user = format!("u{}", cases.len());
            let entry = format!(
                "{{ user: {user}, password: p, permissions: {{ {kind}: {{ allow: \">\", deny: {:?} }} }} }}\n",
                [case.0]
            );
            users.push_str(&entry);
            cases.push((user, kind, case));
        }
    }
    let config = format!("authorization {{ users = [ {users} ] }}\n");
    let server = NatsServer::builder()
        .config(&config)
        .start()
        .expect("a server");
    let maker = started(builder(server.url(), "maker").user_and_password("all", "p")).await;
    maker.stop(StopOptions::default()).await.expect("stop");
    for (user, kind, (subject, check, verdict)) in cases {
        let options = ["--user", &user, "--password", "p", "--role", "scheduler"];
        let checkup = Checkup::of(&mut doctor(&server.url(), &options));
        let fixed = subject.split(['*', '>']).next().expect("a part");
        let words = format!("may not {kind} to \"{fixed}");
        checkup.says(check, verdict, &words);
        assert_eq!(
            checkup.code,
            Some(i32::from(verdict == &"fail")),
            "{subject}: {:#}",
            checkup.report
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_missing_for_one_purpose_is_one_finding_that_names_each_subject() {
    let denied = r#"["$SRV.>", "nats-elect-admin.leaders.>"]"#;
    let config = format!(
        "authorization {{ users = [ {{ user: u, password: p, permissions: {{ \
         publish: \">\", subscribe: {{ allow: \">\", deny: {denied} }} }} }} ] }}\n"
    );
    let server = NatsServer::builder().config(&config).start();
    let server = server.expect("a server");
    let maker = started(builder(server.url(), "maker").user_and_password("u", "p")).await;
    maker.stop(StopOptions::default()).await.expect("stop");
    let options = ["--user", "u", "--password", "p", "--role", "scheduler"];
    let checkup = Checkup::of(&mut doctor(&server.url(), &options));
    assert_eq!(
        checkup.on("may be operated").len(),
        1,
        "{:#}",
        checkup.report
    );
    for subject in [
        "\"$SRV.PING\"",
        "\"nats-elect-admin.leaders.instances\"",
        "\"nats-elect-admin.leaders.cordon.*.scheduler\"",
    ] {
        checkup.says("may be operated", "warn", subject);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_applications_that_stand_for_one_role_are_told() {
    let server = NatsServer::start().expect("a server");
    let _first = started(builder(server.url(), "node-1").application("billing")).await;
    let _second = started(builder(server.url(), "node-2")).await;
    answer(&server, 2).await;
    let words = "different applications stand for metrics, scheduler: billing (node-1)";
    Checkup::of(&mut doctor(&server.url(), &[])).says("applications", "warn", words);
    let mut candidates = nats_elect(&["candidates", "--server", &server.url()]);
    let listed = ended(&mut candidates);
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    for expected in [words, "NATS_ELECT_BUCKET"] {
        assert!(listed.stderr.contains(expected), "{}", listed.stderr);
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
        let checkup = Checkup::of(&mut doctor(&url, &[]));
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
async fn a_role_that_nobody_claims_is_told_with_the_candidates_that_stand_for_it() {
    let server = NatsServer::builder()
        .config(
            "no_auth_user: all\nauthorization { users = [ { user: all, password: p }, \
             { user: weak, password: p, permissions: { publish: { deny: [\"$KV.leaders.*\"] } } } ] }",
        )
        .start()
        .expect("a server");
    let url = server.url();
    let jetstream = bucket_with(&url, |_| {}).await;
    let dead = json!({ "id": "node-7", "token": "t", "ttl_ms": 100 });
    put(&jetstream, "scheduler", dead.to_string()).await;
    let told = async |words: &str| {
        eventually(SOON, words, async || {
            let checkup = Checkup::of(&mut doctor(&url, &[]));
            let is_told = checkup.on("records").iter().any(|it| it.1.contains(words));
            is_told.then(|| checkup.report.to_string())
        })
        .await
    };
    let report = told("nobody claims the role").await;
    assert!(report.contains("start a candidate"), "{report}");

    let weak = async |id| started(builder(server.url(), id).user_and_password("weak", "p")).await;
    let (one, two) = (weak("node-1").await, weak("node-2").await);
    let report = told("though these stand for it: node-1, node-2").await;
    assert!(!report.contains("start a candidate"), "{report}");
    for manager in [&one, &two] {
        manager.pause().await.expect("paused");
    }
    let report = told("; paused: node-1, node-2").await;
    assert!(
        report.contains("resume node-1 --role scheduler"),
        "{report}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_of_one_id_are_told() {
    let server = NatsServer::start().expect("a server");
    let _first = started(builder(server.url(), "twin")).await;
    let _second = started(builder(server.url(), "twin")).await;
    answer(&server, 2).await;
    Checkup::of(&mut doctor(&server.url(), &[])).says(
        "instances",
        "warn",
        "2 processes have the id \"twin\"",
    );
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_tells_who_would_lead_after_a_crash_and_how_soon() {
    use nats_elect::{Group, LastWillConfig, Term, handler_fn};

    let server = NatsServer::start().expect("a server");
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("companion");
    let command = env!("CARGO_BIN_EXE_nats-elect");
    std::os::unix::fs::symlink(command, &program).expect("a link");
    let by_companion = LastWillConfig::by(&program);
    let node = builder(server.url(), "node-1").last_will(by_companion);
    let node = started(node).await;
    leads(&node, "scheduler").await;
    let url = server.url();
    let alone = eventually(SOON, "a companion that is ready", async || {
        let checkup = Checkup::of(&mut doctor(&url, &[]));
        let is_ready = checkup
            .on("last will")
            .iter()
            .all(|(verdict, _)| *verdict == "ok");
        is_ready.then_some(checkup)
    })
    .await;
    alone.says("last will", "ok", "1 of 1 instances");
    alone.says("candidates", "warn", "node-1 alone stands for");

    let handler = handler_fn(|term: Term| async move {
        term.cancelled().await;
        Ok(())
    });
    let shards = Group::sharded("partitions", 2, handler);
    let _plain = started(builder(server.url(), "node-2").group(shards)).await;
    answer(&server, 2).await;
    // No other one can be started.
    std::fs::remove_file(&program).expect("a link");
    kill_companion(&program);
    eventually(SOON, "its absence", async || {
        let gone = node.last_will() == Some(nats_elect::LastWillStatus::Absent);
        gone.then_some(())
    })
    .await;
    let two = Checkup::of(&mut doctor(&url, &[]));
    two.says("candidates", "ok", "two or more stand");
    two.says(
        "last will",
        "warn",
        "have none: node-1; until then a role waits",
    );
    two.says("last will", "ok", "0 of 2 instances");
    two.says("last will", "ok", "is off for node-2");
    two.says(
        "last will",
        "ok",
        "a unit of a group waits for its member's",
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configuration_says_the_roles_the_times_and_the_connection() {
    let server = NatsServer::start().expect("a server");
    let _leader = started(builder(server.url(), "node-1")).await;
    let text = format!(
        "[manager]\nservers = '{}'\n[roles.fast]\nttl = '2s'\n[roles.slow]\nttl = '1m'\n",
        server.url()
    );
    let output = with_stdin(&mut nats_elect(&["doctor", "--config", "-"]), &text);
    assert_eq!(output.code, Some(0), "{}{}", output.stdout, output.stderr);
    for expected in [
        "role \"slow\": ttl 1m",
        "role \"fast\": ttl 2s",
        "the keys of role \"fast\"",
        "warn    replicas",
    ] {
        assert!(
            output.stdout.contains(expected),
            "{expected}: {}",
            output.stdout
        );
    }
}
