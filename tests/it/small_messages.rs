//! Servers and buckets that take only small messages.

use async_nats::jetstream::stream;
use nats_elect::admin::ProblemCode;
use nats_elect::{Event, FailureKind, FencedError, Group, MemberConfig, Term, handler_fn};
use nats_elect_testing::{NatsServer, eventually};
use serde_json::Value;

use crate::support::bucket::Stranger;
use crate::support::instance::{guest, instance, never, standing};
use crate::support::journal::Journal;
use crate::support::member::{
    GROUP, LEASE, all_owned, epoch_of, group, joining, member_with, stop, waits,
};
use crate::support::operator::Operator;
use crate::support::{ROLE, SOON, comes_true, configured, leased_for, ms, served};

/// What the server counts beside a record: the headers of a heartbeat.
const HEADERS: usize =
    "NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: 18446744073709551615\r\n\r\n".len();
/// The digits by which a heartbeat's number may grow.
const DIGITS: usize = 20;

async fn limit_messages(stranger: &Stranger, size: i32) {
    let mut settings = stranger.stream().await.cached_info().config.clone();
    settings.max_message_size = size;
    let edited = stranger.jetstream.update_stream(settings).await;
    edited.expect("edited");
}

async fn heirs(stranger: &Stranger) -> usize {
    let record = stranger.record().await;
    record["heirs"].as_array().map_or(0, Vec::len)
}

/// Before, each leader's first heartbeat with heirs was refused: 48 terms in twelve seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heirs_that_have_no_room_in_a_record_are_left_out_and_cost_no_term() {
    let (server, journal) = served();
    let (stranger, store) = Stranger::with_bucket(&server.url()).await;
    let join = |id| guest(id, server.url(), &journal).standing(leased_for(ms(3000)));
    let a = join("a").start().await;
    a.wait_until_leader().await;
    let size = HEADERS + DIGITS + stranger.message().await.payload.len();
    limit_messages(&stranger, i32::try_from(size).expect("small")).await;
    drop(store);
    a.stop().await;

    let mut all = Vec::new();
    for id in ["a", "b", "c", "d"] {
        all.push(join(id).start().await);
    }
    journal.started(ROLE, 1).await;
    // The leader asks the others who could lead next every other lease.
    never("another term, or an heir", ms(9000), || {
        journal.terms(ROLE).len() != 2
    })
    .await;
    assert_eq!(heirs(&stranger).await, 0);
    // It knows them: where there is room they are named.
    limit_messages(&stranger, -1).await;
    comes_true("heirs", async || heirs(&stranger).await == 3).await;
    assert_eq!(journal.terms(ROLE).len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_whose_heartbeats_would_have_no_room_is_not_sent() {
    let (server, journal) = served();
    let (stranger, _) = Stranger::with_bucket(&server.url()).await;
    let join = |id| guest(id, server.url(), &journal).standing(leased_for(ms(3000)));
    let a = join("a").start().await;
    a.wait_until_leader().await;
    a.stop().await;
    limit_messages(&stranger, 200).await;
    let before = stranger.stream().await.cached_info().state.last_sequence;
    let b = guest("b", server.url(), &journal).standing(leased_for(ms(3000)).max_backoff(ms(1000)));
    let b = b.start().await;
    let told = |event: &Event| matches!(event, Event::Failure { kind: FailureKind::BucketUnfit, detail, .. } if detail.contains("bytes, and the bucket takes 200"));
    b.log().wait_for("what is wrong", told).await;
    assert!(!b.is_leader());
    let last = stranger.stream().await.cached_info().state.last_sequence;
    assert_eq!(last, before, "something was stored");
    limit_messages(&stranger, -1).await;
    b.wait_until_leader().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_that_fit_are_written_and_others_are_refused_with_what_would_fit() {
    let config = "max_payload: 1024\n";
    let server = configured(config);
    let journal = Journal::default();
    let a = standing("a", server.url(), &journal, leased_for(ms(10_000))).await;
    let store = journal.started(ROLE, 0).await.term().store();
    let most = |written: Result<u64, FencedError>| match written {
        Err(FencedError::TooLarge { most, .. }) => most,
        other => panic!("{other:?}"),
    };
    let alone = most(store.put("k", vec![b'x'; 2000]).await);
    store.put("k", vec![b'x'; alone]).await.expect("it fits");
    assert_eq!(most(store.put("k", vec![b'x'; alone + 1]).await), alone);
    assert!(alone > 512, "{alone}");
    if server.version() >= (2, 12, 0) {
        let in_batch = most(store.create("c", vec![b'x'; 2000]).await);
        let value = vec![b'x'; in_batch];
        store.create("c", &value).await.expect("it fits");
        assert!(in_batch > 512, "{in_batch}");
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_is_found_where_its_whole_description_has_no_room() {
    let config = "max_payload: 1024\n";
    let server = configured(config);
    let journal = Journal::default();
    let mut a = instance("a", server.url(), &journal);
    for number in 0..8 {
        a = a.role(&format!("role-{number}"), leased_for(ms(10_000)));
    }
    let _a = a.start().await;
    let operator = Operator::of(&server).await;
    let found = operator.instance("a").await;
    journal.started("role-1", 0).await;
    let report = operator.admin.status_of(&found, "role-1").await;
    assert!(report.expect("one role fits").roles["role-1"].is_leader);
}

/// Before, each heartbeat that told what single units weigh was refused, which ended all terms and
/// began another epoch, again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loads_that_have_no_room_in_a_members_record_are_left_out_and_cost_no_term() {
    const SHARDS: u32 = 16;
    let server = NatsServer::start().expect("start");
    let (stranger, _) = Stranger::with_bucket(&server.url()).await;
    let handler = || {
        handler_fn(|term: Term| async move {
            term.report_load(1_000_000);
            term.cancelled().await;
            Ok(())
        })
    };
    let join = async |id| {
        let group = Group::sharded(GROUP, SHARDS, handler());
        // A map has to have room, too.
        let settings = MemberConfig::default().ttl(LEASE).label("l".repeat(200));
        let member = joining(&server.url(), id, group).member(settings);
        let member = member.start().await.expect("start");
        all_owned(&[&member], SHARDS).await;
        member
    };
    let record = async |id| {
        let key = format!("_groups.{GROUP}.member.{}", epoch_of(&stranger, id).await);
        let message = stranger.find(&key).await?;
        serde_json::from_slice::<Value>(&message.payload).ok()
    };
    let a = join("a").await;
    let told = eventually(SOON, "what units weigh", async || {
        let mut told = record("a").await?;
        told.as_object_mut()?.remove("heavy")?;
        Some(told)
    })
    .await;
    // A member keeps some room for its next records. The loads of all units take more.
    let size = HEADERS + 150 + told.to_string().len();
    stop(a).await;
    limit_messages(&stranger, i32::try_from(size).expect("small")).await;

    let b = join("b").await;
    let epoch = epoch_of(&stranger, "b").await;
    let told = eventually(SOON, "the sum of all loads", async || {
        let told = record("b").await?;
        (told["load"].as_u64()? >= 16_000_000).then_some(told)
    })
    .await;
    assert!(told["heavy"].is_null(), "{told}");
    never("a unit that is not owned", LEASE * 2, || {
        group(&b).mine().len() < SHARDS as usize
    })
    .await;
    assert_eq!(epoch_of(&stranger, "b").await, epoch);
}

/// Else no map with owners could be written any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_does_not_get_more_shards_than_the_bucket_has_room_for() {
    let server = NatsServer::start().expect("start");
    let (stranger, _) = Stranger::with_bucket(&server.url()).await;
    limit_messages(&stranger, 4096).await;
    let a = member_with(&server.url(), "a", Group::sharded(GROUP, 4, waits())).await;
    all_owned(&[&a], 4).await;
    let refused = group(&a).resize(65_536).await;
    let refused = refused.expect_err("too many");
    assert_eq!(refused.code, ProblemCode::BadRequest);
    assert!(
        refused.reason.contains("the bucket takes 4096"),
        "{refused}"
    );
    assert_eq!(group(&a).mine().len(), 4);
    group(&a).resize(8).await.expect("resized");
    all_owned(&[&a], 8).await;
    let large = Group::sharded("large", 65_536, waits());
    let refused = joining(&server.url(), "b", large).start().await;
    let text = refused.expect_err("a refusal").to_string();
    assert!(
        text.contains("65536 units") && text.contains("takes 4096"),
        "{text}"
    );
    stop(a).await;
}
