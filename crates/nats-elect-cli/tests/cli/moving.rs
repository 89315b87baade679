//! Units that are moved, and instances that are drained of them.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use nats_elect::{Group, MemberConfig, RoleManager, Term, handler_fn};
use nats_elect_testing::{NatsServer, TcpProxy, eventually};
use serde_json::json;

use crate::ended;
use crate::fleet::{SOON, at, comes_true, has, is_fit_for_a_terminal, json, manager, output};
use crate::group::{LEASE, all_owned, member, pair, pair_of, stop};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unit_is_moved_and_who_can_not_have_it_is_refused() {
    let server = NatsServer::start().expect("start");
    let (a, b) = pair_of(&server, 13).await;
    let mine = |it: &RoleManager| it.group("partitions").expect("a group").mine();
    // From the one that has more. Then nothing else would be moved.
    let (from, to) = if mine(&a).len() > 6 {
        (&a, &b)
    } else {
        (&b, &a)
    };
    let unit = mine(from)[0].clone();
    let transfer = ["group", "move", "partitions", &unit, to.instance_id()];
    let told = output(&server, &[&transfer[..], &["--json"]].concat()).with_code(0);
    let told = json(&told.stdout);
    has(&told, &json!({ "moved": true, "unit": unit }));
    let owner = to.group("partitions").expect("a group").owner(&unit);
    let owner = owner.expect("an owner");
    assert_eq!(owner.instance_id, to.instance_id());
    let token = owner.fencing_token.expect("a token");
    assert_eq!(told["fencing_token"], token.to_string());
    let again = output(&server, &transfer).with_code(0);
    again.says("already");
    is_fit_for_a_terminal(&again);

    for (arguments, code, what) in [
        (["partitions", "60", "node-1"], 3, "no unit \"60\""),
        (["others", "0", "node-1"], 3, "takes no part"),
        (["partitions", "0", "node-3"], 3, "node-3"),
        (["a.b", "0", "node-1"], 2, "group name"),
    ] {
        let told = output(&server, &[&["group", "move"], &arguments[..]].concat()).with_code(code);
        told.complains(what);
    }
    output(&server, &["cordon", from.instance_id()]).assert_code(0);
    let back = ["group", "move", "partitions", &unit, from.instance_id()];
    let refused = output(&server, &back).with_code(4);
    refused.complains("takes no units");
    stop(a).await;
    stop(b).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_ends_when_the_instance_owns_nothing_and_says_what_it_still_owns() {
    let server = NatsServer::start().expect("start");
    let (a, b) = pair(&server).await;
    let drained = output(&server, &["group", "drain", "node-1", "--json"]).with_code(0);
    let told = json(&drained.stdout);
    has(&told, &json!({ "order": "cordon", "done": true }));
    assert_eq!(told["units_left"], json!({}));
    let mine = |it: &RoleManager, group: &str| it.group(group).expect("a group").mine().len();
    assert_eq!((mine(&a, "partitions"), mine(&a, "control")), (0, 0));
    all_owned(&[&b]).await;

    // Nobody is left to take anything.
    let stuck = ["group", "drain", "node-2", "--wait-timeout", "5s"];
    let stuck = output(&server, &stuck).with_code(5);
    is_fit_for_a_terminal(&stuck);
    let has = "still has units (2 of control, 12 of partitions)";
    let why = "nobody may take network of control: every member that may take it is cordoned";
    stuck.complains_all(["… node-2", "after 5s node-2", &format!("{has}; {why}")]);
    let kept = output(&server, &["group", "explain", "control", "network"]);
    kept.says_all(["nobody may take it", "it is cordoned"]);
    output(&server, &["resume", "--all-instances"]).assert_code(0);
    comes_true("units on the one that was drained", async || {
        mine(&a, "partitions") == 6
    })
    .await;
    output(&server, &["group", "drain", "node-3"]).assert_code(3);
    stop(a).await;
    stop(b).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_goes_on_after_the_instance_was_out_of_reach_for_a_moment() {
    let server = NatsServer::start().expect("start");
    let proxy = TcpProxy::start(server.url()).expect("start");
    let a = member(&server, "node-1").servers(proxy.url()).start().await;
    let a = a.expect("start");
    all_owned(&[&a]).await;
    let mut drain = at(&server, &["group", "drain", "node-1"]);
    let drained = tokio::task::spawn_blocking(move || ended(&mut drain));
    // Nobody is there to take its units.
    eventually(SOON, "the order", async || {
        let shown = output(&server, &["group", "show", "partitions", "--json"]);
        let is_given = json(&shown.stdout)["members"][0]["cordoned"] == true;
        is_given.then_some(())
    })
    .await;
    proxy.cut();
    eventually(SOON, "an instance that does not answer", async || {
        let found = output(&server, &["candidates", "--json"]);
        found.stdout.is_empty().then_some(())
    })
    .await;
    assert!(!drained.is_finished());
    proxy.restore();
    let b = member(&server, "node-2").start().await.expect("start");
    drained.await.expect("its end").assert_code(0);
    all_owned(&[&b]).await;
    stop(a).await;
    stop(b).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_drain_says_that_a_handler_still_runs_whose_unit_was_given_away() {
    let server = NatsServer::start().expect("start");
    let (end, held) = mpsc::channel::<()>();
    let held = Arc::new(Mutex::new(held));
    let start = async |id: &str| {
        let hangs = (id == "node-1").then(|| Arc::clone(&held));
        let lead = move |term: Term| {
            let hangs = hangs.clone();
            async move {
                term.cancelled().await;
                if let Some(held) = hangs {
                    // No abort ends it.
                    _ = held.lock().expect("no panic").recv();
                }
                Ok(())
            }
        };
        let lease = MemberConfig::default().ttl(LEASE);
        manager(server.url(), id)
            .member(lease.stop_budget(Duration::from_millis(500)))
            .group(Group::sharded("shards", 1, handler_fn(lead)))
            .start()
            .await
            .expect("start")
    };
    let a = start("node-1").await;
    let mine = |it: &RoleManager| it.group("shards").expect("a group").mine().len();
    comes_true("its unit", async || mine(&a) == 1).await;
    let b = start("node-2").await;
    let joined = || b.group("shards").expect("a group").has_joined();
    comes_true("the other one", async || joined()).await;
    let drain = ["group", "drain", "node-1", "--wait-timeout", "8s"];
    let told = output(&server, &drain).with_code(5);
    is_fit_for_a_terminal(&told);
    told.complains("still has handlers of units that it gave away (1)");
    assert_eq!(mine(&b), 1);
    let top = output(&server, &["top", "--once"]);
    let still = "1 handler still runs of a unit that was given away";
    top.says(still);
    drop(end);
    let told = output(&server, &["group", "drain", "node-1", "--json"]).with_code(0);
    assert_eq!(json(&told.stdout)["still_running"], json!({}));
    stop(a).await;
    stop(b).await;
}
