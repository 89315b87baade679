//! `exec` with a companion, which frees its role when it was killed and its command has ended.
//!
//! `NATS_ELECT_EXEC_WILLS=100` has it killed so often with each kind of command.

use std::io::{BufRead, BufReader, IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use nats_elect_testing::{NatsServer, eventually};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};

use crate::exec::command::Conduct;
use crate::exec::history::{History, overlaps, stamp};
use crate::exec::instance::{Exec, exec};
use crate::exec::{TTL, scene};
use crate::fleet::{SOON, comes_true};
use crate::running::{Teller, children};

const LONG: [&str; 3] = ["--last-will", "--ttl", "15s"];

/// How often an end happens.
pub fn rounds(few: u32) -> u32 {
    std::env::var("NATS_ELECT_EXEC_WILLS").map_or(few, |it| it.parse().expect("a number"))
}

/// Starts one that waits while another one leads, and waits until it does.
fn standby(id: &str, leader: &str, url: &str, history: &History, more: &[&str]) -> Exec {
    let (told, tell) = std::io::pipe().expect("a pipe");
    let exec = Exec::start_telling(tell.into(), id, url, history, Conduct::Obey, more);
    let mut lines = BufReader::new(told).lines().map_while(Result::ok);
    let waits = |line: &String| line.contains("waiting") && line.contains(leader);
    assert!(lines.any(|line| waits(&line)), "it ended");
    // What it tells later is read, and not wanted.
    std::thread::spawn(move || lines.for_each(drop));
    exec
}

#[tokio::test]
async fn a_killed_exec_is_not_waited_for_but_each_process_of_its_command_is() {
    let server = NatsServer::start().expect("a server");
    let url = server.url();
    for conduct in [Conduct::Deaf, Conduct::Away] {
        let mut took = Vec::new();
        for _ in 0..rounds(2) {
            let history = History::new();
            let mut first = Exec::start("first", &url, &history, conduct, &LONG);
            first.runs(&history).await;
            let second = standby("second", "first", &url, &history, &LONG);
            let at = stamp();
            first.kill();
            let run = second.runs(&history).await;
            assert_eq!(overlaps(&history.runs()), []);
            took.push(Duration::from_nanos(run.first - at));
        }
        took.sort();
        let at = |share: usize| took[(took.len() - 1) * share / 100];
        let [median, p99, max] = [50, 99, 100].map(at);
        println!(
            "{conduct:?}: {} times, median {median:?}, p99 {p99:?}, max {max:?}",
            took.len()
        );
        assert!(max < Duration::from_secs(7), "{took:?}");
    }
}

#[tokio::test]
async fn each_role_of_a_killed_exec_is_freed_whatever_it_is_called() {
    let server = NatsServer::start().expect("a server");
    let url = server.url();
    let history = History::new();
    let parts = ["worker", "-x"].map(|role| history.of_role(role));
    let options = [&LONG[..], &["--role=-x"]].concat();
    let mut first = Exec::start("first", &url, &history, Conduct::Obey, &options);
    for part in &parts {
        part.run_of("first").await;
    }
    let _second = standby("second", "first", &url, &history, &options);
    let at = stamp();
    first.kill();
    for part in &parts {
        let run = part.run_of("second").await;
        let after = Duration::from_nanos(run.first - at);
        assert!(after < Duration::from_secs(7), "{after:?}");
        assert_eq!(overlaps(&part.runs()), []);
    }
}

#[tokio::test]
async fn where_the_guard_is_killed_as_well_the_lease_decides() {
    let server = NatsServer::start().expect("a server");
    let url = server.url();
    let history = History::new();
    let ttl = format!("{}ms", TTL.as_millis());
    let options = ["--last-will", "--ttl", &ttl];
    let mut first = Exec::start("first", &url, &history, Conduct::Deaf, &options);
    first.runs(&history).await;
    let second = standby("second", "first", &url, &history, &options);
    let companion = companion_of(&first).await;
    first.signal(Signal::STOP);
    let at = stamp();
    assert!(first.signal_guard(Signal::KILL));
    first.kill();
    // It does not wait for those who can't tell it any more.
    comes_true("the companion's end", async || {
        rustix::process::test_kill_process(companion).is_err()
    })
    .await;
    let run = second.runs(&history).await;
    assert_eq!(overlaps(&history.runs()), []);
    let after = Duration::from_nanos(run.first - at);
    assert!(after + TTL * 2 / 5 >= TTL, "{after:?}");
}

#[tokio::test]
async fn the_end_of_a_command_leaves_the_companion_alone() {
    let (server, history) = scene();
    let again = [
        "--last-will",
        "--restart",
        "always",
        "--restart-delay",
        "10ms",
    ];
    let only = Exec::start("only", &server.url(), &history, Conduct::Fail, &again);
    let companion = companion_of(&only).await;
    comes_true("three runs", async || history.runs().len() > 3).await;
    assert_eq!(companion_of(&only).await, companion);
    kill_process(companion, Signal::KILL).expect("it lives");
    comes_true("another companion", async || {
        companion_of(&only).await != companion
    })
    .await;
}

#[tokio::test]
async fn a_graceful_end_takes_the_companion_along() {
    let server = NatsServer::start().expect("a server");
    let mut only = exec("only", &server.url());
    let runs = ["--last-will", "--", "sh", "-c", "echo runs; sleep 60"];
    let mut only = Teller::of_stdout(only.args(runs));
    only.line();
    let companion = companion(only.process.0.id()).expect("a companion");
    only.process.signal(Signal::TERM);
    assert_eq!(only.process.code(), Some(128 + 15));
    rustix::process::test_kill_process(companion).expect_err("it is gone");
}

/// A guard that first looks when `exec` is dead. Its parent is this test, as it would be another
/// process then.
#[test]
fn a_guard_that_begins_after_the_death_of_exec_still_tells_of_the_end() {
    let mut exec = Command::new("true").spawn().expect("a process");
    exec.wait().expect("its end");
    let (socket, theirs) = UnixStream::pair().expect("a pair");
    let (mut told, tell) = std::io::pipe().expect("a pipe");
    let soon = clock_gettime(ClockId::Boottime).tv_sec + 60;
    let first = (u64::try_from(soon).expect("a time") * 1_000_000_000).to_le_bytes();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [tell.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&files));
    let first = [IoSlice::new(&first)];
    sendmsg(&socket, &first, &mut control, SendFlags::empty()).expect("room");
    drop((socket, tell));
    let mut guard = Command::new(env!("CARGO_BIN_EXE_nats-elect"))
        .args(["exec-guard", &exec.id().to_string()])
        .args(["worker 1", "--", "true"])
        .stdin(OwnedFd::from(theirs))
        .spawn()
        .expect("a guard");
    let mut text = String::new();
    told.read_to_string(&mut text).expect("its end");
    assert_eq!(text, "worker 1\n");
    assert!(guard.wait().expect("its end").success());
}

async fn companion_of(exec: &Exec) -> Pid {
    let pid = exec.pid();
    eventually(SOON, "a companion", async || companion(pid)).await
}

/// The companion is the child of a thread of its own.
fn companion(of: u32) -> Option<Pid> {
    let mut children = children(of).into_iter();
    let (_, companion) = children.find(|(thread, _)| *thread != of.to_string())?;
    Some(companion)
}
