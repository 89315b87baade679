//! A race between fence records and writes under the fences before them: which messages the server
//! stores, and in which order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use async_nats::jetstream::stream::{Config, StorageType};
use futures::StreamExt;

use super::*;
use crate::store::DataWrite;
use nats_elect_core::name::DataKey;
use nats_elect_testing::{NatsCluster, eventually};

/// The number of terms. They follow each other as fast as they can.
const TERMS: u64 = 100;
const WRITERS: usize = 4;

const fn is_refused(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Conflict { .. } | StoreError::Contended(_) | StoreError::Unavailable(_)
    )
}

/// Creates a bucket that keeps all messages.
async fn bucket(url: &str, replicas: usize) -> Bucket {
    let client = async_nats::connect(url.split(',').collect::<Vec<_>>());
    let client = client.await.unwrap();
    let config = Config {
        name: "KV_leaders".into(),
        subjects: vec!["$KV.leaders.>".into()],
        max_messages_per_subject: -1,
        num_replicas: replicas,
        storage: StorageType::File,
        allow_atomic_publish: true,
        ..Config::default()
    };
    let context = jetstream::new(client.clone());
    // A cluster that has just started may answer late.
    eventually(TIMEOUT, "the stream", async || {
        context.get_or_create_stream(config.clone()).await.ok()
    })
    .await;
    open(&client, IfMissing::Fail).await.unwrap().0
}

/// One term after the other writes its fence record. Meanwhile writers write under the fence that
/// they received last.
async fn race(urls: &[String], replicas: usize, batches: bool) {
    let led = bucket(&urls[0], replicas).await;
    let r = role("r");
    let fence = Arc::new(AtomicU64::new(0));
    let landed = Arc::new(AtomicU64::new(0));
    let over = Arc::new(AtomicBool::new(false));
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        let (fence, over, landed) = (Arc::clone(&fence), Arc::clone(&over), Arc::clone(&landed));
        let bucket = bucket(&urls[writer % urls.len()], replicas).await;
        let r = r.clone();
        writers.push(tokio::spawn(async move {
            let key = DataKey::new(&format!("k{writer}")).unwrap();
            while !over.load(Ordering::Relaxed) {
                let at = fence.load(Ordering::Relaxed);
                let value = at.to_string();
                let written = if batches && writer % 2 == 1 {
                    let write = DataWrite {
                        key: key.clone(),
                        value: Some(value.into()),
                        over: None,
                    };
                    bucket
                        .write_batch(&r.clone().into(), at, &[write], TIMEOUT)
                        .await
                } else {
                    let value = Some(value.as_bytes());
                    bucket
                        .write_fenced(&r.clone().into(), at, &key, value, TIMEOUT)
                        .await
                };
                match written {
                    Ok(_) => {
                        landed.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(error) if is_refused(&error) => {}
                    Err(other) => panic!("{other:?}"),
                }
            }
        }));
    }
    let mut fenced = 0;
    for beat in 0..TERMS {
        fenced = loop {
            match led.fence(&r, fenced, &fence_record(beat), TIMEOUT).await {
                Ok(fenced) => break fenced,
                Err(error) => assert!(error.is_transient(), "{error:?}"),
            }
        };
        fence.store(fenced, Ordering::Relaxed);
        // Some terms end at once, in others a few writes land.
        let enough = landed.load(Ordering::Relaxed) + beat % 5;
        while landed.load(Ordering::Relaxed) < enough {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    over.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
    let landed = landed.load(Ordering::Relaxed);
    let stale = stale(&led).await;
    eprintln!(
        "fenced writes against {TERMS} fence records on {replicas} replicas: {landed} landed, {} of them after a newer one",
        stale.len()
    );
    assert!(landed > TERMS, "{landed}");
    assert!(stale.is_empty(), "such as {:?}", stale[0]);
}

/// Returns the data stored behind a newer fence record than its writer's, as the data's sequence,
/// the writer's fence, and the newest fence.
async fn stale(bucket: &Bucket) -> Vec<(u64, u64, u64)> {
    let context = jetstream::new(bucket.client().clone());
    let mut stream = context.get_stream("KV_leaders").await.unwrap();
    let all = stream.info().await.unwrap().state.messages;
    let config = pull::OrderedConfig {
        deliver_policy: DeliverPolicy::All,
        ..Default::default()
    };
    let consumer = stream.create_consumer(config).await.unwrap();
    let mut messages = consumer.messages().await.unwrap();
    let mut newest = 0;
    let mut stale = Vec::new();
    for _ in 0..all {
        let message = messages.next().await.unwrap().unwrap();
        let sequence = message.info().unwrap().stream_sequence;
        if *message.subject == *"$KV.leaders._fence.r" {
            newest = sequence;
        } else if message.subject.starts_with("$KV.leaders._data.") {
            let fence = std::str::from_utf8(&message.payload).unwrap();
            let fence = fence.parse().unwrap();
            if fence != newest {
                stale.push((sequence, fence, newest));
            }
        }
    }
    stale
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_write_lands_behind_a_newer_fence_record_on_one_server() {
    let server = NatsServer::start().unwrap();
    let batches = server.version() >= BATCHES;
    race(&[server.url()], 1, batches).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_write_lands_behind_a_newer_fence_record_on_three_servers() {
    let cluster = NatsCluster::start(3).unwrap();
    let version = cluster.node(0).version();
    let urls: Vec<_> = cluster.nodes().iter().map(NatsServer::url).collect();
    race(&urls, 3, version >= BATCHES).await;
}

/// While two of three servers are stopped, nothing is committed. A fence record and the writes
/// after it are then in flight together, in this order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_meets_a_newer_fence_record_on_its_way_is_refused() {
    let cluster = NatsCluster::start(3).unwrap();
    let version = cluster.node(0).version();
    let first = bucket(&cluster.node(0).url(), 3).await;
    let leader = cluster.wait_for_stream_leader("KV_leaders").unwrap();
    // All go over one connection to the server that leads. It takes them in the order of sending.
    let bucket = bucket(&cluster.node(leader).url(), 3).await;
    drop(first);
    let r = role("r");
    let (mut fenced, mut landed, mut refused) = (0, 0, 0);
    for beat in 1..=20 {
        let fence = fence_record(beat);
        let standing = bucket.fence(&r, fenced, &fence, TIMEOUT).await.unwrap();
        let followers = (0..3).filter(|index| *index != leader);
        for index in followers.clone() {
            cluster.node(index).pause().unwrap();
        }
        let key = DataKey::new("k").unwrap();
        let value = standing.to_string();
        let batch = [DataWrite {
            key: DataKey::new("b").unwrap(),
            value: Some(value.clone().into()),
            over: None,
        }];
        let next = fence_record(1000 + beat);
        let newer = bucket.fence(&r, standing, &next, TIMEOUT);
        let owner = r.clone().into();
        let single = bucket.write_fenced(&owner, standing, &key, Some(value.as_bytes()), TIMEOUT);
        let batched = async {
            if version >= BATCHES && beat % 2 == 0 {
                Some(
                    bucket
                        .write_batch(&r.clone().into(), standing, &batch, TIMEOUT)
                        .await,
                )
            } else {
                None
            }
        };
        let single = async {
            if beat % 2 == 1 {
                Some(single.await)
            } else {
                None
            }
        };
        let going_on = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            for index in followers {
                cluster.node(index).resume().unwrap();
            }
        };
        let (newer, single, batched, ()) = tokio::join!(biased; newer, single, batched, going_on);
        fenced = newer.unwrap();
        for end in [single, batched].into_iter().flatten() {
            match end {
                Ok(_) => landed += 1,
                Err(error) if is_refused(&error) => refused += 1,
                Err(other) => panic!("{other:?}"),
            }
        }
    }
    let stale = stale(&bucket).await;
    eprintln!(
        "fenced writes that met a newer fence record on its way: {refused} refused, {landed} landed, {} of them behind it",
        stale.len()
    );
    assert!(stale.is_empty(), "such as {:?}", stale[0]);
    assert!(refused > 0);
}
