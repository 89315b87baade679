//! `candidates`: the instances that take part in elections.

use nats_elect_testing::{NatsServer, eventually};

use crate::fleet::{
    ROLE, SOON, harms_no_terminal, instance, is_fit_for_a_terminal, leader, led, lines, output,
    silent, stranger,
};
use crate::pair::answer;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_instance_is_listed_with_its_state_in_each_role() {
    let (server, _a) = led().await;
    let b = instance(&server, "node-2")
        .meta("zone", "eu-1")
        .meta("rack", "7");
    let b = b.start().await.expect("start");
    b.pause().await.expect("a pause");
    let handle = b.role(ROLE).expect("it");
    eventually(SOON, "a leader", async || handle.status().leader).await;
    let _c = silent(&server, "node-3").await;
    answer(&server, 2).await;

    let table = output(&server, &["candidates"]).with_code(0);
    is_fit_for_a_terminal(&table);
    let rows: Vec<_> = table.stdout.lines().collect();
    assert_eq!(
        rows[3..],
        ["", "node-2: rack=7, zone=eu-1"],
        "{}",
        table.stdout
    );
    for (row, expected) in [
        (1, ["node-1", "leader ", "healthy"]),
        (2, ["node-2", "follower, paused", "connected"]),
    ] {
        for expected in expected {
            assert!(rows[row].contains(expected), "{expected}: {}", table.stdout);
        }
    }
    let json = lines(&output(&server, &["candidates", ROLE, "--json"]));
    assert_eq!(json.len(), 2);
    assert_eq!(json[0]["status"]["roles"][ROLE]["is_leader"], true);
    assert_eq!(json[1]["status"]["roles"][ROLE]["paused"], true);
    assert_eq!(json[1]["processes_of_this_id"], 1);
    assert_eq!(json[1]["status"]["meta"]["zone"], "eu-1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_of_one_id_are_told_apart() {
    let server = NatsServer::start().expect("start");
    let _a = leader(&server, "twin").await;
    let _b = instance(&server, "twin").start().await.expect("start");
    answer(&server, 2).await;
    let table = output(&server, &["candidates"]);
    let expected = "twin: 2 processes have this id";
    table.says(expected);
    let rows: Vec<_> = table.stdout.lines().skip(1).take(2).collect();
    assert!(rows.iter().all(|row| row.starts_with("twin (")), "{rows:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_at_all_and_nobody_for_the_role_end_with_3() {
    let server = NatsServer::start().expect("start");
    let none = output(&server, &["candidates"]).with_code(3);
    none.complains("--admin-prefix");
    let _a = leader(&server, "node-1").await;
    output(&server, &["candidates", "network"]).assert_code(3);
    output(&server, &["candidates", "--admin-prefix", "ops"]).assert_code(3);
    output(&server, &["candidates", "--admin-prefix", "_INBOX"]).assert_code(2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_there_but_does_not_say_how_it_is_is_listed_as_such() {
    let server = NatsServer::start().expect("start");
    let mute = stranger(&server, None).await;
    let table = output(&server, &["candidates"]);
    mute.abort();
    table.assert_code(0);
    harms_no_terminal(&table);
    table.says("mute");
    table.says("no answer");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_whose_terms_keep_failing_is_marked_and_warned_of() {
    use std::time::Duration;

    use nats_elect::{RoleConfig, RoleManager, Takeover, Term, handler_fn};

    let (server, _a) = led().await;
    let config = RoleConfig::default()
        .ttl(Duration::from_secs(2))
        .priority(10)
        .takeover(Takeover::Cooperative);
    let fails = |_: Term| async { Err("it can't".into()) };
    let b = RoleManager::builder()
        .servers(server.url())
        .bucket("leaders")
        .instance_id("node-2")
        .role(ROLE, config, handler_fn(fails));
    let b = b.start().await.expect("start");
    let handle = b.role(ROLE).expect("it");
    eventually(SOON, "failures", async || handle.status().failing).await;
    answer(&server, 2).await;

    let table = output(&server, &["candidates"]);
    let row = table.stdout.lines().find(|row| row.starts_with("node-2 "));
    let row = row.expect("a row");
    assert!(row.contains(", failing"), "{}", table.stdout);
    let remark = "node-2: its terms of scheduler failed one after the other: others go first for ";
    table.says(remark);
    let mend = "until `nats-elect resume node-2 --role scheduler`";
    table.says(mend);
    let doctor = output(&server, &["doctor"]);
    let warning = "the terms of node-2 failed one after the other: scheduler";
    doctor.says(warning);
}
