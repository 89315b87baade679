//! What once went wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nats_elect::{
    BoxError, Error, RoleHandler, RoleManager, RoleManagerBuilder, StopOptions, Term, handler_fn,
};
use nats_elect_testing::{NatsServer, eventually};

use crate::support::bucket::publish_headers;
use crate::support::member::waits;
use crate::support::{ROLE, SOON, comes_true, leased_for, logs, ms};

fn builder(id: &str, server: &NatsServer) -> RoleManagerBuilder {
    RoleManager::builder()
        .servers(server.url())
        .bucket_auto_create()
        .instance_id(id)
}

/// An instance that leads the role of most tests.
async fn leading(builder: RoleManagerBuilder) -> RoleManager {
    let manager = builder.start().await.expect("start");
    leads(&manager, ROLE).await;
    manager
}

async fn leads(manager: &RoleManager, role: &str) {
    let role = manager.role(role).expect("a role");
    comes_true("leadership", async || role.is_leader()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_of_reconnects_does_not_end_the_elections() {
    let mut server = NatsServer::start().expect("start");
    let builder = builder("a", &server)
        .connect_options(async_nats::ConnectOptions::new().max_reconnects(3))
        .role(ROLE, leased_for(ms(1000)), waits());
    let manager = leading(builder).await;
    server.kill();
    tokio::time::sleep(ms(3000)).await;
    server.restart().expect("restart");
    leads(&manager, ROLE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fencing_tokens_grow_also_in_instances_that_did_not_see_the_bucket_go() {
    let server = NatsServer::start().expect("start");
    let ttl = ms(6000);
    let old = builder("old", &server).role(ROLE, leased_for(ttl), waits());
    let old = leading(old).await;

    let client = async_nats::connect(server.url()).await.expect("connect");
    let jetstream = async_nats::jetstream::new(client);
    let config = {
        let stream = jetstream.get_stream("KV_leaders").await.expect("stream");
        let mut config = stream.cached_info().config.clone();
        config.first_sequence = config.first_sequence.map(|first| first + 1_000_000_000);
        config
    };
    // The old instance may be first to make it again.
    eventually(SOON, "a bucket with greater sequences", async || {
        let _ = jetstream.delete_stream("KV_leaders").await;
        jetstream.create_stream(config.clone()).await.ok()
    })
    .await;

    let new = builder("new", &server).role(ROLE, leased_for(ttl), waits());
    let new = leading(new).await;
    let first = new.role(ROLE).expect("role").status().fencing_token;
    eventually(SOON, "old follows", async || {
        let leader = old.role(ROLE).expect("role").leader()?;
        (leader.instance_id == "new").then_some(())
    })
    .await;
    tokio::time::sleep(ms(4000)).await;
    new.stop(StopOptions::default()).await.expect("stop");
    leads(&old, ROLE).await;
    let second = old.role(ROLE).expect("role").status().fencing_token;
    assert!(second > first, "{second:?} follows {first:?}");
}

struct PanicsWhenDropped(Arc<AtomicBool>);

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        assert!(!self.0.load(Ordering::SeqCst), "dropped");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_handler_spawned_ends_also_if_the_handler_panics_when_it_is_dropped() {
    let server = NatsServer::start().expect("start");
    let beats = Arc::new(AtomicU64::new(0));
    let (ticking, aborted) = (Arc::clone(&beats), Arc::new(AtomicBool::new(true)));
    let handler = handler_fn(move |term: Term| {
        let (beats, armed) = (Arc::clone(&ticking), Arc::clone(&aborted));
        async move {
            let _bomb = PanicsWhenDropped(armed);
            let inner = term.clone();
            term.spawn(async move {
                // Blocks, as far as the abort is concerned.
                while !inner.role().is_empty() {
                    beats.fetch_add(1, Ordering::SeqCst);
                    std::thread::sleep(ms(5));
                    if beats.load(Ordering::SeqCst) > 600 {
                        break;
                    }
                }
            });
            std::future::pending().await
        }
    });
    let manager = builder("a", &server).role(ROLE, leased_for(ms(1000)), handler);
    let manager = leading(manager).await;
    let down = manager
        .role(ROLE)
        .expect("role")
        .step_down(nats_elect::StepDown::any())
        .await
        .expect("step down");
    let at_end = beats.load(Ordering::SeqCst);
    tokio::time::sleep(ms(100)).await;
    assert_eq!(
        beats.load(Ordering::SeqCst),
        at_end,
        "{down:?}: it still runs"
    );
}

struct Bomb;

impl RoleHandler for Bomb {
    async fn lead(&self, term: Term) -> Result<(), BoxError> {
        term.cancelled().await;
        Ok(())
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        crate::support::panic_as_wanted();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_panics_when_it_is_dropped_does_not_take_other_roles_with_it() {
    let server = NatsServer::start().expect("start");
    let manager = builder("a", &server)
        .role(ROLE, leased_for(ms(1000)), waits())
        .role("bomb", leased_for(ms(1000)), Bomb);
    let manager = leading(manager).await;
    leads(&manager, "bomb").await;
    {
        // Given up after the request was sent: the last to hold the handler is not this task.
        let removing = manager.remove_role("bomb");
        let removing = std::pin::pin!(removing);
        // The answer may be there already.
        let _ = futures::poll!(removing);
    }
    tokio::time::sleep(ms(1500)).await;
    let role = manager.role(ROLE).expect("role");
    eventually(SOON, "a proof", async || role.validate().await.ok()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_added_by_a_call_that_was_given_up_is_known() {
    let server = NatsServer::start().expect("start");
    let manager = builder("a", &server).start().await.expect("start");
    {
        let adding = manager.add_role(ROLE, leased_for(ms(1000)), waits());
        let adding = std::pin::pin!(adding);
        // One poll: the request is sent, its answer not awaited, though it may be there already.
        let _ = futures::poll!(adding);
    }
    comes_true("a known role that leads", async || {
        manager.role(ROLE).is_ok_and(|role| role.is_leader())
    })
    .await;
    manager.remove_role(ROLE).await.expect("remove");
    manager
        .add_role(ROLE, leased_for(ms(1000)), waits())
        .await
        .expect("add");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_for_a_leader_hears_that_the_role_was_removed() {
    let server = NatsServer::start().expect("start");
    let manager = builder("a", &server).role(ROLE, leased_for(ms(1000)), waits());
    let manager = leading(manager).await;
    let role = manager.role(ROLE).expect("role");
    {
        let removing = manager.remove_role(ROLE);
        let removing = std::pin::pin!(removing);
        // The answer may be there already.
        let _ = futures::poll!(removing);
    }
    comes_true("the end", async || {
        role.status().state == nats_elect::RoleState::Stopped
    })
    .await;
    let waited = tokio::time::timeout(SOON, role.wait_for_leader()).await;
    assert!(matches!(waited, Ok(Err(Error::Stopped))), "{waited:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_spawned_after_the_term_does_not_run() {
    let server = NatsServer::start().expect("start");
    let (sender, mut terms) = tokio::sync::mpsc::unbounded_channel();
    let handler = handler_fn(move |term: Term| {
        sender.send(term.clone()).expect("a receiver");
        async move {
            term.cancelled().await;
            Ok(())
        }
    });
    let manager = builder("a", &server)
        .role(ROLE, leased_for(ms(1000)), handler)
        .start()
        .await
        .expect("start");
    let term = terms.recv().await.expect("a term");
    manager.remove_role(ROLE).await.expect("remove");
    let late = term.spawn(async { 1 });
    assert_eq!(late.await.expect("no panic"), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_rides_through_a_server_without_jetstream() {
    let mut server = NatsServer::start().expect("start");
    let port = server.port();
    // Two more servers start before it is back.
    let manager = builder("a", &server).role(ROLE, leased_for(ms(60_000)), waits());
    let manager = leading(manager).await;
    let role = manager.role(ROLE).expect("role");
    let token = role.status().fencing_token;
    server.kill();
    let bare = NatsServer::builder()
        .without_jetstream()
        .port(port)
        .start()
        .expect("start");
    tokio::time::sleep(ms(4000)).await;
    assert!(role.is_leader(), "{:?}", role.status());
    drop(bare);
    server.restart().expect("restart");
    eventually(SOON, "a proof", async || role.validate().await.ok()).await;
    assert_eq!(role.status().fencing_token, token);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_role_leaves_nothing_of_its_handler_behind() {
    let server = NatsServer::start().expect("start");
    let manager = builder("a", &server).start().await.expect("start");
    let held = Arc::new(());
    for _ in 0..10 {
        let share = Arc::clone(&held);
        let handler = handler_fn(move |term: Term| {
            let share = Arc::clone(&share);
            async move {
                term.cancelled().await;
                drop(share);
                Ok(())
            }
        });
        let added = manager.add_role(ROLE, leased_for(ms(1000)), handler).await;
        let role = added.expect("add");
        role.wait_for_leader().await.expect("a leader");
        drop(role);
        manager.remove_role(ROLE).await.expect("remove");
    }
    comes_true("the last share", async || Arc::strong_count(&held) == 1).await;
}

/// The client loses its connection over such headers, or ends for good; a watch shows them to it
/// again each time.
async fn unreadable_headers_cost_no_role_for_long(headers: &[u8]) {
    let logs = logs::install();
    let server = NatsServer::start().expect("start");
    let manager = builder("poisoned", &server).role(ROLE, leased_for(ms(2000)), waits());
    let manager = leading(manager).await;
    publish_headers(&server.url(), "$KV.leaders.other", headers, b"");
    // Until the watch has given in.
    tokio::time::sleep(ms(4000)).await;
    leads(&manager, ROLE).await;
    let role = manager.role(ROLE).expect("role");
    let mut led = 0;
    for _ in 0..60 {
        led += u32::from(role.is_leader());
        tokio::time::sleep(ms(100)).await;
    }
    assert!(led >= 40, "it led only {led} of 60 times");
    let log = logs.text();
    let told =
        |it: &str| it.contains("poisoned") && it.contains("headers that the client can't read");
    assert!(log.lines().any(told), "{log}");

    // One that starts with them in the bucket gets the role when it is free.
    let other = builder("b", &server)
        .role(ROLE, leased_for(ms(2000)), waits())
        .start()
        .await
        .expect("start");
    manager.stop(StopOptions::default()).await.expect("stop");
    leads(&other, ROLE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_that_break_the_connection_cost_no_role_for_long() {
    unreadable_headers_cost_no_role_for_long(b"NATS/1.0\r\nno colon\r\n\r\n").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_that_end_the_client_cost_no_role_for_long() {
    unreadable_headers_cost_no_role_for_long(b"NATS/1.0\r\nA: b\rc\r\n\r\n").await;
}
