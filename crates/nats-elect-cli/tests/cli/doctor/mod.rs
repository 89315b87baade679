//! `doctor`: what it finds, and that it changes nothing.

mod bucket;
mod fleet;
#[path = "../../../../../tests/support/full_account.rs"]
mod full_account;
mod permissions;

use std::process::Command;

use async_nats::jetstream::{self, stream};
use nats_elect::StopOptions;
use nats_elect_testing::{NatsServer, eventually, old_server};
use serde_json::Value;

pub use self::permissions::users_of;
use crate::fleet::SOON;
use crate::pair::{builder, leads, started};
use crate::{ended, nats_elect, with_stdin};

/// What `doctor` said.
struct Checkup {
    code: Option<i32>,
    report: Value,
}

impl Checkup {
    fn of(command: &mut Command) -> Self {
        let told = ended(command.arg("--json"));
        let report = serde_json::from_str(&told.stdout);
        Self {
            code: told.code,
            report: report.unwrap_or_else(|_| panic!("{}{}", told.stdout, told.stderr)),
        }
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

/// What `doctor` says of this server.
fn examined(url: &str, more: &[&str]) -> Checkup {
    Checkup::of(&mut doctor(url, more))
}

/// Makes the stream of a bucket anew, with changes to its settings.
async fn bucket_with(url: &str, change: impl FnOnce(&mut stream::Config)) -> jetstream::Context {
    let jetstream = jetstream::new(async_nats::connect(url).await.expect("connect"));
    let mut config = stream::Config {
        name: "KV_leaders".into(),
        subjects: vec!["$KV.leaders.>".into()],
        max_messages_per_subject: 1,
        discard: stream::DiscardPolicy::New,
        allow_atomic_publish: true,
        allow_message_ttl: true,
        first_sequence: Some(1_793_874_030_000_000),
        ..stream::Config::default()
    };
    change(&mut config);
    let _ = jetstream.delete_stream("KV_leaders").await;
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
        let checkup = examined(&url, &roles);
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
    let strict = examined(&server.url(), &["--strict"]);
    assert_eq!(strict.code, Some(1));
}

#[test]
fn a_server_that_is_too_old_fails() {
    let url = old_server("2.10.26");
    let checkup = examined(&url, &["--timeout", "200ms"]);
    assert_eq!(checkup.code, Some(1));
    checkup.says("server version", "fail", "2.10.26");
    checkup.says("connection", "ok", "2.10.26");
}

#[tokio::test]
async fn what_is_missing_altogether_is_told() {
    let server = NatsServer::start().expect("a server");
    let none = examined(&server.url(), &[]);
    assert_eq!(none.code, Some(1));
    none.says("JetStream", "ok", "on");
    none.says("bucket", "fail", "does not exist");

    let without = NatsServer::builder()
        .without_jetstream()
        .start()
        .expect("a server");
    let checkup = examined(&without.url(), &[]);
    assert_eq!(checkup.code, Some(1));
    assert_eq!(checkup.verdicts("fail"), ["JetStream"]);

    let nobody = examined("nats://127.0.0.1:1", &[]);
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configuration_says_the_roles_the_times_and_the_connection() {
    let server = NatsServer::start().expect("a server");
    let _leader = started(builder(server.url(), "node-1")).await;
    let text = format!(
        "[manager]\nservers = '{}'\n[roles.fast]\nttl = '2s'\n[roles.slow]\nttl = '1m'\n[groups.cache]\n",
        server.url()
    );
    let output = with_stdin(&mut nats_elect(&["doctor", "--config", "-"]), &text).with_code(0);
    output.says_all([
        "role \"slow\": ttl 1m",
        "role \"fast\": ttl 2s",
        "the keys of role \"fast\"",
        "\"cache\" is not in the bucket: the first member makes it",
        "warn    replicas",
    ]);
}
