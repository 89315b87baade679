//! Starts that can't succeed, each told at once and by its reason, and connections of every kind.

use std::time::Duration;

use async_nats::jetstream::kv;
use nats_elect::{ConnectionStatus, Error, Event, RoleConfig, RoleManager, RoleManagerBuilder};
use nats_elect_testing::{Direction, NatsServer, eventually};

use crate::support::bucket::Stranger;
use crate::support::clock::Stamp;
use crate::support::instance::{Recorded, guest, instance, standing};
use crate::support::journal::Journal;
use crate::support::{BUCKET, ROLE, SOON, comes_true, leased_for, ms, proxied};

/// What the start fails with; well before `start_timeout`, which is 30 seconds.
async fn failure_of(builder: RoleManagerBuilder) -> Error {
    let begin = Stamp::now();
    let started = builder.start().await;
    let took = Stamp::now().since(begin);
    assert!(
        took < Duration::from_secs(10),
        "it took {took:?}: {:?}",
        started.as_ref().err()
    );
    match started {
        Err(error) => {
            assert!(!error.to_string().is_empty());
            error
        }
        Ok(manager) => panic!("it started: {manager:?}"),
    }
}

fn manager(url: &str, config: RoleConfig) -> RoleManagerBuilder {
    RoleManager::builder().servers(url).bucket(BUCKET).role(
        ROLE,
        config,
        Recorded::obedient("a", &Journal::default()),
    )
}

#[tokio::test]
async fn without_a_server_the_start_fails_after_its_timeout_and_names_the_addresses() {
    // Nobody listens there, and no other test can. Credentials are not shown.
    let url = "nats://u:secret@127.0.0.1:1,nats://127.0.0.2:1";
    let begin = Stamp::now();
    let builder = manager(url, RoleConfig::default()).start_timeout(ms(700));
    let error = failure_of(builder).await;
    let Error::Unavailable { after, reason } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(*after, ms(700));
    assert!(!reason.is_empty());
    assert!(error.is_transient());
    let text = error.to_string();
    assert!(text.contains("tried 127.0.0.1:1, 127.0.0.2:1"), "{text}");
    assert!(!text.contains("secret"), "{text}");
    assert!(Stamp::now().since(begin) >= ms(700));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_wire_is_no_reason_not_to_start() {
    let (_server, proxy, journal) = proxied();
    for direction in [Direction::ToServer, Direction::ToClient] {
        proxy.delay(direction, ms(150));
    }
    let _a = standing("a", proxy.url(), &journal, leased_for(ms(10_000))).await;
    let first = journal.started(ROLE, 0).await;
    assert_eq!(first.instance, "a");
    let client = async_nats::connect(proxy.url()).await.expect("connect");
    let b = instance("b", "nats://127.0.0.1:1", &journal)
        .with(|builder| builder.client(client))
        .standing(leased_for(ms(10_000)))
        .start()
        .await;
    b.wait_until_following("a").await;
}

#[tokio::test]
async fn a_server_without_jetstream_is_told_as_such() {
    let server = NatsServer::builder()
        .without_jetstream()
        .start()
        .expect("start");
    let builder = manager(&server.url(), RoleConfig::default()).bucket_auto_create();
    let error = failure_of(builder).await;
    assert!(matches!(error, Error::JetStreamDisabled(_)), "{error:?}");
}

#[tokio::test]
async fn a_missing_bucket_is_told_by_its_name() {
    let server = NatsServer::start().expect("start");
    let error = failure_of(manager(&server.url(), RoleConfig::default())).await;
    assert_eq!(error, Error::BucketMissing(BUCKET.into()));
    let stranger = Stranger::connect(&server.url()).await;
    stranger
        .jetstream
        .get_key_value(BUCKET)
        .await
        .expect_err("it was not made");
}

#[tokio::test]
async fn a_bucket_that_forgets_before_the_lease_ends_is_unfit() {
    let server = NatsServer::start().expect("start");
    let stranger = Stranger::connect(&server.url()).await;
    let config = kv::Config {
        max_age: ms(1000),
        ..Default::default()
    };
    stranger.make_bucket(config).await;
    let error = failure_of(manager(&server.url(), leased_for(ms(1500)))).await;
    let Error::BucketUnfit(reason) = &error else {
        panic!("{error:?}");
    };
    assert!(reason.contains("1s") && reason.contains(ROLE), "{reason}");
    assert!(stranger.find(ROLE).await.is_none());
}

#[tokio::test]
async fn bad_names_and_broken_rules_are_told_before_anything_is_done() {
    // Nobody listens there: whoever asked would not know so soon.
    let url = "nats://127.0.0.1:1";
    let config = RoleConfig::default;
    let handler = || Recorded::obedient("a", &Journal::default());
    for bucket in ["", "a.b", "a b", "é"] {
        let error = failure_of(manager(url, config()).bucket(bucket)).await;
        assert!(matches!(&error, Error::Config(_)), "{bucket}: {error:?}");
        assert!(error.to_string().contains("bucket"), "{error}");
    }
    for role in ["", "a.b", "_fence", "a b", "*", ">"] {
        let builder = RoleManager::builder().servers(url);
        let error = failure_of(builder.role(role, config(), handler())).await;
        assert!(matches!(&error, Error::Name(_)), "{role}: {error:?}");
    }
    let error = failure_of(manager(url, config()).instance_id("a b")).await;
    assert!(error.to_string().contains("instance_id"), "{error}");
    let error = failure_of(manager("nats://[", config())).await;
    assert!(error.to_string().contains("servers[0]"), "{error}");
    let twice = manager(url, config()).role(ROLE, config(), handler());
    let error = failure_of(twice).await;
    assert!(matches!(&error, Error::DuplicateRole(name) if name.as_str() == ROLE));
    let error = failure_of(manager(url, leased_for(ms(1)))).await;
    let Error::RoleConfig { role, error } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(role, ROLE);
    assert!(error.to_string().contains("ttl"), "{error}");
}

#[test]
fn outside_a_runtime_the_start_says_what_it_needs() {
    let starting = manager("nats://127.0.0.1:1", RoleConfig::default()).start();
    let error = futures::executor::block_on(starting).expect_err("no runtime");
    assert_eq!(error, Error::NoRuntime);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_the_callers_own_is_used_and_kept() {
    let (_server, proxy, journal) = proxied();
    let client = async_nats::connect(proxy.url()).await.expect("connect");
    let config = leased_for(ms(10_000)).heartbeat_interval(ms(300));
    let a = instance("a", "nats://127.0.0.1:1", &journal)
        .with(|builder| builder.client(client.clone()))
        .standing(config)
        .start()
        .await;
    let first = journal.started(ROLE, 0).await;
    assert_eq!(proxy.connections(), 1, "one connection, the caller's");

    let fault = Stamp::now();
    proxy.cut();
    let suspended = Event::ConnectionChanged(ConnectionStatus::Suspended);
    a.log()
        .wait_for_after(fault, "suspension", |event| *event == suspended)
        .await;
    proxy.restore();
    eventually(SOON, "a proof", async || a.role(ROLE).validate().await.ok()).await;
    assert_eq!(journal.terms(ROLE).len(), 1);
    assert!(first.term().is_valid());
    a.stop().await;
    let state = client.connection_state();
    assert_eq!(state, async_nats::connection::State::Connected);
    client.flush().await.expect("a client in use");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_is_dropped_leaves_nothing_running() {
    let (_server, proxy, journal) = proxied();
    proxy.black_hole();
    let joining = guest("a", proxy.url(), &journal).standing(RoleConfig::default());
    let starting = tokio::spawn(joining.try_start());
    comes_true("a connection", async || proxy.connections() > 0).await;
    starting.abort();
    proxy.restore();
    comes_true("the end of all connections", async || {
        proxy.connections() == 0
    })
    .await;
}
