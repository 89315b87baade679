//! The rules by their numbers in `docs/protocol.md`.

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
    joiner.step(world.now, GroupInput::CaughtUp { last: world.last });
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

/// 4: each term has a record of its own, also after its handler ended by itself.
#[test]
fn the_next_term_of_an_owner_has_a_greater_token() {
    let mut world = World::settled(1, 1);
    let before = world.nodes[0].terms[&unit(0)].sequence;
    world.end_handler(0, &unit(0), before);
    world.until(3 * SECOND, |world| !world.owners(&unit(0)).is_empty());
    assert!(world.nodes[0].terms[&unit(0)].sequence > before);
}

/// 5: a forged tombstone frees nothing before the lease was watched to its end.
#[test]
fn a_forged_tombstone_frees_nothing_at_once() {
    let mut world = World::settled(2, 1);
    let owner = world.owner(0);
    let epoch = epoch(world.nodes[owner].epoch);
    world.nodes[owner].silent = true;
    let key = GroupKey::Member(epoch);
    let tombstone = GroupContent::Member(
        epoch,
        MemberContent::Tombstone {
            secret: None,
            identity: None,
        },
    );
    world.store(key, None, tombstone);
    world.nodes[owner].mute = true;
    let other = 1 - owner;
    world.run(TTL * 8 / 10);
    assert_eq!(world.stands(0), Some(UnitRecord::Owned(epoch)));
    world.until(TTL, |world| world.owners(&unit(0)) == [other]);
}

/// 5: a stranger's tombstone was there before the epoch's claim, and is gone.
#[test]
fn an_epoch_lives_whose_record_follows_a_tombstone() {
    let mut world = World::settled(2, 1);
    let owner = world.owner(0);
    let number = world.nodes[owner].epoch;
    let (epoch, key) = (epoch(number), GroupKey::Member(epoch(number)));
    world.nodes[owner].alive = false;
    let tombstone = MemberContent::Tombstone {
        secret: None,
        identity: None,
    };
    world.store(key.clone(), None, GroupContent::Member(epoch, tombstone));
    world.run(TTL * 8 / 10);
    world.purge(&key);
    world.store(key, Some(0), heartbeat(number, false));
    world.run(TTL * 8 / 10);
    assert_eq!(world.stands(0), Some(UnitRecord::Owned(epoch)));
    world.until(TTL, |world| world.owners(&unit(0)) == [1 - owner]);
}

/// 5: a tombstone with the epoch's secret frees at once.
#[test]
fn a_lost_lease_is_retired_and_its_units_go_on_at_once() {
    let mut world = World::settled(2, 1);
    let owner = world.owner(0);
    let old = epoch(world.nodes[owner].epoch);
    world.tell(owner, GroupInput::LeaseLost { epoch: old });
    assert!(world.owners(&unit(0)).is_empty());
    world.until(4 * HEARTBEAT, |world| world.owners(&unit(0)).len() == 1);
    assert_ne!(world.stands(0), Some(UnitRecord::Owned(old)));
}

/// 5: the last will of a member whose process died. What the process had sent is still on its way.
#[test]
fn a_last_will_and_late_writes_of_the_dead_leave_one_owner() {
    for giving_comes_first in [true, false] {
        let mut world = World::settled(3, 1);
        let dead = world.owner(0);
        let old = epoch(world.nodes[dead].epoch);
        let heir = (dead + 1) % 3;
        let hint = world.hint(0, epoch(world.nodes[heir].epoch));
        world.nodes[dead].delayed = true;
        world.tell(dead, hint);
        world.run(SECOND / 2);
        let (key, over, giving) = world.ghosts.pop().expect("a giving");
        let member = GroupKey::Member(old);
        let beat = world.sequence(&member);
        world.nodes[dead].alive = false;
        world.retire(old);
        let late = heartbeat(world.nodes[dead].epoch, false);
        assert_eq!(world.store(member, Some(beat), late), None);
        if giving_comes_first {
            assert!(world.store(key, Some(over), giving).is_some());
            world.until(SECOND, |world| world.owners(&unit(0)) == [heir]);
        } else {
            world.until(SECOND, |world| world.owners(&unit(0)).len() == 1);
            assert_eq!(world.store(key, Some(over), giving), None);
        }
        let owner = world.owner(0);
        world.run(TTL);
        assert_eq!(world.owners(&unit(0)), [owner]);
    }
}

/// 5: a wrong secret is no secret.
#[test]
fn a_tombstone_with_a_wrong_secret_frees_nothing_at_once() {
    let mut world = World::settled(2, 1);
    let owner = world.owner(0);
    let epoch = epoch(world.nodes[owner].epoch);
    (world.nodes[owner].silent, world.nodes[owner].mute) = (true, true);
    let wrong = Some(secret(99));
    let tombstone = GroupContent::Member(
        epoch,
        MemberContent::Tombstone {
            secret: wrong,
            identity: None,
        },
    );
    world.store(GroupKey::Member(epoch), None, tombstone);
    world.run(TTL * 8 / 10);
    assert_eq!(world.stands(0), Some(UnitRecord::Owned(epoch)));
}

/// 5: a record that a new watch shows again is not counted anew.
#[test]
fn watches_that_begin_anew_do_not_put_off_a_deposition_for_ever() {
    let mut world = World::settled(2, 1);
    let owner = world.owner(0);
    world.nodes[owner].alive = false;
    for _ in 0..6 {
        world.run(TTL / 6);
        let heir = 1 - owner;
        let member = world.nodes[owner].epoch;
        let at = world.nodes[heir]
            .group
            .view
            .member(epoch(member))
            .unwrap()
            .over_at;
        world.watch(heir);
        let again = world.nodes[heir]
            .group
            .view
            .member(epoch(member))
            .unwrap()
            .over_at;
        assert_eq!(at, again);
    }
    world.until(TTL + 3 * HEARTBEAT, |world| {
        world.owners(&unit(0)) == [1 - owner]
    });
}

/// 5: a member whose record is missing is waited for, and then has a tombstone all the same.
#[test]
fn the_units_of_a_member_without_a_record_are_taken_after_the_longest_lease() {
    let mut world = World::settled(2, 1);
    let (owner, heir) = (world.owner(0), 1 - world.owner(0));
    let gone = epoch(world.nodes[owner].epoch);
    world.nodes[owner].alive = false;
    world.purge(&GroupKey::Member(gone));
    world.watch(heir);
    world.run_short_of(LONGEST_LEASE, SECOND);
    assert!(world.owners(&unit(0)).is_empty());
    world.until(TTL + 4 * SECOND, |world| world.owners(&unit(0)) == [heir]);
    let tombstone = GroupWrite::Depose {
        epoch: gone,
        over: 0,
        identity: Some(identity(world.nodes[owner].epoch)),
    };
    assert!(world.nodes[heir].written.contains(&tombstone));
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

/// 7: a member whose watch is silent loses its lease, although its heartbeats are confirmed.
#[test]
fn a_heartbeat_that_is_not_shown_extends_nothing() {
    let mut world = World::settled(2, 1);
    let (owner, other) = (world.owner(0), 1 - world.owner(0));
    world.nodes[owner].silent = true;
    world.purge(&GroupKey::Unit(unit(0)));
    world.watch(other);
    world.run(TTL);
    assert!(world.owners(&unit(0)).is_empty());
    assert!(
        world.nodes[owner].rewatched > 3,
        "new watches were asked for"
    );
    world.until(LONGEST_LEASE, |world| world.owners(&unit(0)) == [other]);
}

/// 7: what is shown after the deadline revives nothing.
#[test]
fn no_epoch_comes_back() {
    let mut world = World::settled(1, 1);
    let old = world.nodes[0].epoch;
    world.nodes[0].silent = true;
    world.run(TTL);
    world.nodes[0].silent = false;
    world.run(SECOND);
    assert_ne!(world.nodes[0].epoch, old);
    let now = world.now;
    let granted = GroupInput::Granted {
        epoch: epoch(old),
        sequence: world.last,
        until: now + TTL,
    };
    let lease = world.nodes[0].until;
    world.tell(0, granted);
    assert_eq!(world.nodes[0].until, lease);
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
    world.run(5 * SECOND);
    assert!(
        world.owners(&unit(0)).is_empty(),
        "its old handler still runs there"
    );
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

/// 12: an owner ends its term as soon as another record is shown.
#[test]
fn a_foreign_record_over_its_unit_ends_the_owners_term() {
    let mut world = World::settled(2, 1);
    let owner = world.owner(0);
    world.forge(0, Some(UnitRecord::Nobody), None);
    world.run(SECOND / 2);
    assert!(world.nodes[owner].terms[&unit(0)].revoked);
}

/// 12: a forged record that names a living member makes no second owner.
#[test]
fn a_forged_owner_begins_after_the_longest_lease() {
    let mut world = World::settled(2, 1);
    let (owner, other) = (world.owner(0), 1 - world.owner(0));
    let named = UnitRecord::Owned(epoch(world.nodes[other].epoch));
    world.nodes[owner].silent = true;
    world.forge(0, Some(named), None);
    world.run_short_of(LONGEST_LEASE, SECOND);
    assert!(world.owners(&unit(0)).is_empty());
    world.until(3 * SECOND, |world| world.owners(&unit(0)) == [other]);
}

/// 12: nobody gives on, under its signature, what it was given by nobody known.
#[test]
fn a_forged_owner_gives_nothing_away_before_its_record_is_of_age() {
    let mut world = World::settled(3, 1);
    let owner = world.owner(0);
    let (second, third) = ((owner + 1) % 3, (owner + 2) % 3);
    world.nodes[owner].silent = true;
    let named = UnitRecord::Owned(epoch(world.nodes[second].epoch));
    world.forge(0, Some(named), None);
    world.run(SECOND / 2);
    let to = epoch(world.nodes[third].epoch);
    let hint = world.hint(0, to);
    world.tell(second, hint);
    world.run_short_of(LONGEST_LEASE, 2 * SECOND);
    assert_eq!(world.stands(0), Some(named));
}

/// 12: a giving that the owner signed counts at once. No other signature and none does. The owner
/// has died, so that its own term does not last: with its key a stranger could forge the first.
#[test]
fn a_giving_without_the_owners_signature_costs_the_longest_lease() {
    for signer in [Some(true), Some(false), None] {
        let mut world = World::settled(2, 1);
        let (owner, other) = (world.owner(0), 1 - world.owner(0));
        let [giver, heir] = [owner, other].map(|index| epoch(world.nodes[index].epoch));
        world.nodes[owner].alive = false;
        let signed = signer.map(|is_owner| if is_owner { giver } else { heir });
        world.forge(0, Some(UnitRecord::Owned(heir)), signed);
        world.run(SECOND);
        let counts = world.owners(&unit(0)) == [other];
        assert_eq!(counts, signer == Some(true));
        world.run_short_of(LONGEST_LEASE, 3 * SECOND);
        assert_eq!(!world.owners(&unit(0)).is_empty(), counts);
    }
}

/// 12: a signed giving that is stored a second time was not written over what it says.
#[test]
fn a_signed_giving_that_is_repeated_counts_for_nothing() {
    let mut world = World::settled(2, 1);
    let (owner, other) = (world.owner(0), 1 - world.owner(0));
    world.nodes[owner].silent = true;
    let repeated = GroupContent::Unit {
        key: unit(0),
        record: Some(UnitRecord::Owned(epoch(world.nodes[other].epoch))),
        signed: Some(epoch(world.nodes[owner].epoch)),
    };
    world.store(GroupKey::Unit(unit(0)), None, repeated);
    world.run_short_of(LONGEST_LEASE, SECOND);
    assert!(world.owners(&unit(0)).is_empty());
}

/// 12: a stranger that makes a unit and its group's record look new.
#[test]
fn a_unit_that_only_looks_new_has_no_second_owner() {
    let mut world = World::settled(1, 1);
    world.nodes[0].silent = true;
    let key = GroupKey::Unit(unit(0));
    world.purge(&key);
    let nobody = GroupContent::Unit {
        key: unit(0),
        record: Some(UnitRecord::Nobody),
        signed: None,
    };
    world.store(key, Some(0), nobody);
    let key = GroupKey::Group(group());
    let made = world.keys[&key].message.clone();
    world.store(key, Some(made.sequence), made.content);
    let joined = world.join(1);
    world.until(LONGEST_LEASE + TTL, |world| {
        world.owners(&unit(0)) == [joined]
    });
}

/// 12: rubbish and delete markers cost time, and the unit has an owner again.
#[test]
fn a_unit_under_rubbish_gets_an_owner_again() {
    let mut world = World::settled(2, 1);
    world.forge(0, None, None);
    world.run(LONGEST_LEASE);
    assert!(world.owners(&unit(0)).is_empty());
    world.until(LONGEST_LEASE + 3 * HEARTBEAT, |world| {
        world.owners(&unit(0)).len() == 1
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

/// A stream that lost its end gives the same sequences again.
#[test]
fn another_record_at_a_known_sequence_ends_the_lease() {
    let mut world = World::settled(2, 1);
    let owner = world.owner(0);
    let another = GroupContent::Unit {
        key: unit(0),
        record: Some(UnitRecord::Owned(epoch(world.nodes[1 - owner].epoch))),
        signed: None,
    };
    let last = world.last;
    let known: Vec<Message> = world.keys.values().map(|it| it.message.clone()).collect();
    let mut changed = known.clone();
    let of_unit = |it: &&mut Message| it.content.key() == GroupKey::Unit(unit(0));
    changed.iter_mut().find(of_unit).unwrap().content = another;
    for (messages, owners) in [(known, 1), (changed, 0)] {
        world.tell(owner, GroupInput::WatchBegan);
        for message in messages {
            world.tell(owner, GroupInput::Shown(message));
        }
        world.tell(owner, GroupInput::CaughtUp { last });
        assert_eq!(world.owners(&unit(0)).len(), owners);
    }
}

/// A member that relies on nothing is given no units on which it could not act for so long.
#[test]
fn after_a_lost_end_others_own_what_the_member_had() {
    let mut world = World::settled(2, 4);
    let owner = world.owner(0);
    world.tell(owner, GroupInput::WatchBegan);
    let last = world.last - 1;
    world.tell(owner, GroupInput::CaughtUp { last });
    world.run(TTL + 4 * HEARTBEAT);
    let end = world.now + LONGEST_LEASE;
    while world.now + TTL * 2 < end {
        world.run(HEARTBEAT);
        for number in 0..4 {
            let owners = world.owners(&unit(number));
            assert!(owners == [1 - owner], "unit {number}: {owners:?}");
        }
    }
    world.until(LONGEST_LEASE, |world| {
        (0..4).any(|number| world.owners(&unit(number)) == [owner])
    });
}

/// What it finds a minute later is as good as what any other member finds that joins.
#[test]
fn a_member_relies_on_what_it_finds_again_when_old_leases_are_over() {
    let mut world = World::settled(2, 2);
    let (owner, other) = (world.owner(0), 1 - world.owner(0));
    world.tell(owner, GroupInput::WatchBegan);
    let last = world.last - 1;
    world.tell(owner, GroupInput::CaughtUp { last });
    world.run(2 * LONGEST_LEASE);
    // It joins again, and finds what it was given.
    let own = epoch(world.nodes[owner].epoch);
    world.tell(owner, GroupInput::LeaseLost { epoch: own });
    world.run(TTL + 2 * HEARTBEAT);
    world.tell(other, GroupInput::Drain);
    world.until(TTL + 2 * HEARTBEAT, |world| {
        (0..2).all(|number| world.owners(&unit(number)) == [owner])
    });
}

#[test]
fn a_stream_that_lost_its_end_ends_the_lease() {
    let mut world = World::settled(2, 1);
    let owner = world.owner(0);
    world.tell(owner, GroupInput::WatchBegan);
    let last = world.last - 1;
    world.tell(owner, GroupInput::CaughtUp { last });
    assert!(world.owners(&unit(0)).is_empty());
    world.until(LONGEST_LEASE * 3, |world| world.owners(&unit(0)).len() == 1);
}
