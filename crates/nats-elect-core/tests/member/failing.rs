//! Handlers that end by themselves.

use std::collections::BTreeSet;

use nats_elect_core::assignment::Units;
use nats_elect_core::member::{Input, UnitId};

use crate::schedule::SECOND;
use crate::world::World;

impl World {
    /// A shard on which a member acts.
    fn first_shard(&self, node: usize) -> u32 {
        let (unit, _) = self.acting(node).next().expect("a unit");
        unit.unit().name().as_shard().expect("a shard")
    }

    /// The member that acts on a shard.
    fn acts_on(&self, shard: u32) -> Option<usize> {
        (0..self.nodes.len()).find(|node| {
            let mut units = self.acting(*node);
            units.any(|(unit, _)| unit.unit().name().as_shard() == Some(shard))
        })
    }

    /// The unit of a shard of which a member has a handler.
    fn unit(&self, node: usize, shard: u32) -> UnitId {
        let is_it = |it: &&UnitId| it.unit().name().as_shard() == Some(shard);
        let unit = self.nodes[node].handlers.keys().find(is_it);
        unit.expect("a handler").clone()
    }

    /// The handler of a shard fails now.
    fn fails_now(&mut self, node: usize, shard: u32) {
        let unit = self.unit(node, shard);
        self.nodes[node].handlers.remove(&unit);
        let end = nats_elect_core::HandlerEnd::Failed;
        self.step(node, Input::HandlerEnded(unit, end));
    }
}

#[test]
fn a_unit_that_fails_three_times_moves_alone_and_may_come_back_after_five_minutes() {
    let mut world = World::warm(7, 2, 2, Units::Shards(4));
    let shard = world.first_shard(0);
    world.nodes[0].fails = [shard].into();
    let starts = world.checks.starts;
    world.fails_now(0, shard);
    // It rests for a heartbeat, then for two.
    world.goes_well(5 * SECOND);
    assert_eq!(world.acts_on(shard), Some(1));
    let of_others = world.checks.starts - starts - 3;
    assert!(of_others <= 1);
    // The balance does not bring it back.
    world.goes_well(60 * SECOND);
    assert_eq!(world.acts_on(shard), Some(1));
    assert_eq!(world.acts(), [2, 2]);
    world.nodes[0].fails = BTreeSet::new();
    world.goes_well(250 * SECOND);
    world.nodes[1].fails = [shard].into();
    world.fails_now(1, shard);
    world.goes_well(5 * SECOND);
    assert_eq!(world.acts_on(shard), Some(0));
}

#[test]
fn a_unit_that_fails_everywhere_begins_again_after_pauses_that_grow() {
    for nodes in [1, 3] {
        let mut world = World::warm(7, nodes, nodes, Units::Shards(3));
        let shard = world.first_shard(0);
        (0..nodes).for_each(|node| world.nodes[node].fails = [shard].into());
        let (starts, maps) = (world.checks.starts, world.maps);
        world.fails_now(0, shard);
        world.goes_well(120 * SECOND);
        let (starts, maps) = (world.checks.starts - starts, world.maps - maps);
        // After 1, 2, 4, 8, 16 and 32 seconds on one member, and thrice on each of several.
        let least = if nodes == 1 { 6 } else { 8 };
        assert!(
            (least..=16).contains(&starts),
            "{starts} starts, {nodes} members"
        );
        assert!(maps <= starts + 4, "{maps} maps, {nodes} members");
        world.nodes.iter_mut().for_each(|it| it.fails.clear());
        world.goes_well(33 * SECOND);
        assert!(world.acts_on(shard).is_some());
    }
}

#[test]
fn a_unit_that_fails_on_the_only_one_that_is_left_goes_there() {
    let mut world = World::warm(7, 2, 2, Units::Shards(2));
    let shard = world.first_shard(0);
    world.nodes[0].fails = [shard].into();
    world.fails_now(0, shard);
    world.goes_well(5 * SECOND);
    assert_eq!(world.acts_on(shard), Some(1));
    world.nodes[0].fails.clear();
    world.leave(1);
    world.goes_well(SECOND);
    assert_eq!(world.acts_on(shard), Some(0));
}

#[test]
fn an_unhealthy_unit_moves_at_once_and_one_member_alone_begins_it_again() {
    for (nodes, next) in [(1, 0), (2, 1)] {
        let mut world = World::warm(7, nodes, nodes, Units::Shards(2));
        let shard = world.first_shard(0);
        let (unit, starts) = (world.unit(0, shard), world.checks.starts);
        world.step(0, Input::Unhealthy(unit));
        world.goes_well(SECOND);
        assert_eq!(world.acts_on(shard), Some(next));
        assert!(world.checks.starts <= starts + 2);
        assert_eq!(world.all_acts(), 2);
    }
}
