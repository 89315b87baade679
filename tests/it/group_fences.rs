//! Groups: what the owner of a unit writes by `Term::store()` stays, and what an earlier
//! owner sends late does not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use nats_elect::{BoxError, FencedError, FencedStore, Group, RoleManager, Term};
use nats_elect_testing::eventually;
use serde_json::Value;

use crate::support::bucket::Stranger;
use crate::support::instance::Recorded;
use crate::support::journal::Journal;
use crate::support::member::{GROUP, all_owned, group, member_with, stop};
use crate::support::{BUCKET, SOON, arrived, comes_true, ms, proxied, served};

async fn member<F, Fut>(url: &str, id: &str, shards: u32, journal: &Journal, work: F) -> RoleManager
where
    F: Fn(Term) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), BoxError>> + Send + 'static,
{
    let handler = Recorded::working(id, journal, work);
    member_with(url, id, Group::sharded(GROUP, shards, handler)).await
}

/// Does nothing by itself.
async fn waits(term: Term) -> Result<(), BoxError> {
    term.cancelled().await;
    Ok(())
}

fn unit(shard: u32) -> String {
    format!("{GROUP}/{shard}")
}

fn fence_key(shard: u32) -> String {
    format!("_gfence.{GROUP}.1.{shard}")
}

/// What a handler did not get written.
#[derive(Clone, Default)]
struct Failures(Arc<Mutex<Vec<String>>>);

impl Failures {
    fn note(&self, term: &Term, what: &str, error: &FencedError) {
        let failure = format!("{} {what}: {error:?}", term.role());
        self.0.lock().expect("no panic").push(failure);
    }

    fn assert_none(&self) {
        let failures = self.0.lock().expect("no panic");
        assert!(failures.is_empty(), "{failures:?}");
    }
}

async fn number(store: &FencedStore, key: &str) -> Result<u64, FencedError> {
    let entry = store.get(key).await?;
    let text = entry.map(|it| String::from_utf8(it.value).expect("text"));
    Ok(text.map_or(0, |text| text.parse().expect("a number")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_owner_reads_what_the_last_one_wrote_and_writes_on() {
    let (server, journal) = served();
    let failures = Failures::default();
    let counts = |term: Term, failures: Failures| async move {
        let counted = async {
            let store = term.store();
            let terms = number(&store, "terms").await?;
            store.put("terms", (terms + 1).to_string()).await
        };
        if let Err(error) = counted.await {
            failures.note(&term, "counts", &error);
        }
        term.cancelled().await;
        Ok(())
    };
    let join = async |id: &str| {
        let failures = failures.clone();
        let work = move |term| counts(term, failures.clone());
        member(&server.url(), id, 8, &journal, work).await
    };
    let a = join("a").await;
    all_owned(&[&a], 8).await;
    let b = join("b").await;
    comes_true("as many shards on each", async || {
        [&a, &b].iter().all(|it| group(it).mine().len() == 4)
    })
    .await;
    stop(a).await;
    all_owned(&[&b], 8).await;
    for shard in 0..8 {
        comes_true("as many as there were terms", async || {
            let terms = journal.terms(&unit(shard));
            let store = terms.last().expect("a term").term().store();
            number(&store, "terms").await == Ok(terms.len() as u64)
        })
        .await;
    }
    failures.assert_none();
    stop(b).await;
}

/// Each unit's fence is raised once for each of its terms that write, whatever becomes of the map
/// meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn units_write_on_while_the_map_changes_elsewhere() {
    const SHARDS: u32 = 24;
    let (server, journal) = served();
    // `update` is a batch.
    if server.version() < (2, 12, 0) {
        return;
    }
    let stranger = Stranger::connect(&server.url()).await;
    let fences = format!("$KV.{BUCKET}._gfence.{GROUP}.>");
    let mut raised = stranger
        .jetstream
        .client()
        .subscribe(fences)
        .await
        .expect("subscribed");
    arrived(&stranger.jetstream.client()).await;
    let failures = Failures::default();
    let wrote = Arc::<Mutex<Vec<(String, String)>>>::default();
    let writes = |term: Term, failures: Failures, wrote: Arc<Mutex<Vec<_>>>| async move {
        let store = term.store();
        let (shard, token) = (term.unit().expect("a unit"), term.fencing_token());
        let mut revision = None;
        while !term.is_cancelled() {
            let written = match revision {
                None => store.put("beats", token.to_string()).await,
                Some(revision) => store.update("beats", "again", revision).await,
            };
            match written {
                Ok(written) => {
                    if revision.replace(written).is_none() {
                        let term = (shard.to_owned(), token.to_string());
                        wrote.lock().expect("no panic").push(term);
                    }
                }
                // Its own unit moves.
                Err(_) if term.is_cancelled() => break,
                Err(error) => {
                    failures.note(&term, "writes", &error);
                    break;
                }
            }
            tokio::time::sleep(ms(5)).await;
        }
        term.cancelled().await;
        Ok(())
    };
    let join = async |id: &str| {
        let (failures, wrote) = (failures.clone(), Arc::clone(&wrote));
        let work = move |term| writes(term, failures.clone(), Arc::clone(&wrote));
        member(&server.url(), id, SHARDS, &journal, work).await
    };
    let a = join("a").await;
    all_owned(&[&a], SHARDS).await;
    for _ in 0..3 {
        let b = join("b").await;
        comes_true("as many shards on each", async || {
            [&a, &b].iter().all(|it| group(it).mine().len() == 12)
        })
        .await;
        stop(b).await;
        all_owned(&[&a], SHARDS).await;
    }
    stop(a).await;
    failures.assert_none();

    arrived(&stranger.jetstream.client()).await;
    let mut tokens = BTreeMap::<String, BTreeSet<String>>::new();
    while let Ok(Some(message)) = tokio::time::timeout(ms(100), raised.next()).await {
        let fence: Value = serde_json::from_slice(&message.payload).expect("a fence");
        let token = fence["token"].as_str().expect("a token").to_owned();
        let shard = message.subject.rsplit('.').next().expect("a shard");
        let is_first = tokens.entry(shard.to_owned()).or_default().insert(token);
        assert!(is_first, "a fence of {shard} was raised twice in a term");
    }
    for (shard, token) in &*wrote.lock().expect("no panic") {
        assert!(tokens[shard].contains(token), "{shard}: {token}");
    }
    let mut stayed = 0;
    for shard in 0..SHARDS {
        let terms = journal.terms(&unit(shard));
        let of_terms = terms.iter().map(|it| it.fencing_token.to_string());
        // A term that is over before its first write raises none.
        let raised = &tokens[&shard.to_string()];
        assert!(raised.is_subset(&of_terms.collect()), "{raised:?}");
        stayed += usize::from(terms.len() == 1);
    }
    assert!(stayed > 0, "each unit moved");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_is_held_back_is_refused_once_the_next_owner_has_opened_its_store() {
    let (server, proxy, journal) = proxied();
    let a = member(&proxy.url(), "a", 1, &journal, waits).await;
    let first = journal.started(&unit(0), 0).await;
    let store = first.term().store().timeout(SOON);
    store.put("key", "first").await.expect("written");
    let b = member(&server.url(), "b", 1, &journal, waits).await;
    comes_true("an owner in the eyes of b", async || {
        group(&b).owner("0").is_some()
    })
    .await;
    let stranger = Stranger::connect(&server.url()).await;
    let client = stranger.jetstream.client();
    let subject = format!("$KV.{BUCKET}._gdata.{GROUP}.1.0.key");
    let mut sent = client.subscribe(subject).await.expect("subscribed");
    arrived(&client).await;

    proxy.black_hole();
    // No task of the term: nothing aborts it.
    let late = tokio::spawn(async move { store.put("key", "late").await });
    let second = journal.started(&unit(0), 1).await;
    assert_eq!(second.instance, "b");
    let store = second.term().store();
    let entry = store.get("key").await.expect("read").expect("a value");
    assert_eq!(entry.value, b"first");
    proxy.restore();
    let held_back = async { while sent.next().await.expect("a connection").payload != "late" {} };
    let comes = tokio::time::timeout(SOON, held_back).await;
    comes.expect("the late write in time");
    // The server has taken the late one before.
    arrived(&client).await;
    let entry = store.get("key").await.expect("read").expect("a value");
    assert_eq!(entry.value, b"first");
    let late = late.await.expect("no panic");
    assert!(late.is_err(), "{late:?}");
    store.put("key", "second").await.expect("written");
    stop(b).await;
    stop(a).await;
}

fn is_over<T: std::fmt::Debug>(written: &Result<T, FencedError>) {
    let is_over = matches!(
        written,
        Err(FencedError::Superseded { .. } | FencedError::NotLeader)
    );
    assert!(is_over, "{written:?}");
}

/// No other unit hears of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fence_that_somebody_touches_ends_the_units_term_and_the_next_one_raises_it_anew() {
    let (server, journal) = served();
    let a = member(&server.url(), "a", 2, &journal, waits).await;
    all_owned(&[&a], 2).await;
    let stranger = Stranger::connect(&server.url()).await;
    let kv = stranger.store().await;
    let key = fence_key(0);
    let mut former = None;
    for (index, hand) in [
        "delete",
        "rubbish",
        "put back",
        "of another bucket",
        "purge",
    ]
    .into_iter()
    .enumerate()
    {
        let term = journal.started(&unit(0), index).await;
        let store = term.term().store();
        assert_eq!(number(&store, "n").await, Ok(index as u64), "{hand}");
        let next = (index + 1).to_string();
        store.put("n", next).await.expect("written");
        let fence = stranger.find(&key).await.expect("a fence").payload;
        match hand {
            "delete" => kv.delete(&key).await.expect("deleted"),
            "purge" => {
                let stream = stranger.stream().await;
                let purge = stream.purge().filter(format!("$KV.{BUCKET}.{key}"));
                assert!(purge.await.expect("purged").success);
            }
            "put back" => {
                let former = former.clone().expect("a former one");
                kv.put(&key, former).await.expect("put");
            }
            "of another bucket" => {
                let mut fence: Value = serde_json::from_slice(&fence).expect("JSON");
                fence["token"] = "f".repeat(32).into();
                kv.put(&key, fence.to_string().into()).await.expect("put");
            }
            rubbish => {
                kv.put(&key, rubbish.into()).await.expect("put");
            }
        }
        former = Some(fence);
        is_over(&store.put("n", "lost").await);
        is_over(&store.delete("n").await);
        let ended = journal.ended(&unit(0), index).await;
        assert!(!ended.term().is_valid());
    }
    let last = journal.started(&unit(0), 5).await;
    let store = last.term().store();
    assert_eq!(number(&store, "n").await, Ok(5));
    assert_eq!(store.list().await.expect("keys"), ["n"]);
    assert!(journal.is_in_term(&unit(1), 0));
    stop(a).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fence_outlives_a_restart_of_the_server() {
    let (mut server, journal) = served();
    let a = member(&server.url(), "a", 4, &journal, waits).await;
    all_owned(&[&a], 4).await;
    for shard in 0..4 {
        let store = journal.started(&unit(shard), 0).await.term().store();
        store.put("n", "1").await.expect("written");
    }
    server.restart().expect("restart");
    for shard in 0..4 {
        eventually(SOON, "a write", async || {
            let running = journal.running(&unit(shard))?;
            let store = running.term().store().timeout(Duration::from_secs(1));
            let read = number(&store, "n").await.ok()?;
            assert!([1, 2].contains(&read), "{read}");
            store.put("n", "2").await.ok()
        })
        .await;
    }
    stop(a).await;
}
