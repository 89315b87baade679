//! Every way to write under a term's fence, again and again, and what the bucket's history says of
//! it afterwards.

use std::collections::BTreeMap;

use async_nats::jetstream;
use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use async_nats::jetstream::stream::StorageType;
use futures::StreamExt;
use nats_elect::{FencedError, FencedStore, FencingToken, Term};
use nats_elect_testing::eventually;

use crate::support::bucket::Stranger;
use crate::support::clock::Stamp;
use crate::support::{BUCKET, ROLE, SOON};

/// The ways to write.
pub const WAYS: [&str; 5] = ["put", "delete", "create", "update", "batch"];

/// One call.
#[derive(Debug)]
pub struct Blow {
    pub way: &'static str,
    pub begun: Stamp,
    pub end: Result<(), FencedError>,
}

impl Blow {
    async fn of<T>(way: &'static str, call: impl Future<Output = Result<T, FencedError>>) -> Self {
        let begun = Stamp::now();
        let end = call.await.map(drop);
        Self { way, begun, end }
    }
}

/// Writes in every way there is, once each. The number must be new each time within the term.
pub async fn hammer(store: &FencedStore, token: FencingToken, number: u64) -> Vec<Blow> {
    let name = token.to_string();
    let update = async {
        // A stale leader can read what to expect: then nothing but the fence is in its way.
        let standing = store.get("shared").await?;
        let revision = standing.map_or(0, |entry| entry.revision);
        store.update("shared", &name, revision).await
    };
    let batch = store
        .batch()
        .put("batched", &name)
        .create(&format!("batch.{number}.{name}"), &name)
        .delete(&format!("gone.{name}"));
    let (gone, new) = (format!("gone.{name}"), format!("create.{number}.{name}"));
    vec![
        Blow::of("put", store.put("shared", &name)).await,
        Blow::of("delete", store.delete(&gone)).await,
        Blow::of("create", store.create(&new, &name)).await,
        Blow::of("update", update).await,
        Blow::of("batch", batch.commit()).await,
    ]
}

/// How a call ended, in one word.
pub fn verdict(end: &Result<(), FencedError>) -> &'static str {
    match end {
        Ok(()) => "landed",
        Err(FencedError::Superseded { .. }) => "superseded",
        Err(FencedError::NotLeader) => "not_leader",
        Err(FencedError::Conflict { .. }) => "conflict",
        Err(FencedError::Unconfirmed { .. }) => "unconfirmed",
        Err(FencedError::Unavailable { .. }) => "unavailable",
        Err(other) => panic!("unexpected: {other}"),
    }
}

/// Makes the bucket so that it forgets nothing.
pub async fn make_bucket_that_keeps_all(url: &str, replicas: usize) {
    let stranger = Stranger::connect(url).await;
    let config = jetstream::stream::Config {
        name: format!("KV_{BUCKET}"),
        subjects: vec![format!("$KV.{BUCKET}.>")],
        max_messages_per_subject: -1,
        storage: StorageType::Memory,
        num_replicas: replicas,
        allow_rollup: true,
        allow_atomic_publish: true,
        ..Default::default()
    };
    // The leader of a cluster that has just started may move once more, and forget the request.
    eventually(SOON, "a stream", async || {
        stranger.jetstream.create_stream(config.clone()).await.ok()
    })
    .await;
}

/// What was found in a bucket's history.
#[derive(Debug, Default)]
pub struct History {
    /// Fence records, in the order in which they were stored.
    pub terms: Vec<u64>,
    /// Writes that landed under their own fence, by term.
    pub sound: BTreeMap<u64, usize>,
    /// Writes that landed after a newer fence record: subject, sequence, the writer's fence.
    pub stale: Vec<(String, u64, u64)>,
}

impl History {
    /// Reads all that was ever stored.
    pub async fn read(stranger: &Stranger) -> Self {
        let mut stream = stranger.stream().await;
        let all = stream.info().await.expect("its state").state.messages;
        let config = pull::OrderedConfig {
            deliver_policy: DeliverPolicy::All,
            ..Default::default()
        };
        let consumer = stream.create_consumer(config).await.expect("a consumer");
        let mut messages = consumer.messages().await.expect("its messages");
        let fence = format!("$KV.{BUCKET}._fence.{ROLE}");
        let data = format!("$KV.{BUCKET}._data.{ROLE}.");
        let mut history = Self::default();
        for _ in 0..all {
            let message = messages
                .next()
                .await
                .expect("a message")
                .expect("a message");
            let sequence = message.info().expect("its info").stream_sequence;
            if *message.subject == *fence {
                history.terms.push(sequence);
            } else if let Some(key) = message.subject.strip_prefix(&*data) {
                let name = std::str::from_utf8(&message.payload).expect("a token");
                // A delete has its writer's token in its key.
                let name = if name.is_empty() {
                    key.rsplit('.').next().expect("a part")
                } else {
                    name
                };
                let token: FencingToken = name.parse().expect("a token");
                if history.terms.last() == Some(&token.sequence) {
                    *history.sound.entry(token.sequence).or_default() += 1;
                } else {
                    history
                        .stale
                        .push((message.subject.to_string(), sequence, token.sequence));
                }
            }
        }
        history
    }
}

/// Writes for as long as its runtime lasts, whatever becomes of the term, and tells of each call.
pub fn hammer_on(term: &Term, unchecked: bool, tell: impl Fn(Blow) + Send + 'static) {
    let token = term.fencing_token();
    let mut store = term.store().timeout(crate::support::ms(500));
    if unchecked {
        store = store.unchecked();
    }
    let first = if unchecked { 1_000_000 } else { 0 };
    tokio::spawn(async move {
        for number in first.. {
            hammer(&store, token, number)
                .await
                .into_iter()
                .for_each(&tell);
            tokio::time::sleep(crate::support::ms(2)).await;
        }
    });
}
