//! Groups that get another number of shards.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::jetstream::kv;
use futures::StreamExt;
use nats_elect::placement::shard_of;
use nats_elect::{
    BoxError, Group, GroupEvent, GroupGrowth, GroupHandle, GrowthError, GrowthProgress,
    RoleManager, Term, UnitOwner,
};
use nats_elect_testing::{NatsServer, eventually};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::support::bucket::Stranger;
use crate::support::instance::Recorded;
use crate::support::journal::Journal;
use crate::support::member::{GROUP, all_owned, evenly_owned, group, member_with, stop};
use crate::support::{BUCKET, SOON, ms};

const KEYS: u32 = 300;
/// The longest lease that a member may have: for so long nobody builds on a unit's record of which it
/// does not know what stood there before.
const LONGEST_LEASE: Duration = Duration::from_secs(60);
/// How long before a growth an instance comes. It may begin the new units a longest lease later.
const LATE: Duration = Duration::from_secs(30);

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

async fn begin(server: &NatsServer, shards: u32) -> Result<GroupGrowth, GrowthError> {
    let client = async_nats::connect(server.url()).await.expect("connect");
    GroupGrowth::begin(client, BUCKET, GROUP, shards).await
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

/// Two members own a group that gets this many shards in place of those. The one who has it grow
/// dies two times.
async fn gets(before: u32, after: u32) {
    let server = NatsServer::start().expect("start");
    let (journal, held) = (Journal::default(), Held::default());
    let a = member(&server.url(), "a", before, &held, &journal).await;
    let b = member(&server.url(), "b", before, &held, &journal).await;
    evenly_owned(&[&a, &b], before).await;
    let routes = table(&b);
    let stranger = Stranger::connect(&server.url()).await;
    let store = stranger.store().await;
    let ahead = format!("_group.u.{GROUP}.2.1");
    let created = store.create(&ahead, r#"{"v":1}"#.into()).await;
    let created = created.expect("created");

    let mut growth = begin(&server, after).await.expect("begun");
    assert_eq!((growth.before(), growth.generation()), (before, 2));
    let (tell, mut told) = mpsc::unbounded_channel();
    let writing = growth.write(|step| tell.send(step).expect("heard"));
    let ages = async {
        let first = told.recv().await.expect("a step");
        let missing = after as usize - 1;
        assert_eq!(first, GrowthProgress::Creating { missing });
        loop {
            let step = told.recv().await.expect("a step");
            if matches!(step, GrowthProgress::Ageing { .. }) {
                break;
            }
        }
    };
    tokio::select! {
        written = writing => panic!("too early: {written:?}"),
        () = ages => {}
    }
    drop(growth);
    let mut stands = Vec::new();
    for shard in 0..after {
        let unit = stranger.find(&format!("_group.u.{GROUP}.2.{shard}")).await;
        stands.push(unit.expect("it was created").sequence);
    }
    assert_eq!(stands[1], created, "it was kept");

    let mut growth = begin(&server, after).await.expect("begun again");
    let first = Arc::new(Mutex::new(None));
    let noting = Arc::clone(&first);
    let written = growth.write(|step| {
        noting.lock().expect("no panic").get_or_insert(step);
    });
    let settled = async {
        // Nothing changes while they age.
        all_owned(&[&a, &b], before).await;
        assert_eq!(group(&a).shards(), Some(before));
    };
    // The members follow what is written only after the interruption.
    held.kept.send_replace(true);
    let (written, ()) = tokio::join!(written, settled);
    written.expect("written");
    let first = *first.lock().expect("no panic");
    assert!(
        matches!(first, Some(GrowthProgress::Ageing { .. })),
        "{first:?}"
    );
    assert!(growth.is_written());
    drop(growth);

    let mut growth = match begin(&server, after).await {
        Ok(growth) => growth,
        Err(error) => panic!("it took no second: {error}"),
    };
    held.kept.send_replace(false);
    assert!(growth.is_written());
    let followed = timeout(SOON, growth.follow(|_| {})).await;
    followed.expect("in time").expect("followed");
    all_owned(&[&a, &b], after).await;
    eventually(SOON, "each key in its new shard", async || {
        let held = held.all();
        (held.len() == KEYS as usize).then_some(())
    })
    .await;
    eventually(SOON, "what the events tell", async || {
        let owners = group(&b).owners().into_iter();
        let owners = owners.filter_map(|(unit, owner)| Some((unit, owner?)));
        let told = routes.lock().expect("no panic").clone();
        (told.len() == after as usize && told == owners.collect()).then_some(())
    })
    .await;
    let shards = NonZeroU32::new(after).expect("some");
    for (key, by) in held.all() {
        assert_eq!(by, (shard_of(&key.to_be_bytes(), shards), after));
    }
    assert_eq!(
        (group(&a).shards(), group(&b).shards()),
        (Some(after), Some(after))
    );
    let again = begin(&server, after).await.expect_err("no second time");
    assert!(
        matches!(again, GrowthError::SameNumber { generation: 2, .. }),
        "{again}"
    );
    stop(a).await;
    all_owned(&[&b], after).await;
    stop(b).await;
    assert_eq!(held.all(), BTreeMap::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_grows_or_shrinks_however_often_that_is_interrupted_and_no_key_has_two_owners() {
    tokio::join!(gets(8, 16), gets(6, 2));
}

/// The records of the new units age for a minute for an instance that comes when they exist. Two growths
/// to the same number end together, and a key that can be no shard's is in the way of neither.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_comes_amid_a_growth_is_given_shards_when_it_may_run_them() {
    let server = NatsServer::start().expect("start");
    let url = server.url();
    let (journal, held) = (Journal::default(), Held::default());
    let a = member(&url, "a", 6, &held, &journal).await;
    let b = member(&url, "b", 6, &held, &journal).await;
    evenly_owned(&[&a, &b], 6).await;
    let store = Stranger::connect(&url).await.store().await;
    let no_shard = format!("_group.u.{GROUP}.2.70000");
    let created = store.create(&no_shard, r#"{"v":1}"#.into()).await;
    created.expect("created");
    let mut growth = begin(&server, 12).await.expect("begun");
    assert_eq!(growth.prepared(), None);
    let mut twin = begin(&server, 12).await.expect("begun");
    let (tell, mut told) = mpsc::unbounded_channel();
    let writing = growth.write(|step| tell.send(step).expect("heard"));
    let coming = async {
        loop {
            let step = told.recv().await.expect("a step");
            if matches!(step, GrowthProgress::Ageing { left } if left < LATE) {
                break member(&url, "c", 12, &held, &journal).await;
            }
        }
    };
    let (written, also, c) = tokio::join!(writing, twin.write(|_| {}), coming);
    written.expect("written");
    also.expect("it says what the other one was to write");
    let followed = timeout(SOON, growth.follow(|_| {})).await;
    followed.expect("in time").expect("followed");
    all_owned(&[&a, &b], 12).await;

    let is_given = |group: &GroupHandle| {
        let mut owners = group.owners().into_values().flatten();
        owners.any(|owner| owner.instance_id == "c")
    };
    let given = timeout(LONGEST_LEASE + SOON, group(&c).wait_until(is_given)).await;
    given.expect("its share");
    let runs = timeout(LATE / 2, group(&c).wait_until(|it| !it.mine().is_empty())).await;
    runs.expect("what is given to it has a handler at once");
    evenly_owned(&[&a, &b, &c], 12).await;
    for member in [c, b, a] {
        stop(member).await;
    }
    assert_eq!(held.all(), BTreeMap::new());
}

/// A bucket in which a stranger writes all that stands there.
async fn by_hand(server: &NatsServer) -> (Stranger, kv::Store) {
    let stranger = Stranger::connect(&server.url()).await;
    let store = stranger.make_bucket(kv::Config::default()).await;
    (stranger, store)
}

const fn kind(error: &GrowthError) -> &'static str {
    match error {
        GrowthError::NamedUnits(_) => "named units",
        GrowthError::BeingMade(_) => "being made",
        GrowthError::NotUnderstood(_) => "not understood",
        GrowthError::SameNumber { .. } => "same number",
        GrowthError::Shards(_) => "shards",
        GrowthError::StillGrowing { unclosed: 2, .. } => "still growing",
        GrowthError::LastGeneration(_) => "last generation",
        _ => "another",
    }
}

#[tokio::test]
async fn a_group_that_can_not_grow_is_left_as_it_is() {
    let server = NatsServer::start().expect("start");
    let no_bucket = begin(&server, 8).await.expect_err("no bucket");
    let is_missing = matches!(
        &no_bucket,
        GrowthError::Bucket(nats_elect::Error::BucketMissing(_))
    );
    assert!(is_missing, "{no_bucket}");
    let (stranger, store) = by_hand(&server).await;
    let key = format!("_group.g.{GROUP}");
    let none = begin(&server, 8).await.expect_err("no group");
    assert!(matches!(none, GrowthError::NoSuchGroup(_)), "{none}");
    let four = r#"{"v":1,"kind":"sharded","n":4,"gen":1}"#;
    for (record, shards, expected) in [
        (r#"{"v":1,"kind":"spread","gen":1}"#, 8, "named units"),
        (
            r#"{"v":1,"kind":"sharded","n":4,"gen":1,"making":true}"#,
            8,
            "being made",
        ),
        (
            r#"{"v":99,"kind":"sharded","n":4,"gen":1}"#,
            8,
            "not understood",
        ),
        ("\u{7f}\u{1b}[2J", 8, "not understood"),
        (
            r#"{"v":1,"kind":"sharded","n":0,"gen":1}"#,
            8,
            "not understood",
        ),
        (
            r#"{"v":1,"kind":"sharded","n":4,"gen":4294967295}"#,
            8,
            "not understood",
        ),
        // A delete marker.
        ("", 8, "not understood"),
        (four, 4, "same number"),
        (four, 0, "shards"),
        (four, 65_537, "shards"),
        (
            r#"{"v":1,"kind":"sharded","n":4,"gen":2,"before":2}"#,
            8,
            "still growing",
        ),
        (
            r#"{"v":1,"kind":"sharded","n":4,"gen":1000000}"#,
            8,
            "last generation",
        ),
    ] {
        if record.is_empty() {
            store.delete(&*key).await.expect("deleted");
        } else {
            store.put(&*key, record.into()).await.expect("put");
        }
        let before = stranger.find("_group.>").await.expect("it").sequence;
        let refused = begin(&server, shards).await.expect_err(record);
        assert_eq!(kind(&refused), expected, "{record}: {refused}");
        let last = stranger.find("_group.>").await.expect("it").sequence;
        assert_eq!(last, before, "nothing was written");
    }
}

#[tokio::test]
async fn what_stands_in_the_way_of_a_growth_is_named_and_left_there() {
    let server = NatsServer::start().expect("start");
    let (_, store) = by_hand(&server).await;
    let key = format!("_group.g.{GROUP}");
    let grows = r#"{"v":1,"kind":"sharded","n":2,"gen":1}"#;
    store.put(&*key, grows.into()).await.expect("put");
    let unit = format!("_group.u.{GROUP}.2.3");
    let owned = r#"{"v":1,"o":"AAAAAAAAAAAAAAAAAAAAAA"}"#;
    for value in [r#"{"v":1,"c":1}"#, owned, r#"{"v":99}"#, "x"] {
        store.put(&*unit, value.into()).await.expect("put");
        let refused = begin(&server, 4).await.expect_err(value);
        assert_eq!(refused, GrowthError::InTheWay { key: unit.clone() });
        let stands = store.get(&*unit).await.expect("get").expect("it");
        assert_eq!(stands, value);
    }
    store.delete(&*unit).await.expect("deleted");
    let refused = begin(&server, 4).await.expect_err("a delete marker");
    assert_eq!(refused, GrowthError::InTheWay { key: unit.clone() });

    // As the command advises.
    store.put(&*unit, r#"{"v":1}"#.into()).await.expect("put");
    let mut growth = begin(&server, 4).await.expect("begun");
    let (tell, mut told) = mpsc::unbounded_channel();
    let writing = growth.write(|step| tell.send(step).expect("heard"));
    let changing = async {
        while !matches!(told.recv().await, Some(GrowthProgress::Ageing { .. })) {}
        store.put(&*key, grows.into()).await.expect("put");
        std::future::pending::<()>().await;
    };
    let written = tokio::select! {
        written = timeout(SOON, writing) => written.expect("at once"),
        () = changing => unreachable!(),
    };
    let is_changed = matches!(written, Err(GrowthError::Changed(_)));
    assert!(is_changed, "{written:?}");
    let stands = store.get(&*key).await.expect("get").expect("it");
    assert_eq!(stands, grows, "what somebody else wrote stays");
}
