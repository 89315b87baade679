use std::collections::BTreeMap;

use async_nats::jetstream;
use futures::StreamExt;

use super::*;
use crate::store::Delivery;
use crate::store::watch::Watch;
use nats_elect_core::record::{Content, Entry};
use nats_elect_testing::eventually;

impl Watch {
    /// Returns the next message of a role's key.
    async fn next_entry(&mut self) -> (RoleName, Entry) {
        loop {
            if let Delivery::Entry(role, entry) = self.next().await.unwrap() {
                return (role, entry);
            }
        }
    }

    /// Returns the next thing that it tells. It also tells of a silence, which a busy machine makes.
    async fn told(&mut self) -> Delivery {
        loop {
            match self.next().await.unwrap() {
                Delivery::Idle => {}
                told => return told,
            }
        }
    }

    /// Returns the error that ends the watch, after any messages before it.
    async fn ended(&mut self) -> StoreError {
        loop {
            if let Err(error) = self.next().await {
                return error;
            }
        }
    }
}

#[tokio::test]
async fn a_watch_begins_with_stored_messages_and_continues_with_new_ones() {
    let lab = Lab::new().await;
    let (a, b) = (role("a"), role("b/1"));
    let kv = lab.kv().await;
    let at_a = lab.put_record(&a, 0, 1).await.unwrap();
    let at_a = lab.put_record(&a, at_a, 2).await;
    let at_a = at_a.unwrap();
    for key in ["_fence.a", "_mine", "dotted.key", "_data.a.x"] {
        kv.put(key, "x".into()).await.unwrap();
    }

    let mut watch = lab.bucket.watch(TIMEOUT).await.unwrap();
    let (name, entry) = watch.next_entry().await;
    assert_eq!((name, entry.revision), (a.clone(), at_a));
    assert_eq!(entry.content.nonce(), Some(nonce(2)));

    let at_b = lab.put_record(&b, 0, 3).await.unwrap();
    kv.put("_other", "x".into()).await.unwrap();
    let released = lab.release(&a, at_a, 4).await;
    let mut seen = Vec::new();
    for _ in 0..2 {
        seen.push(watch.next_entry().await);
    }
    // An earlier purge would take the stored message from the watch.
    lab.allow_purges().await;
    kv.purge("b/1").await.unwrap();
    seen.push(watch.next_entry().await);
    assert_eq!((&seen[0].0, seen[0].1.revision), (&b, at_b));
    assert_eq!((&seen[1].0, seen[1].1.revision), (&a, released.unwrap()));
    assert_eq!(seen[1].1.content, Content::Release(release(4)));
    assert_eq!(seen[2].1.content, Content::ForeignMarker);
}

#[tokio::test]
async fn a_survey_shows_fence_keys_and_reports_when_it_has_caught_up() {
    let lab = Lab::new().await;
    let epoch = lab.info.epoch;
    let (mut empty, answered) = lab.bucket.survey(epoch, TIMEOUT).await.unwrap();
    assert!(answered.is_some(), "a server tells the time");
    let another = lab.bucket.survey(epoch - 1, TIMEOUT).await.err();
    assert_eq!(another, Some(StoreError::another_bucket()));
    assert!(empty.has_caught_up());
    let kv = lab.kv().await;
    for key in ["a", "_fence.a", "_mine", "_data.a.x", "b", "_fence.b"] {
        kv.put(key, "x".into()).await.unwrap();
    }
    let at_a = kv.put("a", "y".into()).await.unwrap();
    let (mut survey, _) = lab.bucket.survey(epoch, TIMEOUT).await.unwrap();
    assert!(!survey.has_caught_up());
    let (mut roles, mut fences) = (BTreeMap::new(), BTreeMap::new());
    while !survey.has_caught_up() {
        match survey.next().await.unwrap() {
            Delivery::Entry(role, entry) => drop(roles.insert(role, entry.revision)),
            Delivery::Fence(role, fence) => drop(fences.insert(role, fence.revision)),
            Delivery::Nothing | Delivery::Idle => {}
        }
    }
    let names = |map: &BTreeMap<RoleName, u64>| map.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&roles), [role("a"), role("b")]);
    assert_eq!(names(&fences), [role("a"), role("b")]);
    assert_eq!(roles["a"], at_a);
    assert_eq!(roles.len() + fences.len(), 4);

    kv.put("_fence.c", "x".into()).await.unwrap();
    let told = survey.told().await;
    assert!(
        matches!(&told, Delivery::Fence(name, _) if *name == role("c")),
        "{told:?}"
    );
    assert!(survey.has_caught_up());
    let told = empty.told().await;
    assert!(
        matches!(&told, Delivery::Entry(name, _) if *name == role("a")),
        "{told:?}"
    );
}

#[tokio::test]
async fn a_survey_catches_up_with_every_role_despite_removals_and_other_keys() {
    let lab = Lab::new().await;
    let context = jetstream::new(lab.client.clone());
    for storage in [Storage::File, Storage::Memory] {
        context.delete_key_value("leaders").await.unwrap();
        let create = IfMissing::Create {
            replicas: 1,
            storage,
        };
        let (bucket, info) = open(&lab.client, create).await.unwrap();
        let kv = lab.kv().await;
        for n in 0..50 {
            for key in [format!("r{n}"), format!("_fence.r{n}")] {
                kv.put(key, "x".into()).await.unwrap();
            }
        }
        for key in ["r7", "_data.r7.x", "r8", "_fence.r9", "_data.r7.y"] {
            kv.put(key, "y".into()).await.unwrap();
        }
        let stream = context.get_stream("KV_leaders").await.unwrap();
        // The role whose key was written last.
        let purge = stream.purge().filter("$KV.leaders.r8");
        purge.await.unwrap();
        let (mut survey, _) = bucket.survey(info.epoch, TIMEOUT).await.unwrap();
        let (mut roles, mut fences) = (0, 0);
        while !survey.has_caught_up() {
            match survey.next().await.unwrap() {
                Delivery::Entry(..) => roles += 1,
                Delivery::Fence(..) => fences += 1,
                Delivery::Nothing => {}
                Delivery::Idle => panic!("{storage:?}: it waits for what is not there"),
            }
        }
        assert_eq!((roles, fences), (49, 50));
    }
}

#[tokio::test]
async fn an_idle_watch_stays_alive() {
    let lab = Lab::new().await;
    let mut watch = lab.bucket.watch(TIMEOUT).await.unwrap();
    let idle = tokio::time::timeout(Duration::from_secs(4), watch.next_entry()).await;
    assert!(idle.is_err(), "{idle:?}");
    let r = role("r");
    lab.put_record(&r, 0, 1).await.unwrap();
    assert_eq!(watch.next_entry().await.0, r);
}

#[tokio::test]
async fn a_watch_of_thousands_of_roles_loses_none() {
    const ROLES: usize = 3000;
    let lab = Lab::new().await;
    // Together they exceed the amount that the server sends before it waits for the watcher.
    let mut large = record(1);
    large.meta.insert("padding".into(), "x".repeat(3000));
    let claims = (0..ROLES).map(async |n| {
        let r = role(&format!("role-{n}"));
        let at = lab.bucket.put_record(&r, 0, &large, TIMEOUT).await;
        (r, at.unwrap())
    });
    let stands: BTreeMap<RoleName, u64> = futures::stream::iter(claims)
        .buffer_unordered(200)
        .collect()
        .await;
    let mut watch = lab.bucket.watch(TIMEOUT).await.unwrap();
    // A slow reader does not lose anything either.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let mut seen = BTreeMap::new();
    for _ in 0..ROLES {
        let (name, entry) = watch.next_entry().await;
        seen.insert(name, entry.revision);
    }
    assert!(seen == stands);
}

#[tokio::test]
async fn a_watch_ends_when_the_bucket_is_deleted() {
    let lab = Lab::new().await;
    let mut watch = lab.bucket.watch(TIMEOUT).await.unwrap();
    let context = jetstream::new(lab.client.clone());
    context.delete_key_value("leaders").await.unwrap();
    let (_, info) = open(&lab.client, CREATE).await.unwrap();
    assert_ne!(info.epoch, lab.info.epoch);
    let end = tokio::time::timeout(TIMEOUT, watch.ended()).await;
    let end = end.expect("its end");
    assert!(end.is_transient(), "{end:?}");

    context.delete_key_value("leaders").await.unwrap();
    let again = lab.bucket.watch(TIMEOUT).await.err();
    assert!(
        matches!(again, Some(StoreError::BucketMissing { .. })),
        "{again:?}"
    );
}

#[tokio::test]
async fn a_watch_ends_when_the_server_was_restarted() {
    let mut lab = Lab::new().await;
    let mut watch = lab.bucket.watch(TIMEOUT).await.unwrap();
    lab.server.kill();
    lab.server.restart().unwrap();
    let end = tokio::time::timeout(TIMEOUT, watch.ended()).await;
    assert!(end.is_ok(), "it goes on");
    let mut watch = eventually(TIMEOUT, "another watch", async || {
        lab.bucket.watch(TIMEOUT).await.ok()
    })
    .await;
    let r = role("r");
    lab.put_record(&r, 0, 1).await.unwrap();
    assert_eq!(watch.next_entry().await.0, r);
}
