//! Several roles in one `exec`.

use std::io::Write;
use std::process::Command;

use nats_elect_testing::{NatsServer, eventually};
use rustix::process::{Signal, kill_process};

use crate::exec::command::Conduct;
use crate::exec::history::{History, Run, overlaps, stamp};
use crate::exec::http::{address, shows};
use crate::exec::instance::{Exec, exec, step_down};
use crate::exec::{AGAIN, TTL, scene};
use crate::fleet::SOON;
use crate::running::{Process, Teller};
use crate::{ended, with_stdin};

/// The second role, beside `worker`.
const OTHER: [&str; 2] = ["--role", "other"];

struct Both {
    worker: Run,
    other: Run,
}

/// Waits until this instance runs the command for both roles.
async fn both(id: &str, worker: &History, other: &History) -> Both {
    Both {
        worker: worker.run_of(id).await,
        other: other.run_of(id).await,
    }
}

fn two(id: &str, server: &NatsServer, history: &History, more: &[&str]) -> Exec {
    let more = [&OTHER, more].concat();
    Exec::start(id, &server.url(), history, Conduct::Obey, &more)
}

/// Whether a run went on after this moment.
async fn goes_on(part: &History, run: &Run) {
    let now = stamp();
    eventually(SOON, "a sign of life", async || {
        let last = part.runs().into_iter().find(|it| it.name == run.name)?.last;
        (last > now).then_some(())
    })
    .await;
}

fn token(run: &Run) -> &str {
    run.name.split('/').next().expect("a token")
}

#[tokio::test]
async fn each_role_has_a_run_of_its_own_and_none_outlives_exec() {
    let (server, history) = scene();
    let (worker, other) = (history.of_role("worker"), history.of_role("other"));
    let mut first = two("first", &server, &history, &[]);
    let runs = both("first", &worker, &other).await;
    assert_ne!(token(&runs.worker), token(&runs.other));
    let _second = two("second", &server, &history, &[]);

    first.kill();
    let killed = stamp();
    both("second", &worker, &other).await;
    let lease = u64::try_from(TTL.as_nanos()).expect("seconds");
    for (part, run) in [(&worker, &runs.worker), (&other, &runs.other)] {
        let ended = part.over(run).await;
        assert!(ended.last < killed + lease, "{run:?} outlived its lease");
        assert_eq!(overlaps(&part.runs()), []);
    }
}

#[tokio::test]
async fn a_role_that_is_handed_over_ends_its_own_command_alone() {
    let (server, history) = scene();
    let (worker, other) = (history.of_role("worker"), history.of_role("other"));
    let long = ["--ttl", "30s"];
    let mut first = two("first", &server, &history, &long);
    let runs = both("first", &worker, &other).await;
    let _second = two("second", &server, &history, &long);
    step_down(&server, "other", "second").await;
    other.run_of("second").await;
    goes_on(&worker, &runs.worker).await;

    first.signal(Signal::TERM);
    assert_eq!(first.code().await, 128 + 15);
    worker.run_of("second").await;
    for part in [&worker, &other] {
        assert_eq!(overlaps(&part.runs()), []);
    }
}

#[tokio::test]
async fn a_guard_that_is_killed_takes_its_own_command_with_it_alone() {
    let (server, history) = scene();
    let (worker, other) = (history.of_role("worker"), history.of_role("other"));
    let exec = two("only", &server, &history, &AGAIN);
    let mut runs = both("only", &worker, &other).await;
    // Once each: whichever was started first.
    for _ in 0..2 {
        let guard = exec.guard_of("other").expect("a guard");
        kill_process(guard, Signal::KILL).expect("it is alive");
        let next = eventually(SOON, "another run", async || {
            let run = other.runs().pop()?;
            (run.name != runs.other.name).then_some(run)
        })
        .await;
        assert_eq!(token(&next), token(&runs.other), "one term");
        goes_on(&worker, &runs.worker).await;
        runs.other = next;
    }
    assert_eq!(overlaps(&other.runs()), []);
}

#[tokio::test]
async fn exec_that_can_not_look_for_its_children_ends_all_of_several_runs() {
    let (server, history) = scene();
    let (worker, other) = (history.of_role("worker"), history.of_role("other"));
    let mut only = two("only", &server, &history, &[]);
    let runs = both("only", &worker, &other).await;
    only.opens_no_more_files();
    only.signal(Signal::TERM);
    assert_eq!(only.code().await, 128 + 15);
    let exited = stamp();
    for (part, run) in [(&worker, &runs.worker), (&other, &runs.other)] {
        assert!(part.over(run).await.last < exited);
    }
}

/// A shell that runs until it is told to end, and then ends with this code. It makes a file when it
/// can be told.
fn until_told(code: &str) -> String {
    [
        &format!("trap 'echo $NATS_ELECT_ROLE was told; exit {code}' TERM"),
        "echo $NATS_ELECT_ROLE runs",
        ": >\"${RUNNING-/dev/null}\"",
        "while :; do sleep 0.02; done",
    ]
    .join("; ")
}

fn shells(server: &NatsServer, more: &[&str], script: &str) -> Command {
    let mut command = exec("only", &server.url());
    command
        .args(OTHER)
        .args(["--ttl", "30s"])
        .args(more)
        .args(["--", "sh", "-c", script]);
    command
}

#[test]
fn the_first_command_that_ends_winds_the_others_down_and_gives_its_code() {
    let server = NatsServer::start().expect("a server");
    let folder = tempfile::tempdir().expect("a folder");
    let running = folder.path().join("running");
    let script = format!(
        "if [ $NATS_ELECT_ROLE = other ]; then until [ -e \"$RUNNING\" ]; do sleep 0.02; done; exit 7; fi; {}",
        until_told("0")
    );
    let ended = ended(shells(&server, &[], &script).env("RUNNING", &running)).with_code(7);
    assert_eq!(ended.stdout, "worker runs\nworker was told\n");
}

#[test]
fn a_signal_reaches_all_commands_and_the_code_is_the_greatest_of_theirs() {
    let server = NatsServer::start().expect("a server");
    let script = format!(
        "trap 'echo $NATS_ELECT_ROLE heard' USR1; [ $NATS_ELECT_ROLE = other ] && code=4; {}",
        until_told("${code-0}")
    );
    let mut only = Teller::of_stdout(&mut shells(&server, &[], &script));
    let both_say = |only: &mut Teller, what: &str| {
        let mut lines = [(); 2].map(|()| only.line());
        lines.sort();
        assert_eq!(
            lines,
            ["other", "worker"].map(|role| format!("{role} {what}"))
        );
    };
    both_say(&mut only, "runs");
    only.process.signal(Signal::USR1);
    both_say(&mut only, "heard");
    only.process.signal(Signal::TERM);
    both_say(&mut only, "was told");
    assert_eq!(only.process.code(), Some(4));
}

#[test]
fn several_commands_have_an_empty_stdin() {
    let server = NatsServer::start().expect("a server");
    let mut shells = shells(&server, &[], "cat; exit 3");
    let ended = with_stdin(&mut shells, "for one of them\n").with_code(3);
    assert_eq!(ended.stdout, "");
}

#[tokio::test]
async fn each_role_has_its_own_settings_of_the_file() {
    let server = NatsServer::start().expect("a server");
    let mut file = tempfile::Builder::new()
        .suffix(".toml")
        .tempfile()
        .expect("a file");
    writeln!(file, "[roles.worker]\nttl = \"20s\"\n[roles.other]").expect("write");
    let address = address();
    let child = exec("only", &server.url())
        .args(OTHER)
        .arg("--config")
        .arg(file.path())
        .args(["--listen", &address.to_string(), "--", "sleep", "60"])
        .spawn();
    let only = Process(child.expect("start exec"));
    for (role, ttl) in [("worker", 20.0), ("other", 15.0)] {
        shows(
            address,
            "election_lease_ttl_seconds",
            &[("role", role)],
            ttl,
        )
        .await;
        shows(address, "election_is_leader", &[("role", role)], 1.0).await;
    }
    only.signal(Signal::TERM);
}

#[test]
fn what_does_not_go_together_is_refused() {
    let wrong: [(&[&str], [&[&str]; 4]); 2] = [
        (
            &OTHER,
            [
                &["--slots", "2"],
                &["--try"],
                &["--wait-timeout", "1s"],
                &["--role", "worker"],
            ],
        ),
        (
            &["--slots", "2"],
            [
                &["--takeover", "cooperative"],
                &["--priority", "1"],
                &["--last-will"],
                &["--ttl", "1s"],
            ],
        ),
    ];
    for (options, wrong) in wrong {
        for wrong in wrong {
            let mut exec = exec("only", "nats://127.0.0.1:1");
            ended(exec.args(options).args(wrong).args(["--", "true"])).assert_code(2);
        }
    }
}
