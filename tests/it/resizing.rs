//! Groups that get another number of shards.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use nats_elect::admin::ProblemCode;
use nats_elect::{BoxError, Group, GroupEvent, RoleManager, Term, UnitOwner, shard_of};
use nats_elect_testing::{NatsServer, eventually};
use serde_json::Value;
use tokio::sync::watch;

use crate::support::bucket::Stranger;
use crate::support::instance::Recorded;
use crate::support::journal::Journal;
use crate::support::member::{GROUP, all_owned, evenly_owned, group, member_with, stop, waits};
use crate::support::{SOON, comes_true, ms};

const KEYS: u32 = 300;

/// A shard, and of how many.
type Shard = (u32, u32);

/// Which shard holds each key, as the handlers know it.
#[derive(Clone, Debug, Default)]
struct Held {
    holding: Arc<Mutex<Holding>>,
    /// While this is true, handlers keep their shards though they are asked to end.
    kept: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Holding {
    by: BTreeMap<u32, Shard>,
    /// Who found a key that another one held, or a shard of another generation.
    clashes: Vec<(Shard, Shard)>,
}

/// Frees the keys of a shard when it is dropped.
struct Frees<'a>(&'a Held, Shard);

impl Drop for Frees<'_> {
    fn drop(&mut self) {
        if let Ok(mut held) = self.0.holding.lock() {
            held.by.retain(|_, by| *by != self.1);
        }
    }
}

impl Held {
    /// Holds the keys of a shard while it has a term, and a moment longer than it is asked to.
    async fn hold(&self, term: &Term) {
        let shards = term.shards().expect("a sharded group");
        let mine = (term.shard().expect("a shard"), shards);
        let shards = NonZeroU32::new(shards).expect("some");
        let is_mine = |key: &u32| shard_of(&key.to_be_bytes(), shards) == mine.0;
        let keys: Vec<u32> = (0..KEYS).filter(is_mine).collect();
        {
            let mut held = self.holding.lock().expect("no panic");
            let held = &mut *held;
            let of_others = held.by.values().filter(|by| by.1 != mine.1);
            held.clashes.extend(of_others.map(|by| (mine, *by)));
            for key in &keys {
                let other = held.by.insert(*key, mine);
                held.clashes.extend(other.map(|by| (mine, by)));
            }
        }
        // Also when this is aborted.
        let _frees = Frees(self, mine);
        term.cancelled().await;
        tokio::time::sleep(ms(100)).await;
        let mut kept = self.kept.subscribe();
        kept.wait_for(|kept| !kept)
            .await
            .expect("it is not dropped");
    }

    fn all(&self) -> BTreeMap<u32, Shard> {
        let held = self.holding.lock().expect("no panic");
        assert_eq!(held.clashes, []);
        held.by.clone()
    }
}

async fn member(url: &str, id: &str, shards: u32, held: &Held, journal: &Journal) -> RoleManager {
    let held = held.clone();
    let work = move |term: Term| {
        let held = held.clone();
        async move {
            held.hold(&term).await;
            Ok::<(), BoxError>(())
        }
    };
    let handler = Recorded::working(id, journal, work);
    member_with(url, id, Group::sharded(GROUP, shards, handler)).await
}

/// A router's table: the owners as the events tell them.
fn table(member: &RoleManager) -> Arc<Mutex<BTreeMap<String, UnitOwner>>> {
    let group = group(member);
    let mut events = group.events();
    let owners = group.owners().into_iter();
    let owners = owners.filter_map(|(unit, owner)| Some((unit, owner?)));
    let table = Arc::new(Mutex::new(owners.collect::<BTreeMap<_, _>>()));
    let told = Arc::clone(&table);
    tokio::spawn(async move {
        while let Some(event) = events.next().await {
            let mut table = told.lock().expect("no panic");
            match event {
                GroupEvent::OwnerChanged { unit, owner } => {
                    _ = match owner {
                        Some(owner) => table.insert(unit, owner),
                        None => table.remove(&unit),
                    }
                }
                GroupEvent::Reset => table.clear(),
                other => panic!("{other:?}"),
            }
        }
    });
    table
}

/// What the group tells of its owners, by shard, without tokens: those of others are not known.
fn told(owners: impl IntoIterator<Item = (String, UnitOwner)>) -> BTreeMap<String, String> {
    let owners = owners.into_iter();
    owners.map(|(unit, it)| (unit, it.instance_id)).collect()
}

/// Two members own a group that gets this many shards in place of those, while handlers are slow to
/// end.
async fn gets(before: u32, after: u32) {
    let server = NatsServer::start().expect("start");
    let (journal, held) = (Journal::default(), Held::default());
    let a = member(&server.url(), "a", before, &held, &journal).await;
    let b = member(&server.url(), "b", before, &held, &journal).await;
    evenly_owned(&[&a, &b], before).await;
    let routes = table(&b);
    held.kept.send_replace(true);
    group(&b).resize(after).await.expect("resized");
    group(&a).wait_until(|it| it.shards() == Some(after)).await;
    // One that comes meanwhile takes part in the new ones, whatever its settings say.
    let c = member(&server.url(), "c", before, &held, &journal).await;
    assert!([&a, &b, &c].iter().all(|it| group(it).mine().is_empty()));
    held.kept.send_replace(false);
    all_owned(&[&a, &b, &c], after).await;
    comes_true("each key in its new shard", async || {
        held.all().len() == KEYS as usize
    })
    .await;
    eventually(SOON, "what the events tell", async || {
        let owners = group(&b).owners().into_iter();
        let owners = owners.filter_map(|(unit, owner)| Some((unit, owner?)));
        let by_events = routes.lock().expect("no panic").clone();
        (by_events.len() == after as usize && told(by_events) == told(owners)).then_some(())
    })
    .await;
    let shards = NonZeroU32::new(after).expect("some");
    for (key, by) in held.all() {
        assert_eq!(by, (shard_of(&key.to_be_bytes(), shards), after));
    }
    comes_true("that all know the number", async || {
        let members = [&a, &b, &c].into_iter();
        members
            .map(|it| group(it).shards())
            .all(|it| it == Some(after))
    })
    .await;
    group(&a).resize(after).await.expect("it has that many");
    let stranger = Stranger::connect(&server.url()).await;
    let map = stranger.find(&format!("_groups.{GROUP}.map")).await;
    let map: Value = serde_json::from_slice(&map.expect("a map").payload).expect("JSON");
    assert_eq!(map["generation"], 2);
    for member in [c, a] {
        stop(member).await;
    }
    all_owned(&[&b], after).await;
    stop(b).await;
    assert_eq!(held.all(), BTreeMap::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_grows_or_shrinks_and_no_key_has_two_owners() {
    tokio::join!(gets(8, 16), gets(6, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_can_not_have_that_number_is_left_as_it_is() {
    let server = NatsServer::start().expect("start");
    let a = member_with(&server.url(), "a", Group::sharded(GROUP, 4, waits())).await;
    all_owned(&[&a], 4).await;
    for shards in [0, 65_537] {
        let refused = group(&a).resize(shards).await.expect_err("refused");
        assert_eq!(refused.code, ProblemCode::BadRequest);
        assert!(refused.reason.contains("1 to 65536 shards"), "{refused}");
    }
    assert_eq!((group(&a).shards(), group(&a).mine().len()), (Some(4), 4));
    let left = group(&a);
    stop(a).await;
    let refused = left.resize(8).await.expect_err("refused");
    assert_eq!(refused.code, ProblemCode::NotReady);
    let named = Group::spread(GROUP).unit("a", waits());
    let server = NatsServer::start().expect("start");
    let a = member_with(&server.url(), "a", named).await;
    let refused = group(&a).resize(8).await.expect_err("refused");
    assert_eq!(refused.code, ProblemCode::BadRequest);
    stop(a).await;
}
