//! Stale leaders that write on in every way there is: not one write lands.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use nats_elect::Term;
use nats_elect_testing::{NatsCluster, NatsServer, TcpProxy, eventually};

use serde::{Deserialize, Serialize};

use super::hammer::{History, WAYS, hammer_on, make_bucket_that_keeps_all, verdict};
use crate::support::bucket::Stranger;
use crate::support::child::{self, ChildInstance, Orders, Work};
use crate::support::clock::Stamp;
use crate::support::instance::{guest, standing};
use crate::support::journal::Journal;
use crate::support::{ROLE, SOON, comes_true, leased_for, ms, served};

const BATCHES: (u64, u64, u64) = (2, 12, 0);

/// A fenced write of a child.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Wrote {
    way: String,
    unchecked: bool,
    /// When it began, and its end in one word.
    begun: u64,
    verdict: String,
}

/// Not a test: the child.
#[test]
#[ignore = "run by other tests in a process of its own"]
fn child_process() {
    child::run(hammer);
}

/// Writes under its term's fence in every way, on and on, whatever becomes of the term: with and
/// without heed of its lease.
async fn hammer(term: Term, _: Work) {
    for unchecked in [false, true] {
        hammer_on(&term, unchecked, move |blow| {
            let wrote = Wrote {
                way: blow.way.to_owned(),
                unchecked,
                begun: blow.begun.as_nanos(),
                verdict: verdict(&blow.end).to_owned(),
            };
            child::note(serde_json::to_string(&wrote).expect("a note"));
        });
    }
    term.cancelled().await;
}

/// The fenced writes that a child told of so far.
fn writes_of(child: &ChildInstance) -> Vec<Wrote> {
    let notes = child.notes().into_iter();
    notes
        .map(|note| serde_json::from_str(&note).expect("a note"))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_was_paused_through_its_successors_promotion_writes_nothing_in_any_way() {
    let server = NatsServer::start().expect("start");
    if server.version() >= BATCHES {
        a_paused_leader_writes_nothing(&server.url(), 1).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nor_does_it_into_three_replicas() {
    let cluster = NatsCluster::start(3).expect("start");
    if cluster.node(0).version() >= BATCHES {
        a_paused_leader_writes_nothing(&cluster.urls(), 3).await;
    }
}

async fn a_paused_leader_writes_nothing(url: &str, replicas: usize) {
    make_bucket_that_keeps_all(url, replicas).await;
    let journal = Journal::default();
    journal.allow_overlaps();
    let ttl = ms(10_000);
    let orders = Orders {
        program: "tests::fenced_race::child_process".to_owned(),
        ..Orders::new("child", url, ttl)
    };
    let child = ChildInstance::start(&orders, &journal);
    let first = journal.started(ROLE, 0).await;
    let b = standing("b", url, &journal, leased_for(ttl)).await;
    b.wait_until_following("child").await;
    let all_ways = |writes: &[Wrote], unchecked: bool, verdict: &str, least: usize| {
        WAYS.iter().all(|way| {
            let these = writes.iter().filter(|wrote| {
                wrote.way == *way && wrote.unchecked == unchecked && wrote.verdict == verdict
            });
            these.count() >= least
        })
    };
    comes_true("writes that land", async || {
        all_ways(&writes_of(&child), true, "landed", 20)
    })
    .await;

    // In the midst of its writes.
    child.pause();
    let second = journal.started(ROLE, 1).await;
    assert_eq!(second.instance, "b");
    let store = second.term().store();
    let name = second.fencing_token.to_string();
    store
        .put("shared", &name)
        .await
        .expect("the successor's write");
    let told = writes_of(&child).len();
    child.resume();
    eventually(SOON, "refusals by the server, of each way", async || {
        let writes = writes_of(&child).split_off(told);
        all_ways(&writes, true, "superseded", 20).then_some(())
    })
    .await;
    eventually(
        SOON,
        "refusals for want of a lease, of each way",
        async || {
            let writes = writes_of(&child).split_off(told);
            all_ways(&writes, false, "not_leader", 20).then_some(())
        },
    )
    .await;

    let stranger = Stranger::connect(url).await;
    let history = History::read(&stranger).await;
    let (first, second_fence) = (first.fencing_token.sequence, second.fencing_token.sequence);
    assert_eq!(history.terms, [first, second_fence]);
    assert!(history.sound[&first] >= 200, "{:?}", history.sound);
    let tried: Vec<_> = writes_of(&child)
        .into_iter()
        .filter(|wrote| Stamp::from_nanos(wrote.begun) > second.start)
        .collect();
    let mut ends = BTreeMap::<_, usize>::new();
    for wrote in &tried {
        *ends.entry(wrote.verdict.as_str()).or_default() += 1;
    }
    let landed = history.stale.len();
    let refused = tried.len() - ends.get("landed").copied().unwrap_or(0);
    eprintln!(
        "fenced writes after supersession, {replicas} replicas: {} tried, {refused} refused, {landed} landed ({ends:?}; {} before it)",
        tried.len(),
        history.sound[&first],
    );
    assert_eq!(landed, 0, "such as {:?}", history.stale.first());
    assert_eq!(refused, tried.len(), "{ends:?}");
    let shared = store.get("shared").await.expect("read").expect("a value");
    assert_eq!(shared.value, name.as_bytes());
    assert!(second.term().is_valid() && b.is_leader());
}

/// Both instances write all the time, in office and long after, also as if they had not heard of
/// its end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_instances_that_hammer_one_key_through_partitions_never_go_back_in_its_history() {
    let (server, journal) = served();
    if server.version() < BATCHES {
        return;
    }
    make_bucket_that_keeps_all(&server.url(), 1).await;
    let ttl = ms(2000);
    let ends = Arc::<Mutex<BTreeMap<&str, usize>>>::default();
    let join = |id: &str, proxy: &TcpProxy| {
        let ends = Arc::clone(&ends);
        guest(id, proxy.url(), &journal).working(ROLE, leased_for(ttl), move |term| {
            let ends = Arc::clone(&ends);
            async move {
                for unchecked in [false, true] {
                    let ends = Arc::clone(&ends);
                    hammer_on(&term, unchecked, move |blow| {
                        let mut ends = ends.lock().expect("no panic");
                        *ends.entry(verdict(&blow.end)).or_default() += 1;
                    });
                }
                term.cancelled().await;
                Ok(())
            }
        })
    };
    let proxies = ["a", "b"].map(|id| (id, TcpProxy::start(server.url()).expect("start")));
    let mut instances = Vec::new();
    for (id, proxy) in &proxies {
        instances.push(join(id, proxy).start().await);
    }
    let faults: [fn(&TcpProxy); 6] = [
        TcpProxy::black_hole,
        TcpProxy::cut,
        |proxy| proxy.black_hole_direction(nats_elect_testing::Direction::ToClient),
        |proxy| proxy.delay(nats_elect_testing::Direction::ToServer, ms(4000)),
        TcpProxy::black_hole,
        TcpProxy::drop_acks,
    ];
    let mut term = 0;
    for (round, fault) in faults.into_iter().enumerate() {
        let leader = journal.started(ROLE, term).await;
        let landed = || *ends.lock().expect("no panic").get("landed").unwrap_or(&0);
        let before = landed();
        comes_true("writes that land", async || landed() > before + 100).await;
        let (_, proxy) = proxies
            .iter()
            .find(|(id, _)| *id == leader.instance)
            .expect("one of two");
        fault(proxy);
        if round + 1 < faults.len() {
            journal.started(ROLE, term + 1).await;
            term += 1;
        } else {
            // Heartbeats are found to have landed: the term goes on.
            let lost = || {
                *ends
                    .lock()
                    .expect("no panic")
                    .get("unconfirmed")
                    .unwrap_or(&0)
            };
            let before = lost();
            comes_true("writes without an answer", async || lost() > before + 4).await;
        }
        // What was held back arrives in another's term.
        proxy.restore();
    }
    eventually(SOON, "refusals by the server", async || {
        let ends = ends.lock().expect("no panic");
        (ends.get("superseded").copied().unwrap_or(0) >= 100).then_some(())
    })
    .await;
    for instance in instances {
        instance.stop().await;
    }
    let stranger = Stranger::connect(&server.url()).await;
    let history = History::read(&stranger).await;
    let terms = journal.terms(ROLE);
    assert!(terms.len() >= 6, "{}", terms.len());
    assert!(history.terms.len() >= terms.len());
    for recorded in &terms {
        assert!(history.terms.contains(&recorded.fencing_token.sequence));
    }
    let sound: usize = history.sound.values().sum();
    let ends = ends.lock().expect("no panic").clone();
    eprintln!(
        "fenced writes through partitions: {} terms, {sound} messages landed under their own fence, {} after it; ends {ends:?}",
        terms.len(),
        history.stale.len(),
    );
    assert!(history.stale.is_empty(), "such as {:?}", history.stale[0]);
    assert!(ends["landed"] > 500 && ends["not_leader"] > 100, "{ends:?}");
}
