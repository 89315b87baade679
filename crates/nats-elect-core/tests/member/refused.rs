//! Members whose writes of the map are refused: a permission is missing, or the map is too large for them.
//!
//! A server that forbids a write says so beside it, if at all. Here it says nothing.

use std::time::Duration;

use nats_elect_core::assignment::{Profile, Units};
use nats_elect_core::member::Input;

use crate::world::World;

const SECOND: Duration = Duration::from_secs(1);

/// Three members that act on units. The writes of the one that plans are refused. Returns its number.
fn refused() -> (World, usize) {
    let mut world = World::new(1, 4, Units::Shards(12));
    world.logs = true;
    (0..3).for_each(|node| world.start(node));
    world.goes_well(2 * SECOND);
    assert_eq!(world.acts(), [4, 4, 4, 0]);
    let first = world.first();
    world.nodes[first].is_refused = true;
    (world, first)
}

impl World {
    /// The member that plans, as all see it.
    fn first(&self) -> usize {
        let plans = |it: &usize| {
            let member = self.nodes[*it].member.as_ref();
            member.is_some_and(nats_elect_core::member::Member::plans)
        };
        let all: Vec<_> = (0..self.nodes.len()).filter(plans).collect();
        assert_eq!(all.len(), 1, "{}", self.messages.join("\n"));
        all[0]
    }

    fn cordon(&mut self, number: usize) {
        let profile = Profile {
            cordoned: true,
            ..Profile::default()
        };
        self.step(number, Input::Tell(profile.into()));
    }
}

#[test]
fn a_coordinator_whose_maps_are_refused_stands_aside_and_keeps_its_units() {
    let (mut world, first) = refused();
    let starts = world.checks.starts;
    world.start(3);
    world.goes_well(8 * SECOND);
    assert_eq!(world.acts(), [3; 4], "{}", world.messages.join("\n"));
    assert_ne!(world.first(), first);
    assert_eq!(world.checks.starts - starts, 3, "the others went on");
    // It does not take its turn for a while, however much there is to do.
    world.cordon(3);
    world.goes_well(SECOND);
    assert_eq!(world.acts(), [4, 4, 4, 0], "{}", world.messages.join("\n"));
    // It tries again, and is the first one for good.
    world.nodes[first].is_refused = false;
    world.goes_well(301 * SECOND);
    assert_eq!(world.first(), first);
    world.leave(3);
    world.goes_well(SECOND);
    world.start(3);
    world.goes_well(2 * SECOND);
    assert_eq!(world.acts(), [3; 4], "{}", world.messages.join("\n"));
}

#[test]
fn members_whose_maps_are_all_refused_go_on_and_try_on_in_their_order() {
    let (mut world, first) = refused();
    (0..3).for_each(|node| world.nodes[node].is_refused = true);
    let starts = world.checks.starts;
    world.start(3);
    world.nodes[3].is_refused = true;
    world.goes_well(60 * SECOND);
    assert_eq!(world.acts(), [4, 4, 4, 0]);
    assert_eq!(world.checks.starts, starts);
    (0..4).for_each(|node| world.nodes[node].is_refused = false);
    world.goes_well(3 * SECOND);
    assert_eq!(world.acts(), [3; 4], "{}", world.messages.join("\n"));
    assert_eq!(world.first(), first);
}

/// Its next handler begins by another map, which it can't write.
#[test]
fn a_unit_whose_handler_ended_goes_to_a_member_whose_maps_are_not_refused() {
    let (mut world, first) = refused();
    let unit = world.nodes[first].handlers.keys().next().cloned();
    let unit = unit.expect("a unit");
    world.nodes[first].handlers.remove(&unit);
    let end = nats_elect_core::HandlerEnd::Returned;
    world.step(first, Input::HandlerEnded(unit.clone(), end));
    world.goes_well(12 * SECOND);
    let acts = world.nodes.iter().any(|it| it.handlers.contains_key(&unit));
    assert!(acts, "{}", world.messages.join("\n"));
}
