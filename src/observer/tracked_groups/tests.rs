//! What is told of groups for each state of their keys.

use uuid::Uuid;

use super::*;
use nats_elect_core::assignment::{Changes, Unit};
use nats_elect_core::name::InstanceId;
use nats_elect_core::record::Nonce;

const A: Epoch = Epoch::new([1; 16]);
const B: Epoch = Epoch::new([2; 16]);
const NOW: Moment = Moment::from_nanos(0);
const LEASE: Duration = Duration::from_secs(15);

fn group() -> GroupName {
    GroupName::new("g").expect("a name")
}

/// A map of two shards at this sequence, whose first one belongs to an epoch.
fn map(sequence: u64, owner: Option<Epoch>) -> Map {
    let first = Map::first(1, 1, Units::Shards(2), &[A, B], []);
    let first = first.expect("a map").stored_at(sequence - 1);
    let changes = Changes {
        owners: owner.map(|it| (0, Some(it))).into_iter().collect(),
        ..Changes::default()
    };
    let next = first.next(&changes, |_, _, _| true);
    next.expect("a map").stored_at(sequence)
}

/// The map at sequence 20, by which the first shard goes from A to B.
fn moved() -> Map {
    let changes = Changes {
        owners: [(0, Some(B))].into(),
        ..Changes::default()
    };
    let next = map(10, Some(A)).next(&changes, |_, _, _| false);
    next.expect("a map").stored_at(20)
}

fn record(epoch: Epoch, follows: u64) -> MemberRecord {
    let nonce = Nonce {
        incarnation: Uuid::from_u128(7),
        beat: 1,
    };
    let id = InstanceId::new(if epoch == A { "a" } else { "b" }).expect("an id");
    MemberRecord {
        follows,
        ..MemberRecord::new(epoch, id, nonce, LEASE)
    }
}

fn member(epoch: Epoch, follows: u64) -> Value {
    Value::Member(record(epoch, follows).into())
}

fn stored(map: Map) -> Value {
    Value::Map(map.into())
}

/// What is under the keys of the map (`None`) and of members, at their sequences.
type Keys = Vec<(Option<Epoch>, u64, Value)>;

fn show(groups: &mut TrackedGroups, keys: Keys, now: Moment) {
    let told = keys.into_iter().map(|(epoch, sequence, value)| {
        let key = match epoch {
            None => Key::Map(group()),
            Some(epoch) => Key::Member(group(), epoch),
        };
        AssignmentDelivery::Shown(key, sequence, value)
    });
    groups.take_all(told.collect(), now);
}

/// What a watch has shown that has caught up with the stream's last sequence.
fn watched(keys: Keys, last: u64) -> TrackedGroups {
    let mut groups = TrackedGroups::new(1);
    show(&mut groups, keys, NOW);
    groups.take_all(vec![AssignmentDelivery::CaughtUp(last)], NOW);
    groups
}

fn told(groups: &TrackedGroups, now: Moment) -> ObservedGroup {
    groups.observed(now).groups.remove("g").expect("the group")
}

#[test]
fn a_unit_stands_as_the_keys_of_its_owner_and_of_its_former_owners_say() {
    use UnitStanding::{Changing, Free, Owned, OwnerMissing, OwnerOver};
    let excepting = |generation, shard| {
        let excepts = [(generation, Unit::Shard(shard))].into_iter().collect();
        let record = MemberRecord {
            excepts,
            ..record(A, 20)
        };
        Value::Member(record.into())
    };
    let owner = || Some(member(B, 20));
    for (former, owner, standing, waits) in [
        (Some(member(A, 19)), owner(), Changing, &[A][..]),
        (Some(member(A, 20)), owner(), Owned, &[]),
        (Some(excepting(1, 0)), owner(), Changing, &[A]),
        (Some(excepting(1, 1)), owner(), Owned, &[]),
        (Some(excepting(2, 1)), owner(), Changing, &[A]),
        (Some(Value::Ended), owner(), Owned, &[]),
        (Some(Value::Expiring), owner(), Owned, &[]),
        (Some(Value::Foreign), owner(), Changing, &[A]),
        (Some(Value::LaterMember), owner(), Changing, &[A]),
        (None, owner(), Changing, &[A]),
        (Some(member(A, 20)), Some(Value::Ended), OwnerOver, &[]),
        (Some(member(A, 20)), Some(Value::Foreign), OwnerMissing, &[]),
        (None, Some(Value::LaterMember), OwnerMissing, &[A]),
        (Some(Value::Ended), None, OwnerMissing, &[]),
    ] {
        let keys = [(A, former.clone()), (B, owner.clone())];
        let keys = keys.into_iter().zip(21..);
        let keys = keys.filter_map(|((epoch, value), at)| Some((Some(epoch), at, value?)));
        let map = (None, 20, stored(moved()));
        let groups = watched(std::iter::once(map).chain(keys).collect(), 30);
        let unit = told(&groups, NOW).units.remove(0);
        let waits: Vec<_> = waits.iter().map(Epoch::to_string).collect();
        assert_eq!(
            (unit.standing, &unit.waits_for, &unit.owner),
            (standing, &waits, &Some(B.to_string())),
            "{former:?}, {owner:?}"
        );
        let name = UnitName::shard(0);
        let (found, lives) = groups.unit(&group(), &name, NOW).expect("the unit");
        assert_eq!(found, unit);
        let has_key = owner.as_ref().is_some_and(|it| *it != Value::Ended);
        assert_eq!(lives.is_some(), has_key);
        let is_read = matches!(owner, Some(Value::Member(_)));
        assert_eq!(unit.instance_id, is_read.then(|| "b".to_owned()));
    }
    let free = watched(vec![(None, 10, stored(map(10, None)))], 30);
    let free = told(&free, NOW);
    assert_eq!(free.count(Free), 2);
    assert_eq!((free.shards, free.generation), (Some(2), 1));
    assert_eq!((free.kind, free.map), (Some(UnitKind::Sharded), Some(10)));
}

#[test]
fn the_newest_map_counts_and_none_where_a_later_version_stands() {
    let a = || stored(map(10, Some(A)));
    for (values, expected) in [
        (vec![(10, a())], Some(10)),
        (vec![(9, Value::Foreign)], None),
        (vec![(10, a()), (11, Value::Foreign)], Some(10)),
        (vec![(10, a()), (11, Value::LaterMap)], None),
        (vec![(11, Value::LaterMap), (10, a())], None),
        (vec![(11, Value::LaterMap), (20, stored(moved()))], Some(20)),
        (vec![(20, stored(moved())), (10, a())], Some(20)),
    ] {
        let keys = values.iter().cloned();
        let groups = watched(keys.map(|(at, value)| (None, at, value)).collect(), 30);
        let told = told(&groups, NOW);
        assert_eq!(told.map, expected, "{values:?}");
        assert_eq!(told.kind.is_some(), expected.is_some());
        let all: usize = told.units.len();
        assert_eq!(all, if expected.is_some() { 2 } else { 0 });
    }
}

#[test]
fn who_is_over_stays_so_until_a_later_record_and_an_older_one_says_nothing() {
    for (values, over, follows) in [
        (vec![(21, member(A, 7)), (20, member(A, 5))], false, 7),
        (vec![(21, member(A, 7)), (22, Value::Ended)], true, 0),
        (vec![(21, Value::Ended), (20, member(A, 7))], true, 0),
        (vec![(21, Value::Ended), (22, member(A, 7))], false, 7),
        (vec![(21, Value::Expiring), (22, Value::Foreign)], true, 0),
        (vec![(21, member(A, 7)), (22, Value::Foreign)], false, 0),
    ] {
        let keys = values.iter().cloned();
        let groups = watched(keys.map(|(at, value)| (Some(A), at, value)).collect(), 30);
        let member = &told(&groups, NOW).members[&A.to_string()];
        assert_eq!((member.over, member.follows), (over, follows), "{values:?}");
        assert_eq!(member.understood, over || follows > 0);
    }
}

#[test]
fn a_member_is_confirmed_by_a_heartbeat_for_its_lease() {
    let mut groups = watched(vec![(Some(A), 5, member(A, 0))], 9);
    let confirmed =
        |groups: &TrackedGroups, now: Moment| told(groups, now).members[&A.to_string()].confirmed;
    assert!(!confirmed(&groups, NOW) && !groups.is_confirmed());
    show(&mut groups, vec![(Some(A), 10, member(A, 0))], NOW);
    assert!(confirmed(&groups, NOW) && groups.is_confirmed());
    assert!(!confirmed(&groups, NOW + LEASE));
    // What another watch finds there was seen alive already.
    let mut next = watched(vec![(Some(A), 10, member(A, 0))], 10);
    assert!(!confirmed(&next, NOW));
    next.follows(&groups);
    assert!(confirmed(&next, NOW) && !confirmed(&next, NOW + LEASE));
    next.watch_ended();
    assert!(!confirmed(&next, NOW));
    for (value, is_waited_for, is_confirmed) in [
        (Value::Foreign, false, false),
        (Value::Ended, false, false),
        (Value::LaterMember, true, true),
    ] {
        let keys = vec![(Some(A), 5, value.clone())];
        let mut groups = watched(keys, 9);
        assert_eq!(groups.is_confirmed(), !is_waited_for, "{value:?}");
        show(&mut groups, vec![(Some(A), 10, value)], NOW);
        let lives = confirmed(&groups, NOW + LONGEST_LEASE - LEASE);
        assert_eq!(lives, is_confirmed);
        assert!(!confirmed(&groups, NOW + LONGEST_LEASE));
    }
}

#[test]
fn another_watch_brings_back_nothing_that_is_older_unless_the_stream_lost_it() {
    let (old, new) = (|| stored(map(10, Some(A))), || stored(moved()));
    let before = || watched(vec![(None, 20, new()), (Some(A), 21, Value::Ended)], 30);
    let found = || vec![(None, 10, old()), (Some(A), 5, member(A, 0))];
    let is_over = |group: &ObservedGroup| group.members.values().next().map(|it| it.over);
    for (keys, last, map, over) in [
        (found(), 30, Some(20), Some(true)),
        (found(), 29, Some(10), Some(false)),
        // What was purged is gone.
        (vec![(Some(A), 5, member(A, 0))], 30, None, Some(true)),
        (vec![(None, 22, Value::Foreign)], 30, None, None),
        (vec![(None, 20, new())], 30, Some(20), None),
    ] {
        let mut next = watched(keys.clone(), last);
        next.follows(&before());
        let told = told(&next, NOW);
        assert_eq!((told.map, is_over(&told)), (map, over), "{keys:?}, {last}");
    }
    let mut with_rubbish = before();
    show(&mut with_rubbish, vec![(None, 31, Value::Foreign)], NOW);
    let mut next = watched(vec![(None, 31, Value::Foreign)], 31);
    next.follows(&with_rubbish);
    assert_eq!(told(&next, NOW).map, Some(20));
    let mut elsewhere = TrackedGroups::new(2);
    show(&mut elsewhere, found(), NOW);
    elsewhere.take_all(vec![AssignmentDelivery::CaughtUp(30)], NOW);
    elsewhere.follows(&before());
    assert_eq!(told(&elsewhere, NOW).map, Some(10));
}

#[test]
fn a_member_tells_its_units_by_their_names() {
    let record = MemberRecord {
        excepts: [
            (1, Unit::Shard(10)),
            (1, Unit::Shard(9)),
            (2, Unit::Shard(9)),
        ]
        .into_iter()
        .collect(),
        unable: [(2, Unit::Named(UnitName::new("x").expect("a name")))]
            .into_iter()
            .collect(),
        ..record(A, 3)
    };
    let keys = vec![
        (None, 10, stored(map(10, Some(A)))),
        (Some(A), 11, Value::Member(record.into())),
    ];
    let told = told(&watched(keys, 11), NOW);
    let member = &told.members[&A.to_string()];
    assert_eq!(member.still_running, ["9", "10"]);
    assert_eq!(member.unable, ["x"]);
    assert_eq!((member.units, member.follows), (1, 3));
    assert_eq!(member.instance_id, "a");
}
