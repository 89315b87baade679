//! Leadership that does not come.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use nats_elect_testing::NatsServer;
use rustix::process::{Pid, Signal, kill_process};

use crate::exec::command::Conduct;
use crate::exec::history::{History, stamp};
use crate::exec::instance::{Exec, exec};
use crate::exec::scene;

/// A lease that nobody waits for.
const LONG: [&str; 2] = ["--ttl", "60s"];
const NOT_LED: i32 = 75;

async fn held(server: &NatsServer, history: &History) -> Exec {
    let leader = Exec::start("leader", &server.url(), history, Conduct::Obey, &LONG);
    leader.runs(history).await;
    leader
}

#[tokio::test]
async fn a_role_that_another_instance_leads_is_not_waited_for_longer_than_was_asked() {
    let (server, history) = scene();
    let _leader = held(&server, &history).await;
    for (limit, why) in [
        (&["--try"][..], "the role is taken: leader leads worker"),
        (
            &["--wait-timeout", "2s"],
            "leadership did not come within 2s: leader leads worker",
        ),
    ] {
        let begun = stamp();
        let ended = exec("other", &server.url())
            .args(LONG)
            .args(limit)
            .args(["--", "sh", "-c", "echo runs"])
            .stdout(Stdio::piped())
            .output()
            .expect("exec");
        let said = String::from_utf8(ended.stderr).expect("text");
        assert_eq!(ended.status.code(), Some(NOT_LED), "{limit:?}: {said}");
        assert_eq!(ended.stdout, b"", "{limit:?}");
        let why = format!("error: {why}\n");
        assert!(said.ends_with(&why), "{limit:?}: {said}");
        assert!(stamp() - begun < 30_000_000_000, "{limit:?}");
    }
}

#[test]
fn a_free_role_is_led_at_once_with_try_and_the_command_may_outlast_the_wait() {
    let server = NatsServer::start().expect("a server");
    for limit in [&["--try"][..], &["--wait-timeout", "10s"]] {
        let ended = exec("only", &server.url())
            .args(limit)
            .args(["--", "sh", "-c", "sleep 1; exit 7"])
            .status();
        assert_eq!(ended.expect("exec").code(), Some(7), "{limit:?}");
    }
}

#[test]
fn a_wait_that_nats_does_not_answer_is_no_lost_election() {
    let server = NatsServer::start().expect("a server");
    let url = server.url();
    drop(server);
    let ended = exec("only", &url)
        .args(["--wait-timeout", "500ms", "--", "true"])
        .status();
    assert_eq!(ended.expect("exec").code(), Some(5));
}

#[tokio::test]
async fn the_leader_is_reported_once_while_an_instance_waits() {
    let (server, history) = scene();
    let mut leader = held(&server, &history).await;
    let mut child = exec("other", &server.url())
        .args(LONG)
        .args(["--", "true"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("start exec");
    let lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let mut reports = lines
        .map(|line| line.expect("text"))
        .filter(|line| line.contains("waiting for"));
    let report = reports.next().expect("a report");
    assert!(
        report.ends_with("waiting for worker: leader leads"),
        "{report:?}"
    );
    leader.signal(Signal::TERM);
    leader.exited().await;
    assert_eq!(reports.next(), None, "it leads, and ends with its command");
    assert_eq!(child.wait().expect("its end").code(), Some(0));
}

#[tokio::test]
async fn a_quiet_instance_waits_without_a_word() {
    let (server, history) = scene();
    let _leader = held(&server, &history).await;
    // Another program under the same role would be warned of.
    let same = std::env::current_exe().expect("this program");
    let child = exec("other", &server.url())
        .args(LONG)
        .args(["--quiet", "--wait-timeout", "2s", "--"])
        .arg(same)
        .stderr(Stdio::piped())
        .spawn()
        .expect("start exec");
    let ended = child.wait_with_output().expect("its end");
    let said = String::from_utf8(ended.stderr).expect("text");
    assert_eq!((ended.status.code(), said.as_str()), (Some(NOT_LED), ""));
}

#[tokio::test]
async fn a_signal_ends_a_wait_with_the_code_of_the_signal() {
    let (server, history) = scene();
    let _leader = held(&server, &history).await;
    let mut child = exec("other", &server.url())
        .args(LONG)
        .args(["--wait-timeout", "600s", "--", "true"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("start exec");
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    lines.next().expect("a line").expect("text");
    kill_process(Pid::from_child(&child), Signal::TERM).expect("it is alive");
    assert_eq!(child.wait().expect("its end").code(), Some(128 + 15));
}
