//! `watch`: what changes, as it happens.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};

use nats_elect::{StepDown, StopOptions};
use nats_elect_testing::{NatsServer, eventually};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::fleet::{ROLE, SOON, at, bucket, leader, output};

/// A watch that runs.
struct Watching {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Watching {
    fn start(server: &NatsServer, arguments: &[&str]) -> Self {
        let mut command = at(server, &["watch"]);
        let command = command.args(arguments).stdout(Stdio::piped());
        let mut child = command.spawn().expect("start");
        let lines = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, lines }
    }

    /// Its next line; it waits for it.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("text");
        line
    }

    fn json(&mut self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).expect(&line)
    }

    fn interrupted(&mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), Signal::INT).expect("a signal");
        self.code()
    }

    fn code(&mut self) -> Option<i32> {
        self.child.wait().expect("its end").code()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_tells_how_things_stand_and_then_each_change_until_ctrl_c() {
    let server = NatsServer::start().expect("start");
    let a = leader(&server, "node-1").await;
    let mut text = Watching::start(&server, &[]);
    let mut json = Watching::start(&server, &["--json", ROLE]);
    let first = text.line();
    assert!(first.contains("scheduler  node-1  leads"), "{first}");
    let first = json.json();
    assert_eq!(
        (&first["event"], &first["to"]["instance_id"]),
        (&json!("present"), &json!("node-1"))
    );

    let leading = a.role(ROLE).expect("it");
    let down = leading.step_down(StepDown::any()).await;
    down.expect("a step-down");
    let freed = text.line();
    assert!(freed.contains("scheduler  node-1 → –  freed"), "{freed}");
    let freed = json.json();
    assert_eq!(
        (&freed["event"], &freed["cause"]),
        (&json!("change"), &json!("released"))
    );
    assert_eq!(
        (&freed["standing"], &freed["to"]),
        (&json!("released"), &Value::Null)
    );
    let claimed = text.line();
    assert!(claimed.contains("– → node-1  claimed"), "{claimed}");
    assert_eq!((text.interrupted(), json.interrupted()), (Some(0), Some(0)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_of_which_no_heartbeat_comes_is_told_as_such() {
    let server = NatsServer::start().expect("start");
    let bucket = bucket(&server).await;
    let dead = json!({ "id": "dead", "ttl_ms": 3_600_000 }).to_string();
    bucket.put(ROLE, dead.into()).await.expect("put");
    let mut text = Watching::start(&server, &[]);
    let mut json = Watching::start(&server, &["--json"]);
    let first = text.line();
    assert!(first.contains("no heartbeat was seen yet"), "{first}");
    assert_eq!(json.json()["confirmed"], false);
    assert_eq!((text.interrupted(), json.interrupted()), (Some(0), Some(0)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_waits_for_nats_at_the_start() {
    let mut server = NatsServer::start().expect("start");
    bucket(&server).await;
    server.kill();
    let mut command = at(&server, &["watch", "--timeout", "30s"]);
    let mut watching = command.stderr(Stdio::piped()).spawn().expect("start");
    let mut told = BufReader::new(watching.stderr.take().expect("a pipe"));
    server.restart().expect("a restart");
    let mut line = String::new();
    told.read_line(&mut line).expect("text");
    assert!(
        line.contains("no role was ever led in the bucket"),
        "{line}"
    );
    kill_process(Pid::from_child(&watching), Signal::INT).expect("a signal");
    assert_eq!(watching.wait().expect("its end").code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_says_that_nats_is_away_and_goes_on_when_it_is_back() {
    let mut server = NatsServer::start().expect("start");
    let a = leader(&server, "node-1").await;
    let mut text = Watching::start(&server, &[]);
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
    assert_eq!(text.interrupted(), Some(0));
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

    let mut waiting = Watching::start(&server, &[ROLE, "--until-leader"]);
    let first = waiting.line();
    assert!(first.contains("nobody leads: never led"), "{first}");
    let _a = leader(&server, "node-1").await;
    let claimed = waiting.line();
    assert!(claimed.contains("– → node-1  claimed"), "{claimed}");
    let last = waiting.line();
    assert!(last.ends_with("scheduler  node-1  leads\n"), "{last}");
    assert_eq!(waiting.code(), Some(0));
    let mut waiting = Watching::start(&server, &["other", "--until-leader"]);
    waiting.line();
    assert_eq!(waiting.interrupted(), Some(130), "scripts must not go on");
    output(&server, &["watch", "--until-leader"]).assert_code(2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_nats_is_away_in_the_end_the_code_says_that() {
    let mut server = NatsServer::start().expect("start");
    bucket(&server).await;
    let mut waiting = Watching::start(&server, &[ROLE, "--until-leader", "--within", "2s"]);
    waiting.line();
    server.kill();
    assert_eq!(waiting.code(), Some(5));
}

#[tokio::test]
async fn it_ends_when_nobody_reads_any_more_though_nothing_changes() {
    let server = NatsServer::start().expect("start");
    bucket(&server).await;
    let watching = Watching::start(&server, &[ROLE]);
    let Watching {
        mut child,
        mut lines,
    } = watching;
    lines.read_line(&mut String::new()).expect("text");
    drop(lines);
    assert_eq!(child.wait().expect("its end").code(), Some(0));
}
