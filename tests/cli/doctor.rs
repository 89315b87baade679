//! `doctor`: what it finds, and that it changes nothing.

use std::process::Command;
use std::time::Duration;

use async_nats::jetstream::{self, stream};
use nats_elect::testing::{NatsCluster, NatsServer, eventually};
use nats_elect::{RoleConfig, RoleManager, StopOptions, Term, handler_fn};
use serde_json::{Value, json};

use crate::{Ended, ended, nats_elect};

const SOON: Duration = Duration::from_secs(30);

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

/// A leader of `scheduler` in a bucket that it makes.
async fn leader(urls: String, replicas: usize) -> RoleManager {
    let lead = |term: Term| async move {
        term.cancelled().await;
        Ok(())
    };
    let manager = RoleManager::builder()
        .servers(urls)
        .bucket_auto_create()
        .replicas(replicas)
        .instance_id("node-1")
        .role("scheduler", RoleConfig::default(), handler_fn(lead))
        .start()
        .await
        .expect("start");
    eventually(SOON, "a leader", async || {
        let handle = manager.role("scheduler").expect("a role");
        handle.is_leader().then_some(())
    })
    .await;
    manager
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
    jetstream.create_stream(config).await.expect("a stream");
    jetstream
}

/// Where the bucket's last message stands, and how many there ever were.
async fn position(url: &str) -> (u64, u64) {
    let jetstream = jetstream::new(async_nats::connect(url).await.expect("connect"));
    let mut stream = jetstream.get_stream("KV_leaders").await.expect("a stream");
    let state = &stream.info().await.expect("its state").state;
    (state.last_sequence, state.messages)
}

#[tokio::test]
async fn a_healthy_server_is_found_healthy_with_the_risks_of_standing_alone() {
    let server = NatsServer::start().expect("a server");
    let manager = leader(server.url(), 1).await;
    manager.stop(StopOptions::default()).await.expect("stop");
    let before = position(&server.url()).await;
    let checkup = Checkup::of(&mut doctor(&server.url(), &["--role", "scheduler"]));
    assert_eq!(position(&server.url()).await, before, "nothing was written");
    assert_eq!(checkup.code, Some(0), "{:#}", checkup.report);
    checkup.says("replicas", "warn", "one replica");
    checkup.says("may lead", "ok", "\"scheduler\"");
    checkup.says("round trips", "ok", "refused");
}
