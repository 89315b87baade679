//! Schedules in which a broken rule does harm, and the rules none: mostly two members that act.

use std::time::Duration;

use nats_elect_core::assignment::{Key, LONGEST_LEASE, Units, ended};
use nats_elect_core::member::{Input, Order, UnitId};
use nats_elect_core::name::UnitName;

use crate::faults::Hand;
use crate::schedule::{SECOND, names};
use crate::world::World;

const MILLISECOND: Duration = Duration::from_millis(1);
/// What happens, from a seed.
pub type Script = fn(u64) -> World;

/// A schedule for each rule that seeds seldom need.
pub const SCRIPTS: &[(&str, Script)] = &[
    ("BeginsBesideGeneration", one_member_resizes),
    ("OtherGenerationsIgnored", idle_member_after_a_growth),
    ("CollectsKnownAlone", taken_over_unseen),
    ("CollectsBehind", first_one_is_behind),
    ("ReadsBeforeHeartbeat", reads_from_a_former_leader),
    ("LostMapFollowed", owner_by_a_lost_map),
    ("MapUnread", map_at_the_sequence_of_a_lost_one),
    ("RetiresNamed", who_joins_after_all_have_gone),
    ("LeavesBeforeHandlersEnd", who_leaves_has_a_slow_handler),
    (
        "CollectForgetsNamed",
        former_owner_whom_the_collector_never_saw,
    ),
    ("NameWaitsForNobody", name_that_a_collect_forgot),
    (
        "CollectsBesideUnreadable",
        newcomer_beside_a_key_that_nobody_can_read,
    ),
    ("OverComesBack", key_of_an_ended_epoch_overwritten),
    ("OverForGood", end_at_the_sequence_of_a_lost_heartbeat),
    ("OldSequenceForGood", last_heartbeat_of_the_dead_lost),
];

impl World {
    /// The first unit of which a member has a handler.
    fn first_unit(&self, node: usize) -> UnitName {
        let unit = self.nodes[node].handlers.keys().next();
        unit.expect("a handler").unit().name()
    }

    /// Nothing comes from the node, and its watch shows nothing, for so long.
    fn cut_off(&mut self, node: usize, time: Duration) {
        let until = self.now + time;
        let node = &mut self.nodes[node];
        (node.cut_until, node.deaf_until) = (until, until);
    }

    /// Fails unless handlers act on all units.
    fn expects_owned(&mut self, units: usize) {
        let acts: usize = self.all_acts();
        let result = (acts == units).then_some(());
        self.fail(result.ok_or(format!("{acts} of {units} units")));
    }

    /// The member at this place in the order of joining.
    fn joined(&self, place: usize) -> usize {
        let members = self.newest_map().expect("a map").members();
        let is_it = |it: &usize| self.nodes[*it].epoch() == members.get(place).copied();
        (0..self.nodes.len()).find(is_it).expect("a member")
    }

    /// A second one joins unseen by the first, and gets a unit of `by`.
    fn joins_unseen_by(&mut self, first: usize, by: usize, newcomer: usize) {
        self.nodes[first].deaf_until = self.now + 350 * MILLISECOND;
        self.start(newcomer);
        self.until(|it| it.nodes[newcomer].epoch().is_some());
        self.run(10 * MILLISECOND);
        let map = self.newest_map().expect("a map");
        let own = self.epoch(by);
        let unit = map.owned_by(own).next().expect("a unit");
        self.move_to(by, UnitName::shard(unit), newcomer);
        self.until(|it| it.acts()[newcomer] > 0);
    }
}

/// The last heartbeat of the second member is the last value, which the first one was shown.
fn last_is_a_heartbeat(seed: u64) -> (World, Key) {
    let mut world = World::warm(seed, 2, 2, Units::Shards(2));
    let key = World::member_key(world.nodes[1].epoch().expect("a member"));
    let is_shown = |it: &World| {
        let is_last = it.stream.log.last().is_some_and(|last| last.key == key);
        is_last && it.nodes[0].cursor == it.stream.log.len()
    };
    world.until(is_shown);
    world.until(is_shown);
    (world, key)
}

/// NATS loses the last heartbeat of a member. Another one, which it was not shown either, ends the
/// epoch at the very same sequence, so that the next heartbeat is stored over that.
fn end_at_the_sequence_of_a_lost_heartbeat(seed: u64) -> World {
    let (mut world, key) = last_is_a_heartbeat(seed);
    world.nodes[1].deaf_until = world.now + 2 * SECOND;
    world.lose_writes(1);
    world.stream.store(&key, &ended(world.epoch(1)), None);
    world.show_all();
    world.run(LONGEST_LEASE + 10 * SECOND);
    world.expects_owned(2);
    let result = (world.acts()[1] > 0).then_some(());
    world.fail(result.ok_or_else(|| "n1 gets no unit".to_owned()));
    world
}

/// NATS loses the last heartbeat of a member that died, and nothing else.
fn last_heartbeat_of_the_dead_lost(seed: u64) -> World {
    let (mut world, _) = last_is_a_heartbeat(seed);
    world.crash(1);
    world.lose_writes(1);
    world.run(15 * SECOND);
    world.expects_owned(2);
    world
}

/// The own handlers of the former generation have not ended.
fn one_member_resizes(seed: u64) -> World {
    resized(seed, 1, 4)
}

/// A member without a unit gets some in the next generation, where others still end.
fn idle_member_after_a_growth(seed: u64) -> World {
    resized(seed, 3, 6)
}

/// Members of two units whose handlers end late get another number of them.
fn resized(seed: u64, nodes: usize, units: u32) -> World {
    let mut world = World::warm(seed, nodes, nodes, Units::Shards(2));
    world.handlers_end_late(SECOND);
    world.order(0, 1, Order::Resize(Units::Shards(units)));
    world.run(15 * SECOND);
    world
}

/// While the first one stands still, the second leaves, and a newcomer takes its units and is cut off
/// before it says so. An operator wants one of them back.
fn taken_over_unseen(seed: u64) -> World {
    let mut world = World::warm(seed, 3, 2, Units::Shards(4));
    let (first, second, newcomer) = (world.joined(0), world.joined(1), 2);
    let until = world.now + 800 * MILLISECOND;
    world.nodes[first].paused_until = until;
    world.start(newcomer);
    world.run(20 * MILLISECOND);
    world.leave(second);
    world.until(|it| it.acts()[newcomer] > 0);
    world.cut_off(newcomer, 10 * SECOND);
    let unit = world.first_unit(newcomer);
    world.touch(&World::map_key(), Hand::Rubbish);
    world.run(until.since(world.now));
    world.rewatch(first);
    world.move_to(first, unit, first);
    world.run(8 * SECOND);
    world
}

/// The first one never heard of an owner, whose key somebody emptied. The second one knows.
fn first_one_is_behind(seed: u64) -> World {
    let mut world = World::warm(seed, 3, 2, Units::Shards(4));
    let (first, second, newcomer) = (world.joined(0), world.joined(1), 2);
    world.joins_unseen_by(first, second, newcomer);
    world.handlers_end_late(SECOND);
    let key = world.key(newcomer);
    world.touch(&key, Hand::Purge);
    world.touch(&World::map_key(), Hand::Rubbish);
    world.nodes[first].deaf_until = world.now;
    world.rewatch(first);
    world.run(8 * SECOND);
    world
}

/// The collector's reads show a time before an owner joined, its watch is behind, and the others are
/// cut off.
fn reads_from_a_former_leader(seed: u64) -> World {
    let mut world = World::warm(seed, 3, 2, Units::Shards(4));
    let (first, second, newcomer) = (world.joined(0), world.joined(1), 2);
    world.nodes[first].reads_until = Some(world.stream.log.len());
    world.joins_unseen_by(first, second, newcomer);
    world.nodes[second].cut_until = world.now + 2 * SECOND;
    let rubbish = world.stream.log.len();
    world.touch(&World::map_key(), Hand::Rubbish);
    world.step(newcomer, Input::Prove);
    world.until(|it| it.stream.log.len() > rubbish + 1);
    let newcomer = &mut world.nodes[newcomer];
    newcomer.cut_until = world.now + 2 * SECOND;
    newcomer.deaf_until = world.now + 2 * SECOND;
    world.nodes[first].deaf_until = world.now;
    world.rewatch(first);
    world.until(|it| it.nodes[first].cursor > rubbish);
    world.nodes[first].deaf_until = world.now + SECOND;
    world.run(8 * SECOND);
    world
}

/// NATS loses all that was written after the last heartbeat of a member with a long lease, and with it
/// the map by which that member owns a unit. The others die, and a newcomer takes over.
fn owner_by_a_lost_map(seed: u64) -> World {
    let mut world = World::new(seed, 4, Units::Shards(6));
    for (node, leases) in [(0, &[(30, 3)]), (1, &[(1, 3)]), (2, &[(1, 3)])] {
        world.faults.leases = leases;
        world.start(node);
    }
    world.run(2 * SECOND);
    world.step(0, Input::Prove);
    world.run(10 * MILLISECOND);
    let kept = world.stream.log.len();
    world.run(6 * SECOND);
    let map = world.newest_map().expect("a map");
    let units: Vec<_> = map.owned_by(world.epoch(1)).collect();
    for unit in units {
        world.move_to(1, UnitName::shard(unit), 0);
    }
    world.until(|it| it.acts()[0] == 4);
    world.lose_writes(world.stream.log.len() - kept);
    world.crash(1);
    world.crash(2);
    world.start(3);
    world.run(80 * SECOND);
    world
}

/// A member has ended. NATS loses the map that gives its unit to the first one, and that the second one
/// alone was shown. The first one's map is stored at the very same sequence.
fn map_at_the_sequence_of_a_lost_one(seed: u64) -> World {
    let mut world = World::warm(seed, 3, 3, Units::Shards(3));
    let (first, second, dies) = (world.joined(0), world.joined(1), world.joined(2));
    let (key, epoch, unit) = (world.key(dies), world.epoch(dies), world.first_unit(dies));
    world.run(200 * MILLISECOND);
    world.nodes[first].deaf_until = world.now + 50 * MILLISECOND;
    world.crash(dies);
    world.stream.store(&key, &ended(epoch), None);
    world.show_all();
    world.run(10 * MILLISECOND);
    world.move_to(second, unit, first);
    let follows_last = |it: &World| {
        let map = it.nodes[second].member.as_ref().and_then(|it| it.map());
        map.is_some_and(|map| map.sequence() == it.stream.sequence)
    };
    world.until(follows_last);
    world.lose_writes(1);
    world.run(LONGEST_LEASE + 30 * SECOND);
    world.expects_owned(3);
    world
}

/// One member leaves, and is still named when the other one is killed. Who starts then waits for the
/// lease of the other one alone.
fn who_joins_after_all_have_gone(seed: u64) -> World {
    let mut world = World::warm(seed, 3, 2, Units::Shards(4));
    let (first, second, newcomer) = (world.joined(0), world.joined(1), 2);
    world.leave(second);
    world.run(10 * SECOND);
    world.crash(first);
    world.start(newcomer);
    world.run(6 * SECOND);
    world.expects_owned(4);
    world
}

/// A member leaves, and one of its handlers takes longer than the lease to end. The others' units do not
/// wait for that.
fn who_leaves_has_a_slow_handler(seed: u64) -> World {
    let mut world = World::warm(seed, 2, 2, Units::Shards(8));
    let leaver = world.joined(1);
    let slow = world.first_unit(leaver).as_shard();
    world.nodes[leaver].slow = slow.into_iter().collect();
    world.leave(leaver);
    world.run(SECOND);
    world.expects_owned(7);
    world
}

/// The next owner of a unit waits for its former one, whose handler takes long to end and whose key
/// somebody emptied. Whoever collects has joined since.
fn former_owner_whom_the_collector_never_saw(seed: u64) -> World {
    let mut world = World::warm(seed, 4, 3, Units::Shards(3));
    let (first, from, to, newcomer) = (world.joined(0), world.joined(1), world.joined(2), 3);
    let unit = world.first_unit(from);
    world.nodes[from].slow = unit.as_shard().into_iter().collect();
    let maps = world.maps;
    world.move_to(first, unit, to);
    world.until(|it| it.maps > maps);
    let key = world.key(from);
    world.run(10 * MILLISECOND);
    world.nodes[first].paused_until = world.now + 900 * MILLISECOND;
    world.nodes[to].deaf_until = world.now + 800 * MILLISECOND;
    world.nodes[from].cut_until = world.now + 4 * SECOND;
    world.touch(&key, Hand::Purge);
    world.start(newcomer);
    world.run(120 * MILLISECOND);
    world.touch(&World::map_key(), Hand::Rubbish);
    world.run(280 * MILLISECOND);
    // Its blank under the empty key is lost.
    world.nodes[newcomer].cut_until = world.now + 200 * MILLISECOND;
    world.run(8 * SECOND);
    world
}

/// Somebody empties an owner's key, and writes over the map and the key of the one member that knows the
/// owner. A newcomer leaves the map to that one.
fn newcomer_beside_a_key_that_nobody_can_read(seed: u64) -> World {
    let mut world = World::warm(seed, 3, 2, Units::Shards(4));
    let (emptied, unreadable, newcomer) = (world.joined(0), world.joined(1), 2);
    let key = |it: usize| world.key(it);
    let (emptied_key, unreadable_key) = (key(emptied), key(unreadable));
    world.cut_off(emptied, 2 * SECOND);
    world.nodes[unreadable].paused_until = world.now + SECOND;
    world.touch(&emptied_key, Hand::Purge);
    world.touch(&unreadable_key, Hand::Rubbish);
    world.touch(&World::map_key(), Hand::Rubbish);
    world.start(newcomer);
    world.run(8 * SECOND);
    world
}

/// Somebody overwrites the key of an owner whose last will has ended it, before its units have others.
fn key_of_an_ended_epoch_overwritten(seed: u64) -> World {
    let mut world = World::warm(seed, 3, 3, Units::Shards(6));
    let (first, dies) = (world.joined(0), world.joined(2));
    let key = world.key(dies);
    world.faults.until = world.now + SECOND;
    world.faults.wills = 1000;
    world.will(dies);
    world.crash(dies);
    world.run(20 * MILLISECOND);
    while !world.stream.was_over(&key) {
        // The second one has a longer turn.
        world.nodes[first].paused_until = world.now + SECOND / 2;
        world.run(MILLISECOND);
    }
    world.run(50 * MILLISECOND);
    world.touch(&key, Hand::Rubbish);
    world.run(2 * SECOND);
    world.expects_owned(6);
    world
}

/// A name enters and gets an owner, of which the first member is shown nothing. Somebody overwrites the
/// owner's key and the map: so the first one collects, without that name, and it enters once more.
fn name_that_a_collect_forgot(seed: u64) -> World {
    let mut world = World::warm(seed, 3, 2, names(&["a", "b"]));
    let (first, second, newcomer) = (world.joined(0), world.joined(1), 2);
    world.nodes[first].deaf_until = world.now + 10 * SECOND;
    world.units = names(&["a", "b", "c"]);
    world.start(newcomer);
    let acts_on_c = |it: &World| {
        let is_c = |unit: &UnitId| unit.unit().name().as_str() == "c";
        (0..3).find(|node| it.nodes[*node].handlers.keys().any(is_c))
    };
    for _ in 0..3 {
        world.until(|it| acts_on_c(it).is_some());
    }
    let owner = acts_on_c(&world).unwrap_or(second);
    let key = world.key(owner);
    world.handlers_end_late(5 * SECOND);
    world.touch(&key, Hand::Rubbish);
    world.touch(&World::map_key(), Hand::Rubbish);
    world.nodes[owner].cut_until = world.now + SECOND;
    world.nodes[first].deaf_until = world.now;
    world.rewatch(first);
    world.run(20 * SECOND);
    world
}

/// Seeds of a script: watches may show all values of a key, or the last one.
const SEEDS: u64 = 20;

#[cfg_attr(not(feature = "__mutations"), test)]
fn no_schedule_does_harm() {
    for (rule, script) in SCRIPTS {
        for seed in 1..=SEEDS {
            assert_eq!(script(seed).failure, None, "{rule}, seed {seed}");
        }
    }
}
