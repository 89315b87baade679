//! What members tell of themselves decides what they own.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::policy;
use super::world::*;

const SECOND: Duration = Duration::from_secs(1);

/// A group of 12 units in which some require a label.
fn world_that_requires(label: &str, units: std::ops::Range<u32>) -> World {
    let mut world = World::new(0, 12);
    let mut placement = placement(settings());
    let labels = BTreeSet::from([label.to_owned()]);
    placement.units = units
        .map(|it| {
            let needs = policy::Unit::default().requires(labels.clone());
            (unit(it).unit, needs)
        })
        .collect();
    for _ in 0..3 {
        world.join_with(12, Some(placement.clone()));
    }
    world
}

#[test]
fn units_go_where_their_labels_are() {
    let mut world = world_that_requires("disk=ssd", 0..6);
    world.nodes[1].labels = BTreeSet::from(["disk=ssd".into()]);
    let all_placed = |world: &World| {
        (0..6).all(|it| world.owners(&unit(it)) == [1])
            && (6..12).all(|it| world.owners(&unit(it)).len() == 1)
    };
    world.until(60 * SECOND, all_placed);
    world.run(30 * SECOND);
    assert!(all_placed(&world));
}

#[test]
fn a_unit_whose_label_nobody_has_stays_free_and_is_explained() {
    let mut world = world_that_requires("disk=ssd", 0..1);
    world.run(60 * SECOND);
    assert_eq!(world.owners(&unit(0)), [] as [usize; 0]);
    assert!((1..12).all(|it| world.owners(&unit(it)).len() == 1));
    let plan = world.nodes[0].group.plan_of(&group()).unwrap();
    assert_eq!(plan.unplaced.len(), 1);
    world.nodes[2].labels = BTreeSet::from(["disk=ssd".into()]);
    world.until(10 * SECOND, |world| world.owners(&unit(0)) == [2]);
}

/// Such a label would be one of a handler that it does not have.
#[test]
fn no_member_gets_a_handler_by_a_label() {
    let mut world = world_that_requires("handler=0", 0..1);
    world.nodes[0].labels = BTreeSet::from(["handler=0".into()]);
    world.run(60 * SECOND);
    assert_eq!(world.owners(&unit(0)), [] as [usize; 0]);
}

#[test]
fn a_member_owns_no_more_units_than_it_says() {
    let mut world = World::new(3, 12);
    world.nodes[0].most_units = Some(2);
    world.until(60 * SECOND, |world| world.owned() == [2, 5, 5]);
    world.nodes[1].most_units = Some(3);
    world.nodes[2].most_units = Some(3);
    world.run(30 * SECOND);
    let plan = world.nodes[0].group.plan_of(&group()).unwrap();
    assert_eq!(plan.unplaced.len(), 4, "room for 8 of 12");
}

/// One unit makes nearly all the work. Its owner keeps it, and gives away the others.
#[test]
fn a_hot_unit_is_told_by_its_name() {
    let mut world = World::settled(3, 30);
    let hot = world.owner(0);
    for node in &mut world.nodes {
        node.unit_loads = (0..30)
            .map(|it| (it, if it == 0 { 100 } else { 5 }))
            .collect();
        node.names_loads = true;
    }
    // 245 in all: the hot one is more than a share.
    world.until(120 * SECOND, |world| world.owned()[world.owner(0)] == 1);
    assert_eq!(world.owner(0), hot);
    world.run(60 * SECOND);
    assert!((0..30).all(|it| world.owners(&unit(it)).len() == 1));
    let mut owned = world.owned();
    owned.sort_unstable();
    assert_eq!(owned[0], 1);
    assert!(owned[2] - owned[1] <= 2, "{owned:?}");
}
