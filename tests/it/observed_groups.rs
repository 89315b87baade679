//! Groups in the eyes of an observer.

use std::time::Duration;

use async_nats::jetstream::kv;
use nats_elect::{
    Error, FollowedGroups, Group, GroupProblem, MemberConfig, ObservedGroups, Observer, Release,
    RoleManager, StopOptions, UnitKind, UnitOwner, UnitStanding, WatchStatus,
};
use nats_elect_core::assignment::{Changes, Epoch, Map, MemberRecord, Units, ended};
use nats_elect_core::name::InstanceId;
use nats_elect_core::record::Nonce;
use nats_elect_testing::{NatsServer, eventually};
use uuid::Uuid;

use crate::support::bucket::Stranger;
use crate::support::instance::Recorded;
use crate::support::journal::Journal;
use crate::support::{BUCKET, SOON, comes_true, ms, proxied, served};

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
    let (server, proxy, journal) = proxied();
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
            let seen = seen.groups["partitions"].unit(&unit).expect("it");
            owner.is_some_and(|owner| seen.instance_id == Some(owner.instance_id))
        };
        handle.owners().into_iter().all(is_known).then_some(())
    })
    .await;
    for (group, count) in [("partitions", SHARDS as usize), ("control", 2)] {
        let units = seen.members_of(group).map(|(_, it)| it.units);
        assert_eq!(units.sum::<usize>(), count, "{group}");
        assert_eq!(seen.members_of(group).count(), 2, "{group}");
    }

    // It ends with the first heartbeat of each.
    let watched = observer.groups(SOON).await.expect("a look");
    for (_, member) in watched.members_of("partitions") {
        assert!(member.confirmed && member.understood, "{member:?}");
        assert_eq!(member.ttl, Some(ms(3000)));
    }
    assert_eq!(watched.problems(), []);

    proxy.black_hole();
    let seen = all_owned_by(&observer, &["a"]).await;
    // The epochs of `b` were ended by `a`.
    for group in seen.groups.values() {
        let over: Vec<_> = group
            .members
            .values()
            .map(|it| (it.over, it.units > 0))
            .collect();
        assert!(over.contains(&(true, false)), "{group:?}");
        assert_eq!(over.iter().filter(|it| !it.0).count(), 1, "{group:?}");
    }
    drop(b);
    a.stop(StopOptions::default()).await.expect("stop");
    let seen = observer.groups(Duration::ZERO).await.expect("a look");
    let units = seen.groups.values().flat_map(|group| &group.units);
    for unit in units {
        assert_eq!(unit.standing, UnitStanding::OwnerOver, "{unit:?}");
    }
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
        let members = all
            .groups
            .values_mut()
            .flat_map(|it| it.members.values_mut());
        members.for_each(|it| it.age = Duration::ZERO);
        all
    };
    assert_eq!(ageless(again), ageless(seen.clone()));
    for unit in &seen.groups["shards"].units {
        let found = followed.unit("shards", &unit.unit).expect("it");
        assert_eq!(found.0, *unit);
    }
    for unit in ["5", "04", "x", "-1", "\u{1b}", ""] {
        assert_eq!(followed.unit("shards", unit), None, "{unit:?}");
    }
    assert_eq!(followed.owner_of("lost", "a"), None);
}

fn epoch(letter: &str) -> Epoch {
    Epoch::parse(&format!("{}A", letter.repeat(21))).expect("an epoch")
}

/// Writes a map of five shards, of which four have owners. A map is one only over something.
async fn write_map(store: &kv::Store, created: u64, members: &[Epoch]) -> u64 {
    let key = "_groups.shards.map";
    let over = store.put(key, "rubbish".into()).await.expect("put");
    let first = Map::first(over, created, Units::Shards(5), members, []).expect("a map");
    let sequence = store.update(key, first.to_json().into(), over).await;
    let first = first.stored_at(sequence.expect("written"));
    let owners = members.iter().map(|it| Some(*it));
    let changes = Changes {
        owners: (0..).zip(owners).collect(),
        ..Changes::default()
    };
    let next = first.next(&changes, |_, _, _| true).expect("a map");
    let written = store.update(key, next.to_json().into(), next.over()).await;
    written.expect("written")
}

#[tokio::test]
async fn what_stands_under_the_keys_of_groups_is_told_whatever_it_is() {
    let server = NatsServer::start().expect("start");
    let (stranger, store) = Stranger::with_bucket(&server.url()).await;
    let observer = observer(&server.url()).await;
    let empty = observer.groups(Duration::ZERO).await.expect("a look");
    assert_eq!(empty, ObservedGroups::default());

    let created = stranger.stream().await.cached_info().created;
    let created = created.unix_timestamp_nanos().try_into().expect("by now");
    let [a, b, c, d] = ["B", "C", "D", "E"].map(epoch);
    let map = write_map(&store, created, &[a, b, c, d]).await;
    let nonce = Nonce {
        incarnation: Uuid::from_u128(7),
        beat: 1,
    };
    let id = InstanceId::new("a").expect("an id");
    let mut record = MemberRecord::new(a, id, nonce, ms(3000));
    (record.follows, record.profile.cordoned) = (map, true);
    record.profile.zone = Some("a\u{1b}[31mb\u{202e}".into());
    let put = async |key: String, value: Vec<u8>| {
        let put = store.put(key, value.into()).await;
        put.expect("put");
    };
    let member = |group: &str, epoch: Epoch| format!("_groups.{group}.member.{epoch}");
    put(member("shards", a), record.to_json()).await;
    put(member("shards", b), ended(b)).await;
    put(member("shards", c), b"\x1b]0;owned\x07".into()).await;
    // Nobody wrote it over the value that it names.
    let copied = store.get("_groups.shards.map").await.expect("a look");
    put("_groups.lost.map".into(), copied.expect("it").into()).await;
    put(member("lost", a), ended(a)).await;
    for key in [
        "_groups.what.is.this",
        "_groups.shards.member.x",
        "_group.g.old",
    ] {
        put(key.into(), b"x".into()).await;
    }

    let seen = observer.groups(Duration::ZERO).await.expect("a look");
    are_followed_as_they_were_read(&observer, &seen).await;
    let shards = &seen.groups["shards"];
    let standings: Vec<_> = shards.units.iter().map(|it| it.standing).collect();
    assert_eq!(
        standings,
        [
            UnitStanding::Owned,
            UnitStanding::OwnerOver,
            UnitStanding::OwnerMissing,
            UnitStanding::OwnerMissing,
            UnitStanding::Free,
        ]
    );
    assert_eq!((shards.generation, shards.map), (1, Some(map)));
    assert_eq!(shards.units[3].owner, Some(d.to_string()));
    assert_eq!(shards.members.len(), 3);
    let member = &shards.members[&a.to_string()];
    assert_eq!((member.units, member.follows), (1, map));
    assert!(member.cordoned && !member.confirmed, "{member:?}");
    let zone = member.zone.as_ref().expect("a zone");
    assert!(!zone.contains(['\u{1b}', '\u{202e}']), "{zone:?}");
    let lost = &seen.groups["lost"];
    assert_eq!((lost.kind, lost.map, lost.units.len()), (None, None, 0));
    assert!(lost.members[&a.to_string()].over);
    assert_eq!(seen.groups.len(), 2);
    let of = |group: &str| group.to_owned();
    assert_eq!(
        seen.problems(),
        [
            GroupProblem::NoMap { group: of("lost") },
            GroupProblem::NoMember { group: of("lost") },
            GroupProblem::OwnerMissing {
                group: of("shards"),
                units: 2
            },
            GroupProblem::MemberUnknown {
                group: of("shards"),
                epoch: c.to_string()
            },
        ]
    );
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
    comes_true("all units", async || {
        let seen = observer.groups(ms(500)).await.ok();
        let units = seen.and_then(|it| Some(it.groups.get("partitions")?.units.len()));
        units == Some(SHARDS as usize)
    })
    .await;
    a.stop(StopOptions::default()).await.expect("stop");
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
            (member.instance_id == owner.instance_id).then_some(())
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
    let (stranger, store) = Stranger::with_bucket(&server.url()).await;
    let rubbish = || "rubbish".into();
    store.put("_groups.old.map", rubbish()).await.expect("put");
    let observer = observer(&server.url()).await;
    let followed = read(&observer).await;
    let knows = |it: &FollowedGroups, group: &str| {
        it.groups()
            .is_some_and(|all| all.groups.contains_key(group))
    };
    assert!(knows(&followed, "old"));
    stranger.replace_bucket().await;
    let store = stranger.store().await;
    store.put("_groups.new.map", rubbish()).await.expect("put");
    let replaced = followed.wait_until(|it| knows(it, "new"));
    tokio::time::timeout(SOON, replaced)
        .await
        .expect("the new bucket");
    assert!(!knows(&followed, "old"));
}
