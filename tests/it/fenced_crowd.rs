//! Many callers at once: each gets through, and of those who want the same, one.

use nats_elect::{FencedError, FencedStore};
use nats_elect_testing::NatsCluster;

use crate::support::clock::Stamp;
use crate::support::instance::{replicated, standing};
use crate::support::journal::Journal;
use crate::support::{ROLE, SOON, leased_for, ms, served};

const BATCHES: (u64, u64, u64) = (2, 12, 0);

async fn crowd(store: &FencedStore, name: &str) {
    let begin = Stamp::now();
    let callers: Vec<_> = (0..50)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move {
                let key = format!("own.{n}");
                store.put("shared", n.to_string()).await?;
                let revision = store.create(&key, "1").await?;
                store.update(&key, "2", revision).await?;
                let batch = store.batch().put("shared", "x").delete(&key);
                batch.commit().await
            })
        })
        .collect();
    for caller in callers {
        caller.await.expect("no panic").expect("written");
    }
    let took = Stamp::now().since(begin);
    eprintln!("50 callers, 200 fenced writes on {name}: {took:?}");
    // One key, of which only one can create each version.
    let racers: Vec<_> = (0..50)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.create("won", "x").await })
        })
        .collect();
    let (mut won, mut lost) = (0, 0);
    for racer in racers {
        match racer.await.expect("no panic") {
            Ok(_) => won += 1,
            Err(FencedError::Conflict { key, current }) => {
                assert_eq!((key.as_str(), current.is_some()), ("won", true));
                lost += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((won, lost), (1, 49));
    assert_eq!(store.list().await.expect("keys"), ["shared", "won"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_callers_write_at_once() {
    let (server, journal) = served();
    if server.version() < BATCHES {
        return;
    }
    let a = standing("a", server.url(), &journal, leased_for(ms(15_000))).await;
    let first = journal.started(ROLE, 0).await;
    let store = first.term().store().timeout(SOON);
    crowd(&store, "one server").await;
    assert!(a.is_leader());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_callers_write_at_once_into_three_replicas() {
    let cluster = NatsCluster::start(3).expect("start");
    if cluster.node(0).version() < BATCHES {
        return;
    }
    let journal = Journal::default();
    let a = replicated("a", cluster.urls(), &journal, leased_for(ms(15_000))).await;
    let first = journal.started(ROLE, 0).await;
    let store = first.term().store().timeout(SOON);
    crowd(&store, "three servers").await;
    assert!(a.is_leader());
}
