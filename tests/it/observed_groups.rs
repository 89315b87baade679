//! Groups in the eyes of an observer.

use std::time::Duration;

use async_nats::jetstream::kv;
use nats_elect::{
    Error, FollowedGroups, Group, GroupHandle, GroupProblem, MemberConfig, ObservedGroups,
    Observer, Release, RoleManager, StopOptions, UnitKind, UnitOwner, UnitStanding, WatchStatus,
};
use nats_elect_testing::{NatsServer, TcpProxy, eventually};

use crate::support::bucket::Stranger;
use crate::support::instance::Recorded;
use crate::support::journal::Journal;
use crate::support::{BUCKET, SOON, comes_true, ms, served};

const SHARDS: u32 = 12;

async fn member(url: &str, id: &str, journal: &Journal) -> RoleManager {
    let handler = || Recorded::obedient(id, journal);
    let control = Group::spread("control")
        .unit("network", handler())
        .unit("scheduler", handler());
    RoleManager::builder()
        .servers(url)
        .bucket(BUCKET)
        .bucket_auto_create()
        .instance_id(id)
        .member(MemberConfig::default().ttl(ms(3000)))
        .group(Group::sharded("partitions", SHARDS, handler()))
        .group(control)
        .start()
        .await
        .expect("start")
}

async fn observer(url: &str) -> Observer {
    let builder = Observer::builder().servers(url).bucket(BUCKET);
    builder.start().await.expect("start")
}

/// Follows the groups, from when they were read.
async fn read(observer: &Observer) -> FollowedGroups {
    let followed = observer.follow_groups().expect("a runtime");
    followed.wait_until(|it| it.connection().is_current()).await;
    followed
}

/// The instance that is known to live and to own the unit.
fn owner(followed: &FollowedGroups, group: &str, unit: &str) -> Option<String> {
    let (_, member) = followed.unit(group, unit)?;
    member.filter(|it| it.confirmed).map(|it| it.instance_id)
}

/// Waits until this instance alone is known to own the shards.
async fn owns_all(followed: &FollowedGroups, id: &str) {
    let owns = |unit: u32| {
        owner(followed, "partitions", &unit.to_string()).is_some_and(|owner| owner == id)
    };
    let all = followed.wait_until(|_| (0..SHARDS).all(owns));
    let waited = tokio::time::timeout(SOON, all).await;
    waited.expect("an owner of each shard");
}

/// Waits until the observer sees all units owned, by these instances alone.
async fn all_owned_by(observer: &Observer, ids: &[&str]) -> ObservedGroups {
    eventually(SOON, "an owner of each unit", async || {
        let seen = observer.groups(ms(1500)).await.expect("it is in reach");
        let mut units = seen.groups.values().flat_map(|group| &group.units);
        let is_of = |id: &String| ids.contains(&id.as_str());
        let owned = units.all(|unit| {
            unit.standing == UnitStanding::Owned && unit.instance_id.as_ref().is_some_and(is_of)
        });
        (owned && seen.groups.len() == 2).then_some(seen)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_observer_sees_the_units_of_each_member_and_whether_it_lives() {
    let server = NatsServer::start().expect("start");
    let proxy = TcpProxy::start(format!("127.0.0.1:{}", server.port())).expect("proxy");
    let journal = Journal::default();
    let a = member(&server.url(), "a", &journal).await;
    let b = member(&proxy.url(), "b", &journal).await;
    let observer = observer(&server.url()).await;
    eventually(SOON, "units of each", async || {
        let owns = |it: &RoleManager| !it.group("partitions").expect("a group").mine().is_empty();
        (owns(&a) && owns(&b)).then_some(())
    })
    .await;
    let seen = all_owned_by(&observer, &["a", "b"]).await;
    let partitions = &seen.groups["partitions"];
    assert_eq!(
        (partitions.kind, partitions.shards, partitions.generation),
        (Some(UnitKind::Sharded), Some(SHARDS), 1)
    );
    let names: Vec<_> = partitions.units.iter().map(|it| it.unit.clone()).collect();
    let numbers: Vec<_> = (0..SHARDS).map(|number| number.to_string()).collect();
    assert_eq!(names, numbers, "in the order of their numbers");
    let control = &seen.groups["control"];
    assert_eq!(
        (control.kind, control.shards),
        (Some(UnitKind::Spread), None)
    );
    assert_eq!(control.units.len(), 2);
    // Units may be on their way to the second member still.
    let handle = a.group("partitions").expect("a group");
    eventually(SOON, "what a member knows of its group", async || {
        let seen = all_owned_by(&observer, &["a", "b"]).await;
        let is_known = |(unit, owner): (String, Option<UnitOwner>)| {
            let (seen, owner) = (seen.groups["partitions"].unit(&unit), owner);
            let seen = seen.expect("it");
            owner.is_some_and(|owner| {
                seen.fencing_token == owner.fencing_token
                    && seen.instance_id == Some(owner.instance_id)
            })
        };
        handle.owners().into_iter().all(is_known).then_some(())
    })
    .await;
    let units: usize = seen.members.values().map(|it| it.units).sum();
    assert_eq!(units, SHARDS as usize + 2);
    assert_eq!(seen.members_of("partitions").count(), 2);

    // It ends with the first heartbeat of each.
    let watched = observer.groups(SOON).await.expect("a look");
    for member in watched.members.values() {
        assert!(member.confirmed && member.understood, "{member:?}");
        assert_eq!(member.ttl, Some(ms(3000)));
    }
    assert_eq!(watched.problems(), []);

    proxy.black_hole();
    let seen = all_owned_by(&observer, &["a"]).await;
    // The epoch of `b` was ended by `a`.
    assert_eq!(seen.ended.values().sum::<usize>(), 0, "{seen:?}");
    assert!(
        !seen.ended.is_empty() && seen.members.len() == 1,
        "{seen:?}"
    );
    drop(b);
    a.stop(StopOptions::default()).await.expect("stop");
    let seen = observer.groups(Duration::ZERO).await.expect("a look");
    let free = seen.groups.values().flat_map(|group| &group.units);
    for unit in free {
        assert_eq!(unit.standing, UnitStanding::Free, "{unit:?}");
    }
    assert!(seen.members.is_empty(), "{seen:?}");
    let none = |group: &str| GroupProblem::NoMember {
        group: group.to_owned(),
    };
    assert_eq!(seen.problems(), [none("control"), none("partitions")]);
}

async fn are_followed_as_they_were_read(observer: &Observer, seen: &ObservedGroups) {
    let followed = read(observer).await;
    let again = followed.groups().expect("they were read");
    // Each counts from when it was shown a record.
    let ageless = |mut all: ObservedGroups| {
        let units = all.groups.values_mut().flat_map(|it| &mut it.units);
        units.for_each(|it| it.ages_for = None);
        all
    };
    let (again, seen) = (ageless(again), ageless(seen.clone()));
    assert_eq!((&again.groups, &again.ended), (&seen.groups, &seen.ended));
    for unit in &seen.groups["shards"].units {
        let mut found = followed.unit("shards", &unit.unit).expect("it");
        found.0.ages_for = None;
        assert_eq!(found.0, *unit);
        assert_eq!(found.1.is_some(), unit.standing == UnitStanding::Owned);
    }
    for unit in ["7", "06", "x", "-1", "\u{1b}", ""] {
        assert_eq!(followed.unit("shards", unit), None, "{unit:?}");
    }
    assert_eq!(followed.owner_of("lost", "a"), None);
}

/// An epoch that nobody has.
fn epoch(letter: &str) -> String {
    format!("{}A", letter.repeat(21))
}

/// What strangers left under keys of groups and units.
fn left_behind() -> [(&'static str, String); 17] {
    let owned = |letter: &str| format!(r#"{{"v":1,"o":"{}"}}"#, epoch(letter));
    [
        (
            "_group.g.shards",
            r#"{"v":1,"kind":"sharded","n":7,"gen":2,"before":3}"#.to_owned(),
        ),
        ("_group.u.shards.1.0", r#"{"v":1,"c":1}"#.to_owned()),
        ("_group.u.shards.1.1", r#"{"v":1}"#.to_owned()),
        ("_group.u.shards.2.0", r#"{"v":1}"#.to_owned()),
        ("_group.u.shards.2.1", owned("B")),
        ("_group.u.shards.2.2", owned("C")),
        ("_group.u.shards.2.3", owned("D")),
        ("_group.u.shards.2.4", r#"{"v":9}"#.to_owned()),
        ("_group.u.shards.2.5", "\u{1b}]0;owned\u{7}".to_owned()),
        // A growth to more of them broke off, and another one was done.
        ("_group.u.shards.2.7", r#"{"v":1}"#.to_owned()),
        ("_group.u.shards.2.10", r#"{"v":1}"#.to_owned()),
        ("_group.u.shards.2.06", r#"{"v":1}"#.to_owned()),
        ("_group.u.shards.2.x", r#"{"v":1}"#.to_owned()),
        ("_group.u.lost.3.b", r#"{"v":1}"#.to_owned()),
        ("_group.u.lost.2.a", r#"{"v":1}"#.to_owned()),
        (
            "_group.g.new",
            r#"{"v":1,"kind":"sharded","n":2,"gen":1,"making":true}"#.to_owned(),
        ),
        ("_group.x.what", "x".to_owned()),
    ]
}

#[tokio::test]
async fn what_strangers_left_of_groups_is_told_as_it_stands() {
    let server = NatsServer::start().expect("start");
    let stranger = Stranger::connect(&server.url()).await;
    let store = stranger.make_bucket(kv::Config::default()).await;
    let observer = observer(&server.url()).await;
    let empty = observer.groups(Duration::ZERO).await.expect("a look");
    assert_eq!(empty, ObservedGroups::default());

    let odd_id = "a\u{1b}[31mb\u{202e}";
    let member = serde_json::json!({ "id": odd_id, "ttl_ms": 3000 }).to_string();
    for (key, value) in left_behind() {
        store.put(key, value.into()).await.expect("put");
    }
    let living = format!("_group.m.{}", epoch("B"));
    store.put(&living, member.into()).await.expect("put");
    let ended = format!("_group.m.{}", epoch("C"));
    store.put(&ended, "x".into()).await.expect("put");
    store.delete(&ended).await.expect("delete");
    store.delete("_group.u.shards.2.5").await.expect("delete");

    let seen = observer.groups(Duration::ZERO).await.expect("a look");
    are_followed_as_they_were_read(&observer, &seen).await;
    let shards = &seen.groups["shards"];
    let standings: Vec<_> = shards.units.iter().map(|it| it.standing).collect();
    assert_eq!(
        standings,
        [
            UnitStanding::Free,
            UnitStanding::Owned,
            UnitStanding::Abandoned,
            UnitStanding::OwnerMissing,
            UnitStanding::Unknown,
            UnitStanding::Unknown,
            UnitStanding::Missing,
        ]
    );
    assert_eq!((shards.generation, shards.unclosed), (2, 1));
    assert_eq!(shards.surplus, ["06", "x", "7", "10"]);
    assert_eq!(shards.units[2].owner, Some(epoch("C")));
    assert_eq!(shards.units[6].fencing_token, None);
    let id = shards.units[1].instance_id.as_ref().expect("a name");
    assert!(!id.contains(['\u{1b}', '\u{202e}']), "{id:?}");
    let lost = &seen.groups["lost"];
    assert_eq!((lost.kind, lost.generation, lost.unclosed), (None, 3, 1));
    let new = &seen.groups["new"];
    assert!(new.making && new.count(UnitStanding::Missing) == 2);
    assert_eq!(seen.groups.len(), 3);
    let member = &seen.members[&epoch("B")];
    assert!(!member.understood && member.units == 1, "{member:?}");
    assert_eq!(member.ttl, None, "it does not fit its epoch");
    assert_eq!(seen.ended, [(epoch("C"), 1)].into());
    let of = |group: &str| group.to_owned();
    assert_eq!(
        seen.problems(),
        [
            GroupProblem::NoRecord { group: of("lost") },
            GroupProblem::NoMember { group: of("lost") },
            GroupProblem::NoMember {
                group: of("shards")
            },
            GroupProblem::UnitsMissing {
                group: of("shards"),
                units: 1
            },
            GroupProblem::UnitsUnknown {
                group: of("shards"),
                units: 2
            },
            GroupProblem::OwnerMissing {
                group: of("shards"),
                units: 1
            },
            GroupProblem::UnitsSurplus {
                group: of("shards"),
                units: 4
            },
            GroupProblem::MemberUnknown { epoch: epoch("B") },
        ]
    );
    for problem in seen.problems() {
        let text = problem.to_string();
        assert!(!text.contains(char::is_control), "{text:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_beyond_the_number_of_shards_are_no_units() {
    let (server, journal) = served();
    let a = member(&server.url(), "a", &journal).await;
    let observer = observer(&server.url()).await;
    all_owned_by(&observer, &["a"]).await;
    let store = Stranger::connect(&server.url()).await.store().await;
    let key = format!("_group.u.partitions.1.{SHARDS}");
    let free = r#"{"v":1}"#.into();
    store.put(key, free).await.expect("put");
    let seen = all_owned_by(&observer, &["a"]).await;
    let partitions = &seen.groups["partitions"];
    assert_eq!(partitions.units.len(), SHARDS as usize);
    assert_eq!(partitions.surplus, [SHARDS.to_string()]);
    // Its first watch shows the key.
    let b = member(&server.url(), "b", &journal).await;
    let handle = b.group("partitions").expect("a group");
    let are_owned = |handle: &GroupHandle| {
        let owners = handle.owners();
        owners.len() >= SHARDS as usize && owners.values().all(Option::is_some)
    };
    let owned = tokio::time::timeout(SOON, handle.wait_until(are_owned));
    owned.await.expect("an owner of each unit");
    assert_eq!(handle.owners().len(), SHARDS as usize);
    a.stop(StopOptions::default()).await.expect("stop");
    b.stop(StopOptions::default()).await.expect("stop");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_sees_nothing_says_so_and_sees_groups_when_nats_is_back() {
    let (mut server, journal) = served();
    let a = member(&server.url(), "a", &journal).await;
    let observer = observer(&server.url()).await;
    all_owned_by(&observer, &["a"]).await;
    server.kill();
    let refused = eventually(SOON, "a refusal", async || {
        observer.groups(Duration::ZERO).await.err()
    })
    .await;
    assert!(matches!(refused, Error::Unavailable { .. }), "{refused:?}");
    assert!(refused.is_transient());
    server.restart().expect("restart");
    let seen = eventually(SOON, "the groups", async || {
        let seen = observer.groups(ms(500)).await.ok()?;
        seen.groups.contains_key("partitions").then_some(seen)
    })
    .await;
    assert_eq!(seen.groups["partitions"].units.len(), SHARDS as usize);
    a.stop(StopOptions::default()).await.expect("stop");
}

/// The server holds messages back until it is told that those before have come.
#[tokio::test]
async fn more_units_are_read_than_the_server_sends_at_once() {
    let server = NatsServer::start().expect("start");
    let stranger = Stranger::connect(&server.url()).await;
    stranger.make_bucket(kv::Config::default()).await;
    let units: usize = 10_000;
    let mut stored = Vec::new();
    for unit in 0..units {
        let subject = format!("$KV.{BUCKET}._group.u.many.1.{unit}");
        let record = r#"{"v":1}"#.into();
        let sent = stranger.jetstream.publish(subject, record).await;
        stored.push(sent.expect("publish"));
        if stored.len() == 1000 {
            for stored in stored.drain(..) {
                stored.await.expect("stored");
            }
        }
    }
    let observer = observer(&server.url()).await;
    let seen = observer.groups(Duration::ZERO).await.expect("a look");
    assert_eq!(seen.groups["many"].count(UnitStanding::Free), units);
    let followed = read(&observer).await;
    // Who follows has them in memory, and asks nobody.
    drop(server);
    followed
        .wait_until(|it| !it.connection().is_current())
        .await;
    let seen = followed.groups().expect("they were read");
    assert_eq!(seen.groups["many"].count(UnitStanding::Free), units);
    assert!(followed.unit("many", "9999").is_some());
}

/// A few bytes claim a group of thousands.
#[tokio::test]
async fn units_without_a_key_are_told_by_their_names_only_up_to_a_bound() {
    let server = NatsServer::start().expect("start");
    let stranger = Stranger::connect(&server.url()).await;
    let store = stranger.make_bucket(kv::Config::default()).await;
    for group in 0..40 {
        let key = format!("_group.g.claimed-{group}");
        let value = r#"{"v":1,"kind":"sharded","n":65536,"gen":1}"#;
        store.put(key, value.into()).await.expect("put");
    }
    let observer = observer(&server.url()).await;
    let seen = observer.groups(Duration::ZERO).await.expect("a look");
    let named: usize = seen.groups.values().map(|group| group.units.len()).sum();
    assert_eq!((seen.groups.len(), named), (40, 20_000));
    for group in seen.groups.values() {
        assert_eq!((group.missing, group.unit_count()), (65_536, 65_536));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_follows_sees_units_move_and_the_owner_of_a_key() {
    let (server, journal) = served();
    let a = member(&server.url(), "a", &journal).await;
    let observer = observer(&server.url()).await;
    let followed = read(&observer).await;
    owns_all(&followed, "a").await;
    let b = member(&server.url(), "b", &journal).await;
    let owns = |it: &FollowedGroups, id: &str| {
        let of = |unit: u32| owner(it, "partitions", &unit.to_string()).as_deref() == Some(id);
        (0..SHARDS).filter(|unit| of(*unit)).count() == SHARDS as usize / 2
    };
    let spread = followed.wait_until(|it| owns(it, "a") && owns(it, "b"));
    let waited = tokio::time::timeout(SOON, spread).await;
    waited.expect("half of the shards on each");

    let handle = b.group("partitions").expect("a group");
    for key in ["", "customer-4711", "\u{0}\u{1b}", "ä"] {
        // Either may be shown a move before the other one.
        eventually(SOON, "what a member knows of the key", async || {
            let (shard, owner) = handle.owner_of(key).expect("shards");
            let (unit, member) = followed.owner_of("partitions", key).expect("shards");
            assert_eq!(unit.unit, shard.to_string());
            let (owner, member) = (owner?, member?);
            let same = unit.fencing_token == owner.fencing_token
                && member.instance_id == owner.instance_id;
            same.then_some(())
        })
        .await;
    }
    let (unit, _) = followed.owner_of("partitions", [0xff]).expect("shards");
    assert_eq!(unit.unit.parse().ok(), handle.shard_of([0xff]));
    assert_eq!(
        followed.owner_of("control", "a"),
        None,
        "its units have names"
    );
    assert_eq!(followed.owner_of("none", "a"), None);

    b.stop(StopOptions::default()).await.expect("stop");
    owns_all(&followed, "a").await;
    // It keeps its records, and sends no heartbeat any more.
    let kept = StopOptions::default().release(Release::Keep);
    a.stop(kept).await.expect("stop");
    comes_true("the end of its lease", async || {
        owner(&followed, "partitions", "0").is_none()
    })
    .await;
    let (unit, member) = followed.unit("partitions", "0").expect("the shard");
    let member = member.expect("its record stands there");
    assert_eq!(unit.standing, UnitStanding::Owned);
    assert!(member.age >= ms(3000), "{member:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_follows_says_when_it_sees_nothing_and_goes_on_when_nats_is_back() {
    let (mut server, journal) = served();
    let a = member(&server.url(), "a", &journal).await;
    let observer = observer(&server.url()).await;
    let followed = read(&observer).await;
    owns_all(&followed, "a").await;
    server.kill();
    let stale = followed.wait_until(|it| !it.connection().is_current());
    tokio::time::timeout(SOON, stale)
        .await
        .expect("a stale view");
    let status = followed.connection();
    assert!(
        matches!(&status, WatchStatus::Stale { reason, .. } if !reason.is_empty()),
        "{status:?}"
    );
    // It shows what it knew, and vouches for nobody.
    let (unit, member) = followed.unit("partitions", "0").expect("the shard");
    assert_eq!(unit.instance_id.as_deref(), Some("a"));
    assert!(member.is_some_and(|it| !it.confirmed));
    server.restart().expect("restart");
    owns_all(&followed, "a").await;
    assert!(followed.connection().is_current());
    a.stop(StopOptions::default()).await.expect("stop");
}

#[tokio::test]
async fn who_follows_keeps_nothing_of_a_bucket_that_was_replaced() {
    let server = NatsServer::start().expect("start");
    let stranger = Stranger::connect(&server.url()).await;
    let store = stranger.make_bucket(kv::Config::default()).await;
    let free = || r#"{"v":1}"#.into();
    store.put("_group.u.old.1.a", free()).await.expect("put");
    let observer = observer(&server.url()).await;
    let followed = read(&observer).await;
    let (before, _) = followed.unit("old", "a").expect("it");
    let deleted = stranger.jetstream.delete_key_value(BUCKET).await;
    deleted.expect("delete");
    let store = stranger.make_bucket(kv::Config::default()).await;
    store.put("_group.u.new.1.a", free()).await.expect("put");
    let replaced = followed.wait_until(|it| it.unit("new", "a").is_some());
    tokio::time::timeout(SOON, replaced)
        .await
        .expect("the new bucket");
    assert_eq!(followed.unit("old", "a"), None);
    let (after, _) = followed.unit("new", "a").expect("it");
    assert!(
        after.fencing_token > before.fencing_token,
        "of a later bucket"
    );
}
