//! Groups that get another number of shards.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};

use nats_elect::placement::shard_of;
use nats_elect::{BoxError, Group, GroupGrowth, GrowthError, GrowthProgress, RoleManager, Term};
use nats_elect_testing::{NatsServer, eventually};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::support::bucket::Stranger;
use crate::support::instance::Recorded;
use crate::support::journal::Journal;
use crate::support::member::{GROUP, all_owned, group, member_with, stop};
use crate::support::{BUCKET, SOON, ms};

const KEYS: u32 = 300;

/// A shard, and of how many.
type Shard = (u32, u32);

/// Which shard holds each key, as the handlers know it.
#[derive(Clone, Debug, Default)]
struct Held(Arc<Mutex<Holding>>);

#[derive(Debug, Default)]
struct Holding {
    by: BTreeMap<u32, Shard>,
    /// Who found a key that another one held, or a shard of another generation.
    clashes: Vec<(Shard, Shard)>,
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
            let mut held = self.0.lock().expect("no panic");
            let held = &mut *held;
            let of_others = held.by.values().filter(|by| by.1 != mine.1);
            held.clashes.extend(of_others.map(|by| (mine, *by)));
            for key in &keys {
                let other = held.by.insert(*key, mine);
                held.clashes.extend(other.map(|by| (mine, by)));
            }
        }
        term.cancelled().await;
        tokio::time::sleep(ms(100)).await;
        let mut held = self.0.lock().expect("no panic");
        held.by.retain(|_, by| *by != mine);
    }

    fn all(&self) -> BTreeMap<u32, Shard> {
        let held = self.0.lock().expect("no panic");
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

/// Two members own a group that gets this many shards in place of those. The one who has it grow
/// dies two times.
async fn gets(before: u32, after: u32) {
    let server = NatsServer::start().expect("start");
    let (journal, held) = (Journal::default(), Held::default());
    let a = member(&server.url(), "a", before, &held, &journal).await;
    let b = member(&server.url(), "b", before, &held, &journal).await;
    all_owned(&[&a, &b], before).await;
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
    assert!(growth.is_written());
    let followed = timeout(SOON, growth.follow(|_| {})).await;
    followed.expect("in time").expect("followed");
    all_owned(&[&a, &b], after).await;
    eventually(SOON, "each key in its new shard", async || {
        let held = held.all();
        (held.len() == KEYS as usize).then_some(())
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

#[tokio::test]
async fn a_group_that_can_not_grow_is_left_as_it_is() {
    let server = NatsServer::start().expect("start");
    let no_bucket = begin(&server, 8).await.expect_err("no bucket");
    assert!(
        matches!(
            &no_bucket,
            GrowthError::Bucket(nats_elect::Error::BucketMissing(_))
        ),
        "{no_bucket}"
    );
    let stranger = Stranger::connect(&server.url()).await;
    let store = stranger.make_bucket(Default::default()).await;
    let key = format!("_group.g.{GROUP}");
    let none = begin(&server, 8).await.expect_err("no group");
    assert!(matches!(none, GrowthError::NoSuchGroup(_)), "{none}");
    let refusals: [(&str, u32, fn(&GrowthError) -> bool); 12] = [
        (r#"{"v":1,"kind":"spread","gen":1}"#, 8, |it| {
            matches!(it, GrowthError::NamedUnits(_))
        }),
        (
            r#"{"v":1,"kind":"sharded","n":4,"gen":1,"making":true}"#,
            8,
            |it| matches!(it, GrowthError::BeingMade(_)),
        ),
        (r#"{"v":99,"kind":"sharded","n":4,"gen":1}"#, 8, |it| {
            matches!(it, GrowthError::NotUnderstood(_))
        }),
        ("\u{7f}\u{1b}[2J", 8, |it| {
            matches!(it, GrowthError::NotUnderstood(_))
        }),
        (r#"{"v":1,"kind":"sharded","n":0,"gen":1}"#, 8, |it| {
            matches!(it, GrowthError::NotUnderstood(_))
        }),
        (r#"{"v":1,"kind":"sharded","n":4,"gen":1}"#, 4, |it| {
            matches!(
                it,
                GrowthError::SameNumber {
                    shards: 4,
                    generation: 1,
                    ..
                }
            )
        }),
        (r#"{"v":1,"kind":"sharded","n":4,"gen":1}"#, 0, |it| {
            matches!(it, GrowthError::Shards(0))
        }),
        (r#"{"v":1,"kind":"sharded","n":4,"gen":1}"#, 65_537, |it| {
            matches!(it, GrowthError::Shards(65_537))
        }),
        (
            r#"{"v":1,"kind":"sharded","n":4,"gen":2,"before":2}"#,
            8,
            |it| {
                matches!(
                    it,
                    GrowthError::StillGrowing {
                        shards: 4,
                        unclosed: 2,
                        ..
                    }
                )
            },
        ),
        (
            r#"{"v":1,"kind":"sharded","n":4,"gen":4294967295}"#,
            8,
            |it| matches!(it, GrowthError::LastGeneration(_)),
        ),
        // A delete marker.
        ("", 8, |it| matches!(it, GrowthError::NotUnderstood(_))),
        (
            r#"{"v":1,"kind":"sharded","n":3,"gen":6,"before":0}"#,
            8,
            |it| matches!(it, GrowthError::NotUnderstood(_)),
        ),
    ];
    for (record, shards, is_it) in refusals {
        if record.is_empty() {
            store.delete(&*key).await.expect("deleted");
        } else {
            store.put(&*key, record.into()).await.expect("put");
        }
        let before = stranger.find("_group.>").await.expect("it").sequence;
        let refused = begin(&server, shards).await.expect_err(record);
        assert!(is_it(&refused), "{record}: {refused}");
        let last = stranger.find("_group.>").await.expect("it").sequence;
        assert_eq!(last, before, "nothing was written");
    }

    let grows = r#"{"v":1,"kind":"sharded","n":2,"gen":1}"#;
    store.put(&*key, grows.into()).await.expect("put");
    let unit = format!("_group.u.{GROUP}.2.3");
    for value in [
        r#"{"v":1,"c":1}"#,
        r#"{"v":1,"o":"AAAAAAAAAAAAAAAAAAAAAA"}"#,
        r#"{"v":99}"#,
        "x",
    ] {
        store.put(&*unit, value.into()).await.expect("put");
        let refused = begin(&server, 4).await.expect_err(value);
        assert_eq!(refused, GrowthError::InTheWay { key: unit.clone() });
    }
    store.delete(&*unit).await.expect("deleted");
    let refused = begin(&server, 4).await.expect_err("a delete marker");
    assert_eq!(refused, GrowthError::InTheWay { key: unit.clone() });
    // As the error says.
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
    assert!(
        matches!(written, Err(GrowthError::Changed(_))),
        "{written:?}"
    );
    let stands = store.get(&*key).await.expect("get").expect("it");
    assert_eq!(
        stands, grows,
        "what somebody else wrote is not written over"
    );
}
