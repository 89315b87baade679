//! `group`: groups and their members, as the command tells of them.

use std::time::Duration;

use nats_elect::{AuthConfig, Group, MemberConfig, RoleManager, RoleManagerBuilder};
use nats_elect_testing::{NatsServer, eventually};
use serde_json::Value;

use crate::fleet::{
    SOON, at, bucket, comes_true, is_fit_for_a_terminal, json, lines, obedient, output,
};
use crate::{Ended, ended};

pub const LEASE: Duration = Duration::from_secs(3);

pub fn member(server: &NatsServer, id: &str) -> RoleManagerBuilder {
    member_of(server, id, 12)
}

fn member_of(server: &NatsServer, id: &str, shards: u32) -> RoleManagerBuilder {
    let control = Group::spread("control")
        .unit("network", obedient())
        .unit("scheduler", obedient());
    RoleManager::builder()
        .servers(server.url())
        .bucket_auto_create()
        .instance_id(id)
        .member(MemberConfig::default().ttl(LEASE))
        .group(Group::sharded("partitions", shards, obedient()))
        .group(control)
}

/// Waits until these members own all units.
pub async fn all_owned(members: &[&RoleManager]) {
    eventually(SOON, "an owner for each unit", async || {
        let count = |name: &str| -> usize {
            let mine = members
                .iter()
                .map(|it| it.group(name).expect("a group").mine().len());
            mine.sum()
        };
        (count("partitions") == 12 && count("control") == 2).then_some(())
    })
    .await;
}

pub async fn pair(server: &NatsServer) -> (RoleManager, RoleManager) {
    pair_of(server, 12).await
}

/// Two members, each with half of the shards and one of the two jobs.
pub async fn pair_of(server: &NatsServer, shards: u32) -> (RoleManager, RoleManager) {
    let a = member_of(server, "node-1", shards).start().await;
    let b = member_of(server, "node-2", shards).start().await;
    let (a, b) = (a.expect("start"), b.expect("start"));
    eventually(SOON, "half of the units on each", async || {
        let half = |it: &RoleManager, group: &str, count: usize| {
            it.group(group).expect("a group").mine().len() == count
        };
        let has_half = |it: &RoleManager| {
            half(it, "partitions", shards as usize / 2) && half(it, "control", 1)
        };
        (has_half(&a) && has_half(&b)).then_some(())
    })
    .await;
    (a, b)
}

pub async fn stop(member: RoleManager) {
    let options = nats_elect::StopOptions::default();
    member.stop(options).await.expect("stop");
}

fn of<'a>(all: &'a [Value], group: &str) -> &'a Value {
    let found = all.iter().find(|it| it["group"] == group);
    found.unwrap_or_else(|| panic!("{group}: {all:?}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_are_listed_with_their_units_and_members() {
    let server = NatsServer::start().expect("start");
    let (a, b) = pair(&server).await;
    // It ends with the first heartbeat of each.
    let table = output(&server, &["group", "ls", "--wait", "30s"]).with_code(0);
    is_fit_for_a_terminal(&table);
    let row = table.stdout.lines().nth(2).expect("a row");
    let cells: Vec<_> = row.split_whitespace().collect();
    assert_eq!(
        cells[..7],
        ["partitions", "sharded", "12", "12", "0", "2", "2"],
        "{row}"
    );
    let all = lines(&output(
        &server,
        &["group", "ls", "--json", "--wait", "30s"],
    ));
    let partitions = of(&all, "partitions");
    let mine = |it: &RoleManager| it.group("partitions").expect("it").mine().len();
    let (fewest, most) = (mine(&a).min(mine(&b)), mine(&a).max(mine(&b)));
    assert_eq!(partitions["units_per_member"]["least"], fewest);
    assert_eq!(partitions["units_per_member"]["most"], most);
    assert_eq!(partitions["standings"]["owned"], 12);
    assert_eq!(partitions["problems"], serde_json::json!([]));
    let control = of(&all, "control");
    assert_eq!(
        (&control["kind"], &control["shards"]),
        (&"spread".into(), &Value::Null)
    );
    assert_eq!(control["unit_count"], 2);
    a.stop(nats_elect::StopOptions::default())
        .await
        .expect("stop");
    b.stop(nats_elect::StopOptions::default())
        .await
        .expect("stop");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_is_shown_by_owner_or_by_unit_and_a_unit_is_explained() {
    let server = NatsServer::start().expect("start");
    let (a, b) = pair(&server).await;
    let show = ["group", "show", "partitions", "--wait", "30s"];
    let table = output(&server, &show).with_code(0);
    is_fit_for_a_terminal(&table);
    let head = ["12 shards", "generation 1"];
    let rows = ["node-1", "node-2", "confirmed", "3s"];
    says(&table, &[&head[..], &rows].concat());
    table.does_not_say("without an owner");
    let told = output(&server, &[&show[..], &["--json"]].concat());
    let told = json(&told.stdout);
    has_incarnations(
        &output(&server, &[&show[..], &["-o", "wide"]].concat()),
        &told,
    );
    let owners = a.group("partitions").expect("a group").owners();
    for unit in told["units"].as_array().expect("units") {
        let owner = owners[unit["unit"].as_str().expect("a name")].as_ref();
        let owner = owner.expect("an owner");
        assert_eq!(unit["instance_id"], *owner.instance_id, "{unit}");
        assert_eq!(
            unit["fencing_token"],
            owner
                .fencing_token
                .map(|it| it.to_string())
                .unwrap_or_default()
        );
        assert_eq!(unit["standing"], "owned");
    }
    let counts: Vec<_> = told["members"]
        .as_array()
        .expect("members")
        .iter()
        .collect();
    assert_eq!(counts.len(), 2);
    for member in counts {
        assert_eq!(
            (&member["confirmed"], &member["ttl_seconds"]),
            (&true.into(), &3.into())
        );
    }
    let units = output(&server, &["group", "show", "partitions", "--units"]);
    let rows: Vec<_> = units.stdout.lines().skip(1).collect();
    assert_eq!(rows.len(), 12, "{}", units.stdout);
    assert!(
        rows[10].starts_with("10 "),
        "in their order: {}",
        units.stdout
    );

    let owner = owners["7"].as_ref().expect("an owner");
    let explain = ["group", "explain", "partitions", "7", "--wait", "30s"];
    let words = output(&server, &explain).with_code(0);
    is_fit_for_a_terminal(&words);
    let expected = [
        owner.instance_id.as_str(),
        &owner
            .fencing_token
            .map(|it| it.to_string())
            .unwrap_or_default(),
        "confirmed: last heartbeat",
        "waits for      nothing",
        "plan           it stays",
        "members, with this unit:",
        "owns it",
    ];
    says(&words, &expected);
    let told = json(&output(&server, &[&explain[..], &["--json"]].concat()).stdout);
    assert_eq!(told["member"]["instance_id"], *owner.instance_id);
    let written = told["written_at"].as_str().expect("a time");
    let written = humantime::parse_rfc3339(written).expect("RFC 3339");
    assert!(written.elapsed().is_ok_and(|age| age < SOON * 4), "{told}");
    assert_eq!(told["waits_for"], Value::Null);
    assert_eq!(told["plan"]["verdict"], "stays", "{told}");
    assert_eq!(told["plan"]["owner"], *owner.instance_id);
    assert_eq!(told["plan"]["choices"].as_array().map(Vec::len), Some(2));
    a.stop(nats_elect::StopOptions::default())
        .await
        .expect("stop");
    b.stop(nats_elect::StopOptions::default())
        .await
        .expect("stop");
    let words = output(&server, &explain);
    words.says("the group has none");
    let shown = output(&server, &show);
    shown.says("free");
    shown.says("0-11");
    shown.does_not_say("more");
    shown.complains("has no member");
}

fn says(told: &Ended, all: &[&str]) {
    for expected in all {
        told.says(expected);
    }
}

fn has_incarnations(wide: &Ended, told: &Value) {
    for member in told["members"].as_array().expect("members") {
        let incarnation = member["incarnation"].as_str().expect("an incarnation");
        wide.says(incarnation);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_died_is_unconfirmed_and_its_units_wait_for_it() {
    let server = NatsServer::start().expect("start");
    let a = member(&server, "node-1").start().await.expect("start");
    all_owned(&[&a]).await;
    // It keeps all records, and sends no heartbeat any more.
    let kept = nats_elect::StopOptions::default().release(nats_elect::Release::Keep);
    a.stop(kept).await.expect("stop");
    let shown = output(&server, &["group", "show", "control", "--wait", "1s"]);
    shown.says("unconfirmed");
    let explain = ["group", "explain", "control", "network", "--wait", "0s"];
    let words = output(&server, &explain);
    let waits = "a heartbeat of the owner, whose lease is 3s";
    words.says(waits);
}

#[tokio::test]
async fn what_is_not_there_is_said_and_strangers_do_nothing_to_a_terminal() {
    let server = NatsServer::start().expect("start");
    let missing = output(&server, &["group", "ls"]).with_code(3);
    missing.complains("does not exist");
    let bucket = bucket(&server).await;
    let none = output(&server, &["group", "ls"]);
    assert_eq!((none.code, &*none.stdout), (Some(0), ""));
    none.complains("has no group");
    let owner = format!(r#"{{"v":1,"o":"{}A"}}"#, "B".repeat(21));
    let id = "a\u{1b}[31mb\u{202e}\u{9b}";
    let record = serde_json::json!({ "id": id, "ttl_ms": 3000 }).to_string();
    let epoch = format!("_group.m.{}A", "B".repeat(21));
    for (key, value) in [
        (
            "_group.g.shards",
            r#"{"v":1,"kind":"sharded","n":3,"gen":1}"#.to_owned(),
        ),
        ("_group.u.shards.1.0", owner),
        ("_group.u.shards.1.1", "\u{1b}]0;owned\u{7}".to_owned()),
        (&epoch, record),
    ] {
        bucket.put(key, value.into()).await.expect("put");
    }
    for command in [
        &["group", "ls"][..],
        &["group", "show", "shards"],
        &["group", "show", "shards", "--units"],
        &["group", "explain", "shards", "0"],
        &["group", "explain", "shards", "1"],
        &["group", "explain", "shards", "2"],
        &["group", "show", "shards", "-o", "wide"],
    ] {
        let told = output(&server, &[command, &["--wait", "0s"]].concat());
        assert_eq!(told.code, Some(0), "{command:?}: {}", told.stderr);
        is_fit_for_a_terminal(&told);
    }
    let shown = output(&server, &["group", "show", "shards", "--wait", "0s"]);
    shown.says_all(["unknown", "missing"]);
    shown.complains("units without a key: 1");
    for (arguments, what) in [
        (&["group", "show", "others"][..], "no group \"others\""),
        (&["group", "explain", "shards", "9"], "no unit \"9\""),
    ] {
        let told = output(&server, &[arguments, &["--wait", "0s"]].concat()).with_code(3);
        told.complains(what);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_only_look_sees_groups() {
    let granted = include_str!("../../../../deploy/nats/observer.conf");
    let both = granted.replacen("users = [", "users = [ { user: all, password: all }", 1);
    let server = NatsServer::builder().config(&both).start().expect("start");
    let a = member(&server, "node-1").auth(AuthConfig::default().user_and_password("all", "all"));
    let a = a.start().await.expect("start");
    all_owned(&[&a]).await;
    for command in [
        &["group", "ls"][..],
        &["group", "show", "partitions"],
        &["group", "explain", "control", "network"],
    ] {
        let login = [("NATS_USER", "observer"), ("NATS_PASSWORD", "change-me")];
        let looks = ended(at(&server, command).envs(login));
        assert_eq!(looks.code, Some(0), "{command:?}: {}", looks.stderr);
        assert!(!looks.stdout.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unit_that_nobody_may_take_is_explained_by_the_members() {
    let server = NatsServer::start().expect("start");

    let placed = Group::sharded("placed", 2, obedient()).requires(["1"], "gpu");
    let member = RoleManager::builder()
        .servers(server.url())
        .bucket_auto_create()
        .instance_id("node-1")
        .member(MemberConfig::default().ttl(LEASE))
        .group(placed)
        .start()
        .await
        .expect("start");
    comes_true("the other unit", async || {
        member.group("placed").expect("a group").mine() == ["0"]
    })
    .await;
    let explain = ["group", "explain", "placed", "1", "--wait", "30s"];
    let words = output(&server, &explain);
    is_fit_for_a_terminal(&words);
    words.says_all([
        "waits for      a member that may take it: no member has the labels gpu",
        "plan           nobody may take it",
        "node-1",
        "it lacks the labels gpu",
    ]);
    // It frees nothing, and nobody is left.
    drop(member);
    let explain = ["group", "explain", "placed", "0", "--wait", "2s"];
    let words = output(&server, &explain);
    words.says_all([
        "a heartbeat of the owner",
        "it has no owner until a member comes that may take it",
    ]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_unit_waits_for_after_a_strangers_write_follows_the_rules_of_members() {
    let server = NatsServer::start().expect("start");
    let a = member(&server, "node-1").start().await.expect("start");
    all_owned(&[&a]).await;
    let bucket = bucket(&server).await;
    let ended = format!("{}A", "B".repeat(21));
    let member = format!("_group.m.{ended}");
    bucket.put(&member, "{}".into()).await.expect("put");
    bucket.delete(&member).await.expect("delete");
    let owned = format!(r#"{{"v":1,"o":"{ended}"}}"#);
    for (unit, value) in [(0, "rubbish"), (1, r#"{"v":1,"c":1}"#), (2, &owned)] {
        let key = format!("_group.u.partitions.1.{unit}");
        bucket.put(key, value.to_owned().into()).await.expect("put");
    }
    let purged = bucket.stream.purge();
    let purged = purged.filter("$KV.leaders._group.u.partitions.1.3");
    purged.await.expect("purge");
    for (unit, state, waits, then) in [
        (
            "0",
            "unknown",
            "to be of age, in ",
            "writes over it, and begins",
        ),
        (
            "1",
            "closed",
            "to be of age, in ",
            "writes over it, and begins",
        ),
        ("2", "abandoned", "to be of age, in ", "a member takes it"),
        (
            "3",
            "missing",
            "after a purge 5m at most",
            "creates it as nobody's",
        ),
    ] {
        let explain = ["group", "explain", "partitions", unit, "--wait", "30s"];
        let told = output(&server, &explain);
        is_fit_for_a_terminal(&told);
        let line = |name: &str| {
            let mut lines = told.stdout.lines();
            let line = lines.find_map(|it| it.trim_start().strip_prefix(name));
            line.unwrap_or_default().trim().to_owned()
        };
        assert_eq!(line("state"), state, "{}", told.stdout);
        assert!(line("waits for").contains(waits), "{}", told.stdout);
        assert!(line("then").contains(then), "{}", told.stdout);
    }
    let shown = output(&server, &["group", "show", "partitions", "--wait", "0s"]);
    let problem = "closes them, or is not understood: 2";
    shown.complains(problem);
    stop(a).await;
}
