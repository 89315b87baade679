//! Commands that run, end, and are told to end.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nats_elect_testing::{NatsServer, eventually};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process, waitid};

use crate::exec::command::Conduct;
use crate::exec::history::{overlaps, stamp};
use crate::exec::instance::{Exec, exec};
use crate::exec::scene;
use crate::fleet::{SOON, comes_true};
use crate::running::Teller;
use crate::{Ended, ended, with_stdin};

fn shell(exec: &mut Command, script: &str) -> Ended {
    with_stdin(exec.args(["--", "sh", "-c", script]), "from stdin\n")
}

#[test]
fn a_command_is_told_of_its_term_reads_stdin_and_gives_its_exit_code() {
    let server = NatsServer::start().expect("a server");
    let ended = shell(
        &mut exec("node-1", &server.url()),
        "cat; echo $NATS_ELECT_ROLE $NATS_ELECT_INSTANCE $NATS_ELECT_BUCKET; echo $NATS_ELECT_FENCING_TOKEN; exit 7",
    );
    ended.assert_code(7);
    let text = ended.stdout;
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[..2], ["from stdin", "worker node-1 leaders"]);
    assert!(
        lines[2].parse::<nats_elect::FencingToken>().is_ok() || lines[2].len() == 32,
        "{text}"
    );
}

#[test]
fn what_can_not_be_run_and_what_a_signal_ended_have_the_codes_of_shells() {
    let server = NatsServer::start().expect("a server");
    let mut none = exec("node-1", &server.url());
    ended(none.args(["--", "/nonexistent/command"])).assert_code(127);
    shell(&mut exec("node-1", &server.url()), "kill -9 $$").assert_code(128 + 9);
}

#[tokio::test]
async fn whoever_is_terminated_ends_its_command_and_frees_the_role_at_once() {
    let (server, history) = scene();
    let long = ["--ttl", "30s"];
    let mut first = Exec::start("first", &server.url(), &history, Conduct::Obey, &long);
    first.runs(&history).await;
    let second = Exec::start("second", &server.url(), &history, Conduct::Obey, &long);
    let begun = stamp();
    first.signal(Signal::TERM);
    assert_eq!(first.code().await, 128 + 15);
    second.runs(&history).await;
    assert!(
        stamp() - begun < 15_000_000_000,
        "not the lease was waited for"
    );
    assert_eq!(overlaps(&history.runs()), []);
}

#[tokio::test]
async fn a_command_that_does_not_heed_is_killed_within_the_stop_budget() {
    let (server, history) = scene();
    let mut only = Exec::start("only", &server.url(), &history, Conduct::Deaf, &[]);
    let run = only.runs(&history).await;
    only.signal(Signal::TERM);
    assert_eq!(only.code().await, 128 + 9);
    let exited = stamp();
    assert!(history.over(&run).await.last < exited);
}

#[tokio::test]
async fn a_command_that_fails_is_started_again_in_the_same_term() {
    let (server, history) = scene();
    // The term is not to end by itself, however long three starts take.
    let again = [
        "--ttl",
        "60s",
        "--restart",
        "on-failure",
        "--restart-delay",
        "20ms",
    ];
    let _only = Exec::start("only", &server.url(), &history, Conduct::Fail, &again);
    let runs = eventually(SOON, "three runs", async || {
        Some(history.runs()).filter(|runs| runs.len() >= 3)
    })
    .await;
    assert_eq!(overlaps(&runs), []);
    let token = |name: &str| name.split('/').next().map(str::to_owned);
    assert_eq!(token(&runs[0].name), token(&runs[2].name), "one term");
}

#[tokio::test]
async fn a_command_that_ended_gives_the_role_to_others_if_it_is_to_resign() {
    let (server, history) = scene();
    let resign = ["--on-exit", "resign"];
    let _first = Exec::start("first", &server.url(), &history, Conduct::Fail, &resign);
    eventually(SOON, "a run of the first", async || {
        history.runs().first().cloned()
    })
    .await;
    let second = Exec::start("second", &server.url(), &history, Conduct::Obey, &[]);
    second.runs(&history).await;
    assert_eq!(overlaps(&history.runs()), []);
}

#[tokio::test]
async fn what_left_the_commands_session_is_ended_with_it() {
    let (server, history) = scene();
    let mut only = Exec::start("only", &server.url(), &history, Conduct::Away, &[]);
    let run = only.runs(&history).await;
    only.signal(Signal::TERM);
    only.exited().await;
    let exited = stamp();
    let ended = history.over(&run).await;
    assert!(ended.last < exited, "something is left when exec has ended");
}

#[tokio::test]
async fn a_command_that_heard_of_its_end_before_exec_did_gives_its_exit_code() {
    let server = NatsServer::start().expect("a server");
    let again: [&[&str]; 3] = [
        &[],
        &["--restart", "always", "--restart-delay", "60s"],
        &["--on-exit", "resign"],
    ];
    for again in again {
        let mut only = exec("only", &server.url());
        let script = "trap 'exit 4' TERM; echo $$; while :; do sleep 0.05; done";
        let only = only.args(["--ttl", "60s"]).args(again);
        let mut only = Teller::of_stdout(only.args(["--", "sh", "-c", script]));
        let number = only.line();
        let command = Pid::from_raw(number.parse().expect("a number")).expect("a process");
        only.process.signal(Signal::STOP);
        kill_process(command, Signal::TERM).expect("it is alive");
        eventually(SOON, "the end of the command", async || {
            let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
            stat.contains(") Z").then_some(())
        })
        .await;
        only.process.signal(Signal::TERM);
        only.process.signal(Signal::CONT);
        assert_eq!(only.process.code(), Some(4), "{again:?}");
    }
}

#[tokio::test]
async fn a_command_that_ended_long_before_a_signal_to_exec_did_not_end_for_it() {
    let server = NatsServer::start().expect("a server");
    let mut only = exec("only", &server.url());
    let only = only.args(["--restart", "always", "--restart-delay", "60s"]);
    let mut only = Teller::of_stdout(only.args(["--", "sh", "-c", "echo $$; exit 4"]));
    let number = only.line();
    comes_true("the burial of the command", async || {
        !Path::new(&format!("/proc/{number}")).exists()
    })
    .await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    only.process.signal(Signal::TERM);
    assert_eq!(only.process.code(), Some(128 + 15));
}

#[tokio::test]
async fn what_is_passed_on_before_the_command_has_begun_does_not_end_it() {
    let guard = getpid().as_raw_nonzero().to_string();
    let mut starter = Command::new(env!("CARGO_BIN_EXE_nats-elect"))
        .args(["exec-starter", &guard, "--", "sh", "-c"])
        .arg("exit 3")
        .spawn()
        .expect("a starter");
    let pid = Pid::from_child(&starter);
    eventually(SOON, "a starter that waits", async || {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid), options).expect("a child")
    })
    .await;
    for signal in [Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2] {
        kill_process(pid, signal).expect("it is alive");
    }
    kill_process(pid, Signal::CONT).expect("it is alive");
    assert_eq!(starter.wait().expect("its end").code(), Some(3));
}
