//! Rules 5 and 7: members' leases, their ends, and streams that lost theirs. The numbers are
//! those in `docs/protocol.md`.

use std::time::Duration;

use super::super::*;
use super::world::*;
use crate::{Moment, WriteOutcome};

const SECOND: Duration = Duration::from_secs(1);

fn caught_up(last: u64) -> GroupInput {
    GroupInput::CaughtUp {
        last,
        members: None,
    }
}

/// A member that begins with an empty bucket, and what it did when its claim was confirmed and shown,
/// in one order or the other.
fn claims(is_shown_first: bool) -> (Group, Vec<GroupEffect>) {
    let (now, own) = (Moment::from_nanos(1), epoch(0));
    let settings = GroupSettings {
        ttl: TTL,
        heartbeat: HEARTBEAT,
        stop_budget: SECOND,
        groups: [(group(), Units::Shards(1))].into(),
        placements: [].into(),
    };
    let mut member = Group::new(settings, now);
    member.step(now, GroupInput::WatchBegan);
    let members = Some(Vec::new());
    member.step(now, GroupInput::CaughtUp { last: 10, members });
    let granted = GroupInput::Granted {
        epoch: own,
        sequence: 11,
        until: now + TTL,
    };
    let shown = GroupInput::Shown(Message {
        sequence: 11,
        over: Some(0),
        content: heartbeat(0, false),
    });
    let inputs = if is_shown_first {
        [shown, granted]
    } else {
        [granted, shown]
    };
    let effects = inputs.map(|input| member.step(now, input));
    (member, effects.concat())
}

/// 7: whether the answer to a claim or the watch comes first, a member has its lease when both have
/// come, and not with its second heartbeat only.
#[test]
fn a_claim_that_is_shown_before_its_answer_comes_is_a_lease() {
    for is_shown_first in [false, true] {
        let (member, effects) = claims(is_shown_first);
        let until = Moment::from_nanos(1) + TTL;
        assert_eq!(member.lease_until(), Some(until));
        assert!(effects.contains(&GroupEffect::Extend { until }));
    }
}

/// The answer to a member's record of a group may come before its watch shows that. The member waits
/// for the watch: the same write again would be refused, and cost it a heartbeat.
#[test]
fn a_record_of_a_group_is_written_once() {
    let (mut member, effects) = claims(false);
    let (now, writes) = (Moment::from_nanos(1), |effects: &[GroupEffect]| {
        let writes = effects.iter().filter_map(|effect| match effect {
            GroupEffect::Write { op, write } => Some((*op, write.clone())),
            _ => None,
        });
        writes.collect::<Vec<_>>()
    });
    let [(op, GroupWrite::Group { record, .. })] = writes(&effects)[..] else {
        panic!("the group's record: {effects:?}");
    };
    let outcome = WriteOutcome::Acked { revision: 12 };
    let confirmed = member.step(now, GroupInput::WriteEnded { op, outcome });
    assert_eq!(writes(&confirmed), []);
    let shown = member.step(
        now,
        GroupInput::Shown(Message {
            sequence: 12,
            over: Some(0),
            content: GroupContent::Group(group(), Some(record)),
        }),
    );
    assert!(matches!(
        writes(&shown)[..],
        [(_, GroupWrite::Unit { over: 0, .. })]
    ));
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

/// 5: also if it owns nothing. Otherwise it would count as a member for ever.
#[test]
fn a_member_that_dies_without_a_unit_is_deposed_once() {
    let mut world = World::settled(3, 1);
    let owner = world.owner(0);
    let idle = (owner + 1) % 3;
    let gone = epoch(world.nodes[idle].epoch);
    world.nodes[idle].alive = false;
    world.until(TTL + 4 * HEARTBEAT, |world| is_deposed(world, gone));
    world.run(LONGEST_LEASE);
    let tombstones = world.nodes.iter().flat_map(|node| &node.written);
    let of_it = |it: &&GroupWrite| matches!(it, GroupWrite::Depose { epoch, .. } if *epoch == gone);
    assert_eq!(tombstones.filter(of_it).count(), 1);
}

/// It may be of a later version. No unit depends on it.
#[test]
fn a_members_record_that_is_not_understood_stays() {
    let mut world = World::settled(2, 1);
    let strange = epoch(200);
    let record = Box::new(SeenMember::parse(strange, b"garbage"));
    let content = GroupContent::Member(strange, MemberContent::Record(record));
    world.store(GroupKey::Member(strange), None, content);
    world.run(LONGEST_LEASE * 2);
    assert!(!is_deposed(&world, strange));
}

/// A tombstone over it would be for nobody.
#[test]
fn an_idle_member_whose_record_is_gone_gets_no_tombstone() {
    let mut world = World::settled(3, 1);
    let idle = (world.owner(0) + 1) % 3;
    let gone = GroupKey::Member(epoch(world.nodes[idle].epoch));
    world.nodes[idle].alive = false;
    world.purge(&gone);
    for other in [(idle + 1) % 3, (idle + 2) % 3] {
        world.watch(other);
    }
    world.run(LONGEST_LEASE * 2);
    assert_eq!(world.sequence(&gone), 0);
}

fn is_deposed(world: &World, epoch: Epoch) -> bool {
    let stands = world.keys.get(&GroupKey::Member(epoch));
    stands.is_some_and(|it| {
        let content = &it.message.content;
        matches!(
            content,
            GroupContent::Member(_, MemberContent::Tombstone { .. })
        )
    })
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
        world.nodes[owner].rewatched > 1,
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
        world.tell(owner, caught_up(last));
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
    world.tell(owner, caught_up(last));
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
    world.tell(owner, caught_up(last));
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
    world.tell(owner, caught_up(last));
    assert!(world.owners(&unit(0)).is_empty());
    world.until(LONGEST_LEASE * 3, |world| world.owners(&unit(0)).len() == 1);
}

/// 7: a watch that is behind comes to the heartbeat, and a new one would be further behind.
#[test]
fn a_watch_that_is_behind_is_begun_anew_only_when_it_shows_nothing_more() {
    let mut world = World::settled(3, 3);
    let (member, mut position) = (0, world.log.len() - 1);
    world.nodes[member].silent = true;
    for _ in 0..10 {
        world.run(HEARTBEAT / 2);
        let shown = world.log[position].message.clone();
        world.tell(member, GroupInput::Shown(shown));
        position += 1;
    }
    assert_eq!(world.nodes[member].rewatched, 0);
    world.run(2 * HEARTBEAT);
    assert!(world.nodes[member].rewatched > 0);
}

/// 9: a first watch lacks a member whose heartbeat is written over while it begins.
#[test]
fn a_member_that_joins_waits_for_those_too_whom_its_first_watch_lacks() {
    let mut world = World::settled(1, 1);
    world.nodes[0].silent = true;
    world.forge(0, Some(UnitRecord::Nobody), None);
    let last = world.last;
    world.beat(0);
    let joins = world.add(Units::Shards(1), None);
    world.watch_since(joins, last);
    // The owner is not shown that record.
    world.run(SECOND);
    assert_eq!(world.owners(&unit(0)), [0]);
    assert!(!world.nodes[joins].group.has_joined());
    world.until(2 * TTL, |world| world.owners(&unit(0)) == [joins]);
}

/// 9: a member that joins again knows that another one had a lease, and not when that one renewed it.
#[test]
fn a_member_that_joins_again_waits_for_those_whose_records_are_gone() {
    let mut world = World::settled(2, 1);
    let (owner, other) = (world.owner(0), 1 - world.owner(0));
    let lives = GroupKey::Member(epoch(world.nodes[owner].epoch));
    world.nodes[other].silent = true;
    world.run(3 * TTL);
    world.beat(owner);
    world.run(SECOND / 10);
    (world.nodes[owner].silent, world.nodes[owner].mute) = (true, true);
    world.purge(&lives);
    world.nodes[other].silent = false;
    world.watch(other);
    world.run_short_of(TTL * 9 / 10, SECOND);
    assert_eq!(world.owners(&unit(0)), [owner]);
    world.until(2 * LONGEST_LEASE, |world| world.owners(&unit(0)) == [other]);
}

/// 7: a new watch leaves out what was written over, and that is noticed when it has caught up.
#[test]
fn a_heartbeat_that_a_new_watch_finds_extends_the_lease_once_that_has_caught_up() {
    let mut world = World::settled(1, 1);
    world.nodes[0].silent = true;
    world.beat(0);
    let (until, last) = (world.nodes[0].until, world.last);
    let own = GroupKey::Member(epoch(world.nodes[0].epoch));
    let beat = world.keys[&own].message.clone();
    world.tell(0, GroupInput::WatchBegan);
    world.tell(0, GroupInput::Shown(beat));
    assert_eq!(world.nodes[0].until, until);
    world.tell(0, caught_up(last));
    assert!(world.nodes[0].until > until);
}

/// 7: each watch has a third of the lease to catch up.
#[test]
fn a_watch_that_takes_longer_than_a_heartbeat_is_not_begun_anew() {
    let mut world = World::settled(1, 1);
    world.nodes[0].silent = true;
    for asked in 1..3 {
        world.until(TTL, |world| world.nodes[0].rewatched == asked);
        world.tell(0, GroupInput::WatchBegan);
        world.run_short_of(TTL / 3, HEARTBEAT);
        assert_eq!(world.nodes[0].rewatched, asked);
    }
}

/// The messages of a watch may come after the member has asked for another one.
#[test]
fn a_watch_that_was_given_up_tells_nothing() {
    let mut world = World::settled(1, 1);
    world.nodes[0].silent = true;
    world.until(TTL, |world| world.nodes[0].rewatched > 0);
    let key = GroupKey::Unit(unit(0));
    world.forge(0, Some(UnitRecord::Nobody), None);
    let late = world.keys[&key].message.clone();
    world.tell(0, GroupInput::Shown(late.clone()));
    assert_eq!(world.owners(&unit(0)), [0]);
    world.tell(0, GroupInput::WatchBegan);
    world.tell(0, GroupInput::Shown(late));
    assert!(world.owners(&unit(0)).is_empty());
}
