//! Strange hands in the bucket.

use async_nats::jetstream::kv;
use nats_elect::{EndCause, Event, FailureKind};
use nats_elect_testing::{NatsServer, eventually};

use crate::support::bucket::{Stranger, marker_of, release_of};
use crate::support::clock::Stamp;
use crate::support::dashboard::{self, Scrape};
use crate::support::instance::{
    ending, failure, first_and_second, guest, instance, leader_and_follower, never,
};
use crate::support::journal::Journal;
use crate::support::{ROLE, SOON, comes_true, leased_for, ms, recovered, served};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_bucket_is_made_again_and_its_roles_come_back() {
    let (server, journal) = served();
    // Time enough to find the bucket gone before the lease ends.
    let ttl = ms(3000);
    let join = |id| instance(id, server.url(), &journal).standing(leased_for(ttl));
    let a = join("a").role("metrics", leased_for(ttl)).start().await;
    journal.started(ROLE, 0).await;
    journal.started("metrics", 0).await;
    let b = join("b").start().await;
    b.wait_until_following("a").await;
    let stranger = Stranger::connect(&server.url()).await;

    let fault = Stamp::now();
    stranger.delete_bucket().await;
    let first = journal.ended(ROLE, 0).await;
    let second = journal.started(ROLE, 1).await;
    recovered("bucket_deleted", ttl, fault, &second);
    let other = journal.started("metrics", 1).await;
    assert!(second.fencing_token.epoch > first.fencing_token.epoch);
    assert!(!first.term().is_valid());
    a.log()
        .wait_for("its end", ending(EndCause::BucketLost))
        .await;
    assert_eq!(stranger.record().await["id"], second.instance.as_str());
    assert_eq!(other.instance, "a");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_a_stranger_makes_again_is_used() {
    let (server, journal) = served();
    let ttl = ms(3000);
    let (stranger, _) = Stranger::with_bucket(&server.url()).await;
    let join = |id| guest(id, server.url(), &journal).standing(leased_for(ttl));
    let (a, b) = first_and_second(join("a"), join("b")).await;
    let first = journal.started(ROLE, 0).await;

    let fault = Stamp::now();
    stranger.delete_bucket().await;
    let first_end = journal.ended(ROLE, 0).await.end();
    assert!(first_end.since(fault) < ttl, "it had no bucket to renew in");
    for one in [&a, &b] {
        let missing = failure(FailureKind::BucketMissing);
        one.log()
            .wait_for("a word of the missing bucket", missing)
            .await;
        assert!(!one.is_leader());
    }
    stranger.make_bucket(kv::Config::default()).await;
    let second = journal.started(ROLE, 1).await;
    recovered("bucket_remade_by_a_stranger", ttl, fault, &second);
    assert!(second.fencing_token.epoch > first.fencing_token.epoch);
    assert_eq!(stranger.record().await["id"], second.instance.as_str());
}

/// Alerts look at what a counter grew by: it must grow as long as nobody can lead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_stays_missing_or_unfit_is_counted_again_and_again() {
    dashboard::install();
    let server = NatsServer::start().expect("start");
    let (stranger, _) = Stranger::with_bucket(&server.url()).await;
    let join = |id, ttl| {
        guest(id, server.url(), &Journal::default())
            .standing(leased_for(ttl).max_backoff(ms(500)))
            .start()
    };
    let bereft = join("bereft", ms(1000)).await;
    let failures = |id, kind| {
        let metric = "election_failures_total";
        Scrape::now().value(metric, id, Some(("error_type", kind)))
    };
    // More than the requests that may be under way add to the first.
    let grows = async |id, kind| {
        let first = eventually(SOON, "a failure", async || {
            Some(failures(id, kind)).filter(|count| *count > 0.0)
        })
        .await;
        comes_true("more of them", async || failures(id, kind) >= first + 3.0).await;
    };

    let choosy = join("choosy", ms(3000)).await;
    stranger.delete_bucket().await;
    grows("bereft", "bucket_missing").await;
    // The next one drops keys before the lease of one of them ends.
    let brief = kv::Config {
        max_age: ms(2000),
        ..kv::Config::default()
    };
    stranger.make_bucket(brief).await;
    grows("choosy", "bucket_unfit").await;
    bereft.wait_until_leader().await;
    assert!(!choosy.is_leader());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_record_a_stranger_replaced_ends_its_term() {
    let (server, journal) = served();
    let ttl = ms(5000);
    let (a, b) = leader_and_follower(server.url(), &journal, leased_for(ttl)).await;
    let stranger = Stranger::connect(&server.url()).await;
    let store = stranger.store().await;

    let fault = Stamp::now();
    let usurper = br#"{"id":"usurper","token":"t","ttl_ms":4000}"#;
    let put = store
        .put(ROLE, usurper.as_slice().into())
        .await
        .expect("put");
    let first = journal.ended(ROLE, 0).await;
    assert!(first.end().since(fault) < ttl / 2, "not at the sight of it");
    let superseded = ending(EndCause::Superseded);
    a.log().wait_for("its end", superseded).await;
    let refused = |event: &Event| *event == Event::ValidationFailed;
    a.log().wait_for("a refused heartbeat", refused).await;
    assert!(!a.is_leader());
    b.wait_until_following("usurper").await;
    assert_eq!(stranger.message().await.sequence, put);

    // Its lease is respected, then it is claimed over.
    let second = journal.started(ROLE, 1).await;
    recovered("record_replaced_by_hand", ttl, fault, &second);
    assert!(second.start.since(fault) >= ms(4000));
    assert!(stranger.message().await.sequence > put);
}

/// A delete by hand is the wish that another lead: the leader makes a release of it.
async fn is_freed_for_all(test: &str, delete: impl AsyncFnOnce(&Stranger)) {
    let (server, journal) = served();
    let ttl = ms(10_000);
    let (a, b) = leader_and_follower(server.url(), &journal, leased_for(ttl)).await;
    let stranger = Stranger::connect(&server.url()).await;
    let mut heard = stranger.hear(ROLE).await;

    let fault = Stamp::now();
    delete(&stranger).await;
    let second = journal.started(ROLE, 1).await;
    recovered(test, ttl, fault, &second);
    assert!(second.start.since(fault) < ttl / 2, "not at once");
    let deleted = ending(EndCause::Deleted);
    a.log().wait_for("its end", deleted).await;
    heard.release().await;
    assert_eq!(stranger.record().await["id"], second.instance.as_str());
    // Whoever leads now does so for good.
    let leader = if second.instance == "a" { &a } else { &b };
    never("another end", ms(500), || !leader.is_leader()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_deleted_by_hand_frees_the_role_for_all() {
    Box::pin(is_freed_for_all("key_deleted_by_hand", async |stranger| {
        let store = stranger.store().await;
        store.delete(ROLE).await.expect("delete");
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_purged_by_hand_frees_the_role_for_all() {
    Box::pin(is_freed_for_all("key_purged_by_hand", async |stranger| {
        let store = stranger.store().await;
        // A bucket of ours forbids it, until somebody allows it.
        store.purge(ROLE).await.expect_err("no rollup");
        stranger.allow_purges().await;
        store.purge(ROLE).await.expect("purge");
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_with_a_max_age_is_used_as_it_is() {
    let (server, journal) = served();
    let ttl = ms(6000);
    let stranger = Stranger::connect(&server.url()).await;
    let config = kv::Config {
        max_age: ttl,
        ..Default::default()
    };
    stranger.make_bucket(config).await;
    let join = |id| guest(id, server.url(), &journal).standing(leased_for(ttl));
    let (a, _b) = first_and_second(join("a"), join("b")).await;
    // Heartbeats keep the key, although every message in it lives no longer than the lease.
    never("an end of the term", ttl * 2, || {
        !a.is_leader() || journal.terms(ROLE).len() != 1
    })
    .await;

    let fault = Stamp::now();
    drop(a);
    let second = journal.started(ROLE, 1).await;
    recovered("max_age_bucket_leader_gone", ttl, fault, &second);
    assert_eq!(second.instance, "b");
    assert_eq!(stranger.record().await["id"], "b");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_marker_of_the_servers_expiry_is_no_release() {
    let (server, journal) = served();
    let ttl = ms(3000);
    let stranger = Stranger::connect(&server.url()).await;
    let config = kv::Config {
        max_age: ttl,
        limit_markers: Some(ms(60_000)),
        ..Default::default()
    };
    let store = stranger.make_bucket(config).await;
    let go = br#"{"id":"go","token":"t"}"#;
    let put = store.put(ROLE, go.as_slice().into()).await.expect("put");
    let marker = eventually(SOON, "the key's expiry", async || {
        match stranger.find(ROLE).await {
            Some(message) if message.sequence > put => Some(Some(message)),
            Some(_) => None,
            None => Some(None),
        }
    })
    .await;
    let begin = Stamp::now();
    let a = guest("a", server.url(), &journal).standing(leased_for(ttl));
    let _a = a.start().await;
    let first = journal.started(ROLE, 0).await;
    let marker = marker.expect("a marker");
    assert!(marker.headers.get("Nats-Marker-Reason").is_some());
    assert_eq!(release_of(&marker.headers), None);
    assert_eq!(marker_of(&marker.headers), None);
    assert!(first.start.since(begin) >= ttl, "it took it for a release");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_bucket_is_told_as_a_failure_that_lasts_and_used_when_there_is_room() {
    let (server, journal) = served();
    let stranger = Stranger::connect(&server.url()).await;
    let config = kv::Config {
        max_bytes: 3000,
        ..kv::Config::default()
    };
    let store = stranger.make_bucket(config).await;
    let heap = vec![b'x'; 2700];
    store.put("_data.x.y", heap.into()).await.expect("a put");
    let a = guest("a", server.url(), &journal)
        .standing(leased_for(ms(3000)))
        .start()
        .await;
    let full = failure(FailureKind::BucketFull);
    a.log().wait_for("a word of it", full).await;
    assert!(!a.is_leader());
    store.put("_data.x.y", "".into()).await.expect("a put");
    a.wait_until_leader().await;
}
