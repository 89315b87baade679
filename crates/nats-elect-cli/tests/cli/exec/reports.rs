//! The lines of `exec` about its own work, on stderr.

use std::io::Read;
use std::process::{Command, Stdio};

use nats_elect_testing::{NatsServer, TcpProxy, eventually};
use rustix::process::Signal;

use crate::exec::instance::{exec, step_down};
use crate::fleet::{SOON, output};
use crate::running::Teller;

/// A lease that does not end by itself in a test.
const LONG: [&str; 2] = ["--ttl", "60s"];

/// `exec` with a script, and its lines.
fn teller(exec: &mut Command, script: &str) -> Teller {
    Teller::of_stderr(exec.args(["--", "sh", "-c", script]))
}

/// The number after `pid `.
fn pid(rest: &str) -> u32 {
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a process")
}

#[test]
fn each_start_end_and_restart_of_the_command_is_a_line() {
    let server = NatsServer::start().expect("a server");
    let restart = ["--restart", "always", "--restart-delay", "20ms"];
    let mut only = teller(
        exec("only", &server.url()).args(LONG).args(restart),
        "kill -9 $$",
    );
    let first = only.tells("INFO nats_elect::exec: worker: leads, command started (pid ");
    let (_, token) = first.split_once(", fencing token ").expect("a token");
    let token = token.trim_end_matches(')');
    assert!(
        token.parse::<nats_elect::FencingToken>().is_ok(),
        "{token:?}"
    );
    let end = only.tells("worker: command ended ");
    assert_eq!(end, "by SIGKILL, next start in 20ms");
    let again = only.tells("worker: command started again (pid ");
    assert_ne!(pid(&first), pid(&again));
    assert_eq!(
        only.tells("worker: command ended "),
        "by SIGKILL, next start in 40ms"
    );
    only.process.signal(Signal::TERM);
    only.tells("stopping: SIGTERM came");
    let (_, told) = only.ended();
    assert_eq!(told.matches("worker: leads").count(), 1, "{told}");
    assert!(!told.contains("WARN"), "{told}");
}

#[test]
fn a_command_that_is_not_started_again_leaves_its_code() {
    let server = NatsServer::start().expect("a server");
    let mut only = teller(exec("only", &server.url()).args(LONG), "exit 4");
    only.tells("worker: leads, command started (pid ");
    assert_eq!(only.tells("worker: command ended "), "with code 4");
    assert_eq!(only.ended().0, Some(4));
}

#[tokio::test]
async fn a_handover_is_told_with_its_cause_and_so_is_the_next_term() {
    let server = NatsServer::start().expect("a server");
    let standing = ["--restart", "on-failure"];
    let script = "sleep 600";
    let mut first = teller(
        exec("first", &server.url()).args(LONG).args(standing),
        script,
    );
    first.tells("worker: leads, command started");
    let mut second = teller(exec("second", &server.url()).args(LONG), script);
    second.tells("waiting for worker: first leads");
    step_down(&server, "worker", "second").await;
    first.tells("worker: leadership ends (stepped_down), stopping the command");
    first.tells("worker: command ended by SIGTERM");
    first.tells("waiting for worker: second leads");
    second.tells("worker: leads, command started");
    step_down(&server, "worker", "first").await;
    second.tells("worker: leadership ends (stepped_down), stopping the command");
    first.tells("worker: leads, command started");
    first.process.signal(Signal::TERM);
    first.tells("stopping: SIGTERM came");
    first.tells("worker: leadership ends (stopped), stopping the command");
    assert_eq!(first.ended().0, Some(128 + 15));
}

#[test]
fn an_outage_is_told_with_the_end_of_the_command_and_its_next_start() {
    let server = NatsServer::start().expect("a server");
    let proxy = TcpProxy::start(server.url()).expect("a proxy");
    let mut only = teller(
        exec("only", &proxy.url()).args(["--ttl", "6s"]),
        "sleep 600",
    );
    only.tells("worker: leads, command started");
    proxy.black_hole();
    only.tells("worker: leadership ends (lease_expired), stopping the command");
    only.tells("worker: command ended by SIGTERM");
    proxy.restore();
    only.tells("worker: leads, command started");
}

#[test]
fn a_connection_that_is_lost_and_back_is_told() {
    let server = NatsServer::start().expect("a server");
    let proxy = TcpProxy::start(server.url()).expect("a proxy");
    let mut only = teller(exec("only", &proxy.url()).args(LONG), "sleep 600");
    only.tells("worker: leads, command started");
    proxy.cut();
    only.tells("connection to NATS lost");
    proxy.restore();
    only.tells("connected to NATS again");
    only.process.signal(Signal::TERM);
    let (_, told) = only.ended();
    assert!(!told.contains("async_nats"), "{told}");
}

#[tokio::test]
async fn a_command_that_ended_with_its_lease_is_told_so_also_if_its_guard_ended_it() {
    let server = NatsServer::start().expect("a server");
    let mut only = teller(
        exec("only", &server.url()).args(["--ttl", "2s"]),
        "sleep 600",
    );
    let command = pid(&only.tells("worker: leads, command started (pid "));
    only.process.signal(Signal::STOP);
    eventually(SOON, "the end of the command", async || {
        let stat = std::fs::read_to_string(format!("/proc/{command}/stat")).unwrap_or_default();
        (stat.is_empty() || stat.contains(") Z")).then_some(())
    })
    .await;
    only.process.signal(Signal::CONT);
    let told = only.tells("its lease ");
    assert!(told.starts_with("is over") || told == "was over", "{told}");
    only.tells("worker: leads, command started");
}

#[test]
fn a_command_that_does_not_stop_is_killed_with_a_warning_and_at_a_second_signal() {
    let server = NatsServer::start().expect("a server");
    let deaf = "trap '' TERM; echo $$; while :; do sleep 0.05; done";
    let begin = |more: &[&str]| {
        let mut exec = exec("only", &server.url());
        let mut only = teller(exec.args(LONG).args(more).stdout(Stdio::piped()), deaf);
        let mut stdout = only.process.0.stdout.take().expect("a pipe");
        // It ignores signals from now on.
        stdout.read_exact(&mut [0]).expect("a line");
        only
    };
    // The warning comes also if nothing else is told.
    let mut slow = begin(&["--quiet"]);
    slow.process.signal(Signal::TERM);
    slow.tells("worker: killing the command: it did not stop in time");
    let (code, told) = slow.ended();
    assert_eq!(code, Some(128 + 9));
    assert!(told.contains("WARN") && told.lines().count() == 1, "{told}");

    let mut hurried = begin(&["--stop-budget", "40s"]);
    hurried.process.signal(Signal::INT);
    hurried.tells("worker: leadership ends (stopped), stopping the command");
    hurried.process.signal(Signal::INT);
    hurried.tells("worker: killing the command: a second signal asks for it");
    assert_eq!(hurried.ended().0, Some(128 + 9));
}

#[test]
fn a_bucket_of_one_replica_is_no_news_but_other_risks_are() {
    let server = NatsServer::start().expect("a server");
    let stderr = |more: &[&str]| {
        let mut only = teller(exec("only", &server.url()).args(LONG).args(more), "exit 0");
        let (code, told) = only.ended();
        assert_eq!(code, Some(0), "{more:?}: {told}");
        told
    };
    assert_eq!(stderr(&["--quiet"]), "");
    assert_eq!(stderr(&["--quiet", "--try"]), "");
    let told = stderr(&[]);
    assert!(
        told.lines().count() == 2 && !told.contains("WARN"),
        "{told}"
    );
    let told = stderr(&["-v"]);
    assert!(told.contains("one replica"), "{told}");
    assert!(told.contains("worker: leads, command started"), "{told}");

    let create = [
        "create-bucket",
        "--storage",
        "memory",
        "--bucket",
        "volatile",
    ];
    output(&server, &create).assert_code(0);
    let told = stderr(&["--quiet", "--bucket", "volatile"]);
    assert!(
        told.contains("WARN") && told.contains("kept in memory"),
        "{told}"
    );
    assert!(!told.contains("one replica"), "{told}");
}

#[test]
fn one_that_does_not_wait_says_only_who_leads_or_nothing() {
    let server = NatsServer::start().expect("a server");
    let mut leader = teller(exec("leader", &server.url()).args(LONG), "sleep 600");
    leader.tells("worker: leads, command started");
    let stderr = |more: &[&str]| {
        let mut other = teller(exec("other", &server.url()).args(LONG).args(more), "exit 0");
        let (code, told) = other.ended();
        assert_eq!(code, Some(75), "{more:?}: {told}");
        told
    };
    assert_eq!(
        stderr(&["--try"]),
        "error: the role is taken: leader leads worker"
    );
    assert_eq!(stderr(&["--try", "--quiet"]), "");
}
