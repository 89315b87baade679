//! What happens without faults.

use std::collections::BTreeMap;
use std::time::Duration;

use nats_elect_core::assignment::{Profile, Units};
use nats_elect_core::member::Input;
use nats_elect_core::name::UnitName;

use crate::world::World;

fn world(nodes: usize, units: u32) -> World {
    let mut world = World::new(1, nodes, Units::Shards(units));
    world.logs = true;
    world
}

impl World {
    /// Runs, and tells what happened if something failed.
    #[track_caller]
    pub fn goes_well(&mut self, time: Duration) {
        self.run(time);
        if let Some(failure) = &self.failure {
            panic!("{}\n{failure}", self.messages.join("\n"));
        }
    }

    /// How many units each member acts on.
    pub fn acts(&self) -> Vec<usize> {
        self.nodes
            .iter()
            .map(|it| it.acting(self.now).filter(|it| !it.1.is_told).count())
            .collect()
    }
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

#[test]
fn three_members_share_units_and_take_over_from_who_leaves_and_who_dies() {
    let mut world = world(3, 9);
    for node in 0..3 {
        world.start(node);
    }
    world.goes_well(secs(2));
    assert_eq!(world.acts(), [3, 3, 3], "{}", world.messages.join("\n"));
    world.leave(1);
    world.goes_well(Duration::from_millis(600));
    let acts: BTreeMap<_, _> = world.acts().into_iter().zip(0..).collect();
    assert!(world.nodes[1].member.is_none());
    assert_eq!(
        acts.keys().sum::<usize>(),
        9,
        "{}",
        world.messages.join("\n")
    );
    world.start(1);
    world.goes_well(secs(1));
    assert_eq!(world.acts(), [3, 3, 3], "{}", world.messages.join("\n"));
    world.crash(0);
    world.goes_well(secs(4));
    assert_eq!(
        world.acts().iter().sum::<usize>(),
        9,
        "{}",
        world.messages.join("\n")
    );
}

#[test]
fn thirty_members_share_ten_thousand_units() {
    let mut world = World::new(1, 30, Units::Shards(10_000));
    (0..30).for_each(|node| world.start(node));
    world.goes_well(secs(4));
    let acts = world.acts();
    assert_eq!(acts.iter().sum::<usize>(), 10_000, "{acts:?}");
    world.crash(0);
    world.goes_well(secs(5));
    assert_eq!(world.acts().iter().sum::<usize>(), 10_000, "{acts:?}");
    // The first one, the owners, and those of who died.
    assert!(world.maps <= 4, "{} maps", world.maps);
}

#[test]
fn many_members_that_join_at_once_share_units_by_few_maps() {
    let mut world = World::new(1, 64, Units::Shards(256));
    (0..64).for_each(|node| world.start(node));
    world.goes_well(secs(4));
    let acts = world.acts();
    assert!(acts.iter().all(|it| *it == 4), "{acts:?}");
    assert!(world.maps <= 12, "{} maps", world.maps);
}

#[test]
fn units_are_spread_by_the_loads_that_their_owners_tell() {
    let mut world = world(2, 10);
    world.start(0);
    world.start(1);
    world.goes_well(secs(2));
    assert_eq!(world.acts(), [5, 5]);
    let hot = UnitName::shard(0);
    // Of 1,800 in all the hot one makes a half.
    for _ in 0..30 {
        world.goes_well(secs(1));
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
    assert_eq!(acts, [1, 9], "{}", world.messages.join("\n"));
}
