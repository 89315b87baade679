//! Units, their terms, and generations, by the rule that each test holds. The numbers are
//! those in `docs/protocol.md`.

use std::time::Duration;

use super::super::*;
use super::world::*;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn all_units_of_a_new_group_get_an_owner() {
    let world = World::settled(3, 8);
    let owners: std::collections::BTreeSet<usize> = (0..8).map(|it| world.owner(it)).collect();
    assert!(owners.len() > 1, "they are spread");
}

/// 1: no term begins again on a record on which one has ended.
#[test]
fn a_term_that_has_ended_does_not_begin_again() {
    let mut world = World::settled(1, 1);
    let before = world.nodes[0].terms[&unit(0)].sequence;
    world.nodes[0].unanswered = true;
    world.end_handler(0, &unit(0), before);
    world.watch(0);
    world.run(HEARTBEAT / 2);
    assert!(!world.nodes[0].terms[&unit(0)].runs);
    world.until(5 * SECOND, |world| world.nodes[0].terms[&unit(0)].runs);
    assert!(world.nodes[0].terms[&unit(0)].sequence > before);
}

/// 1: neither if a record that was purged is shown once more.
#[test]
fn a_purged_record_that_is_shown_late_begins_nothing() {
    let mut world = World::settled(1, 1);
    let key = GroupKey::Unit(unit(0));
    let late = world.keys[&key].message.clone();
    world.nodes[0].delayed = true;
    world.purge(&key);
    world.watch(0);
    world.tell(0, GroupInput::Shown(late));
    world.run(LONGEST_LEASE + TTL);
    assert!(world.owners(&unit(0)).is_empty());
}

/// 2: the owner gives its unit away when its handler has ended, and not before.
#[test]
fn a_unit_is_given_away_after_its_handler_has_ended() {
    let mut world = World::settled(2, 1);
    let (from, to) = (world.owner(0), 1 - world.owner(0));
    world.nodes[from].stubborn = true;
    let token = world.nodes[from].terms[&unit(0)].sequence;
    let epoch = epoch(world.nodes[to].epoch);
    let hint = world.hint(0, epoch);
    world.tell(from, hint);
    world.run(STOP / 2);
    assert_eq!(world.owner(0), from);
    world.nodes[from].stubborn = false;
    world.end_handler(from, &unit(0), token);
    world.until(SECOND, |world| world.owners(&unit(0)) == [to]);
    assert_eq!(world.stands(0), Some(UnitRecord::Owned(epoch)));
}

/// 2: a giving without an answer is sent again as it was.
#[test]
fn an_unanswered_giving_is_repeated_until_its_outcome_is_known() {
    let mut world = World::settled(2, 1);
    let (from, to) = (world.owner(0), 1 - world.owner(0));
    (world.nodes[from].unanswered, world.nodes[from].silent) = (true, true);
    let written = world.nodes[from].written.len();
    let epoch = epoch(world.nodes[to].epoch);
    let hint = world.hint(0, epoch);
    world.tell(from, hint);
    world.run(5 * SECOND);
    assert_eq!(world.owner(0), to);
    let givings = &world.nodes[from].written[written..];
    assert!(givings.len() > 2 && givings.iter().all(|it| *it == givings[0]));
    world.nodes[from].silent = false;
    let written = world.nodes[from].written.len();
    world.run(5 * SECOND);
    assert_eq!(world.nodes[from].written.len(), written);
}

/// 3: what a dead member owned is taken after its lease, and not before.
#[test]
fn units_of_a_dead_member_are_taken_after_its_lease() {
    let mut world = World::settled(3, 6);
    let dead = world.owner(0);
    world.nodes[dead].alive = false;
    world.run_short_of(TTL, 2 * SECOND);
    assert!(world.owners(&unit(0)).is_empty());
    world.until(2 * SECOND + 4 * HEARTBEAT, |world| {
        (0..6).all(|number| world.owners(&unit(number)).len() == 1)
    });
}

/// 4: each term has a record of its own, also after its handler ended by itself.
#[test]
fn the_next_term_of_an_owner_has_a_greater_token() {
    let mut world = World::settled(1, 1);
    let before = world.nodes[0].terms[&unit(0)].sequence;
    world.end_handler(0, &unit(0), before);
    world.until(3 * SECOND, |world| !world.owners(&unit(0)).is_empty());
    assert!(world.nodes[0].terms[&unit(0)].sequence > before);
}

/// 8: a handler that does not end is revoked, and its unit given away a lease later. Others go on.
#[test]
fn a_handler_that_does_not_end_holds_its_unit_back_and_no_other() {
    // No plan brings the unit back.
    let mut world = World::settled_with(2, 6, settings().band(100));
    let from = world.owner(0);
    let mine: Vec<u32> = (1..6).filter(|it| world.owner(*it) == from).collect();
    let tokens: Vec<_> = mine
        .iter()
        .map(|it| world.nodes[from].terms[&unit(*it)])
        .collect();
    world.nodes[from].stubborn = true;
    let to = epoch(world.nodes[1 - from].epoch);
    let hint = world.hint(0, to);
    world.tell(from, hint);
    world.run(STOP + SECOND / 2);
    assert!(world.nodes[from].terms[&unit(0)].revoked);
    world.run_short_of(TTL, SECOND);
    assert!(world.owners(&unit(0)).is_empty());
    world.until(2 * SECOND, |world| world.owners(&unit(0)) == [1 - from]);
    let again: Vec<_> = mine
        .iter()
        .map(|it| world.nodes[from].terms[&unit(*it)])
        .collect();
    assert_eq!(tokens, again);
    let back = epoch(world.nodes[from].epoch);
    let hint = world.hint(0, back);
    world.tell(1 - from, hint);
    world.run(STOP / 2);
    assert!(
        world.owners(&unit(0)).is_empty(),
        "its old handler still runs there"
    );
    // It is passed on, and no plan brings it back.
    world.until(STOP + 3 * SECOND, |world| {
        world.owners(&unit(0)) == [1 - from]
    });
    world.run(600 * SECOND);
    assert_eq!(world.owner(0), 1 - from);
}

/// 8: the only member gives up a unit whose handler does not end, for others that come.
#[test]
fn a_unit_whose_handler_does_not_end_is_for_the_next_member() {
    let mut world = World::settled(1, 2);
    world.nodes[0].stubborn = true;
    world.sicken(0);
    world.run(STOP * 2 + TTL + 5 * SECOND);
    assert!(world.owners(&unit(0)).is_empty());
    assert_eq!(world.owners(&unit(1)), [0], "no other is touched");
    assert_eq!(world.stands(0), Some(UnitRecord::Nobody));
    let written = world.nodes[0].written.len();
    world.run(5 * TTL);
    assert_eq!(world.nodes[0].written.len(), written, "it stays so");
    let other = world.join(2);
    world.until(TTL * 2, |world| world.owners(&unit(0)) == [other]);
}

/// The group grows from 2 units to 4.
fn grow(world: &mut World) {
    let record = GroupRecord {
        kind: GroupKind::Sharded {
            shards: 4,
            before: 2,
        },
        generation: 2,
        making: false,
    };
    let key = GroupKey::Group(group());
    let over = world.sequence(&key);
    world.store(key, Some(over), GroupContent::Group(group(), Some(record)));
}

/// A unit of the group that has grown.
fn grown(number: u32) -> UnitKey {
    UnitKey {
        generation: 2,
        ..unit(number)
    }
}

/// 10: units of the next generation begin when all of the one before are closed for good.
#[test]
fn a_new_generation_begins_after_the_old_one_is_closed() {
    let mut world = World::settled(2, 2);
    let slow = world.owner(0);
    world.nodes[slow].stubborn = true;
    grow(&mut world);
    let all = |world: &World| (0..4).all(|it| world.owners(&grown(it)).len() == 1);
    world.until(LONGEST_LEASE * 2 + TTL, |world| {
        let old = (0..2).any(|it| !world.owners(&unit(it)).is_empty());
        let young = (0..4).any(|it| !world.owners(&grown(it)).is_empty());
        let closed = (0..2).all(|it| world.stands(it) == Some(UnitRecord::Closed));
        assert!(!young || closed && !old);
        all(world)
    });
}

/// 10: a unit of the old generation that nobody can close holds the new one back.
#[test]
fn no_new_generation_begins_beside_an_old_unit_that_is_not_closed() {
    let mut world = World::settled(2, 2);
    let owner = world.owner(0);
    world.nodes[owner].delayed = true;
    grow(&mut world);
    world.run(LONGEST_LEASE * 2);
    assert!((0..4).all(|number| world.owners(&grown(number)).is_empty()));
    world.nodes[owner].delayed = false;
    world.until(LONGEST_LEASE * 2, |world| {
        (0..4).all(|number| world.owners(&grown(number)).len() == 1)
    });
}

#[test]
fn a_member_that_drains_gives_all_its_units_to_others() {
    let mut world = World::settled(3, 9);
    let drained = world.owner(0);
    world.tell(drained, GroupInput::Drain);
    world.until(2 * SECOND, |world| {
        (0..9).all(|it| world.owners(&unit(it)).len() == 1)
            && (0..9).all(|it| world.owner(it) != drained)
    });
    world.run(TTL * 2);
    assert!((0..9).all(|it| world.owner(it) != drained));
}
