//! What happens without faults.

use std::time::Duration;

use nats_elect_core::assignment::{Profile, Units};
use nats_elect_core::member::Input;
use nats_elect_core::name::UnitName;

use crate::schedule::SECOND;
use crate::world::World;

#[test]
fn three_members_share_units_and_take_over_from_who_leaves_and_who_dies() {
    let mut world = World::warm(1, 3, 3, Units::Shards(9));
    assert_eq!(world.acts(), [3, 3, 3]);
    world.leave(1);
    world.goes_well(Duration::from_millis(600));
    assert!(world.nodes[1].member.is_none());
    assert_eq!(world.all_acts(), 9);
    world.start(1);
    world.goes_well(SECOND);
    assert_eq!(world.acts(), [3, 3, 3]);
    world.crash(0);
    world.goes_well(4 * SECOND);
    assert_eq!(world.all_acts(), 9);
}

#[test]
fn thirty_members_share_ten_thousand_units() {
    let mut world = World::new(1, 30, Units::Shards(10_000));
    (0..30).for_each(|node| world.start(node));
    world.goes_well(4 * SECOND);
    let acts = world.acts();
    assert_eq!(world.all_acts(), 10_000, "{acts:?}");
    world.crash(0);
    world.goes_well(5 * SECOND);
    assert_eq!(world.all_acts(), 10_000, "{acts:?}");
    // The first one, the owners, and those of who died.
    assert!(world.maps <= 4, "{} maps", world.maps);
}

#[test]
fn many_members_that_join_at_once_share_units_by_few_maps() {
    let mut world = World::new(1, 64, Units::Shards(256));
    (0..64).for_each(|node| world.start(node));
    world.goes_well(4 * SECOND);
    let acts = world.acts();
    assert!(acts.iter().all(|it| *it == 4), "{acts:?}");
    assert!(world.maps <= 12, "{} maps", world.maps);
}

#[test]
fn units_are_spread_by_the_loads_that_their_owners_tell() {
    let mut world = World::warm(1, 2, 2, Units::Shards(10));
    assert_eq!(world.acts(), [5, 5]);
    let hot = UnitName::shard(0);
    // Of 1,800 in all the hot one makes a half.
    for _ in 0..30 {
        world.goes_well(SECOND);
        for node in 0..2 {
            let units: Vec<_> = world.nodes[node].acting(world.now).collect();
            let is_hot = units.iter().any(|(unit, _)| unit.unit().name() == hot);
            let others = (units.len() - usize::from(is_hot)) as u64;
            let profile = Profile {
                load: others * 100 + if is_hot { 900 } else { 0 },
                heavy: is_hot.then(|| (hot.clone(), 900)).into_iter().collect(),
                ..Profile::default()
            };
            world.step(node, Input::Tell(profile.into()));
        }
    }
    let mut acts = world.acts();
    acts.sort_unstable();
    assert_eq!(acts, [1, 9]);
}
