//! `group grow`.

use nats_elect::{Group, MemberConfig, RoleManager};
use nats_elect_testing::{NatsServer, eventually};
use serde_json::json;

use crate::fleet::{
    SOON, at, bucket, comes_true, has, is_fit_for_a_terminal, json, login, manager, obedient,
    output, with_observer,
};
use crate::group::{LEASE, stop};
use crate::{Ended, ended};

async fn member(server: &NatsServer, id: &str) -> RoleManager {
    manager(server.url(), id)
        .auth(login("all"))
        .member(MemberConfig::default().ttl(LEASE))
        .group(Group::sharded("partitions", 4, obedient()))
        .group(Group::spread("jobs").unit("mail", obedient()))
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
async fn grow(server: &NatsServer, user: &str, arguments: &[&str]) -> Ended {
    let mut command = at(server, &[&["group", "grow"], arguments].concat());
    command.envs([("NATS_USER", user), ("NATS_PASSWORD", "change-me")]);
    let ended = tokio::task::spawn_blocking(move || ended(&mut command));
    ended.await.expect("no panic")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_grows_and_shrinks_while_its_members_run() {
    let server = with_observer();
    let (a, b) = (
        member(&server, "node-1").await,
        member(&server, "node-2").await,
    );
    all_owned(&[&a, &b], 4).await;
    for (shards, before, generation, written) in
        [("8", 4, 2, true), ("8", 8, 2, false), ("3", 8, 3, true)]
    {
        let arguments = ["partitions", shards, "--yes", "--json"];
        let grown = grow(&server, "all", &arguments).await;
        let told = json(&grown.with_code(0).stdout);
        let shards: usize = shards.parse().expect("a number");
        let expected = json!({
            "group": "partitions",
            "shards": shards,
            "before": before,
            "generation": generation,
            "written": written,
            "unowned": 0,
            "changing": 0,
            "done": true,
        });
        assert_eq!(told, expected);
        all_owned(&[&a, &b], shards).await;
    }
    // Who may only look learns what is missing.
    let denied = grow(&server, "observer", &["partitions", "4", "--yes"]).await;
    denied.with_code(4).complains("resize-group");
    let named = grow(&server, "all", &["jobs", "4", "--yes"]).await;
    named.with_code(4).complains("named units");
    stop(a).await;
    stop(b).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_not_grow_is_refused_with_what_to_do() {
    let server = NatsServer::start().expect("start");
    let grow = |arguments: &[&str]| output(&server, &[&["group", "grow"], arguments].concat());
    let missing = grow(&["partitions", "8", "--yes"]).with_code(3);
    missing.complains("bucket \"leaders\" does not exist");
    let bucket = bucket(&server).await;
    let rubbish = bucket.put("_groups.odd.map", "\u{1b}[31m".into()).await;
    rubbish.expect("put");
    let member = RoleManager::builder()
        .servers(server.url())
        .member(MemberConfig::default().ttl(LEASE))
        .group(Group::sharded("left", 2, obedient()))
        .start();
    let member = member.await.expect("start");
    comes_true("its units", async || {
        member.group("left").expect("it").mine().len() == 2
    })
    .await;
    stop(member).await;
    for (arguments, code, what) in [
        (["others", "8", "--yes"], 3, "no group \"others\""),
        (["left", "many", "--yes"], 2, "invalid value"),
        (["left", "8", "--no-wait"], 2, "--yes"),
        (
            ["left", "8", "--yes"],
            3,
            "no instance that answers takes part",
        ),
        (["odd", "8", "--yes"], 4, "no map that is understood"),
    ] {
        let told = grow(&arguments).with_code(code);
        told.complains(what);
        is_fit_for_a_terminal(&told);
    }
    // Nobody is there to take them.
    let late = grow(&["left", "2", "--wait-timeout", "1s", "--yes", "--json"]).with_code(5);
    let told = json(&late.stdout);
    has(
        &told,
        &json!({ "unowned": 2, "written": false, "done": false }),
    );
    assert_eq!(json(&late.stderr)["error"], "unreachable");
}
