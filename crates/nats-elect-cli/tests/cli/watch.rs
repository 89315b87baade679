//! `watch`: what changes, as it happens.

use std::io::Read;
use std::process::Stdio;

use nats_elect::{StepDown, StopOptions};
use nats_elect_testing::{NatsServer, eventually};
use rustix::process::Signal;
use serde_json::json;

use crate::fleet::{ROLE, SOON, at, bucket, has, leader, led, output};
use crate::running::Teller;

/// A watch that runs.
fn watching(server: &NatsServer, arguments: &[&str]) -> Teller {
    Teller::of_stdout(at(server, &["watch"]).args(arguments))
}

fn interrupted(mut watching: Teller) -> Option<i32> {
    watching.process.signal(Signal::INT);
    watching.process.code()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_tells_how_things_stand_and_then_each_change_until_ctrl_c() {
    let (server, a) = led().await;
    let mut text = watching(&server, &[]);
    let mut json = watching(&server, &["--json", ROLE]);
    let first = text.line();
    assert!(first.contains("scheduler  node-1  leads"), "{first}");
    let first = crate::fleet::json(&json.line());
    assert_eq!(
        (&first["event"], &first["to"]["instance_id"]),
        (&json!("present"), &json!("node-1"))
    );

    let leading = a.role(ROLE).expect("it");
    let down = leading.step_down(StepDown::any()).await;
    down.expect("a step-down");
    let freed = text.line();
    assert!(freed.contains("scheduler  node-1 → –  freed"), "{freed}");
    let freed = crate::fleet::json(&json.line());
    has(&freed, &json!({ "event": "change", "cause": "released" }));
    has(&freed, &json!({ "standing": "released", "to": null }));
    let claimed = text.line();
    assert!(claimed.contains("– → node-1  claimed"), "{claimed}");
    assert_eq!((interrupted(text), interrupted(json)), (Some(0), Some(0)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_waits_for_nats_at_the_start() {
    let mut server = NatsServer::start().expect("start");
    bucket(&server).await;
    server.kill();
    let mut watching = Teller::of_stderr(&mut at(&server, &["watch", "--timeout", "30s"]));
    server.restart().expect("a restart");
    let line = watching.line();
    let expected = "no role was ever led in the bucket";
    assert!(line.contains(expected), "{line}");
    assert_eq!(interrupted(watching), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_says_that_nats_is_away_and_goes_on_when_it_is_back() {
    let (mut server, a) = led().await;
    let mut text = watching(&server, &[]);
    text.line();
    server.kill();
    let stale = text.line();
    assert!(stale.contains("NATS is out of reach"), "{stale}");
    server.restart().expect("a restart");
    // Its lease may have passed meanwhile.
    let mut back = text.line();
    while !back.contains("NATS is back") {
        assert!(
            back.contains("out of reach")
                || back.contains("out of sight")
                || back.contains("found"),
            "{back}"
        );
        back = text.line();
    }
    // It may have lost its role, or not have come back yet: then it would free nothing.
    let leading = a.role(ROLE).expect("it");
    eventually(SOON, "a proof", async || leading.validate().await.ok()).await;
    a.stop(StopOptions::default()).await.expect("a stop");
    let mut freed = text.line();
    while !freed.contains("node-1 → –  freed") {
        assert!(freed.contains("node-1"), "{freed}");
        freed = text.line();
    }
    assert_eq!(interrupted(text), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_until_leader_it_ends_at_the_first_leader_that_is_seen_alive() {
    let server = NatsServer::start().expect("start");
    let bucket = bucket(&server).await;
    let dead = json!({ "id": "dead", "ttl_ms": 3_600_000 }).to_string();
    bucket.put("other", dead.into()).await.expect("put");
    let late = output(
        &server,
        &["watch", "other", "--until-leader", "--within", "300ms"],
    )
    .with_code(3);
    late.says("no heartbeat was seen yet");
    let mut json = watching(&server, &["--json", "other"]);
    assert_eq!(crate::fleet::json(&json.line())["confirmed"], false);
    assert_eq!(interrupted(json), Some(0));

    let mut waiting = watching(&server, &[ROLE, "--until-leader"]);
    let first = waiting.line();
    assert!(first.contains("nobody leads: never led"), "{first}");
    let _a = leader(&server, "node-1").await;
    let claimed = waiting.line();
    assert!(claimed.contains("– → node-1  claimed"), "{claimed}");
    let last = waiting.line();
    assert!(last.ends_with("scheduler  node-1  leads"), "{last}");
    assert_eq!(waiting.process.code(), Some(0));
    let mut waiting = watching(&server, &["other", "--until-leader"]);
    waiting.line();
    assert_eq!(interrupted(waiting), Some(130), "scripts must not go on");
    output(&server, &["watch", "--until-leader"]).assert_code(2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_nats_is_away_in_the_end_the_code_says_that() {
    let mut server = NatsServer::start().expect("start");
    bucket(&server).await;
    let mut waiting = watching(&server, &[ROLE, "--until-leader", "--within", "2s"]);
    waiting.line();
    server.kill();
    assert_eq!(waiting.process.code(), Some(5));
}

#[tokio::test]
async fn it_ends_when_nobody_reads_any_more_though_nothing_changes() {
    let server = NatsServer::start().expect("start");
    bucket(&server).await;
    let mut command = at(&server, &["watch", ROLE]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("start");
    let mut stdout = child.stdout.take().expect("a pipe");
    stdout.read_exact(&mut [0]).expect("a line");
    drop(stdout);
    assert_eq!(child.wait().expect("its end").code(), Some(0));
}
