//! Servers and buckets that take only small messages.

use async_nats::jetstream::stream;
use nats_elect::admin::ProblemCode;
use nats_elect::{Event, FailureKind, FencedError, Group};
use nats_elect_testing::{NatsServer, eventually};

use crate::support::bucket::Stranger;
use crate::support::instance::{guest, standing};
use crate::support::journal::Journal;
use crate::support::member::{GROUP, all_owned, group, joining, member_with, stop, waits};
use crate::support::{ROLE, SOON, comes_true, configured, leased_for, ms, served};

async fn limit_messages(stranger: &Stranger, size: i32) {
    let mut settings = stranger.stream().await.cached_info().config.clone();
    settings.max_message_size = size;
    let edited = stranger.jetstream.update_stream(settings).await;
    edited.expect("edited");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_takes_only_small_messages_is_unfit_until_that_is_changed() {
    let (server, journal) = served();
    let (stranger, _) = Stranger::with_bucket(&server.url()).await;
    let a = guest("a", server.url(), &journal).standing(leased_for(ms(3000)).max_backoff(ms(1000)));
    let a = a.start().await;
    a.wait_until_leader().await;
    limit_messages(&stranger, 16_383).await;
    let told = |event: &Event| matches!(event, Event::Failure { kind: FailureKind::BucketUnfit, detail, .. } if detail.contains("records may need 16384"));
    a.log().wait_for("what is wrong", told).await;
    comes_true("no leader", async || !a.is_leader()).await;
    limit_messages(&stranger, 16_384).await;
    a.wait_until_leader().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_takes_only_small_messages_is_refused() {
    let server = configured("max_payload: 16383\n");
    let refused = joining(&server.url(), "a", Group::sharded(GROUP, 4, waits()));
    let text = refused.start().await.expect_err("a refusal").to_string();
    assert!(text.contains("raise its `max_payload`"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_that_fit_are_written_and_others_are_refused_with_what_would_fit() {
    let config = "max_payload: 16384\n";
    let server = configured(config);
    let journal = Journal::default();
    let a = standing("a", server.url(), &journal, leased_for(ms(10_000))).await;
    let store = journal.started(ROLE, 0).await.term().store();
    let most = |written: Result<u64, FencedError>| match written {
        Err(FencedError::TooLarge { most, .. }) => most,
        other => panic!("{other:?}"),
    };
    let alone = most(store.put("k", vec![b'x'; 20_000]).await);
    store.put("k", vec![b'x'; alone]).await.expect("it fits");
    assert_eq!(most(store.put("k", vec![b'x'; alone + 1]).await), alone);
    assert!(alone > 16_000, "{alone}");
    if server.version() >= (2, 12, 0) {
        let in_batch = most(store.create("c", vec![b'x'; 20_000]).await);
        let value = vec![b'x'; in_batch];
        store.create("c", &value).await.expect("it fits");
        assert!(in_batch > 16_000, "{in_batch}");
        let none = store.batch().commit().await;
        assert_eq!(none, Err(FencedError::Batch("it is empty".into())));
    }
    assert!(a.is_leader() && journal.terms(ROLE).len() == 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_are_used_soon_after_the_bucket_allows_them() {
    let (server, journal) = served();
    if server.version() < (2, 12, 0) {
        return;
    }
    let (stranger, _) = Stranger::with_bucket(&server.url()).await;
    let a = guest("a", server.url(), &journal).standing(leased_for(ms(10_000)));
    let _a = a.start().await;
    let store = journal.started(ROLE, 0).await.term().store();
    let refused = store.create("k", "v").await;
    assert!(
        matches!(refused, Err(FencedError::Unsupported(_))),
        "{refused:?}"
    );
    let settings = stranger.stream().await.cached_info().config.clone();
    let settings = stream::Config {
        allow_atomic_publish: true,
        ..settings
    };
    stranger
        .jetstream
        .update_stream(settings)
        .await
        .expect("edited");
    eventually(SOON, "a batch", async || store.create("k", "v").await.ok()).await;
    assert_eq!(journal.terms(ROLE).len(), 1);
}

/// Else no map with owners could be written any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_does_not_get_more_shards_than_the_bucket_has_room_for() {
    let server = NatsServer::start().expect("start");
    let (stranger, _) = Stranger::with_bucket(&server.url()).await;
    limit_messages(&stranger, 16_384).await;
    let a = member_with(&server.url(), "a", Group::sharded(GROUP, 4, waits())).await;
    all_owned(&[&a], 4).await;
    let refused = group(&a).resize(65_536).await;
    let refused = refused.expect_err("too many");
    assert_eq!(refused.code, ProblemCode::BadRequest);
    assert!(
        refused.reason.contains("the bucket takes 16384"),
        "{refused}"
    );
    assert_eq!(group(&a).mine().len(), 4);
    group(&a).resize(8).await.expect("resized");
    all_owned(&[&a], 8).await;
    let large = Group::sharded("large", 65_536, waits());
    let refused = joining(&server.url(), "b", large).start().await;
    let text = refused.expect_err("a refusal").to_string();
    assert!(
        text.contains("65536 units") && text.contains("takes 16384"),
        "{text}"
    );
    stop(a).await;
}
