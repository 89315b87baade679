//! A candidate of another role floods the bucket with writes that are conditional on this role's
//! key: on replicas the server refuses what meets one of them on its way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::HeaderMap;
use nats_elect::{Event, Outcome};
use nats_elect_testing::NatsCluster;
use tokio::task::JoinSet;

use crate::MACHINE;
use crate::support::bucket::Stranger;
use crate::support::clock::Stamp;
use crate::support::instance::{Instance, replicated};
use crate::support::journal::Journal;
use crate::support::{BUCKET, ROLE, leased_for, ms};

/// How many writes are under way at a time, and how large each is: the larger, the longer it is on
/// its way.
const ABREAST: usize = 16;
const LARGE: usize = 60_000;
const LASTS: Duration = ms(5_000);

/// Writes to the key of another role until it is dropped.
struct Flood {
    stored: Arc<AtomicU64>,
    _writers: JoinSet<()>,
}

impl Flood {
    async fn begin(url: &str) -> Self {
        let stranger = Stranger::connect(url).await;
        let tape = stranger.tape(ROLE).await;
        let client = async_nats::connect(url).await.expect("connect");
        let stored = Arc::new(AtomicU64::new(0));
        let expected = Arc::new(AtomicU64::new(tape.last().await.sequence));
        let mut writers = JoinSet::new();
        for _ in 0..ABREAST {
            let (client, stored, expected) = (client.clone(), stored.clone(), expected.clone());
            writers.spawn(async move {
                loop {
                    let mut headers = HeaderMap::new();
                    let sequence = expected.load(Ordering::Relaxed).to_string();
                    headers.insert("Nats-Expected-Last-Subject-Sequence", sequence);
                    let on = format!("$KV.{BUCKET}.{ROLE}");
                    headers.insert("Nats-Expected-Last-Subject-Sequence-Subject", on);
                    let subject = format!("$KV.{BUCKET}.other");
                    let request =
                        client.request_with_headers(subject, headers, vec![b'x'; LARGE].into());
                    if let Ok(answer) = request.await
                        && !String::from_utf8_lossy(&answer.payload).contains("error")
                    {
                        stored.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        writers.spawn(async move {
            loop {
                let last = tape.all().last().map_or(0, |piece| piece.sequence);
                expected.store(last, Ordering::Relaxed);
                tokio::time::sleep(ms(1)).await;
            }
        });
        Self {
            stored,
            _writers: writers,
        }
    }
}

/// Heartbeats that were refused, all of them, and the longest time between two that were confirmed.
fn told(instance: &Instance, since: Stamp) -> (usize, usize, Duration) {
    let (mut refused, mut all, mut longest, mut last) = (0, 0, Duration::ZERO, since);
    for (at, event) in instance.log().all() {
        let Event::HeartbeatEnded { outcome, .. } = event else {
            continue;
        };
        if at < since {
            continue;
        }
        all += 1;
        if outcome == Outcome::Confirmed {
            longest = longest.max(at.since(last));
            last = at;
        } else {
            refused += 1;
        }
    }
    (refused, all, longest)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_writes_on_our_condition_ends_no_term_with_a_short_lease() {
    let _machine = MACHINE.lock().await;
    let cluster = NatsCluster::start(3).expect("start");
    let journal = Journal::default();
    let a = replicated("a", cluster.urls(), &journal, leased_for(ms(3000))).await;
    journal.started(ROLE, 0).await;
    let flood = Flood::begin(&cluster.node(0).url()).await;
    let begun = Stamp::now();
    let ends = |event: &Event| matches!(event, Event::TermEnding { .. });
    while Stamp::now().since(begun) < LASTS && a.log().count(ends) == 0 {
        tokio::time::sleep(ms(20)).await;
    }
    let (refused, all, longest) = told(&a, begun);
    let stored = flood.stored.load(Ordering::Relaxed);
    let version = cluster.node(0).version();
    eprintln!(
        "FLOOD server={version:?} flood={stored} refused={refused}/{all} longest={longest:?} after={:?}",
        Stamp::now().since(begun)
    );
    assert_eq!(a.log().count(ends), 0);
}
