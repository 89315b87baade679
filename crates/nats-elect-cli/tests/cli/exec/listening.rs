//! Health and metrics over HTTP.

use std::net::{SocketAddr, TcpListener, TcpStream};

use nats_elect_testing::NatsServer;
use rustix::process::Signal;

use crate::ended;
use crate::exec::command::Conduct;
use crate::exec::history::History;
use crate::exec::http::{address, becomes, get, shows, value};
use crate::exec::instance::{Exec, exec, step_down};
use crate::exec::scene;
use crate::running::Teller;

fn listening(
    id: &str,
    server: &NatsServer,
    history: &History,
    more: &[&str],
) -> (Exec, SocketAddr) {
    let address = address();
    let listen = ["--listen", &address.to_string()];
    let more = [&listen, more].concat();
    let exec = Exec::start(id, &server.url(), history, Conduct::Obey, &more);
    (exec, address)
}

#[tokio::test]
async fn a_leader_and_one_that_waits_are_ready_and_the_leader_alone_leads() {
    let (server, history) = scene();
    // No lease is to be lost on a busy machine.
    let long = ["--ttl", "30s"];
    let (leader, first) = listening("first", &server, &history, &long);
    leader.runs(&history).await;
    becomes(first, "/leaderz/worker", 200).await;
    let (waiting, second) = listening("second", &server, &history, &long);
    shows(second, "election_leader_known", &[("role", "worker")], 1.0).await;
    let led = becomes(second, "/leaderz/worker", 503).await;
    assert!(led.contains("\"leader\":\"first\""), "{led}");
    for address in [first, second] {
        becomes(address, "/readyz", 200).await;
        becomes(address, "/livez", 200).await;
        assert_eq!(get(address, "/leaderz/another").map(|it| it.0), Some(404));
    }
    shows(
        first,
        "election_is_leader",
        &[("instance_id", "first")],
        1.0,
    )
    .await;
    shows(
        second,
        "election_is_leader",
        &[("instance_id", "second")],
        0.0,
    )
    .await;

    step_down(&server, "worker", "second").await;
    becomes(first, "/leaderz/worker", 503).await;
    becomes(second, "/leaderz/worker", 200).await;
    waiting.runs(&history).await;
    shows(first, "election_is_leader", &[("bucket", "leaders")], 0.0).await;
    shows(second, "election_is_leader", &[("bucket", "leaders")], 1.0).await;
}

#[tokio::test]
async fn without_nats_exec_is_not_ready_but_lives() {
    let (server, history) = scene();
    let (exec, address) = listening("only", &server, &history, &[]);
    exec.runs(&history).await;
    becomes(address, "/readyz", 200).await;
    server.pause().expect("pause");
    becomes(address, "/readyz", 503).await;
    becomes(address, "/livez", 200).await;
    becomes(address, "/leaderz/worker", 503).await;
    server.resume().expect("resume");
    becomes(address, "/readyz", 200).await;
}

/// The numbers of the sockets that listen at this address.
fn sockets(address: SocketAddr) -> Vec<String> {
    let SocketAddr::V4(address) = address else {
        unreachable!("a loopback of version 4");
    };
    let ip = u32::from_le_bytes(address.ip().octets());
    let here = format!("{ip:08X}:{:04X}", address.port());
    let table = std::fs::read_to_string("/proc/net/tcp").expect("sockets");
    let rows = table.lines().map(|line| line.split_whitespace().collect());
    let listens = rows.filter(|row: &Vec<&str>| row[1] == here && row[3] == "0A");
    listens.map(|row| format!("socket:[{}]", row[9])).collect()
}

/// What a process has open.
fn open(process: &str) -> Vec<String> {
    let files = std::fs::read_dir(format!("/proc/{process}/fd")).expect("a process");
    let targets = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
    targets
        .map(|target| target.to_string_lossy().into_owned())
        .collect()
}

#[tokio::test]
async fn the_address_is_free_when_exec_is_killed_for_neither_guard_nor_command_has_it() {
    let (server, history) = scene();
    let (mut exec, address) = listening("only", &server, &history, &[]);
    let run = exec.runs(&history).await;
    becomes(address, "/livez", 200).await;
    // One that is served meanwhile.
    let _connection = TcpStream::connect(address).expect("connect");
    let listening = sockets(address);
    assert_eq!(listening.len(), 1, "{listening:?}");
    let guard = exec.guard().expect("a guard").as_raw_nonzero().to_string();
    let command = run.name.split('/').nth(1).expect("a process");
    for child in [&guard, command] {
        let open = open(child);
        assert!(!open.contains(&listening[0]), "{child}: {open:?}");
    }
    let own = exec.pid().to_string();
    assert!(open(&own).contains(&listening[0]), "the check finds it");
    exec.kill();
    TcpListener::bind(address).expect("it is free");
}

#[tokio::test]
async fn a_client_that_says_nothing_does_not_hold_up_the_end() {
    let (server, history) = scene();
    let (mut exec, address) = listening("only", &server, &history, &[]);
    exec.runs(&history).await;
    becomes(address, "/livez", 200).await;
    let _silent: Vec<_> = (0..70)
        .map(|_| TcpStream::connect(address).expect("connect"))
        .collect();
    exec.signal(Signal::TERM);
    assert_eq!(exec.code().await, 128 + 15);
    TcpListener::bind(address).expect("it is free");
}

#[test]
fn an_address_that_can_not_be_had_is_an_error_before_anything_is_asked_of_nats() {
    let address = address();
    let _taken = TcpListener::bind(address).expect("it is free");
    let other = "192.0.2.1:9464".to_owned();
    for (listen, code) in [
        (address.to_string(), 1),
        (other, 1),
        ("9464".into(), 2),
        ("localhost".into(), 2),
    ] {
        let mut exec = exec("only", "nats://127.0.0.1:1");
        let ended = ended(exec.args(["--listen", &listen, "--", "true"])).with_code(code);
        ended.complains(&listen);
    }
}

#[test]
fn the_command_does_not_inherit_the_variable_with_the_address() {
    let server = NatsServer::start().expect("a server");
    let mut exec = exec("only", &server.url());
    let exec = exec.env("NATS_ELECT_EXEC_LISTEN", address().to_string());
    let script = "echo ${NATS_ELECT_EXEC_LISTEN-none}";
    let ended = ended(exec.args(["--", "sh", "-c", script])).with_code(0);
    assert_eq!(ended.stdout, "none\n");
}

#[tokio::test]
async fn a_leader_whose_command_failed_says_so_until_the_command_is_started_again() {
    let server = NatsServer::start().expect("a server");
    let address = address();
    let folder = tempfile::tempdir().expect("a folder");
    let works = folder.path().join("works");
    let mut only = Teller::of_stdout(
        exec("only", &server.url())
            .args(["--listen", &address.to_string(), "--restart", "on-failure"])
            .args(["--restart-delay", "10ms", "--", "sh", "-c"])
            .arg("[ -e \"$WORKS\" ] || exit 1; echo works; exec sleep 60")
            .env("WORKS", &works),
    );
    let down = [
        ("role", "worker"),
        ("instance_id", "only"),
        ("bucket", "leaders"),
    ];
    shows(address, "election_command_down", &down, 1.0).await;
    std::fs::write(works, "").expect("a file");
    assert_eq!(only.line(), "works");
    shows(address, "election_command_down", &down, 0.0).await;
    let (_, metrics) = get(address, "/metrics").expect("an answer");
    let leads = value(&metrics, "election_is_leader", &down);
    assert_eq!(leads, Some(1.0));
    only.process.signal(Signal::TERM);
}
