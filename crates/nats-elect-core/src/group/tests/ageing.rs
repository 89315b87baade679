//! Rule 6: how old a record is, and what becomes of keys that are purged. The numbers are
//! those in `docs/protocol.md`.

use std::time::Duration;

use super::super::*;
use super::world::*;

const SECOND: Duration = Duration::from_secs(1);

/// 6: what is created while the group is new had no owner before.
#[test]
fn the_units_of_a_new_group_have_owners_at_once() {
    let mut world = World::new(3, 8);
    world.until(5 * HEARTBEAT, |world| {
        (0..8).all(|number| world.owners(&unit(number)).len() == 1)
    });
}

/// 6: a unit that is created after its group was made ages.
#[test]
fn a_unit_that_is_created_after_its_group_was_made_ages() {
    let mut world = World::new(2, 1);
    world.until(5 * HEARTBEAT, |world| world.owners(&unit(0)).len() == 1);
    let (owner, other) = (world.owner(0), 1 - world.owner(0));
    world.nodes[owner].silent = true;
    world.purge(&GroupKey::Unit(unit(0)));
    world.watch(other);
    world.run_short_of(LONGEST_LEASE, SECOND);
    assert!(world.owners(&unit(0)).is_empty());
}

/// 6: a group's record that is made anew beside units is not that of a new group.
#[test]
fn a_groups_record_that_was_purged_makes_no_unit_free() {
    let mut world = World::settled(2, 2);
    let (owner, other) = (world.owner(0), 1 - world.owner(0));
    world.nodes[owner].silent = true;
    world.purge(&GroupKey::Group(group()));
    world.purge(&GroupKey::Unit(unit(0)));
    world.watch(other);
    world.run_short_of(LONGEST_LEASE, SECOND);
    let stands = &world.keys[&GroupKey::Group(group())].message.content;
    let GroupContent::Group(_, Some(record)) = stands else {
        panic!("no record: {stands:?}");
    };
    assert!(!record.making);
    assert!(world.owners(&unit(0)).is_empty());
}

/// 6: what a first watch shows is as old as it says. So a member that joins is given units at once,
/// and takes what its predecessors left.
#[test]
fn a_member_that_joins_owns_what_it_is_given_and_what_is_free() {
    let mut world = World::settled(1, 4);
    let joined = world.join(4);
    world.run(TTL + 2 * SECOND);
    world.tell(0, GroupInput::Drain);
    world.until(2 * SECOND, |world| {
        (0..4).all(|number| world.owners(&unit(number)) == [joined])
    });
    world.nodes[0].alive = false;
    world.nodes[joined].alive = false;
    let last = world.join(4);
    world.until(TTL + 4 * SECOND, |world| {
        (0..4).all(|number| world.owners(&unit(number)) == [last])
    });
}

/// 6: what follows on a found record while the first watch catches up is as old as what it found.
#[test]
fn a_unit_given_away_while_a_member_joins_waits_for_the_leases_and_no_longer() {
    let mut world = World::settled(1, 1);
    let shown = |world: &World, key: &GroupKey| world.keys[key].message.clone();
    let key = GroupKey::Unit(unit(0));
    let member = shown(&world, &GroupKey::Member(epoch(1)));
    let owned = shown(&world, &key);
    world.leave(0);
    world.run(SECOND);
    let given = shown(&world, &key);
    assert_eq!(given.over, Some(owned.sequence));
    // The joiner's watch had begun before that.
    let mut joiner = Group::new(world.nodes[0].group.settings.clone(), world.now);
    joiner.step(world.now, GroupInput::WatchBegan);
    for message in [member, owned, given] {
        joiner.step(world.now, GroupInput::Shown(message));
    }
    let caught_up = GroupInput::CaughtUp {
        last: world.last,
        members: Some(world.members()),
    };
    joiner.step(world.now, caught_up);
    let group = group();
    let unit = joiner.owners(&group).next().expect("the unit");
    assert_eq!(unit.quiet_until, world.now + TTL);
}

/// 6: a member that lost its lease with all keys of its group does not take the group for a new one:
/// another member may act on.
#[test]
fn a_group_whose_keys_are_gone_is_not_new_for_those_who_knew_it() {
    let mut world = World::settled(2, 2);
    for number in 0..2 {
        world.purge(&GroupKey::Unit(unit(number)));
        world.purge(&GroupKey::Member(epoch(
            world.nodes[usize::from(number > 0)].epoch,
        )));
    }
    world.purge(&GroupKey::Group(group()));
    world.until(TTL, |world| {
        (0..2).all(|number| world.owners(&unit(number)).is_empty())
    });
    world.run_short_of(LONGEST_LEASE, TTL);
    assert!((0..2).all(|number| world.owners(&unit(number)).is_empty()));
    world.until(2 * TTL, |world| {
        (0..2).all(|number| world.owners(&unit(number)).len() == 1)
    });
}

/// 6: but a creation that a first watch shows may follow a purge.
#[test]
fn a_member_that_joins_lets_a_unit_age_that_was_created_again() {
    let mut world = World::settled(1, 1);
    world.purge(&GroupKey::Unit(unit(0)));
    world.watch(0);
    world.until(2 * SECOND, |world| {
        world.stands(0) == Some(UnitRecord::Nobody)
    });
    world.nodes[0].alive = false;
    world.join(1);
    world.run_short_of(LONGEST_LEASE, 2 * SECOND);
    assert!(world.owners(&unit(0)).is_empty());
    world.until(10 * SECOND, |world| !world.owners(&unit(0)).is_empty());
}

/// 6: a purged unit is created by whoever notices, and owned after the longest lease.
#[test]
fn a_purged_unit_ages_before_anybody_owns_it() {
    let mut world = World::settled(2, 1);
    let (owner, other) = (world.owner(0), 1 - world.owner(0));
    world.purge(&GroupKey::Unit(unit(0)));
    world.watch(other);
    world.run(3 * SECOND);
    assert_eq!(world.stands(0), Some(UnitRecord::Nobody));
    assert!(
        world.owners(&unit(0)).is_empty(),
        "the owner saw it: {owner}"
    );
    world.run_short_of(LONGEST_LEASE, 4 * SECOND);
    assert_eq!(world.stands(0), Some(UnitRecord::Nobody));
    world.until(10 * SECOND, |world| world.owners(&unit(0)).len() == 1);
}

/// A watch shows no purge. Who is refused for a heartbeat looks anew.
#[test]
fn a_purged_unit_of_an_owner_that_dies_gets_an_owner() {
    let mut world = World::settled(2, 1);
    let (owner, other) = (world.owner(0), 1 - world.owner(0));
    world.purge(&GroupKey::Unit(unit(0)));
    world.nodes[owner].alive = false;
    let most = TTL + LONGEST_LEASE + 8 * HEARTBEAT;
    world.until(most, |world| world.owners(&unit(0)) == [other]);
    assert_eq!(world.nodes[other].rewatched, 1);
}

/// The same for the record of the owner that died.
#[test]
fn the_units_of_a_dead_member_whose_record_was_purged_get_owners() {
    let mut world = World::settled(2, 1);
    let (owner, other) = (world.owner(0), 1 - world.owner(0));
    world.purge(&GroupKey::Member(epoch(world.nodes[owner].epoch)));
    world.nodes[owner].alive = false;
    let most = TTL + LONGEST_LEASE + 8 * HEARTBEAT;
    world.until(most, |world| world.owners(&unit(0)) == [other]);
}

/// The same for an owner that gives a purged unit away.
#[test]
fn a_purged_unit_that_is_given_away_gets_an_owner() {
    let mut world = World::settled(2, 1);
    let (owner, other) = (world.owner(0), 1 - world.owner(0));
    let hint = world.hint(0, epoch(world.nodes[other].epoch));
    world.purge(&GroupKey::Unit(unit(0)));
    world.tell(owner, hint);
    world.run(HEARTBEAT);
    assert!(world.owners(&unit(0)).is_empty());
    let most = LONGEST_LEASE + 8 * HEARTBEAT;
    world.until(most, |world| world.owners(&unit(0)).len() == 1);
}

/// Nobody runs into that one: giver and receiver take each other for the owner.
#[test]
fn a_unit_that_was_purged_between_its_giving_and_its_showing_gets_an_owner_by_the_next_watch() {
    let mut world = World::settled(2, 1);
    let (owner, other) = (world.owner(0), 1 - world.owner(0));
    let key = GroupKey::Unit(unit(0));
    let before = world.sequence(&key);
    world.nodes[other].silent = true;
    let hint = world.hint(0, epoch(world.nodes[other].epoch));
    world.tell(owner, hint);
    world.until(SECOND, |world| world.sequence(&key) > before);
    world.purge(&key);
    world.nodes[other].silent = false;
    world.run(LONGEST_LEASE * 3);
    assert!(world.owners(&unit(0)).is_empty());
    world.watch(other);
    world.until(LONGEST_LEASE + TTL, |world| {
        !world.owners(&unit(0)).is_empty()
    });
}

/// 6: a new watch lacks what is written over while it begins. That was not purged.
#[test]
fn a_unit_that_moves_while_a_watch_begins_anew_has_its_owner_at_once() {
    let mut world = World::settled(2, 1);
    let (from, to) = (world.owner(0), 1 - world.owner(0));
    let (last, stood) = (world.last, world.stands(0));
    let hint = world.hint(0, epoch(world.nodes[to].epoch));
    world.tell(from, hint);
    assert_ne!(world.stands(0), stood);
    world.watch_since(to, last);
    world.until(SECOND, |world| world.owners(&unit(0)) == [to]);
}

/// So is a member's record, each heartbeat.
#[test]
fn a_heartbeat_while_a_watch_begins_anew_is_no_silence() {
    let mut world = World::settled(2, 2);
    let other = epoch(world.nodes[1].epoch);
    let known = |world: &World| world.nodes[0].group.view.member(other).unwrap().clone();
    let last = world.last;
    world.beat(1);
    world.watch_since(0, last);
    assert_eq!(known(&world).info, None);
    world.run(SECOND);
    assert!(known(&world).info.is_some() && !known(&world).flapped);
    // Nor is it where the one before was missed as well.
    world.nodes[0].silent = true;
    world.beat(1);
    let last = world.last;
    world.beat(1);
    world.nodes[0].silent = false;
    world.watch_since(0, last);
    assert_eq!(known(&world).info, None);
    world.run(SECOND);
    assert!(known(&world).info.is_some() && !known(&world).flapped);
    // One that was really gone is another thing.
    let key = GroupKey::Member(other);
    let beat = world.keys[&key].message.content.clone();
    world.purge(&key);
    world.watch(0);
    let stored = world.store(key, Some(0), beat);
    world.run(SECOND / 2);
    assert!(stored.is_some() && known(&world).flapped);
}

/// 10: a member that finds nothing of a group takes it for no new one, if another knows its record.
#[test]
fn a_group_that_was_purged_as_a_whole_is_not_made_anew_beside_its_owner() {
    let mut world = World::settled(1, 1);
    world.purge(&GroupKey::Group(group()));
    world.purge(&GroupKey::Unit(unit(0)));
    let joined = world.join(1);
    world.run(2 * LONGEST_LEASE);
    assert_eq!(world.owners(&unit(0)), [0]);
    // With its next watch the owner writes what it was told. Without it, the group is made anew.
    world.nodes[0].alive = false;
    world.until(TTL + LONGEST_LEASE, |world| {
        world.owners(&unit(0)) == [joined]
    });
}

/// 10: nor because of a record that says it is only being made.
#[test]
fn a_forged_beginning_makes_no_group_anew_beside_its_owner() {
    let mut world = World::settled(1, 1);
    let key = GroupKey::Group(group());
    let GroupContent::Group(name, Some(made)) = world.keys[&key].message.content.clone() else {
        panic!("a record");
    };
    let making = GroupRecord {
        making: true,
        ..made
    };
    world.purge(&key);
    world.purge(&GroupKey::Unit(unit(0)));
    world.join(1);
    world.run(2 * SECOND);
    world.beat(0);
    world.run(SECOND / 10);
    (world.nodes[0].silent, world.nodes[0].mute) = (true, true);
    let begun = GroupContent::Group(name, Some(making));
    assert!(world.store(key, Some(0), begun).is_some());
    world.run_short_of(TTL * 9 / 10, SECOND);
    assert_eq!(world.owners(&unit(0)), [0]);
    world.until(2 * LONGEST_LEASE, |world| world.owners(&unit(0)) == [1]);
}

/// 10: nor while a member may live whom its first watch has not shown.
#[test]
fn a_group_is_not_made_anew_before_all_members_are_known() {
    let mut world = World::settled(1, 1);
    world.purge(&GroupKey::Group(group()));
    world.purge(&GroupKey::Unit(unit(0)));
    let joins = world.add(Units::Shards(1), None);
    world.beat(joins);
    let last = world.last;
    world.beat(0);
    (world.nodes[0].silent, world.nodes[0].mute) = (true, true);
    world.watch_since(joins, last);
    world.run_short_of(TTL * 9 / 10, SECOND);
    assert_eq!(world.owners(&unit(0)), [0]);
    world.until(2 * LONGEST_LEASE, |world| world.owners(&unit(0)) == [joins]);
}

/// 10: a member tells that a group was made, whatever becomes of the group's record, and others
/// remember it while that member may have a lease.
#[test]
fn that_a_group_was_made_is_told_and_remembered() {
    let mut world = World::settled(2, 2);
    let key = GroupKey::Group(group());
    world.store(key, None, GroupContent::Group(group(), None));
    world.run(2 * SECOND);
    assert!(
        world
            .nodes
            .iter()
            .all(|it| it.group.generation(&group()) == 1)
    );
    world.purge(&GroupKey::Member(epoch(world.nodes[1].epoch)));
    world.nodes[1].alive = false;
    world.watch(0);
    let may_be_made = |world: &World| {
        let view = &world.nodes[0].group.view;
        let mut others = view.clone();
        others.members.remove(&epoch(world.nodes[0].epoch));
        others.may_be_made(&group(), world.now)
    };
    assert!(may_be_made(&world));
    world.until(LONGEST_LEASE + SECOND, |world| !may_be_made(world));
}
