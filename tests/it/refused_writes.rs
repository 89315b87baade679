//! Writes that fail while reads succeed: limits that are reached, a disk that is full.

use async_nats::jetstream::stream::{self, StorageType};
use nats_elect::{Event, FailureKind, Outcome};
use nats_elect_testing::NatsServer;

use crate::support::bucket::Stranger;
use crate::support::clock::Stamp;
use crate::support::instance::{EventLog, instance, never};
use crate::support::journal::Journal;
use crate::support::{ROLE, leased_for, ms};

/// A server with one account, which may keep one MiB in memory.
fn small_account() -> NatsServer {
    NatsServer::builder()
        .config(
            r#"accounts { small: {
                jetstream: { max_mem: 1M, max_file: 1M },
                users: [{ user: "any", password: "any" }]
            } }
            no_auth_user: any"#,
        )
        .start()
        .expect("start")
}

/// Fills the account with another stream, and returns that stream.
async fn fill_account(stranger: &Stranger) -> stream::Stream {
    let config = stream::Config {
        name: "heap".into(),
        subjects: vec!["heap".into()],
        storage: StorageType::Memory,
        ..stream::Config::default()
    };
    let heap = stranger.jetstream.create_stream(config).await;
    let heap = heap.expect("another stream");
    for size in [64 << 10, 1 << 10, 1] {
        let put = async || {
            let sent = stranger.jetstream.publish("heap", vec![b'x'; size].into());
            sent.await.expect("sent").await
        };
        while put().await.is_ok() {}
    }
    heap
}

fn is_full(event: &Event) -> bool {
    matches!(
        event,
        Event::Failure {
            kind: FailureKind::BucketFull,
            ..
        }
    )
}

async fn confirmed_after(log: &EventLog, time: Stamp) {
    let confirmed = |event: &Event| {
        let Event::HeartbeatEnded { outcome, .. } = event else {
            return false;
        };
        *outcome == Outcome::Confirmed
    };
    log.wait_for_after(time, "a confirmed heartbeat", confirmed)
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_that_is_full_for_two_seconds_ends_no_term() {
    let server = small_account();
    let stranger = Stranger::connect(&server.url()).await;
    let journal = Journal::default();
    let config = || leased_for(ms(9000)).heartbeat_interval(ms(900));
    let a = instance("a", server.url(), &journal)
        .standing(config())
        .role("network", config())
        .start()
        .await;
    journal.started(ROLE, 0).await;
    journal.started("network", 0).await;
    let heap = fill_account(&stranger).await;
    for role in [ROLE, "network"] {
        a.log_of(role)
            .wait_for("a refused heartbeat", is_full)
            .await;
    }
    never("the end of a term", ms(2000), || {
        !a.is_leader() || !a.role("network").is_leader()
    })
    .await;
    heap.purge().await.expect("purged");
    let room = Stamp::now();
    for role in [ROLE, "network"] {
        confirmed_after(&a.log_of(role), room).await;
        assert_eq!(journal.terms(role).len(), 1, "{role}");
    }
}
