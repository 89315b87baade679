//! The permissions that the documentation gives to candidates: enough, and no more.

use async_nats::ConnectOptions;
use nats_elect::testing::NatsServer;
use nats_elect::{Event, FailureKind};

use crate::support::clock::Stamp;
use crate::support::instance::{guest, instance};
use crate::support::journal::Journal;
use crate::support::{ROLE, leased_for, ms, recovered};

const CANDIDATE: &str = include_str!("../../deploy/nats/candidate.conf");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_documented_privileges_suffice_for_a_candidate_and_for_its_roles_alone() {
    let server = NatsServer::builder()
        .config(CANDIDATE)
        .start()
        .expect("start");
    let operator =
        ConnectOptions::with_user_and_password("operator".into(), "change-me-too".into());
    let candidate =
        || ConnectOptions::with_user_and_password("candidate".into(), "change-me".into());
    let journal = Journal::default();
    // The operator's first start makes the bucket.
    let maker = instance("operator", server.url(), &journal)
        .with(|builder| builder.connect_options(operator))
        .start()
        .await;
    maker.stop().await;

    let ttl = ms(10_000);
    let join = |id| {
        guest(id, server.url(), &journal)
            .with(|builder| builder.connect_options(candidate()))
            .standing(leased_for(ttl))
            .role("metrics", leased_for(ttl))
            .role("network", leased_for(ttl))
    };
    let a = join("a").start().await;
    let first = journal.started(ROLE, 0).await;
    journal.started("metrics", 0).await;
    if server.version() >= (2, 12, 0) {
        let store = first.term().store();
        store.put("cursor", "1").await.expect("a put");
        store.create("jobs.1", "x").await.expect("a create");
        assert_eq!(store.list().await.expect("a list"), ["cursor", "jobs.1"]);
    }
    let b = join("b").start().await;
    b.wait_until_following("a").await;

    let stop = Stamp::now();
    a.stop().await;
    let next = journal.started(ROLE, 1).await;
    recovered("least_privileges", ttl, stop, &next);
    assert_eq!(next.instance, "b");
    assert!(
        next.start.since(stop) < ttl / 2,
        "the watch told of the release"
    );

    let denied = |event: &Event| {
        matches!(event, Event::Failure { kind: FailureKind::PermissionDenied, detail }
            if detail.contains("network"))
    };
    b.log_of("network")
        .wait_for("a word of what it may not do", denied)
        .await;
    assert!(journal.tenures("network").is_empty());
}
