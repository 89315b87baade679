//! Health over HTTP.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

use nats_elect::health::HealthServer;
use nats_elect::{Group, GroupHandle, RoleConfig, RoleManager, StopOptions, handler_fn};
use nats_elect_testing::{NatsServer, TcpProxy, eventually};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::instance::{Instance, hand_over, instance, leading_deafly};
use crate::support::journal::Journal;
use crate::support::member::{GROUP, all_owned, group, member, member_with, stop};
use crate::support::{ROLE, SOON, comes_true, leased_for, ms, patient, proxied};

struct Answer {
    code: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }
}

async fn ask(health: &HealthServer, request: &str) -> Answer {
    let mut stream = TcpStream::connect(health.address()).await.expect("connect");
    let request = format!("{request} HTTP/1.1\r\nHost: it\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).await.expect("answered");
    let (head, body) = text.split_once("\r\n\r\n").expect("an answer");
    let code = head.split(' ').nth(1).expect("a status").parse();
    Answer {
        code: code.expect("a number"),
        head: head.to_owned(),
        body: body.to_owned(),
    }
}

async fn get(health: &HealthServer, path: &str) -> Answer {
    ask(health, &format!("GET {path}")).await
}

async fn code(health: &HealthServer, path: &str) -> u16 {
    get(health, path).await.code
}

async fn becomes(health: &HealthServer, path: &str, code: u16) -> Answer {
    let what = format!("{path} answering {code}");
    eventually(SOON, &what, async || {
        let answer = get(health, path).await;
        (answer.code == code).then_some(answer)
    })
    .await
}

async fn serve(instance: &Instance) -> HealthServer {
    let builder = HealthServer::builder().metrics(|| "up 1\n".into());
    let started = builder.start("127.0.0.1:0", instance.manager().probe());
    started.await.expect("a free port")
}

async fn of(member: &RoleManager) -> HealthServer {
    let started = HealthServer::builder().start("127.0.0.1:0", member.probe());
    started.await.expect("a free port")
}

async fn standing(id: &str, url: impl AsRef<str>, config: RoleConfig) -> Instance {
    let journal = Journal::default();
    let joining = instance(id, url, &journal).role(ROLE, config);
    joining.start().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaders_and_followers_are_ready_and_one_is_the_leader() {
    let server = NatsServer::start().expect("start");
    let a = standing("a", server.url(), patient()).await;
    let health_of_a = serve(&a).await;
    a.wait_until_leader().await;
    let b = standing("b", server.url(), patient()).await;
    let health_of_b = serve(&b).await;
    b.wait_until_following("a").await;
    for health in [&health_of_a, &health_of_b] {
        assert_eq!(code(health, "/livez").await, 200);
        let ready = becomes(health, "/readyz", 200).await.json();
        assert_eq!(ready["roles"][ROLE]["ready"], true);
    }
    let path = format!("/leaderz/{ROLE}");
    let leader = get(&health_of_a, &path).await;
    assert_eq!(leader.code, 200);
    let leader = leader.json();
    assert_eq!(leader["leader"], "a");
    let token = a.role(ROLE).status().fencing_token.expect("a term");
    assert_eq!(leader["fencing_token"], token.to_string());
    let follower = get(&health_of_b, &path).await;
    assert_eq!(follower.code, 503);
    assert_eq!(follower.json()["leader"], "a");

    hand_over(&a.role(ROLE), "b").await;
    becomes(&health_of_b, &path, 200).await;
    becomes(&health_of_a, &path, 503).await;
    a.stop().await;
    assert_eq!(code(&health_of_a, "/livez").await, 503);
    assert_eq!(code(&health_of_a, "/readyz").await, 503);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_nats_an_instance_lives_but_is_not_ready() {
    let server = NatsServer::start().expect("start");
    let proxy = TcpProxy::start(server.url()).expect("start");
    let a = standing("a", proxy.url(), leased_for(ms(3000))).await;
    let health = serve(&a).await;
    becomes(&health, "/readyz", 200).await;
    proxy.cut();
    let lost = becomes(&health, "/readyz", 503).await.json();
    assert_eq!(lost["roles"][ROLE]["connection"], "lost");
    assert_eq!(code(&health, "/livez").await, 200);
    assert_eq!(code(&health, &format!("/leaderz/{ROLE}")).await, 503);
    proxy.restore();
    becomes(&health, "/readyz", 200).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_asked_of_a_socket_before_the_start_is_answered_after_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let mut early = TcpStream::connect(address).await.expect("connect");
    let request = b"GET /livez HTTP/1.1\r\nHost: it\r\n\r\n";
    early.write_all(request).await.expect("sent");
    let server = NatsServer::start().expect("start");
    let a = standing("a", server.url(), patient()).await;
    let probe = a.manager().probe();
    let health = HealthServer::builder().serve(listener, probe);
    let health = health.expect("a server");
    assert_eq!(health.address(), address);
    let mut answer = String::new();
    early.read_to_string(&mut answer).await.expect("answered");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_of_a_group_is_ready_once_it_can_own_units() {
    let (server, proxy, journal) = proxied();
    let a = member(&server.url(), "a", 4, &journal).await;
    let health_of_a = of(&a).await;
    // Nobody else is there, so it waits for no lease.
    becomes(&health_of_a, "/readyz", 200).await;
    all_owned(&[&a], 4).await;
    let b = member(&proxy.url(), "b", 4, &journal).await;
    let health_of_b = of(&b).await;
    group(&b).wait_until(GroupHandle::has_joined).await;
    let ready = get(&health_of_b, "/readyz").await;
    assert_eq!(ready.code, 200, "{}", ready.body);
    assert_eq!(ready.json()["groups"][GROUP]["connection"], "connected");
    // An operator's cordon is no want of readiness, and units of others go to who is ready.
    b.cordon().await.expect("cordon");
    assert_eq!(code(&health_of_b, "/readyz").await, 200);
    b.resume().await.expect("resume");
    stop(a).await;
    assert_eq!(all_owned(&[&b], 4).await["b"], 4);
    assert_eq!(code(&health_of_a, "/readyz").await, 503);
    // Without its lease it can own nothing.
    proxy.cut();
    becomes(&health_of_b, "/readyz", 503).await;
    let without = get(&health_of_b, "/readyz").await;
    assert_eq!(without.json()["groups"][GROUP]["ready"], false);
    assert!(!group(&b).has_joined());
    assert_eq!(code(&health_of_b, "/livez").await, 200);
    proxy.restore();
    becomes(&health_of_b, "/readyz", 200).await;
    stop(b).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn the_handler_of_a_unit_that_outlives_its_lease_is_a_reason_to_start_anew() {
    let server = NatsServer::start().expect("start");
    let (release, held) = std::sync::mpsc::channel::<()>();
    let held = Arc::new(Mutex::new(held));
    let handler = handler_fn(move |_term| {
        let held = held.clone();
        async move {
            let _ = held.lock().expect("alone").recv();
            Ok(())
        }
    });
    let a = member_with(&server.url(), "a", Group::sharded(GROUP, 1, handler)).await;
    let health = of(&a).await;
    all_owned(&[&a], 1).await;
    assert_eq!(code(&health, "/livez").await, 200);
    let ill = async {
        let ill = becomes(&health, "/livez", 503).await.json();
        let reason = ill["reason"].as_str().expect("a reason").to_owned();
        assert!(reason.contains(GROUP), "{reason}");
        release.send(()).expect("it waits");
    };
    let (stopped, ()) = tokio::join!(a.stop(StopOptions::default()), ill);
    stopped.expect("stop");
}

/// Is ill for as long as the handler runs.
async fn is_ill_until(health: &HealthServer, release: Sender<()>) {
    let ill = becomes(health, "/livez", 503).await.json();
    let reason = ill["reason"].as_str().expect("a reason");
    assert!(reason.contains(ROLE), "{reason}");
    release.send(()).expect("it waits");
    becomes(health, "/livez", 200).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_handler_that_outlives_its_lease_is_a_reason_to_start_anew() {
    let server = NatsServer::start().expect("start");
    let (a, release) = leading_deafly(&server).await;
    let health = serve(&a).await;
    assert_eq!(code(&health, "/livez").await, 200);
    // Also if the role is not this instance's any more.
    let removing = a.manager().remove_role(ROLE);
    let (removed, ()) = tokio::join!(removing, is_ill_until(&health, release));
    removed.expect("it was there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_questions_are_answered_with_what_can_be_asked() {
    let server = NatsServer::start().expect("start");
    let a = standing("a", server.url(), leased_for(ms(1000))).await;
    let health = serve(&a).await;
    assert_eq!(code(&health, "/leaderz/nobodys").await, 404);
    let unknown = get(&health, "/").await;
    assert_eq!(unknown.code, 404);
    assert!(unknown.body.contains("/leaderz/{role}"), "{}", unknown.body);
    assert_eq!(ask(&health, "POST /livez").await.code, 405);
    let head = ask(&health, "HEAD /livez").await;
    assert_eq!((head.code, head.body.as_str()), (200, ""));
    assert!(head.head.to_lowercase().contains("cache-control: no-store"));
    assert_eq!(get(&health, "/metrics").await.body, "up 1\n");
    let bare = HealthServer::builder().start("127.0.0.1:0", a.manager().probe());
    let bare = bare.await.expect("a free port");
    assert_eq!(code(&bare, "/metrics").await, 404);
    let address = bare.address();
    drop(bare);
    comes_true("the end of the server", async || {
        TcpStream::connect(address).await.is_err()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asks_slowly_or_never_holds_up_nobody() {
    let server = NatsServer::start().expect("start");
    let a = standing("a", server.url(), leased_for(ms(1000))).await;
    let health = serve(&a).await;
    let mut silent = Vec::new();
    for _ in 0..63 {
        let mut stream = TcpStream::connect(health.address()).await.expect("connect");
        stream.write_all(b"GET /li").await.expect("sent");
        silent.push(stream);
    }
    assert_eq!(code(&health, "/livez").await, 200);
    // More than there is room for: they are cut off in time, and the next one is heard.
    for _ in 0..8 {
        silent.push(TcpStream::connect(health.address()).await.expect("connect"));
    }
    becomes(&health, "/livez", 200).await;
    drop(silent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_never_reads_its_answers_holds_up_nobody() {
    let server = NatsServer::start().expect("start");
    let a = standing("a", server.url(), leased_for(ms(1000))).await;
    let long = "x".repeat(1 << 20);
    let builder = HealthServer::builder().metrics(move || long.clone());
    let started = builder.start("127.0.0.1:0", a.manager().probe());
    let health = started.await.expect("a free port");
    // More than the buffers on the way hold.
    let asks = "GET /metrics HTTP/1.1\r\nHost: it\r\n\r\n".repeat(100);
    let mut deaf = Vec::new();
    for _ in 0..64 {
        let mut stream = TcpStream::connect(health.address()).await.expect("connect");
        stream.write_all(asks.as_bytes()).await.expect("sent");
        deaf.push(stream);
    }
    becomes(&health, "/livez", 200).await;
    drop(deaf);
}

#[tokio::test]
async fn an_address_that_is_taken_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = taken.local_addr().expect("an address");
    let error = HealthServer::bind(address).await.expect_err("it is taken");
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    let expected = format!("can't listen on {address} for health: ");
    assert!(error.to_string().starts_with(&expected), "{error}");
}
