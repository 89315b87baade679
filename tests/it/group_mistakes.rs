//! What people do by mistake to the keys of a group: no unit has two owners, and little happens
//! else.

use nats_elect::{Group, RoleManager};
use nats_elect_testing::NatsServer;
use serde_json::Value;

use crate::support::bucket::Stranger;
use crate::support::journal::Journal;
use crate::support::member::{
    GROUP, all_owned, epoch_of, evenly_owned, group, member, member_with, stop, waits,
};
use crate::support::{comes_true, served};

const SHARDS: u32 = 8;

fn map_key() -> String {
    format!("_groups.{GROUP}.map")
}

/// The terms that the shards had so far.
fn terms(journal: &Journal) -> Vec<usize> {
    let shards = 0..SHARDS;
    let terms = shards.map(|shard| journal.terms(&format!("{GROUP}/{shard}")).len());
    terms.collect()
}

/// A member with a handler for each shard, which has begun.
async fn owner_of_all(server: &NatsServer, journal: &Journal) -> RoleManager {
    let a = member(&server.url(), "a", SHARDS, journal).await;
    all_owned(&[&a], SHARDS).await;
    comes_true("a handler for each shard", async || {
        terms(journal) == [1; SHARDS as usize]
    })
    .await;
    a
}

/// The handlers run on meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_map_that_is_overwritten_and_deleted_by_hand_is_collected() {
    let (server, journal) = served();
    let a = owner_of_all(&server, &journal).await;
    let stranger = Stranger::connect(&server.url()).await;
    let store = stranger.store().await;
    let key = map_key();
    let earlier = stranger.find(&key).await.expect("a map").payload;
    for rubbish in ["rubbish".into(), "{}".into(), earlier] {
        let put = store.put(&key, rubbish).await.expect("put");
        comes_true("another map", async || {
            stranger.find(&key).await.expect("a value").sequence > put
        })
        .await;
    }
    store.delete(&key).await.expect("delete");
    let b = member(&server.url(), "b", SHARDS, &journal).await;
    evenly_owned(&[&a, &b], SHARDS).await;
    assert!(
        terms(&journal).iter().all(|it| *it <= 2),
        "{:?}",
        terms(&journal)
    );
    stop(b).await;
    stop(a).await;
}

/// One restart of its handlers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_members_key_that_is_overwritten_or_deleted_costs_its_handlers_a_restart() {
    let (server, journal) = served();
    let a = owner_of_all(&server, &journal).await;
    let stranger = Stranger::connect(&server.url()).await;
    let store = stranger.store().await;
    for (nth, rubbish) in [Some("rubbish"), None].into_iter().enumerate() {
        let former = epoch_of(&stranger, "a").await;
        let key = format!("_groups.{GROUP}.member.{former}");
        match rubbish {
            Some(rubbish) => drop(store.put(&key, rubbish.into()).await.expect("put")),
            None => store.delete(&key).await.expect("delete"),
        }
        // The journal checks that no two handlers of a shard run at one time.
        comes_true("another term of each shard", async || {
            terms(&journal) == [nth + 2; SHARDS as usize]
        })
        .await;
        all_owned(&[&a], SHARDS).await;
        let epoch = epoch_of(&stranger, "a").await;
        assert_ne!(epoch, former, "an epoch is claimed once");
    }
    stop(a).await;
}

/// A member that was cut off meanwhile would not be noticed otherwise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purge_of_everything_makes_no_second_owner() {
    let (server, journal) = served();
    let a = member(&server.url(), "a", SHARDS, &journal).await;
    let b = member(&server.url(), "b", SHARDS, &journal).await;
    evenly_owned(&[&a, &b], SHARDS).await;
    let before = terms(&journal);
    let stranger = Stranger::connect(&server.url()).await;
    stranger.allow_purges().await;
    stranger.stream().await.purge().await.expect("purge");
    comes_true("a new term of each shard", async || {
        let now = terms(&journal);
        now.iter().zip(&before).all(|(now, before)| now > before)
    })
    .await;
    evenly_owned(&[&a, &b], SHARDS).await;
    stop(a).await;
    stop(b).await;
}

/// Whoever can't follow it ends its handlers, and writes nothing over it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_map_of_a_later_version_ends_all_handlers_and_stays() {
    let (server, journal) = served();
    let a = owner_of_all(&server, &journal).await;
    let stranger = Stranger::connect(&server.url()).await;
    let store = stranger.store().await;
    let stands = stranger.find(&map_key()).await.expect("a map");
    let mut later: Value = serde_json::from_slice(&stands.payload).expect("JSON");
    later["v"] = 99.into();
    later["over"] = stands.sequence.into();
    let put = store.update(map_key(), later.to_string().into(), stands.sequence);
    let put = put.await.expect("put");
    comes_true("no handlers", async || group(&a).mine().is_empty()).await;
    assert!(!group(&a).has_joined());
    let b = member_with(&server.url(), "b", Group::sharded(GROUP, SHARDS, waits())).await;
    epoch_of(&stranger, "b").await;
    stop(a).await;
    assert!(group(&b).mine().is_empty());
    let stands = stranger.find(&map_key()).await.expect("a map");
    assert_eq!(stands.sequence, put);
    stop(b).await;
}
