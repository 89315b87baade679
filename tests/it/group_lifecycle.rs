//! A member keeps its handlers, its lease and its bucket in order, however they end.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nats_elect::{
    BoxError, Error, Group, GroupHandle, MemberConfig, Release, RoleHandler, RoleManager,
    StopOptions, Term, handler_fn,
};
use nats_elect_testing::{NatsServer, eventually};
use tokio::sync::watch;

use crate::support::bucket::Stranger;
use crate::support::clock::Stamp;
use crate::support::instance::never;
use crate::support::logs::{self, records};
use crate::support::member::{
    GROUP, LEASE, all_owned, epoch_of, evenly_owned, group, joining, member, member_with, stop,
    waits,
};
use crate::support::{BUCKET, SOON, comes_true, ms, served};

const LONGEST_LEASE: Duration = ms(60_000);

/// The name by which a journal has the terms of a shard.
fn shard(number: u32) -> String {
    format!("{GROUP}/{number}")
}

/// The handlers of an instance. They end when they are told to and may.
#[derive(Clone, Default)]
struct Obstinate {
    begun: Arc<AtomicUsize>,
    told: Arc<AtomicUsize>,
    is_held: watch::Sender<bool>,
}

impl Obstinate {
    async fn member(&self, server: &NatsServer, id: &str, shards: u32) -> RoleManager {
        let this = self.clone();
        let work = move |term: Term| {
            let this = this.clone();
            async move {
                this.begun.fetch_add(1, Ordering::SeqCst);
                term.cancelled().await;
                this.told.fetch_add(1, Ordering::SeqCst);
                let mut held = this.is_held.subscribe();
                held.wait_for(|held| !held).await?;
                Ok::<(), BoxError>(())
            }
        };
        let sharded = Group::sharded(GROUP, shards, handler_fn(work));
        // Time for handlers that are held: it aborts none of them.
        let patient = MemberConfig::default().ttl(LEASE * 12).stop_budget(SOON);
        let joining = joining(&server.url(), id, sharded).member(patient);
        joining.start().await.expect("start")
    }

    /// How many handlers have begun, and how many were told to end.
    fn counts(&self) -> (usize, usize) {
        let told = self.told.load(Ordering::SeqCst);
        (self.begun.load(Ordering::SeqCst), told)
    }

    /// Waits until that many handlers run which nobody told to end. Returns the counts. A unit acts
    /// on an instance a moment before its handler begins.
    async fn are_running(&self, handlers: usize) -> (usize, usize) {
        eventually(SOON, "handlers that run", async || {
            let (begun, told) = self.counts();
            (begun - told == handlers).then_some((begun, told))
        })
        .await
    }

    async fn are_told(&self, terms: usize) {
        comes_true("handlers that are told to end", async || {
            self.counts().1 == terms
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_stops_and_keeps_its_units_begins_no_term_on_units_given_meanwhile() {
    let server = NatsServer::start().expect("start");
    let (of_a, of_b) = (Obstinate::default(), Obstinate::default());
    let a = of_a.member(&server, "a", 4).await;
    let b = of_b.member(&server, "b", 4).await;
    evenly_owned(&[&a, &b], 4).await;
    let (begun_on_a, told_on_a) = of_a.are_running(2).await;
    let (_, told_on_b) = of_b.are_running(2).await;
    of_a.is_held.send_replace(true);
    of_b.is_held.send_replace(true);
    let kept = StopOptions::default().release(Release::Keep).timeout(SOON);
    let meanwhile = async {
        of_b.are_told(told_on_b + 2).await;
        let given = async {
            of_a.are_told(told_on_a + 2).await;
            of_b.is_held.send_replace(false);
            // To nobody, if a heartbeat of it came late just before.
            eventually(SOON, "all shards given to it", async || {
                let is_its = |shard: u32| {
                    let owner = group(&a).owner(&shard.to_string());
                    owner.is_none_or(|it| it.instance_id == "a")
                };
                (0..4).all(is_its).then_some(())
            })
            .await;
            of_a.is_held.send_replace(false);
        };
        let (stopped, ()) = tokio::join!(a.stop(kept), given);
        stopped.expect("its handlers have ended");
    };
    let (stopped, ()) = tokio::join!(b.stop(StopOptions::default()), meanwhile);
    stopped.expect("it gave its shards away");
    assert_eq!(of_a.counts().0, begun_on_a, "no other term");
}

/// Otherwise it would have no owner for as long as that handler hangs.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_unit_that_comes_back_to_a_handler_that_hangs_is_for_the_next_instance() {
    let logs = logs::install();
    let server = NatsServer::start().expect("start");
    let (release, hangs) = blocks();
    let brief = MemberConfig::default().ttl(LEASE).stop_budget(ms(300));
    let start = |id, group| {
        joining(&server.url(), id, group)
            .member(brief.clone())
            .start()
    };
    let id = "logged-hanging";
    let a = start(id, Group::sharded(GROUP, 1, hangs)).await;
    let a = a.expect("start");
    all_owned(&[&a], 1).await;
    let b = start("b", Group::sharded(GROUP, 1, waits())).await;
    let b = b.expect("start");
    group(&b).wait_until(GroupHandle::has_joined).await;
    // It takes a lease, as the old handler does not end. It is refused as long as `a` was not shown
    // that `b` has joined.
    eventually(SOON, "that the shard moves", async || {
        if group(&b).mine().is_empty() {
            let _ = group(&a).move_unit("0", "b").await;
            return None;
        }
        Some(())
    })
    .await;
    let log = logs.text();
    let late = records(&log, id, "the handler did not end in time");
    assert!(late[0].contains("group=partitions unit=0"), "{late:?}");

    // Nobody else is there who could take it.
    stop(b).await;
    let c = start("c", Group::sharded(GROUP, 1, waits())).await;
    let c = c.expect("start");
    all_owned(&[&c], 1).await;
    drop(release);
    stop(c).await;
    // Its handler has ended, so it can have it again.
    all_owned(&[&a], 1).await;
    stop(a).await;
}

/// A handler that blocks its thread until the sender goes.
fn blocks() -> (std::sync::mpsc::Sender<()>, impl RoleHandler) {
    let (release, held) = std::sync::mpsc::channel::<()>();
    let held = Arc::new(Mutex::new(held));
    let handler = handler_fn(move |term: Term| {
        let held = Arc::clone(&held);
        async move {
            term.cancelled().await;
            let held = held.lock().expect("no panic");
            let _ = tokio::task::block_in_place(|| held.recv());
            Ok(())
        }
    });
    (release, handler)
}

/// Waits until a member answers operators no more, and checks that it renews its lease no more.
async fn is_gone(server: &NatsServer, id: &str) {
    let stranger = Stranger::connect(&server.url()).await;
    let client = stranger.jetstream.client();
    eventually(SOON, "no answer to operators", async || {
        let answer = client.request("$SRV.PING.nats-elect", "".into()).await;
        answer.is_err().then_some(())
    })
    .await;
    let key = format!("_groups.{GROUP}.member.{}", epoch_of(&stranger, id).await);
    let last = stranger.find(&key).await.expect("its record");
    // Several heartbeats.
    tokio::time::sleep(LEASE).await;
    let stands = stranger.find(&key).await.expect("its record");
    assert_eq!(stands.sequence, last.sequence, "no heartbeat, and no end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn nothing_of_a_member_goes_on_after_its_stop_timed_out_beside_a_handler_that_blocks() {
    let server = NatsServer::start().expect("start");
    let (release, handler) = blocks();
    let a = member_with(&server.url(), "a", Group::sharded(GROUP, 1, handler)).await;
    all_owned(&[&a], 1).await;
    let stopped = a.stop(StopOptions::default().timeout(ms(300))).await;
    let Err(Error::StopTimedOut { roles, .. }) = stopped else {
        panic!("{stopped:?}");
    };
    assert_eq!(roles, [GROUP]);
    let again = a.stop(StopOptions::default()).await;
    assert_eq!(again, Ok(()), "it has ended");
    is_gone(&server, "a").await;
    drop(release);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn nothing_of_a_member_goes_on_after_its_manager_was_dropped_beside_a_handler_that_blocks() {
    let server = NatsServer::start().expect("start");
    let (release, handler) = blocks();
    let a = member_with(&server.url(), "a", Group::sharded(GROUP, 1, handler)).await;
    all_owned(&[&a], 1).await;
    drop(a);
    is_gone(&server, "a").await;
    drop(release);
}

/// Nobody else says when leases of the former bucket are over: for as long as the longest may last,
/// somebody may act by one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_whose_bucket_is_replaced_owns_its_units_in_the_new_one_a_minute_later() {
    let logs = logs::install();
    let (server, journal) = served();
    let id = "logged-replaced";
    let a = member(&server.url(), id, 4, &journal).await;
    all_owned(&[&a], 4).await;
    let deleted = Stamp::now();
    Stranger::connect(&server.url()).await.delete_bucket().await;
    for number in 0..4 {
        journal.ended(&shard(number), 0).await;
    }
    eventually(
        SOON,
        "a unit that nobody may take yet, and why",
        async || {
            let told = group(&a).explain("0").await?;
            let (why, why_not) = (told.why?, told.choices.first()?.why_not.clone()?);
            let says = why.contains("the bucket was made anew")
                && why_not.contains("it waits until leases are over");
            (told.verdict == "unplaced" && says).then_some(())
        },
    )
    .await;
    for refused in [
        group(&a)
            .move_unit("0", id)
            .await
            .map_err(|it| it.to_string())
            .map(drop),
        group(&a).resize(8).await.map_err(|it| it.to_string()),
    ] {
        let why = refused.expect_err("nobody may own it");
        assert!(why.contains("the bucket was made anew"), "{why}");
    }
    let again = eventually(
        LONGEST_LEASE + SOON,
        "units in the new bucket",
        async || {
            let second = |number| journal.terms(&shard(number)).into_iter().nth(1);
            (0..4).map(second).collect::<Option<Vec<_>>>()
        },
    )
    .await;
    for term in &again {
        let waited = term.start.since(deleted);
        assert!(waited >= LONGEST_LEASE, "a term after {waited:?}");
    }
    all_owned(&[&a], 4).await;
    let owner = group(&a).owner("0").expect("an owner");
    assert_eq!(owner.fencing_token, Some(again[0].fencing_token));
    assert!(again[0].fencing_token > journal.terms(&shard(0))[0].fencing_token);
    let told = records(&logs.text(), id, "the bucket is another one than before");
    assert_eq!(told.len(), 1, "{told:?}");
    // Several heartbeats, each with what the old bucket may have left behind.
    never("the end of a term in the new bucket", LEASE, || {
        (0..4).any(|number| !journal.is_in_term(&shard(number), 1))
    })
    .await;
    stop(a).await;
}

/// A handler that fails is begun again, also if a task that it spawned listens to nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_outlives_its_handler_is_ended_and_the_unit_begins_again() {
    let server = NatsServer::start().expect("start");
    let (begun, ended) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let counts = (Arc::clone(&begun), Arc::clone(&ended));
    let work = move |term: Term| {
        let (begun, ended) = (Arc::clone(&counts.0), Arc::clone(&counts.1));
        async move {
            begun.fetch_add(1, Ordering::SeqCst);
            let counted = Counted(ended);
            term.spawn(async move {
                let _counted = counted;
                std::future::pending::<()>().await;
            });
            Err::<(), BoxError>("it fails".into())
        }
    };
    let sharded = Group::sharded(GROUP, 1, handler_fn(work));
    let a = member_with(&server.url(), "a", sharded).await;
    comes_true("a second term", async || begun.load(Ordering::SeqCst) >= 2).await;
    assert!(ended.load(Ordering::SeqCst) >= 1, "one task at a time");
    stop(a).await;
}

/// Counts when it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_whose_bucket_is_gone_says_that_it_acts_on_nothing() {
    let server = NatsServer::start().expect("start");
    let maker = RoleManager::builder()
        .servers(server.url())
        .bucket(BUCKET)
        .bucket_auto_create();
    stop(maker.start().await.expect("start")).await;
    let a = RoleManager::builder()
        .servers(server.url())
        .bucket(BUCKET)
        .instance_id("a")
        .member(MemberConfig::default().ttl(LEASE))
        .group(Group::sharded(GROUP, 4, waits()));
    let a = a.start().await.expect("start");
    all_owned(&[&a], 4).await;
    Stranger::connect(&server.url()).await.delete_bucket().await;
    comes_true("no units", async || group(&a).mine().is_empty()).await;
    stop(a).await;
}
