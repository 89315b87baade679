//! The instances that run.

use std::time::Duration;

use async_nats::jetstream::{self, stream::StorageType};
use nats_elect::{AuthConfig, RoleConfig, Term, handler_fn};
use nats_elect_testing::{NatsServer, eventually};
use serde_json::json;

use super::full_account::{fill_account, small_account};
use super::{bucket_with, examined, put};
use crate::fleet::{SOON, lines, manager, obedient, output};
use crate::pair::{answer, builder, leads, started};
#[cfg(target_os = "linux")]
use crate::running::kill_companion;
use crate::{ended, nats_elect};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_applications_that_stand_for_one_role_are_told() {
    let server = NatsServer::start().expect("a server");
    let _first = started(builder(server.url(), "node-1").application("billing")).await;
    let _second = started(builder(server.url(), "node-2")).await;
    answer(&server, 2).await;
    let words = "different applications stand for metrics, scheduler: billing (node-1)";
    examined(&server.url(), &[]).says("applications", "warn", words);
    let mut candidates = nats_elect(&["candidates", "--server", &server.url()]);
    let listed = ended(&mut candidates).with_code(0);
    listed.complains_all([words, "NATS_ELECT_BUCKET"]);
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
            let checkup = examined(&url, &[]);
            let is_told = checkup.on("records").iter().any(|it| it.1.contains(words));
            is_told.then(|| checkup.report.to_string())
        })
        .await
    };
    let report = told("nobody claims the role").await;
    assert!(report.contains("start a candidate"), "{report}");

    let weak = async |id| {
        started(
            builder(server.url(), id).auth(AuthConfig::default().user_and_password("weak", "p")),
        )
        .await
    };
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
    examined(&server.url(), &[]).says("instances", "warn", "2 processes have the id \"twin\"");
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_tells_who_would_lead_after_a_crash_and_how_soon() {
    use nats_elect::{Group, LastWillConfig};

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
        let checkup = examined(&url, &[]);
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
    let told = lines(&output(&server, &["candidates", "--json"]));
    let companions = told.iter().map(|it| it["status"]["last_will"].clone());
    let companions: Vec<_> = companions.collect();
    assert_eq!(companions, [json!("absent"), json!(null)]);
    let two = examined(&url, &[]);
    two.says("candidates", "ok", "two or more stand");
    two.says("last will", "warn", "have none: node-1; until then roles");
    two.says("last will", "ok", "0 of 2 instances");
    two.says("last will", "ok", "is off for node-2");
    two.says("last will", "ok", "wait for the lease of their owner");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_that_fail_while_reads_succeed_are_a_failed_check_with_the_reason() {
    let server = small_account();
    let url = server.url();

    let config = RoleConfig::default().ttl(Duration::from_secs(3));
    let node = manager(url.clone(), "node-1").role("scheduler", config, obedient());
    let manager = started(node).await;
    leads(&manager, "scheduler").await;
    answer(&server, 1).await;
    let fit = examined(&url, &[]);
    assert_eq!(fit.on("writes"), [], "{:#}", fit.report);

    let jetstream = jetstream::new(async_nats::connect(&url).await.expect("connect"));
    fill_account(&jetstream, StorageType::File).await;
    let full = eventually(SOON, "a failed check", async || {
        let checkup = examined(&url, &[]);
        let is_told = !checkup.on("writes").is_empty();
        is_told.then_some(checkup)
    })
    .await;
    full.says("writes", "fail", "nobody leads scheduler");
    full.says("writes", "fail", "no room");
    assert_eq!(full.code, Some(1));
}
