//! `group`: groups and their members, as the command tells of them.

use std::time::Duration;

use nats_elect::{Group, MemberConfig, RoleManager, RoleManagerBuilder, Term, try_handler_fn};
use nats_elect_testing::{NatsServer, eventually};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::Ended;
use crate::fleet::{
    SOON, bucket, comes_true, has, is_fit_for_a_terminal, json, lines, manager, obedient, output,
};

pub const LEASE: Duration = Duration::from_secs(3);

pub fn member(server: &NatsServer, id: &str) -> RoleManagerBuilder {
    member_of(server, id, 12)
}

fn member_of(server: &NatsServer, id: &str, shards: u32) -> RoleManagerBuilder {
    let control = Group::spread("control")
        .unit("network", obedient())
        .unit("scheduler", obedient());
    manager(server.url(), id)
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

/// Two members, each with half of the shards, or one more, and one of the two jobs.
pub async fn pair_of(server: &NatsServer, shards: u32) -> (RoleManager, RoleManager) {
    let a = member_of(server, "node-1", shards).start().await;
    let b = member_of(server, "node-2", shards).start().await;
    let (a, b) = (a.expect("start"), b.expect("start"));
    eventually(SOON, "half of the units on each", async || {
        let half = |it: &RoleManager, group: &str, count: usize| {
            it.group(group).expect("a group").mine().len() >= count
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
        cells[..8],
        ["partitions", "sharded", "12", "12", "0", "0", "2", "2"],
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
    assert_eq!(partitions["problems"], json!([]));
    let control = of(&all, "control");
    has(control, &json!({ "kind": "spread", "shards": null }));
    assert_eq!(control["unit_count"], 2);
    stop(a).await;
    stop(b).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_is_shown_by_owner_or_by_unit_and_a_unit_is_explained() {
    let server = NatsServer::start().expect("start");
    let (a, b) = pair(&server).await;
    let show = ["group", "show", "partitions", "--wait", "30s"];
    let table = output(&server, &show).with_code(0);
    is_fit_for_a_terminal(&table);
    table.says_all([
        "12 shards",
        "generation 1",
        "node-1",
        "node-2",
        "confirmed",
        "3s",
    ]);
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
        has(unit, &json!({ "standing": "owned", "waits_for": [] }));
    }
    let counts: Vec<_> = told["members"]
        .as_array()
        .expect("members")
        .iter()
        .collect();
    assert_eq!(counts.len(), 2);
    for member in counts {
        has(member, &json!({ "confirmed": true, "ttl_seconds": 3 }));
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
        "confirmed: last heartbeat",
        "waits for      nothing",
        "plan           it stays",
        "members, with this unit:",
        "owns it",
    ];
    words.says_all(expected);
    let told = json(&output(&server, &[&explain[..], &["--json"]].concat()).stdout);
    assert_eq!(told["member"]["instance_id"], *owner.instance_id);
    has(&told, &json!({ "why": null, "missing": [] }));
    assert_eq!(told["plan"]["verdict"], "stays", "{told}");
    assert_eq!(told["plan"]["owner"], *owner.instance_id);
    assert_eq!(told["plan"]["choices"].as_array().map(Vec::len), Some(2));
    let all = ["group", "explain", "partitions", "--wait", "30s"];
    output(&server, &all).complains("no unit waits or is to move");
    stop(a).await;
    stop(b).await;
    output(&server, &explain).says("the group has none");
    output(&server, &all).says_all(["0-11", "owner_over", "the group has none"]);
    let shown = output(&server, &show);
    shown.says_all(["owner_over", "0-11"]);
    shown.does_not_say("more");
    shown.complains("has no member");
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
    // Nobody is there to end its lease, however long ago it was.
    for (wait, counts) in [("0s", ["0", "12", "0"]), ("4s", ["0", "0", "12"])] {
        let table = output(&server, &["group", "ls", "--wait", wait]).with_code(0);
        let row = table.stdout.lines().nth(2).expect("a row");
        let cells: Vec<_> = row.split_whitespace().collect();
        assert_eq!(cells[3..6], counts, "{row}");
    }
    let told = lines(&output(&server, &["group", "ls", "--json", "--wait", "0s"]));
    let told = of(&told, "partitions");
    has(told, &json!({ "owned": 12, "unowned": 12 }));
    let explain = ["group", "explain", "control", "network", "--wait", "0s"];
    let words = output(&server, &explain);
    words.says("a heartbeat of the owner, or the end of its lease of 3s");
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
    let member = format!("_groups.shards.member.{}A", "B".repeat(21));
    for key in ["_groups.shards.map", &member] {
        let rubbish = "\u{1b}]0;owned\u{7}";
        bucket.put(key, rubbish.into()).await.expect("put");
    }
    for command in [
        &["group", "ls"][..],
        &["group", "show", "shards"],
        &["group", "show", "shards", "--units"],
        &["group", "explain", "shards"],
    ] {
        let told = output(&server, &[command, &["--wait", "0s"]].concat()).with_code(0);
        is_fit_for_a_terminal(&told);
    }
    let shown = output(&server, &["group", "show", "shards", "--wait", "0s"]);
    shown.says_all(["no map that is understood", "unknown"]);
    shown.complains_all(["no map that is understood", "is not understood"]);
    for (arguments, what) in [
        (&["group", "show", "others"][..], "no group \"others\""),
        (&["group", "explain", "shards", "9"], "no unit \"9\""),
    ] {
        let told = output(&server, &[arguments, &["--wait", "0s"]].concat()).with_code(3);
        told.complains(what);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unit_that_nobody_may_take_is_explained_by_the_members() {
    let server = NatsServer::start().expect("start");

    let placed = Group::sharded("placed", 2, obedient()).requires(["1"], "gpu");
    let member = manager(server.url(), "node-1")
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
        "waits for      a member that may take it: no member has the labels",
        "plan           nobody may take it",
        "node-1",
        "it lacks a label",
    ]);
    stop(member).await;
}

/// A handler of a unit that is held up as long as the test likes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unit_that_changes_its_owner_names_the_instance_for_which_it_waits() {
    let server = NatsServer::start().expect("start");
    let (end, held) = watch::channel(false);
    let start = async |id: &str| {
        let held = held.clone();
        let lead = move |term: Term| {
            let mut held = held.clone();
            async move {
                term.cancelled().await;
                held.wait_for(|is_over| *is_over).await.map(drop)
            }
        };
        let lease = MemberConfig::default().ttl(Duration::from_secs(30));
        let started = manager(server.url(), id)
            .member(lease.stop_budget(Duration::from_secs(20)))
            .group(Group::sharded("jobs", 3, try_handler_fn(lead)))
            .start();
        started.await.expect("start")
    };
    let a = start("node-1").await;
    let mine = |it: &RoleManager| it.group("jobs").expect("a group").mine();
    comes_true("its units", async || mine(&a).len() == 3).await;
    let b = start("node-2").await;
    let explain = ["group", "explain", "jobs", "--wait", "30s"];
    // The balance has one of them move.
    let told = eventually(SOON, "a unit that waits", async || {
        let told = lines(&output(&server, &[&explain[..], &["--json"]].concat()));
        told.into_iter()
            .find(|it| it["missing"][0]["still_running"] == true)
    })
    .await;
    assert_eq!(
        (
            &told["standing"],
            &told["instance_id"],
            &told["missing"][0]["instance_id"]
        ),
        (&"changing".into(), &"node-2".into(), &"node-1".into()),
        "{told}"
    );
    let words = output(&server, &explain);
    is_fit_for_a_terminal(&words);
    words.says_all(["changing", "node-2", "the end of its handler on node-1"]);
    let unit = told["unit"].as_str().expect("a name");
    let shown = output(
        &server,
        &["group", "show", "jobs", "--units", "--wait", "0s"],
    );
    let row = shown.stdout.lines().find(|it| it.starts_with(unit));
    assert!(
        row.is_some_and(|it| it.contains("node-1")),
        "{}",
        shown.stdout
    );
    end.send_replace(true);
    comes_true("its handler", async || mine(&b) == [unit]).await;
    stop(a).await;
    stop(b).await;
}
