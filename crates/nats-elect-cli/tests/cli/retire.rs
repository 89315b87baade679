//! `role retire`.

use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::{self, kv::Store};
use futures::TryStreamExt;
use nats_elect::{
    AdminConfig, FencingToken, Observer, RoleConfig, RoleManagerBuilder, Standing, StopOptions,
    Term, try_handler_fn,
};
use nats_elect_testing::{NatsCluster, NatsServer, eventually};
use tokio::sync::mpsc;

use crate::Ended;
use crate::doctor::users_of;
use crate::fleet::{
    ROLE, SOON, bucket, client, client_of, is_fit_for_a_terminal, lines, manager, output, output_as,
};
use crate::pair::answer;
#[cfg(unix)]
use crate::top::terminal::Terminal;

const TTL: Duration = Duration::from_secs(4);
const FENCE: &str = "_fence.scheduler";
const GUARD: &str = "_guard.scheduler";
const DATA: &str = "_data.scheduler.cursor";

/// A process that keeps a cursor for each of its terms, and says so.
fn keeper(server: &NatsServer, id: &str) -> (RoleManagerBuilder, mpsc::Receiver<FencingToken>) {
    let (tell, kept) = mpsc::channel(10);
    let has_batches = server.version() >= (2, 12, 0);
    let lead = move |term: Term| {
        let tell = tell.clone();
        async move {
            let store = term.store();
            store.put("cursor", "1").await?;
            if !has_batches {
                store.put("guarded", "1").await?;
            } else if store.get("guarded").await?.is_none() {
                store.create("guarded", "1").await?;
            }
            let _ = tell.send(term.fencing_token()).await;
            term.cancelled().await;
            Ok::<_, nats_elect::FencedError>(())
        }
    };
    let builder =
        manager(server.url(), id).role(ROLE, RoleConfig::default().ttl(TTL), try_handler_fn(lead));
    (builder, kept)
}

/// Lets somebody lead for a moment. Returns the fencing token of that term.
async fn term(server: &NatsServer, id: &str) -> FencingToken {
    let (builder, kept) = keeper(server, id);
    led(builder, kept).await
}

async fn led(builder: RoleManagerBuilder, mut kept: mpsc::Receiver<FencingToken>) -> FencingToken {
    let manager = builder.start().await.expect("start");
    let token = kept.recv().await.expect("a term");
    manager.stop(StopOptions::default()).await.expect("stop");
    token
}

fn retire(server: &NatsServer, more: &[&str]) -> Ended {
    let mut arguments = vec!["role", "retire", ROLE, "--yes"];
    arguments.extend(more);
    output(server, &arguments)
}

/// The keys that stand in the bucket, delete markers included.
async fn stand(server: &NatsServer) -> Vec<String> {
    let bucket = bucket(server).await;
    let subjects = bucket.stream.info_with_subjects("$KV.leaders.>").await;
    let subjects: Vec<(String, usize)> = subjects.expect("info").try_collect().await.expect("all");
    let mut keys: Vec<_> = subjects
        .into_iter()
        .map(|(subject, _)| subject["$KV.leaders.".len()..].to_owned())
        .collect();
    keys.sort();
    keys
}

async fn revision(bucket: &Store, key: &str) -> u64 {
    let entry = bucket.entry(key).await.expect("a read");
    entry.map_or(0, |entry| entry.revision)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_that_nobody_uses_any_more_is_not_in_ls_for_ever() {
    let mut server = NatsServer::start().expect("a server");
    let (builder, mut kept) = keeper(&server, "node-1");
    let leader = builder.start().await.expect("start");
    let first = kept.recv().await.expect("a term");
    answer(&server, 1).await;
    let keys = stand(&server).await;

    let refused = retire(&server, &["--data"]).with_code(4);
    refused.complains_all(["node-1", "takes part"]);
    assert!(leader.role(ROLE).expect("the role").is_leader());
    assert_eq!(stand(&server).await, keys);
    leader.stop(StopOptions::default()).await.expect("stop");
    let listed = output(&server, &["ls"]);
    listed.says(ROLE);

    let hasty = output(&server, &["role", "retire", ROLE]).with_code(2);
    hasty.complains("--yes");
    assert_eq!(stand(&server).await, keys);

    let observer = Observer::builder().servers(server.url()).start().await;
    let observer = observer.expect("an observer");
    let done = retire(&server, &[]).with_code(0);
    is_fit_for_a_terminal(&done);
    assert_eq!(done.stdout, "scheduler: retired\n");
    done.complains("--data removes");
    let data = ["_data.scheduler.cursor", "_data.scheduler.guarded"];
    assert_eq!(stand(&server).await, data);
    let listed = output(&server, &["ls", "--json"]);
    assert_eq!((listed.code, &*listed.stdout), (Some(0), ""));
    // One that watched is told, and keeps it until it starts anew.
    eventually(SOON, "the deletion", async || {
        let seen = observer.role(ROLE)?;
        (seen.standing == Standing::Deleted).then_some(())
    })
    .await;

    let none = retire(&server, &[]).with_code(3);
    none.complains("2 data keys");
    let done = retire(&server, &["--data", "--json"]).with_code(0);
    assert_eq!(lines(&done)[0]["data_keys_removed"], 2);
    assert_eq!(stand(&server).await, [""; 0]);
    assert_eq!(retire(&server, &["--data"]).code, Some(3));

    // The bucket is empty. Its sequences go on, also over a restart of the server.
    server.kill();
    server.restart().expect("restart");
    let second = term(&server, "node-2").await;
    assert!(second > first, "{second} after {first}");
    retire(&server, &["--data"]).assert_code(0);
    let third = term(&server, "node-1").await;
    assert!(third > second, "{third} after {second}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_of_a_cluster_is_retired_on_all_of_its_servers() {
    let cluster = NatsCluster::start(3).expect("a cluster");
    let server = cluster.node(0);
    let lead = async |id: &str| {
        let (builder, kept) = keeper(server, id);
        led(builder.replicas(3), kept).await
    };
    let first = lead("node-1").await;
    retire(server, &["--data"]).assert_code(0);
    for node in cluster.nodes() {
        // A server that follows may be behind.
        eventually(SOON, "an empty bucket", async || {
            let listed = output(node, &["ls", "--json"]);
            (listed.code == Some(0) && listed.stdout.is_empty()).then_some(())
        })
        .await;
    }
    let second = lead("node-2").await;
    assert!(second > first, "{second} after {first}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_without_an_admin_service_is_noticed_by_what_it_writes() {
    let server = NatsServer::start().expect("a server");
    let before = term(&server, "node-1").await;
    let (builder, mut kept) = keeper(&server, "node-2");
    let silent = builder.admin(AdminConfig::off()).start().await;
    let silent = silent.expect("start");
    let token = kept.recv().await.expect("a term");
    assert!(token > before);
    let refused = retire(&server, &["--data"]).with_code(4);
    refused.complains_all(["somebody wrote", "node-2"]);
    let role = silent.role(ROLE).expect("the role");
    assert!(role.is_leader());
    assert_eq!(role.status().fencing_token, Some(token));
}

/// What a retirement that is cut short may leave, one after the other.
async fn cut(server: &NatsServer, steps: usize) {
    let bucket = bucket(server).await;
    let record = revision(&bucket, ROLE).await;
    let marked = bucket.delete_expect_revision(ROLE, Some(record)).await;
    marked.expect("the marker");
    for key in [ROLE, FENCE].iter().take(steps) {
        let filter = format!("$KV.leaders.{key}");
        bucket.stream.purge().filter(filter).await.expect("a purge");
        assert_eq!(revision(&bucket, key).await, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retirement_that_is_cut_short_leaves_a_role_that_can_be_led_and_retired() {
    let server = NatsServer::start().expect("a server");
    let mut last = term(&server, "node-0").await;
    for steps in 0..3 {
        cut(&server, steps).await;
        let token = term(&server, "node-1").await;
        assert!(token > last, "{token} after {last}");
        last = token;
        cut(&server, steps).await;
        retire(&server, &["--data"]).assert_code(0);
        assert_eq!(stand(&server).await, [""; 0]);
    }
    let token = term(&server, "node-2").await;
    assert!(token > last, "{token} after {last}");
}

/// Sends a message on these conditions. Returns whether it was stored.
async fn stored(server: &NatsServer, key: &str, expected: u64, of: Option<&str>) -> bool {
    let jetstream = jetstream::new(client(server).await);
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Expected-Last-Subject-Sequence", expected.to_string());
    if let Some(of) = of {
        let subject = format!("$KV.leaders.{of}");
        headers.insert("Nats-Expected-Last-Subject-Sequence-Subject", subject);
    }
    let subject = format!("$KV.leaders.{key}");
    let sent = jetstream.publish_with_headers(subject, headers, "late".into());
    match sent.await.expect("sent").await {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.kind(), PublishErrorKind::WrongLastSequence, "{error}");
            false
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_write_of_an_earlier_term_fits_into_what_is_left() {
    let server = NatsServer::start().expect("a server");
    let token = term(&server, "node-1").await;
    let bucket = bucket(&server).await;
    let record = revision(&bucket, ROLE).await;
    let fence = revision(&bucket, FENCE).await;
    assert_eq!(fence, token.sequence);
    retire(&server, &["--data"]).assert_code(0);
    // A claim or a heartbeat; a fence record; a fenced write.
    assert!(!stored(&server, ROLE, record, None).await);
    assert!(!stored(&server, FENCE, fence, None).await);
    assert!(!stored(&server, DATA, fence, Some(FENCE)).await);
    assert!(!stored(&server, GUARD, fence, Some(FENCE)).await);
    assert_eq!(stand(&server).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_newer_than_the_bound_of_a_purge_is_left() {
    let server = NatsServer::start().expect("a server");
    let token = term(&server, "node-1").await;
    let bucket = bucket(&server).await;
    let marker = revision(&bucket, ROLE).await;
    for (key, bound) in [(ROLE, marker), (FENCE, token.sequence)] {
        let newer = bucket.put(key, "newer".into()).await.expect("a value");
        let filter = format!("$KV.leaders.{key}");
        let purge = bucket.stream.purge().filter(filter).sequence(bound + 1);
        assert_eq!(purge.await.expect("a purge").purged, 0);
        assert_eq!(revision(&bucket, key).await, newer);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_candidate_that_can_not_be_seen_takes_the_role_anew() {
    let server = NatsServer::start().expect("a server");
    let (builder, mut kept) = keeper(&server, "node-1");
    let leader = builder.start().await.expect("start");
    let first = kept.recv().await.expect("a term");
    let (builder, mut hidden) = keeper(&server, "node-2");
    let paused = builder.admin(AdminConfig::off()).start().await;
    let paused = paused.expect("start");
    let role = paused.role(ROLE).expect("the role");
    eventually(SOON, "a leader to follow", async || role.leader()).await;
    role.pause().await.expect("paused");
    leader.stop(StopOptions::default()).await.expect("stop");
    retire(&server, &[]).assert_code(0);
    // It knew the record and the fence record that are gone.
    role.resume().await.expect("resumed");
    let second = hidden.recv().await.expect("a term");
    assert!(second > first, "{second} after {first}");
    eventually(SOON, "a proof", async || role.validate().await.ok()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_purge_is_told_before_anything_is_done() {
    let users = [
        include_str!("../../../../deploy/nats/admin.conf"),
        include_str!("../../../../deploy/nats/observer.conf"),
        include_str!("../../../../deploy/nats/operator.conf"),
        include_str!("../../../../deploy/nats/retire.conf"),
    ];
    // The same user without the last permission to write.
    let less = users[3].replace("user: retire", "user: less");
    let less = less.replace("\"$JS.API.STREAM.PURGE.KV_leaders\"", "");
    let users = users_of(&[users[0], users[1], users[2], users[3], &less]);
    let server = NatsServer::builder().config(&users).start();
    let server = server.expect("a server");
    output_as(&server, "admin", &["create-bucket"]).assert_code(0);
    let ask = |user: &str, arguments: &[&str]| output_as(&server, user, arguments);
    let put = async || {
        let client = client_of(&server, "admin").await;
        let bucket = jetstream::new(client).get_key_value("leaders").await;
        let bucket = bucket.expect("the bucket");
        let record = r#"{"id":"old","token":"secret-secret-secret","ttl_ms":500}"#;
        bucket.put(ROLE, record.into()).await.expect("a record")
    };
    let revision = put().await;
    let arguments = ["role", "retire", ROLE, "--yes"];
    for (user, subject) in [
        ("observer", "$JS.API.STREAM.PURGE.KV_leaders"),
        ("less", "$JS.API.STREAM.PURGE.KV_leaders"),
        ("operator", "_INBOX."),
    ] {
        let refused = ask(user, &arguments).with_code(4);
        refused.complains(subject);
        refused.does_not_complain("secret");
    }
    let refused = ask("less", &arguments);
    refused.complains("nothing was removed");
    let shown = ask("observer", &["inspect", ROLE, "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown.stdout).expect("JSON");
    assert_eq!(shown["record"]["revision"], revision);
    ask("retire", &arguments).assert_code(0);
    let listed = ask("observer", &["ls", "--json"]);
    assert_eq!((listed.code, &*listed.stdout), (Some(0), ""));
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_sits_before_a_terminal_is_asked_before_a_role_is_retired() {
    let server = NatsServer::start().expect("a server");
    term(&server, "node-1").await;
    let url = server.url();
    let arguments = ["role", "retire", ROLE, "--server", url.as_str()];
    let mut terminal = Terminal::run((24, 100), &arguments, &[]);
    terminal.shows(&["Is scheduler used by no program"]).await;
    terminal.press("\r");
    terminal.shows(&["not confirmed: nothing was done"]).await;
    assert_eq!(terminal.ended().await, 4);
    assert!(stand(&server).await.contains(&FENCE.to_owned()));
    let mut terminal = Terminal::run((24, 100), &arguments, &[]);
    terminal
        .shows(&["fence record", "2 keys", "Remove it?"])
        .await;
    terminal.press("y\r");
    terminal.shows(&["scheduler: retired"]).await;
    assert_eq!(terminal.ended().await, 0);
}

#[test]
fn what_is_not_there_is_not_retired() {
    let server = NatsServer::start().expect("a server");
    let arguments = ["role", "retire", ROLE, "--yes"];
    output(&server, &arguments).assert_code(3);
    output(&server, &["role", "retire", "a.b", "--yes"]).assert_code(2);
}
