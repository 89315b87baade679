//! Schedules that broke earlier wordings of the rules, and why they are harmless now.
//!
//! | | test | why |
//! | --- | --- | --- |
//! | 1 | `a_sequence_is_given_again_…` | over is a name that is never given twice, and not a sequence |
//! | 2 | `two_processes_with_one_id_…` | an epoch is drawn by each process |
//! | 3 | `a_map_that_is_overwritten_…`, `an_old_record_that_is_put_back_…` | a map that is put back bears another condition; what was acknowledged once stays true |
//! | 4 | `whoever_collects_may_die_…` | a collect keeps in `from` whom anybody knew |
//! | 5 | `a_write_of_a_map_that_arrives_late_…` | no map is written over nothing, and no sequence comes back |
//! | 6 | `a_member_is_killed_and_its_key_is_emptied`, `a_member_whose_key_is_overwritten_…` | a missing key is not over: a blank is written and watched |
//! | 7 | `a_map_that_is_emptied_before_anybody_was_shown_it_…` | all go on by the last map that they were shown |
//! | 8 | `a_map_that_is_overwritten_deleted_or_emptied_…` | a foreign value is followed by nobody |
//! | 9 | `all_watches_begin_anew_…`, `one_replica_never_shows_…` | what is older than known is ignored |
//! | 10 | `a_bucket_is_made_anew_…` (two) | who knew the former one waits |
//! | 11 | `a_unit_goes_to_and_fro_…` | an acknowledgement excepts what acts by an earlier map |
//! | 12 | `a_former_owner_is_paused_…` | tokens grow |
//! | 13 | `all_members_leave_at_once`, `whoever_writes_a_map_leaves_meanwhile` | *ended* clears all units |
//! | 14 | `confirmed_writes_are_lost_…` | noticed by who knew them |

use std::collections::BTreeSet;
use std::time::Duration;

use nats_elect_core::OpId;
use nats_elect_core::assignment::{Key, Units, Value};
use nats_elect_core::member::{Order, Over, Reply};
use nats_elect_core::name::UnitName;

use crate::event::{Sent, What};
use crate::faults::Hand;
use crate::schedule::{SECOND, names};
use crate::world::World;

impl World {
    /// Runs until each unit has an owner, and all is calm.
    #[track_caller]
    fn settles(&mut self, within: Duration) {
        let end = self.now + within;
        while let Some(why) = self.unrest() {
            assert!(self.now < end, "{why}");
            self.goes_well(Duration::from_millis(10));
        }
    }

    /// The member that acts on a unit.
    fn owner(&self, unit: u32) -> usize {
        let map = self.newest_map().expect("a map");
        let owner = map.owner(unit);
        let owns = |it: &usize| self.nodes[*it].epoch() == owner;
        (0..self.nodes.len()).find(owns).expect("an owner")
    }
}

#[test]
fn a_map_that_is_overwritten_deleted_or_emptied_by_hand_ends_no_handler() {
    for hand in [Hand::Rubbish, Hand::Delete, Hand::Purge, Hand::PutBack] {
        let mut world = World::warm(7, 3, 3, Units::Shards(6));
        let starts = world.checks.starts;
        for _ in 0..5 {
            world.touch(&World::map_key(), hand);
            world.goes_well(SECOND / 3);
        }
        world.settles(2 * SECOND);
        assert_eq!(world.checks.starts, starts, "{hand:?}");
        // The group goes on: a move takes no longer than before.
        let to = (world.owner(0) + 1) % 3;
        world.move_to(to, UnitName::shard(0), to);
        world.goes_well(2 * SECOND);
        world.settles(2 * SECOND);
        assert_eq!(world.replies.first().map(|it| it.1), Some(Reply::Done));
    }
}

#[test]
fn a_map_that_is_emptied_before_anybody_was_shown_it_is_collected() {
    let mut world = World::warm(7, 3, 3, Units::Shards(6));
    let from = world.owner(0);
    world.move_to(from, UnitName::shard(0), (from + 1) % 3);
    world.until_a_map_is_written();
    world.touch(&World::map_key(), Hand::Purge);
    world.settles(5 * SECOND);
}

#[test]
fn whoever_collects_may_die_and_the_next_one_is_shown_its_map_alone() {
    let mut world = World::warm(7, 3, 3, Units::Shards(6));
    let deaf = world.now + SECOND;
    world.nodes[2].deaf_until = deaf;
    world.touch(&World::map_key(), Hand::Rubbish);
    world.until_a_map_is_written();
    world.crash(0);
    world.crash(1);
    world.goes_well(4 * SECOND);
    world.start(0);
    world.start(1);
    world.settles(5 * SECOND);
}

#[test]
fn a_write_of_a_map_that_arrives_late_changes_nothing() {
    let mut world = World::warm(7, 3, 3, Units::Shards(6));
    let from = world.owner(0);
    let map = world.stream.get(&World::map_key()).expect("a map").clone();
    world.move_to(from, UnitName::shard(0), (from + 1) % 3);
    world.goes_well(2 * SECOND);
    world.touch(&World::map_key(), Hand::Purge);
    world.settles(5 * SECOND);
    // The write that was paused in its socket lands, over a sequence that does not come back.
    let stands = world.stream.last_sequence(&World::map_key());
    let Value::Map(it) = &map.value else {
        panic!("a map");
    };
    world.arrive(&Sent {
        node: 0,
        start: 0,
        what: What::Op(OpId(0), None),
        key: World::map_key(),
        over: Over::Sequence(it.over()),
        bytes: map.bytes.clone(),
        since: world.now,
        bucket: world.stream.bucket,
    });
    assert_eq!(world.stream.last_sequence(&World::map_key()), stands);
    // A hand puts the same bytes back.
    let starts = world.checks.starts;
    world.stream.store(&World::map_key(), &map.bytes, None);
    world.show_all();
    world.goes_well(SECOND);
    world.settles(SECOND);
    assert_eq!(world.checks.starts, starts);
}

#[test]
fn a_member_is_killed_and_its_key_is_emptied() {
    let mut world = World::warm(7, 3, 3, Units::Shards(6));
    let key = world.key(0);
    world.crash(0);
    world.touch(&key, Hand::Purge);
    world.goes_well(62 * SECOND);
    world.start(0);
    world.goes_well(4 * SECOND);
    world.settles(SECOND);
}

#[test]
fn a_member_whose_key_is_overwritten_while_its_handlers_block_is_waited_for() {
    for hand in [Hand::Rubbish, Hand::Delete] {
        let mut world = World::warm(7, 3, 3, Units::Shards(6));
        let key = world.key(0);
        world.handlers_end_late(SECOND / 2);
        world.touch(&key, hand);
        // Within its lease, and a little for the writes, its units have other handlers.
        world.goes_well(4 * SECOND);
        assert_eq!(world.all_acts(), 6);
        world.settles(15 * SECOND);
    }
}

#[test]
fn an_old_record_that_is_put_back_costs_one_restart_of_the_handlers() {
    let mut world = World::warm(7, 3, 3, Units::Shards(6));
    let key = world.key(0);
    let old = world.stream.log.iter().find(|it| it.key == key);
    let old = old.expect("a record").bytes.clone();
    world.stream.store(&key, &old, None);
    world.show_all();
    world.goes_well(2 * SECOND);
    world.settles(2 * SECOND);
    let is_member = |it: &&Key| matches!(it, Key::Member(..));
    assert!(world.stream.keys().iter().filter(is_member).count() <= 4);
}

#[test]
fn a_unit_goes_to_and_fro_before_anybody_is_shown_anything() {
    let mut world = World::warm(7, 3, 3, Units::Shards(6));
    let (a, by) = (world.owner(0), (world.owner(0) + 2) % 3);
    let b = (a + 1) % 3;
    let until = world.now + SECOND;
    (world.nodes[a].deaf_until, world.nodes[b].deaf_until) = (until, until);
    for to in [b, a, b, by] {
        world.move_to(by, UnitName::shard(0), to);
        world.goes_well(SECOND / 5);
    }
    world.crash(b);
    world.goes_well(4 * SECOND);
    world.start(b);
    world.settles(5 * SECOND);
}

#[test]
fn keys_of_ended_epochs_vanish_once_no_map_names_them() {
    let mut world = World::warm(7, 3, 3, Units::Shards(6));
    for round in 0..10 {
        world.leave(round % 3);
        world.goes_well(SECOND);
        world.start(round % 3);
        world.goes_well(SECOND);
    }
    world.goes_well(60 * SECOND);
    assert_eq!(world.stream.keys().len(), 4, "{:?}", world.stream.keys());
    let starts = world.checks.starts;
    (0..3).for_each(|node| world.rewatch(node));
    world.goes_well(60 * SECOND);
    world.settles(SECOND);
    assert_eq!(
        (world.stream.keys().len(), world.checks.starts),
        (4, starts)
    );
}

#[test]
fn all_members_leave_at_once() {
    let mut world = World::warm(7, 3, 3, Units::Shards(6));
    (0..3).for_each(|node| world.leave(node));
    world.goes_well(SECOND / 2);
    assert!(world.nodes.iter().all(|it| it.member.is_none()));
    // Nobody waits for anybody then.
    (0..3).for_each(|node| world.start(node));
    world.settles(SECOND);
}

#[test]
fn whoever_writes_a_map_leaves_meanwhile() {
    let mut world = World::warm(7, 3, 3, Units::Shards(6));
    world.leave(1);
    world.until_a_map_is_written();
    world.leave(0);
    world.leave(2);
    world.goes_well(SECOND / 2);
    assert!(world.nodes.iter().all(|it| it.member.is_none()));
}

#[test]
fn a_bucket_is_made_anew_under_members_of_which_one_is_cut_off() {
    let mut world = World::warm(7, 3, 3, Units::Shards(6));
    world.nodes[2].paused_until = world.now + 20 * SECOND;
    world.make_bucket_anew(500);
    for _ in 0..700 {
        world.goes_well(SECOND / 10);
        let acting = world.nodes.iter().flat_map(|it| it.acting(world.now));
        let units: Vec<_> = acting.map(|(unit, _)| unit).collect();
        let different: BTreeSet<_> = units.iter().collect();
        assert_eq!(units.len(), different.len(), "two lives of the bucket act");
    }
    world.goes_well(15 * SECOND);
    world.settles(SECOND);
}

#[test]
fn a_handler_that_does_not_end_holds_up_a_growth_for_a_lease() {
    let mut world = World::warm(7, 3, 3, Units::Shards(6));
    world.handlers_end_late(SECOND / 10);
    world.order(1, 1, Order::Resize(Units::Shards(12)));
    world.goes_well(4 * SECOND);
    let map = world.newest_map().expect("a map");
    assert_eq!(map.units(), &Units::Shards(12));
    world.settles(20 * SECOND);
    assert_eq!(world.replies.first().map(|it| it.1), Some(Reply::Done));
}

#[test]
fn an_order_waits_for_no_turn() {
    let mut world = World::warm(7, 3, 3, Units::Shards(6));
    let members = world.newest_map().expect("a map").members().to_vec();
    let last = |it: &usize| world.nodes[*it].epoch() == members.last().copied();
    let last = (0..3).find(last).expect("a member");
    for to in [(last + 1) % 3, (last + 2) % 3, last] {
        let before = world.replies.len();
        world.move_to(last, UnitName::shard(0), to);
        world.goes_well(SECOND / 10);
        let replies = world.replies[before..].iter().map(|it| it.1);
        assert_eq!(replies.collect::<Vec<_>>(), [Reply::Done]);
    }
}

#[test]
fn an_order_is_refused_at_once_while_no_unit_may_get_an_owner() {
    let mut world = World::warm(7, 3, 3, Units::Shards(6));
    world.make_bucket_anew(1);
    // The group's first map in that bucket comes as soon as all have joined.
    world.goes_well(5 * SECOND);
    world.move_to(0, UnitName::shard(0), 1);
    world.order(1, 2, Order::Resize(Units::Shards(12)));
    world.goes_well(SECOND / 10);
    let replies: Vec<_> = world.replies.iter().map(|it| it.1).collect();
    assert_eq!(replies, [Reply::OwnersWait; 2]);
    world.settles(70 * SECOND);
}

#[test]
fn a_new_name_enters_behind_all_that_live() {
    let mut world = World::warm(7, 3, 2, names(&["a", "b"]));
    let starts = world.checks.starts;
    world.units = names(&["b", "c", "d"]);
    world.start(2);
    world.goes_well(2 * SECOND);
    world.settles(SECOND);
    let map = world.newest_map().expect("a map");
    assert_eq!((map.units().count(), map.generation()), (4, 1));
    assert!(world.checks.starts <= starts + 4);
}

#[test]
fn a_map_of_a_later_version_is_followed_by_nobody_and_overwritten_by_nobody() {
    let mut world = World::warm(7, 3, 3, Units::Shards(6));
    let key = World::map_key();
    let over = world.stream.last_sequence(&key);
    let bucket = world.stream.bucket;
    let later = format!(r#"{{"v":2,"bucket":{bucket},"over":{over}}}"#);
    world.stream.store(&key, later.as_bytes(), Some(over));
    world.show_all();
    world.goes_well(SECOND / 10);
    assert_eq!(world.acts(), [0, 0, 0]);
    world.touch(&key, Hand::Rubbish);
    let rubbish = world.stream.last_sequence(&key);
    world.goes_well(20 * SECOND);
    assert_eq!(world.stream.last_sequence(&key), rubbish);
}

#[test]
fn two_processes_with_one_id_are_two_members() {
    let mut world = World::new(7, 2, Units::Shards(4));
    (0..2).for_each(|node| world.nodes[node].id = "twin".to_owned());
    (0..2).for_each(|node| world.start(node));
    world.goes_well(2 * SECOND);
    assert_eq!(world.acts(), [2, 2]);
}
