//! Generations: a group that grows, and records that say so and are not true.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::*;
use super::world::*;
use crate::name::UnitName;

const SECOND: Duration = Duration::from_secs(1);

fn record(shards: u32, before: u32, generation: u32) -> GroupRecord {
    GroupRecord {
        kind: GroupKind::Sharded { shards, before },
        generation,
        making: false,
    }
}

fn put(world: &mut World, record: Option<GroupRecord>) {
    let key = GroupKey::Group(group());
    let over = world.sequence(&key);
    world.store(key, Some(over), GroupContent::Group(group(), record));
}

fn stands(world: &World) -> Option<GroupRecord> {
    match &world.keys[&GroupKey::Group(group())].message.content {
        GroupContent::Group(_, record) => *record,
        _ => None,
    }
}

fn grown(number: u32) -> UnitKey {
    UnitKey {
        generation: 2,
        ..unit(number)
    }
}

/// Somebody creates the units of the next generation ahead of it.
fn prepare(world: &mut World, shards: u32) {
    for number in 0..shards {
        let content = GroupContent::Unit {
            key: grown(number),
            record: Some(UnitRecord::Nobody),
            signed: None,
        };
        world.store(GroupKey::Unit(grown(number)), Some(0), content);
    }
}

fn all_grown(world: &World, shards: u32) -> bool {
    (0..shards).all(|it| world.owners(&grown(it)).len() == 1)
}

/// Units that were created long before have owners as soon as the old ones are closed, and a plan
/// spreads them.
#[test]
fn a_growth_that_was_prepared_costs_seconds() {
    let mut world = World::settled(3, 4);
    prepare(&mut world, 8);
    world.run(LONGEST_LEASE + SECOND);
    assert!((0..4).all(|it| world.owners(&unit(it)).len() == 1));
    assert!((0..8).all(|it| world.owners(&grown(it)).is_empty()));
    put(&mut world, record(4, 0, 1).resized(8));
    world.until(5 * HEARTBEAT, |world| all_grown(world, 8));
    world.until(TTL, |world| {
        let owned = world.owned();
        owned.iter().max().unwrap() - owned.iter().min().unwrap() <= 1
    });
}

/// Runs for so long, in which no unit of the new generation is without a handler for long.
fn run_without_a_gap(world: &mut World, time: Duration, shards: u32) {
    let mut idle = 0;
    for _ in 0..time.as_secs() * 10 {
        world.run(SECOND / 10);
        idle = if all_grown(world, shards) {
            0
        } else {
            idle + 1
        };
        assert!(idle < 5, "a unit has had no handler for half a second");
    }
}

/// The units of the new generation age for members that joined after their creation. Nobody moves
/// units to them before: they would have no handler until then. The planner knows that, also if it is
/// the last of them, which was not shown since when the others are there. They get their share as
/// soon as they may begin it.
#[test]
fn members_that_join_around_a_growth_are_given_units_when_they_may_begin_them() {
    for (early, late) in [(1, 0), (0, 1), (2, 0), (1, 1)] {
        let mut world = before_a_planner(2, early + late, 4);
        world.run(LONGEST_LEASE * 2 + TTL);
        prepare(&mut world, 8);
        world.run_short_of(LONGEST_LEASE, 10 * SECOND);
        for _ in 0..early {
            world.join(4);
            world.run(3 * SECOND);
        }
        world.run_short_of(11 * SECOND, u32::from(early) * 3 * SECOND);
        put(&mut world, record(4, 0, 1).resized(8));
        for _ in 0..late {
            world.join(4);
        }
        world.until(5 * HEARTBEAT, |world| all_grown(world, 8));
        run_without_a_gap(&mut world, LONGEST_LEASE + 4 * HEARTBEAT, 8);
        let owned = world.owned();
        let (most, least) = (owned.iter().max().unwrap(), owned.iter().min().unwrap());
        assert!(most - least <= 1, "{owned:?}");
    }
}

/// One that joins when they have owners finds them of age, and takes what the dead owned.
#[test]
fn a_member_that_joins_after_a_growth_waits_for_none_of_its_units() {
    let mut world = World::settled(3, 4);
    prepare(&mut world, 8);
    world.run(LONGEST_LEASE + SECOND);
    put(&mut world, record(4, 0, 1).resized(8));
    world.until(5 * HEARTBEAT, |world| all_grown(world, 8));
    let late = world.join(4);
    world.until(TTL + 6 * HEARTBEAT, |world| world.owned()[late] == 2);
    for node in &mut world.nodes {
        node.most_units = Some(3);
    }
    world.run(2 * HEARTBEAT);
    world.nodes[0].alive = false;
    world.until(TTL + 4 * HEARTBEAT, |world| all_grown(world, 8));
}

/// A group that grows has run: it does not wait for as many members as one that starts. It does when
/// all have stopped later.
#[test]
fn a_growth_does_not_wait_for_the_least_number_of_members() {
    let policy = settings().min_members(3);
    let mut world = World::settled_with(3, 4, policy.clone());
    world.nodes[2].alive = false;
    world.until(TTL + 4 * HEARTBEAT, |world| {
        (0..4).all(|it| world.owners(&unit(it)).len() == 1)
    });
    prepare(&mut world, 8);
    world.run(LONGEST_LEASE + SECOND);
    put(&mut world, record(4, 0, 1).resized(8));
    world.until(5 * HEARTBEAT, |world| all_grown(world, 8));

    world.leave(0);
    world.leave(1);
    let join = |world: &mut World| world.join_with(8, Some(placement(policy.clone())));
    let first = join(&mut world);
    join(&mut world);
    world.run(LONGEST_LEASE + TTL);
    assert!(world.nodes[first].group.has_joined());
    assert!((0..8).all(|it| world.owners(&grown(it)).is_empty()));
    join(&mut world);
    world.until(LONGEST_LEASE + TTL, |world| all_grown(world, 8));
}

/// A group can also get fewer shards: all old units end first, whatever their number.
#[test]
fn a_new_generation_may_have_fewer_shards() {
    let mut world = World::settled(2, 4);
    put(&mut world, record(4, 0, 1).resized(2));
    world.until(LONGEST_LEASE + TTL, |world| {
        let old = (0..4).any(|it| !world.owners(&unit(it)).is_empty());
        let young = (0..2).any(|it| !world.owners(&grown(it)).is_empty());
        assert!(!(old && young));
        all_grown(world, 2)
    });
    assert!(world.owners(&grown(2)).is_empty());
}

/// Its own number counts for nothing: the record's does.
#[test]
fn a_member_with_another_number_in_its_settings_joins_the_group_as_it_is() {
    let mut world = World::settled(1, 4);
    let joined = world.join(9);
    world.run(TTL + 2 * SECOND);
    world.tell(0, GroupInput::Drain);
    world.until(2 * SECOND, |world| {
        (0..4).all(|it| world.owners(&unit(it)) == [joined])
    });
    assert_eq!(stands(&world), Some(record(4, 0, 1)));
}

/// 10 and 12: in the present generation nobody closes units. So that record costs time like any
/// other that is forged.
#[test]
fn a_unit_that_a_stranger_closed_gets_an_owner_again() {
    let mut world = World::settled(2, 2);
    world.forge(0, Some(UnitRecord::Closed), None);
    world.run(SECOND);
    assert!(world.owners(&unit(0)).is_empty());
    assert_eq!(world.owners(&unit(1)).len(), 1);
    world.run_short_of(2 * LONGEST_LEASE, SECOND);
    assert!(world.owners(&unit(0)).is_empty(), "it is of no age");
    world.until(4 * HEARTBEAT, |world| world.owners(&unit(0)).len() == 1);
}

/// The same for a unit of nobody, over which a closing counts at once.
#[test]
fn a_free_unit_that_a_stranger_closed_gets_an_owner_again() {
    let mut world = World::settled(1, 1);
    world.tell(0, GroupInput::Drain);
    world.until(2 * SECOND, |world| {
        world.stands(0) == Some(UnitRecord::Nobody)
    });
    world.forge(0, Some(UnitRecord::Closed), None);
    let joined = world.join(1);
    world.until(LONGEST_LEASE * 2 + TTL, |world| {
        world.owners(&unit(0)) == [joined]
    });
}

/// Who may send hints may not write keys by them.
#[test]
fn a_hint_about_an_earlier_generation_creates_no_unit_of_it() {
    let mut world = World::settled(2, 2);
    put(&mut world, record(2, 0, 1).resized(4));
    world.until(LONGEST_LEASE + TTL, |world| all_grown(world, 4));
    let keys = world.keys.len();
    let hint = Hint {
        unit: unit(4_000_000_000),
        sequence: 1,
        to: epoch(world.nodes[0].epoch),
    };
    world.tell(0, GroupInput::Hint { hints: vec![hint] });
    world.run(3 * HEARTBEAT);
    assert_eq!(world.keys.len(), keys);
    assert!(all_grown(&world, 4));
}

/// 10: a closed unit of an earlier generation stays closed.
#[test]
fn no_unit_of_an_earlier_generation_is_opened_again() {
    let mut world = World::settled(2, 2);
    put(&mut world, record(2, 0, 1).resized(4));
    world.until(LONGEST_LEASE + TTL, |world| all_grown(world, 4));
    // A stranger, and members that know nothing but what stands there.
    put(&mut world, Some(record(2, 0, 1)));
    let joined = world.join(2);
    world.nodes[0].mute = true;
    world.nodes[1].mute = true;
    world.run(LONGEST_LEASE * 3);
    for number in 0..2 {
        assert_eq!(world.stands(number), Some(UnitRecord::Closed));
        assert!(world.owners(&unit(number)).is_empty(), "{joined}");
    }
}

/// 10: who was not shown the growth could write over a *closed* from before it.
#[test]
fn a_unit_that_was_closed_before_the_group_grew_is_closed_again() {
    let mut world = World::settled(2, 1);
    world.forge(0, Some(UnitRecord::Closed), None);
    world.run(SECOND);
    put(&mut world, record(1, 0, 1).resized(2));
    let grown_at = world.last;
    world.until(LONGEST_LEASE * 2 + TTL, |world| {
        let closed_at = world.sequence(&GroupKey::Unit(unit(0)));
        let begun = (0..2).any(|it| !world.owners(&grown(it)).is_empty());
        assert!(
            closed_at > grown_at || !begun,
            "beside a closed that an old owner may write over"
        );
        all_grown(world, 2)
    });
}

/// 10: a record that goes back, or gives a generation other units, is written over by those who
/// know better, and nobody acts on it.
#[test]
fn a_record_of_an_earlier_generation_counts_for_nothing() {
    let told = record(4, 2, 2);
    for forged in [
        record(2, 0, 1),
        record(8, 2, 2),
        GroupRecord {
            making: true,
            ..told
        },
        GroupRecord {
            kind: GroupKind::Spread,
            ..record(4, 2, 3)
        },
    ] {
        let mut world = World::settled(2, 2);
        put(&mut world, record(2, 0, 1).resized(4));
        world.until(LONGEST_LEASE + TTL, |world| all_grown(world, 4));
        let before = world.owned();
        put(&mut world, Some(forged));
        world.until(4 * HEARTBEAT, |world| stands(world) == Some(told));
        world.run(TTL);
        assert_eq!(world.owned(), before, "{forged:?}");
    }
}

/// The same if the record was purged first: it is made again as it was, and not by the settings.
#[test]
fn a_record_that_is_made_again_has_the_number_that_it_had() {
    let mut world = World::settled(2, 2);
    put(&mut world, record(2, 0, 1).resized(4));
    world.until(LONGEST_LEASE + TTL, |world| all_grown(world, 4));
    world.purge(&GroupKey::Group(group()));
    world.watch(0);
    world.watch(1);
    let is_there = |world: &World| world.keys.contains_key(&GroupKey::Group(group()));
    world.until(4 * HEARTBEAT, is_there);
    assert_eq!(stands(&world), Some(record(4, 2, 2)));
    world.run(TTL);
    assert!(all_grown(&world, 4));
}

/// It owns nothing of it, is given nothing, and does not write the group's record by its settings.
#[test]
fn a_member_with_another_kind_of_units_takes_no_part_in_the_group() {
    let mut world = World::settled(2, 4);
    let names = vec![UnitName::new("scheduler").unwrap(), UnitName::shard(1)];
    let misfit = world.join_as(Units::Named(names), None);
    world.run(LONGEST_LEASE + TTL);
    assert!(world.nodes[misfit].terms.is_empty());
    let here = epoch(world.nodes[misfit].epoch);
    for number in 0..4 {
        let owner = world.owner(number);
        assert_ne!(owner, misfit);
        let hint = world.hint(number, here);
        world.tell(owner, hint);
    }
    world.run(TTL);
    assert!(world.nodes[misfit].terms.is_empty());
    for number in 0..4 {
        world.owner(number);
    }
    for node in 0..2 {
        world.nodes[node].mute = true;
    }
    world.purge(&GroupKey::Group(group()));
    world.watch(misfit);
    world.run(LONGEST_LEASE * 3);
    assert!(!world.keys.contains_key(&GroupKey::Group(group())));
    assert!(world.nodes[misfit].terms.is_empty());
}

/// A stranger's key that is no shard's is nobody's to close, and so holds nothing up.
#[test]
fn a_key_that_is_no_shards_stops_no_generation() {
    let mut world = World::settled(2, 2);
    let write = |world: &mut World| {
        for name in ["foo", "017"] {
            let key = UnitKey {
                unit: UnitName::new(name).unwrap(),
                ..unit(0)
            };
            let content = GroupContent::Unit {
                key: key.clone(),
                record: Some(UnitRecord::Nobody),
                signed: None,
            };
            world.store(GroupKey::Unit(key), None, content);
        }
    };
    write(&mut world);
    put(&mut world, Some(record(4, 2, 2)));
    world.until(2 * LONGEST_LEASE, |world| all_grown(world, 4));
    // Nor does it stop one that has begun.
    write(&mut world);
    world.run(SECOND);
    world.leave(0);
    world.until(2 * TTL, |world| {
        (0..4).all(|it| world.owners(&grown(it)) == [1])
    });
}

/// What a stranger gave to a member that has no such group goes back.
#[test]
fn a_unit_of_a_member_that_takes_no_part_in_its_group_is_nobodys() {
    for given in [unit(0), grown(0)] {
        let mut world = World::settled(2, 2);
        let elsewhere = world.add(Units::Shards(2), None);
        let settings = GroupSettings {
            ttl: TTL,
            heartbeat: HEARTBEAT,
            stop_budget: STOP,
            groups: BTreeMap::new(),
            placements: BTreeMap::new(),
        };
        world.nodes[elsewhere].group = Group::new(settings, world.now);
        world.nodes[elsewhere].cordoned = true;
        world.watch(elsewhere);
        world.run(TTL + SECOND);
        let content = GroupContent::Unit {
            key: given.clone(),
            record: Some(UnitRecord::Owned(epoch(world.nodes[elsewhere].epoch))),
            signed: None,
        };
        world.store(GroupKey::Unit(given), None, content);
        world.run(SECOND);
        let lives = world.nodes[0].group.has_joined();
        assert!(lives);
        world.leave(0);
        world.until(2 * LONGEST_LEASE, |world| {
            (0..2).all(|it| world.owners(&unit(it)) == [1])
        });
    }
}

/// Numbers of generations come to an end. A record beyond that is not understood.
#[test]
fn a_generation_beyond_the_last_one_is_not_understood() {
    let parsed = |generation: u32| {
        let value = format!(r#"{{"v":1,"kind":"sharded","n":2,"gen":{generation}}}"#);
        GroupRecord::parse(value.as_bytes())
    };
    let last = parsed(MOST_GENERATIONS).unwrap();
    assert_eq!(last.generation, MOST_GENERATIONS);
    assert_eq!(last.resized(4), None);
    assert!(parsed(MOST_GENERATIONS - 1).unwrap().resized(4).is_some());
    for generation in [0, MOST_GENERATIONS + 1, u32::MAX] {
        assert_eq!(parsed(generation), None);
    }
}

/// What a hint or a stranger gave to it does not stay there without a handler.
#[test]
fn a_unit_that_its_owner_has_no_handler_for_is_nobodys() {
    let named = |names: &[&str]| {
        let names = names.iter().map(|it| UnitName::new(it).unwrap());
        Units::Named(names.collect())
    };
    let key = |name: &str| UnitKey {
        unit: UnitName::new(name).unwrap(),
        ..unit(0)
    };
    let mut world = World::new(0, 0);
    world.join_as(named(&["a", "b"]), None);
    world.run(LONGEST_LEASE * 2);
    let other = world.join_as(named(&["a"]), None);
    world.run(LONGEST_LEASE + TTL);
    let given = UnitRecord::Owned(epoch(world.nodes[other].epoch));
    let content = GroupContent::Unit {
        key: key("b"),
        record: Some(given),
        signed: None,
    };
    world.store(GroupKey::Unit(key("b")), None, content);
    world.until(LONGEST_LEASE * 2 + TTL, |world| {
        world.owners(&key("b")) == [0]
    });
    assert!(!world.nodes[other].terms.contains_key(&key("b")));
}

/// A record of a later version is respected: nobody writes over it, and nobody takes a unit.
#[test]
fn a_groups_record_that_is_not_understood_stays() {
    let mut world = World::settled(2, 2);
    let owner = world.owner(0);
    put(&mut world, None);
    world.run(SECOND);
    assert_eq!(world.owner(0), owner, "its owner acts on");
    // A member can leave, and one can die.
    let other = 1 - owner;
    world.tell(other, GroupInput::Drain);
    world.until(2 * SECOND, |world| world.nodes[other].group.is_idle());
    world.nodes[owner].alive = false;
    world.run(LONGEST_LEASE + TTL);
    assert_eq!(stands(&world), None);
    assert!(world.owners(&unit(0)).is_empty());
}

#[test]
fn only_a_sharded_group_that_was_made_is_resized() {
    assert_eq!(record(4, 0, 1).resized(8), Some(record(8, 4, 2)));
    for (before, shards) in [
        (record(4, 0, 1), 0),
        (record(4, 0, 1), MOST_SHARDS + 1),
        (record(4, 0, u32::MAX), 8),
        (
            GroupRecord {
                making: true,
                ..record(4, 0, 1)
            },
            8,
        ),
        (
            GroupRecord {
                kind: GroupKind::Spread,
                ..record(4, 0, 1)
            },
            8,
        ),
    ] {
        assert_eq!(before.resized(shards), None, "{before:?}");
    }
}
