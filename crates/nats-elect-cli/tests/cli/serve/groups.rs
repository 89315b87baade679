//! Groups over HTTP.

use std::collections::BTreeSet;

use nats_elect::{Group, MemberConfig, Release, RoleManager, StopOptions};
use nats_elect_testing::{NatsServer, eventually};
use serde_json::{Value, json};

use super::events::Events;
use super::{Answer, is_ok, serving};
use crate::ended;
use crate::fleet::{SOON, at, bucket, comes_true, has, json, lines, manager, obedient, output};
use crate::group::{LEASE, all_owned, member, pair, stop};
use crate::serve::serving_behind_proxy;

const GROUPS: &str = "/api/v1/groups";
const GROUP: &str = "/api/v1/groups/partitions";
const OWNER: &str = "/api/v1/groups/partitions/owner?unit=0";

fn is_unavailable(answer: &Answer) -> bool {
    answer.status == 503
}

/// A member of a group of so many shards.
async fn member_of(server: &NatsServer, id: &str, group: &str, shards: u32) -> RoleManager {
    let started = manager(server.url(), id)
        .member(MemberConfig::default().ttl(LEASE))
        .group(Group::sharded(group, shards, obedient()))
        .start();
    let member = started.await.expect("start");
    comes_true("all units", async || {
        member.group(group).expect("it").mine().len() == shards as usize
    })
    .await;
    member
}

/// The fields without those that move on from one look to the next, or that `serve` adds.
fn still(value: &Value) -> Value {
    let mut value = value.clone();
    let fields = value.as_object_mut().expect("an object");
    fields.retain(|name, _| {
        ![
            "age_seconds",
            "remaining_seconds",
            "revision",
            "bucket",
            "view",
            "units",
            "living_members",
            "unowned",
            "unowned_seconds",
        ]
        .contains(&name.as_str())
    });
    if let Some(member) = fields.get_mut("member").filter(|it| it.is_object()) {
        *member = still(member);
    }
    value
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_and_units_are_what_the_other_commands_say() {
    let server = NatsServer::start().expect("start");
    let (a, b) = pair(&server).await;
    let serve = serving(&server, &[]);
    let well = |answer: &Answer| {
        let json = answer.json();
        let groups = json["groups"].as_array().cloned().unwrap_or_default();
        let is_well = |it: &Value| it["unowned"] == 0 && it["unowned_seconds"] == 0;
        groups.len() == 2 && groups.iter().all(is_well)
    };
    let all = serve.until("all groups", GROUPS, well).await.json();
    let groups = all["groups"].as_array().expect("groups");
    let listed = output(&server, &["group", "ls", "--json", "--wait", "30s"]);
    let listed = lines(&listed);
    for (group, listed) in groups.iter().zip(&listed) {
        assert_eq!(still(group), still(listed));
        has(group, &json!({ "bucket": "leaders", "living_members": 2 }));
    }
    assert_eq!(all["views"][0]["current"], true);

    let group = serve.get(GROUP).json();
    let shown = ["group", "show", "partitions", "--json", "--wait", "30s"];
    let shown = json(&output(&server, &shown).stdout);
    let members = group["members"].as_array().expect("members");
    let mut owned = 0;
    for (member, shown) in members.iter().zip(shown["members"].as_array().expect("it")) {
        assert_eq!(still(member), still(shown));
        assert!(member["remaining_seconds"].as_f64() > Some(0.0), "{member}");
        let units = member["units"].as_array().expect("units");
        assert_eq!(member["unit_count"], units.len());
        let manager = if member["instance_id"] == "node-1" {
            &a
        } else {
            &b
        };
        let mut mine = manager.group("partitions").expect("a group").mine();
        mine.sort_by_key(|unit| unit.parse::<u32>().expect("a shard"));
        assert_eq!(*units, mine, "{member}");
        owned += units.len();
    }
    assert_eq!(owned, 12);
    assert_eq!(group["without_owner"], json!({}));

    for (path, status) in [
        ("/api/v1/groups/none", 404),
        ("/api/v1/groups/partitions/owner?unit=12", 404),
        ("/api/v1/groups/partitions/owner?unit=07", 404),
        ("/api/v1/groups/none/owner?unit=0", 404),
        ("/api/v1/groups?bucket=other", 404),
        ("/api/v1/groups?bukket=leaders", 400),
    ] {
        assert_eq!(serve.get(path).status, status, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_owner_of_a_key_is_the_one_that_each_member_would_name() {
    let server = NatsServer::start().expect("start");
    let (a, _b) = pair(&server).await;
    let serve = serving(&server, &[]);
    serve.until("an owner", OWNER, is_ok).await;
    let handle = a.group("partitions").expect("a group");
    for (key, text) in [
        ("customer-4711", "customer-4711"),
        ("", ""),
        ("%C3%A4%2F+b%00", "ä/ b\0"),
    ] {
        let path = format!("{GROUP}/owner?key={key}");
        eventually(SOON, "the owner of a key", async || {
            let answer = serve.get(&path);
            let (shard, owner) = handle.owner_of(text)?;
            let (owner, told) = (owner?, answer.json());
            assert_eq!(told["shard"], shard, "{told}");
            assert_eq!(told["unit"], shard.to_string());
            let same = answer.status == 200
                && told["instance_id"] == *owner.instance_id
                && told["changing"] == false;
            same.then(|| {
                has(&told, &json!({ "has_owner": true, "reason": null }));
                assert!(told["age_seconds"].as_f64() < Some(3.0), "{told}");
                assert_eq!(told["view"]["current"], true);
            })
        })
        .await;
    }
    let named = "/api/v1/groups/control/owner?unit=network";
    let named = serve.until("an owner", named, is_ok).await.json();
    assert_eq!(named["shard"], Value::Null);
    for (path, status) in [
        ("/api/v1/groups/none/owner?key=a", 404),
        ("/api/v1/groups/none/owner?unit=a", 404),
        ("/api/v1/groups/partitions/owner?unit=12", 404),
        ("/api/v1/groups/partitions/owner", 400),
        ("/api/v1/groups/partitions/owner?key=a&unit=1", 400),
        // No text: its shard would be another one.
        ("/api/v1/groups/partitions/owner?key=%ff", 400),
        ("/api/v1/groups/control/owner?key=a", 400),
    ] {
        assert_eq!(serve.get(path).status, status, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_sees_nothing_names_no_owner_and_shows_what_it_knew() {
    let server = NatsServer::start().expect("start");
    let a = member(&server, "node-1").start().await.expect("start");
    all_owned(&[&a]).await;
    let (proxy, serve) = serving_behind_proxy(&server);
    serve.until("an owner", OWNER, is_ok).await;
    proxy.black_hole();
    let stale = serve.until("an outage", OWNER, is_unavailable).await.json();
    has(
        &stale,
        &json!({ "has_owner": false, "reason": "unconfirmed" }),
    );
    assert_eq!(stale["instance_id"], "node-1", "it may still be the owner");
    assert_eq!(stale["view"]["current"], false);
    assert!(
        stale["view"]["stale_seconds"].as_f64() > Some(0.0),
        "{stale}"
    );
    let group = serve.get(GROUP).json();
    assert_eq!(group["unit_count"], 12);
    assert_eq!(group["unowned_seconds"], Value::Null, "nobody can tell");
    assert!(is_ok(&serve.get("/readyz")), "what was seen can be shown");
    proxy.restore();
    serve.until("the owner again", OWNER, is_ok).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn units_of_an_owner_that_died_are_without_one_after_its_lease() {
    let server = NatsServer::start().expect("start");
    let a = member(&server, "node-1").start().await.expect("start");
    all_owned(&[&a]).await;
    let serve = serving(&server, &[]);
    serve.until("an owner", OWNER, is_ok).await;
    let mut events = Events::open(&serve, None);
    // It keeps all records, and sends no heartbeat any more.
    let kept = StopOptions::default().release(Release::Keep);
    a.stop(kept).await.expect("stop");
    let gone = serve.until("the end of its lease", OWNER, is_unavailable);
    assert_eq!(gone.await.json()["reason"], "expired");
    let told = events.until(&["group"], |it| {
        it["group"] == "partitions" && it["unowned"] == 12
    });
    let told = told.last().expect("an event");
    assert_eq!(told.data["changed_count"], 12);
    let long = |answer: &Answer| answer.json()["unowned_seconds"].as_f64() > Some(1.0);
    let group = serve.until("a while", GROUP, long).await.json();
    let units: Vec<_> = (0..12).map(|unit| unit.to_string()).collect();
    assert_eq!(group["without_owner"], json!({ "expired": units }));
    assert_eq!(group["living_members"], 0);
    let page = serve.get("/").body;
    for expected in [
        "Units without an owner in 2 of 2 groups:",
        "12 expired: 0-11",
        "node-1: 12, not seen alive",
        "<title>✗ 14 units without owner",
    ] {
        assert!(page.contains(expected), "{expected}: {page}");
    }

    let b = member(&server, "node-2").start().await.expect("start");
    let of_b = |answer: &Answer| is_ok(answer) && answer.json()["instance_id"] == "node-2";
    serve.until("the next owner", OWNER, of_b).await;
    // A unit that it was not shown yet would keep its name when it leaves.
    all_owned(&[&b]).await;
    stop(b).await;
    let over = |answer: &Answer| answer.json()["reason"] == "owner_over";
    serve.until("a unit of nobody", OWNER, over).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_units_are_answered_and_flood_nobody() {
    const UNITS: usize = 2000;
    let server = NatsServer::start().expect("start");
    stop(member_of(&server, "node-1", "many", 2000).await).await;
    let serve = serving(&server, &[]);
    serve.until("the bucket", "/readyz", is_ok).await;
    let many = "/api/v1/groups/many";
    let looked = |answer: &Answer| answer.json()["unowned_seconds"].is_number();
    let group = serve.until("a look at it", many, looked).await.json();
    has(&group, &json!({ "unit_count": UNITS, "unowned": UNITS }));
    let over = group["without_owner"]["owner_over"].as_array();
    assert_eq!(over.map(Vec::len), Some(UNITS));
    for key in 0..200 {
        let answer = serve.get(&format!("{many}/owner?key={key}"));
        assert_eq!(answer.status, 503);
    }
    let page = serve.get("/").body;
    assert!(page.contains("2000 owner over: 0-1999"), "{page}");
    assert!(page.len() < 20 * 1024, "{} bytes", page.len());

    // All move at once.
    let mut events = Events::open(&serve, None);
    let _next = member_of(&server, "node-2", "many", 2000).await;
    let owned = |answer: &Answer| answer.json()["unowned"] == 0;
    serve.until("owners", many, owned).await;
    let (mut changed, mut told) = (0, Vec::new());
    while changed < UNITS as u64 {
        let event = events.next();
        if event.kind == "group" {
            changed += event.data["changed_count"].as_u64().expect("a number");
            told.push(event);
        }
    }
    // Each tells of many.
    assert!(told.len() <= UNITS / 20, "{} events", told.len());
    for event in told {
        let named = event.data["changed"].as_array().expect("units");
        assert!(named.len() <= 100, "{}", named.len());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn units_that_a_group_has_no_more_are_told_as_changed() {
    let server = NatsServer::start().expect("start");
    let _one = member_of(&server, "node-1", "odd", 3).await;
    let serve = serving(&server, &[]);
    serve.until("the bucket", "/readyz", is_ok).await;
    let looked = |answer: &Answer| answer.json()["unowned_seconds"] == 0;
    serve
        .until("a look at it", "/api/v1/groups/odd", looked)
        .await;
    let mut events = Events::open(&serve, None);
    let mut grow = at(&server, &["group", "grow", "odd", "1", "--yes"]);
    let grown = tokio::task::spawn_blocking(move || ended(&mut grow));
    grown.await.expect("no panic").assert_code(0);
    let told = events.until(&["group"], |it| it["unit_count"] == 1);
    let changed = told
        .iter()
        .flat_map(|it| it.data["changed"].as_array().into_iter().flatten());
    let changed: BTreeSet<_> = changed.filter_map(Value::as_str).collect();
    assert!(changed.is_superset(&["1", "2"].into()), "{changed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_without_a_map_that_is_understood_has_no_owners_and_harms_no_reader() {
    let server = NatsServer::start().expect("start");
    let bucket = bucket(&server).await;
    let member = format!("_groups.odd.member.{}A", "B".repeat(21));
    for key in ["_groups.odd.map", &member] {
        let rubbish = bucket.put(key, "node-1\u{1b}[2J".into()).await;
        rubbish.expect("put");
    }
    let serve = serving(&server, &[]);
    let by_key = "/api/v1/groups/odd/owner?key=a";
    let unknown = |answer: &Answer| answer.body.contains("no map");
    let unknown = serve.until("no map", by_key, unknown).await;
    assert_eq!(unknown.status, 503, "{unknown:?}");
    let group = serve.get("/api/v1/groups/odd");
    assert_eq!(group.json()["kind"], Value::Null);
    assert!(!group.body.contains('\u{1b}'), "{group:?}");
}
