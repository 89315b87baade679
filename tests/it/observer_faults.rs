//! An observer through what fails: it says that it sees nothing, and sees again.

use nats_elect::{Change, ChangeCause, Standing, Storage, WatchStatus};
use nats_elect_testing::{NatsCluster, TcpProxy, eventually};

use crate::support::bucket::Stranger;
use crate::support::instance::{instance, never, replicated, standing};
use crate::support::journal::{Journal, RecordedTerm};
use crate::support::onlooker::{Onlooker, looking_at};
use crate::support::{BUCKET, ROLE, SOON, leased_for, ms, proxied, served};

/// Whether it ever told that the role is free.
fn told_as_free(on: &Onlooker) -> bool {
    on.of(ROLE).iter().any(|change| change.standing.is_free())
}

/// Waits until it sees the leader of this term alive, and its fence record, which is written after
/// the claim.
async fn sees_term(on: &Onlooker, term: &RecordedTerm) {
    on.sees("the term", |role| {
        let leader = role.leader.as_ref();
        let is_led = leader.is_some_and(|one| one.instance_id == term.instance);
        role.confirmed && is_led && role.fencing_token == Some(term.fencing_token)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_observer_that_is_cut_off_calls_nobody_gone_and_sees_again_afterwards() {
    let (server, proxy, journal) = proxied();
    let ttl = ms(6000);
    let a = standing("a", server.url(), &journal, leased_for(ttl)).await;
    journal.started(ROLE, 0).await;
    let on = Onlooker::start(looking_at(proxy.url())).await;
    let token = on.follows("a").await.fencing_token;
    assert!(token.is_some());

    for (n, fault) in [TcpProxy::cut, TcpProxy::black_hole]
        .into_iter()
        .enumerate()
    {
        let before = on.of(ROLE).len();
        fault(&proxy);
        on.is_stale().await;
        let lost = on.told(before, "", ChangeCause::LostSight).await;
        assert_eq!(lost.standing, Standing::Unknown);
        let WatchStatus::Stale { since, reason } = on.observer.connection() else {
            panic!("it sees something");
        };
        assert!(since >= ttl / 2 && !reason.is_empty(), "{since:?} {reason}");
        assert!(a.is_leader(), "fault {n}");
        proxy.restore();
        on.told(before + 1, "a", ChangeCause::Found).await;
        on.is_current().await;
        assert_eq!(on.follows("a").await.fencing_token, token);
    }
    assert!(!told_as_free(&on), "{:?}", on.all());
    eventually(SOON, "a word of sight after each of its loss", async || {
        let all = on.all();
        let stale = all.iter().filter(|it| matches!(it, Change::Stale { .. }));
        let current = all.iter().filter(|it| **it == Change::Current);
        let (stale, current) = (stale.count(), current.count());
        (stale >= 2 && stale == current).then_some(())
    })
    .await;

    // What happens in the dark is found in the light.
    let before = on.of(ROLE).len();
    proxy.cut();
    on.is_stale().await;
    a.stop().await;
    proxy.restore();
    on.told(before, "", ChangeCause::Released).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_of_the_server_within_the_lease_changes_no_leader() {
    let (mut server, journal) = served();
    let a = instance("a", server.url(), &journal)
        .with(|builder| builder.storage(Storage::File))
        .standing(leased_for(ms(20_000)).heartbeat_interval(ms(300)));
    let _a = a.start().await;
    journal.started(ROLE, 0).await;
    let on = Onlooker::start(looking_at(server.url())).await;
    on.follows("a").await;
    for _ in 0..2 {
        server.kill();
        on.is_stale().await;
        assert_eq!(on.observer.leader(ROLE).expect("known").instance_id, "a");
        server.restart().expect("restart");
        on.is_current().await;
        on.follows("a").await;
    }
    assert!(on.of(ROLE).is_empty(), "{:?}", on.all());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_is_deleted_and_made_anew_is_told_and_every_role_begins_anew() {
    let (server, journal) = served();
    let stranger = Stranger::connect(&server.url()).await;
    // The observer is to find the next bucket before a lease has passed: otherwise it has lost
    // sight of the role first.
    let ttl = ms(10_000);
    let join = |id| {
        let it = instance(id, server.url(), &journal).standing(leased_for(ttl));
        it.role("metrics", leased_for(ttl))
    };
    let a = join("a").start().await;
    let first = journal.started(ROLE, 0).await;
    let on = Onlooker::start(looking_at(server.url())).await;
    on.follows("a").await;
    let sees_metrics_led = async || {
        let leader = async || on.observer.leader("metrics");
        eventually(SOON, "a leader of metrics", leader).await;
    };
    sees_metrics_led().await;

    // For good, at first.
    a.stop().await;
    on.told(0, "", ChangeCause::Released).await;
    stranger.delete_bucket().await;
    let missing = eventually(SOON, "that it is missing", async || {
        match on.observer.connection() {
            WatchStatus::Stale { reason, .. } if reason.contains("does not exist") => Some(reason),
            _ => None,
        }
    })
    .await;
    assert!(missing.contains(BUCKET), "{missing}");
    let b = join("b").start().await;
    let second = journal.started(ROLE, 1).await;
    let reset = on.told(1, "", ChangeCause::BucketReplaced).await;
    assert_eq!(
        reset.standing,
        Standing::Unknown,
        "nobody has looked into it yet"
    );
    assert!(second.fencing_token > first.fencing_token);
    sees_term(&on, &second).await;
    sees_metrics_led().await;

    // Then between two looks, under living leaders.
    let before = on.of(ROLE).len();
    stranger.replace_bucket().await;
    let third = journal.started(ROLE, 2).await;
    on.told(before, "", ChangeCause::BucketReplaced).await;
    sees_term(&on, &third).await;
    let of_metrics = on.of("metrics");
    let resets = of_metrics
        .iter()
        .filter(|change| change.cause == ChangeCause::BucketReplaced);
    assert_eq!(resets.count(), 2, "{of_metrics:?}");
    b.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_sees_on_when_the_leader_of_the_stream_dies() {
    let mut cluster = NatsCluster::start(3).expect("start");
    let journal = Journal::default();
    let a = replicated(
        "a",
        cluster.urls(),
        &journal,
        leased_for(ms(60_000)).heartbeat_interval(ms(1000)),
    )
    .await;
    let first = journal.started(ROLE, 0).await;
    let on = Onlooker::start(looking_at(cluster.urls())).await;
    on.follows("a").await;
    let node = cluster.wait_for_stream_leader(&format!("KV_{BUCKET}"));
    cluster.node_mut(node.expect("a leader")).kill();
    let before = on.sees("the role", |_| true).await.revision;
    // Whether it loses sight meanwhile depends on where its watch is.
    on.sees("a newer heartbeat", |role| role.revision > before)
        .await;
    on.is_current().await;
    let seen = on.follows("a").await;
    assert_eq!(seen.fencing_token, Some(first.fencing_token));
    assert!(a.is_leader());
    never("a change", ms(500), || !on.of(ROLE).is_empty()).await;
    a.stop().await;
    on.told(0, "", ChangeCause::Released).await;
}
