//! `group grow`.

use std::process::Stdio;
use std::time::Duration;

use nats_elect::{AuthConfig, Group, MemberConfig, RoleManager, StopOptions};
use nats_elect_testing::{NatsServer, eventually};
use tokio::time::timeout;

use crate::doctor::users_of;
use crate::fleet::{SOON, at, bucket, is_fit_for_a_terminal, json, obedient, output};
use crate::{Ended, ended};

const LOGIN: [(&str, &str); 2] = [("NATS_USER", "operator"), ("NATS_PASSWORD", "change-me")];

async fn member(server: &NatsServer, id: &str) -> RoleManager {
    RoleManager::builder()
        .servers(server.url())
        .auth(AuthConfig::default().user_and_password("all", "all"))
        .bucket_auto_create()
        .instance_id(id)
        .member(MemberConfig::default().ttl(Duration::from_secs(3)))
        .group(Group::sharded("partitions", 4, obedient()))
        .start()
        .await
        .expect("start")
}

async fn all_owned(members: &[&RoleManager], shards: usize) {
    eventually(SOON, "an owner of each shard", async || {
        let mine = |it: &&RoleManager| it.group("partitions").expect("it").mine().len();
        (members.iter().map(mine).sum::<usize>() == shards).then_some(())
    })
    .await;
}

/// The command, as a thread of its own: meanwhile the members go on.
async fn grow(server: &NatsServer, arguments: &[&str]) -> Ended {
    let mut command = at(
        server,
        &[&["group", "grow", "partitions"], arguments].concat(),
    );
    command.envs(LOGIN);
    let ended = tokio::task::spawn_blocking(move || ended(&mut command));
    ended.await.expect("no panic")
}

/// By the user of `deploy/nats/operator.conf`, who needs no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_grows_while_its_members_run_and_the_command_can_be_given_again() {
    let users = users_of(&[include_str!("../../../../deploy/nats/operator.conf")]);
    let users = users.replacen("users = [", "users = [ { user: all, password: all }", 1);
    let server = NatsServer::builder().config(&users).start().expect("start");
    let (a, b) = (
        member(&server, "node-1").await,
        member(&server, "node-2").await,
    );
    all_owned(&[&a, &b], 4).await;
    let written = grow(&server, &["8", "--yes", "--no-wait", "--json"])
        .await
        .with_code(0);
    let told = json(&written.stdout);
    let expected = serde_json::json!({
        "group": "partitions",
        "shards": 8,
        "before": 4,
        "generation": 2,
        "written": true,
        "unclosed": null,
        "unowned": null,
        "done": false,
    });
    assert_eq!(told, expected);
    all_owned(&[&a, &b], 8).await;
    let again = grow(&server, &["8", "--yes"]).await.with_code(4);
    again.complains("8 shards already");
    for member in [a, b] {
        member.stop(StopOptions::default()).await.expect("stop");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_not_grow_is_refused_with_what_to_do() {
    let server = NatsServer::start().expect("start");
    let grow = |arguments: &[&str]| output(&server, &[&["group", "grow"], arguments].concat());
    let missing = grow(&["partitions", "8", "--yes"]).with_code(3);
    missing.complains("bucket \"leaders\" does not exist");
    let bucket = bucket(&server).await;
    let put = async |key: &str, value: &str| {
        let put = bucket.put(key, value.to_owned().into()).await;
        put.expect("put");
    };
    put("_group.g.jobs", r#"{"v":1,"kind":"spread","gen":1}"#).await;
    put("_group.g.odd", "\u{1b}[31m").await;
    put(
        "_group.g.shards",
        r#"{"v":1,"kind":"sharded","n":2,"gen":1}"#,
    )
    .await;
    put(
        "_group.g.stuck",
        r#"{"v":1,"kind":"sharded","n":2,"gen":1}"#,
    )
    .await;
    put("_group.u.stuck.2.1", "\u{1b}[31m").await;
    put("_group.u.lost.1.0", r#"{"v":1}"#).await;
    for (arguments, code, what) in [
        (["others", "8", "--yes"], 3, "no group `others`"),
        (["a.b", "8", "--yes"], 2, "group name"),
        (["shards", "0", "--yes"], 2, "1 to 65536 shards"),
        (["shards", "65537", "--yes"], 2, "1 to 65536 shards"),
        (["shards", "many", "--yes"], 2, "invalid value"),
        (["shards", "8", "--no-wait"], 2, "--yes"),
        (["shards", "2", "--yes"], 4, "2 shards already"),
        (["shards", "20000", "--yes"], 4, "would have 20002 units"),
        (["jobs", "8", "--yes"], 4, "named units"),
        (["odd", "8", "--yes"], 4, "not understood"),
        (["lost", "8", "--yes"], 4, "write a group's record again"),
        (["stuck", "8", "--yes"], 4, "_group.u.stuck.2.1"),
    ] {
        let told = grow(&arguments);
        assert_eq!(told.code, Some(code), "{arguments:?}: {}", told.stderr);
        assert!(told.stderr.contains(what), "{arguments:?}: {}", told.stderr);
        is_fit_for_a_terminal(&told);
    }
    let told = grow(&["jobs", "8", "--yes", "--json"]);
    assert_eq!(json(&told.stderr)["error"], "refused");

    // One that somebody prepares, or did not end.
    put(
        "_group.g.ahead",
        r#"{"v":1,"kind":"sharded","n":2,"gen":1}"#,
    )
    .await;
    for shard in 0..6 {
        put(&format!("_group.u.ahead.2.{shard}"), r#"{"v":1}"#).await;
    }
    let other = grow(&["ahead", "4", "--yes"]).with_code(4);
    let expected = "6 units of generation 2 exist already, for 6 shards at least";
    other.complains(expected);
    let shown = output(&server, &["group", "show", "ahead", "--wait", "0s"]);
    let expected = "6 units of generation 2 exist: another number of shards is prepared";
    shown.says(expected);
    is_fit_for_a_terminal(&shown);

    // One that somebody began, and nobody goes on with.
    put(
        "_group.g.grows",
        r#"{"v":1,"kind":"sharded","n":3,"gen":2,"before":2}"#,
    )
    .await;
    put("_group.u.grows.1.0", r#"{"v":1,"c":1}"#).await;
    let other = grow(&["grows", "4", "--yes"]).with_code(4);
    other.complains("still growing to 3");
    let same = ["grows", "3", "--yes", "--wait-timeout", "1s"];
    let late = grow(&[&same[..], &["--json"]].concat()).with_code(5);
    let told = json(&late.stdout);
    assert_eq!(
        (&told["unclosed"], &told["unowned"], &told["written"]),
        (&1.into(), &3.into(), &false.into())
    );
    let late = grow(&same);
    let left = "1 old units are not closed, 3 new ones have no owner";
    late.complains(left);
}

/// Both would wait a minute, and only then would one of them be refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_growths_at_a_time_the_one_to_fewer_shards_gives_way_at_once() {
    let server = NatsServer::start().expect("start");
    let bucket = bucket(&server).await;
    let record = r#"{"v":1,"kind":"sharded","n":2,"gen":1}"#;
    let put = bucket.put("_group.g.shards", record.into()).await;
    put.expect("put");
    let begin = |shards: &str| {
        let mut command = at(&server, &["group", "grow", "shards", shards, "--yes"]);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().expect("start nats-elect")
    };
    let has = async |unit: &str| {
        let key = format!("_group.u.shards.2.{unit}");
        eventually(SOON, "a unit", async || {
            bucket.get(&key).await.expect("get").map(drop)
        })
        .await;
    };
    let fewer = begin("4");
    has("3").await;
    let mut more = begin("5");
    has("4").await;
    let fewer = tokio::task::spawn_blocking(move || fewer.wait_with_output());
    let fewer = timeout(SOON, fewer).await.expect("at once");
    let fewer = fewer.expect("no panic").expect("its end");
    let told = String::from_utf8_lossy(&fewer.stderr);
    assert_eq!(fewer.status.code(), Some(4), "{told}");
    let expected = "somebody else prepares group `shards` for 5 shards";
    assert!(told.contains(expected), "{told}");
    // It waits for a minute, and would then be done.
    assert_eq!(more.try_wait().expect("its state"), None);
    more.kill().expect("killed");
    more.wait().expect("its end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_only_look_learns_which_permission_is_missing() {
    let observer = include_str!("../../../../deploy/nats/observer.conf");
    let both = observer.replacen("users = [", "users = [ { user: all, password: all }", 1);
    let server = NatsServer::builder().config(&both).start().expect("start");
    let member = member(&server, "node-1").await;
    all_owned(&[&member], 4).await;
    let login = [("NATS_USER", "observer"), ("NATS_PASSWORD", "change-me")];
    let arguments = ["group", "grow", "partitions", "8", "--yes"];
    let denied = ended(at(&server, &arguments).envs(login)).with_code(4);
    let subject = "$KV.leaders._group.u.partitions.";
    denied.complains(subject);
    assert_eq!(member.group("partitions").expect("it").shards(), Some(4));
    member.stop(StopOptions::default()).await.expect("stop");
}
