//! A unit whose handler fails here, and what becomes of the others.

use std::time::Duration;

use super::super::*;
use super::world::*;

const SECOND: Duration = Duration::from_secs(1);

/// How long a handler that failed so often is not started again.
fn pause(failures: u32) -> Duration {
    HEARTBEAT * (1 << (failures - 1))
}

fn is_owned(world: &World, number: u32) -> bool {
    world.owners(&unit(number)).len() == 1
}

/// The members that act on all units but one.
fn others(world: &World, without: u32, shards: u32) -> Vec<(usize, u64)> {
    let others = (0..shards).filter(|it| *it != without);
    let owned = others.map(|it| (world.owner(it), world.sequence(&GroupKey::Unit(unit(it)))));
    owned.collect()
}

/// One of the others may move, to where there is room now.
fn assert_others_stayed(world: &World, before: &[(usize, u64)]) {
    let now = others(world, 0, 9);
    let moved = now.iter().filter(|it| !before.contains(it)).count();
    assert!(moved <= 1, "{moved} moved");
}

#[test]
fn a_handler_that_fails_begins_again_after_a_pause_that_doubles() {
    let mut world = World::settled(1, 2);
    let before = others(&world, 0, 2);
    for failures in 1..=4 {
        world.fail(0);
        world.run_short_of(pause(failures), SECOND / 10);
        assert!(!is_owned(&world, 0), "{failures}");
        world.until(SECOND / 2, |world| is_owned(world, 0));
    }
    assert_eq!(others(&world, 0, 2), before);
}

#[test]
fn a_unit_that_keeps_failing_moves_and_nothing_else_does() {
    let mut world = World::settled(3, 9);
    let (first, before) = (world.owner(0), others(&world, 0, 9));
    for failures in 1..=2 {
        world.fail(0);
        world.until(pause(failures) + SECOND, |world| is_owned(world, 0));
        assert_eq!(world.owner(0), first);
    }
    world.fail(0);
    world.until(SECOND, |world| is_owned(world, 0));
    let second = world.owner(0);
    assert_ne!(second, first);
    // It does not come back for the sake of balance.
    world.run(60 * SECOND);
    assert_eq!(world.owner(0), second);
    assert_others_stayed(&world, &before);
}

/// Its pause is long by then. It holds up nobody.
#[test]
fn a_unit_that_rests_after_a_failure_is_given_away_at_once() {
    let mut world = World::settled(2, 2);
    let owner = world.owner(0);
    for failures in 1..=5 {
        // Nobody else takes it.
        world.nodes[1 - owner].cordoned = true;
        world.run(2 * SECOND);
        world.fail(0);
        if failures < 5 {
            world.until(pause(failures) + SECOND, |world| is_owned(world, 0));
        }
    }
    assert_eq!(world.owners(&unit(0)), [] as [usize; 0]);
    world.nodes[1 - owner].cordoned = false;
    world.run(2 * SECOND);
    world.leave(owner);
    world.until(SECOND, |world| world.owners(&unit(0)) == [1 - owner]);
}

#[test]
fn a_unit_that_fails_everywhere_stays_and_is_tried_again() {
    let mut world = World::settled(2, 2);
    for _ in 0..8 {
        world.fail(0);
        world.until(40 * SECOND, |world| is_owned(world, 0));
    }
    let owner = world.owner(0);
    world.fail(0);
    world.until(40 * SECOND, |world| is_owned(world, 0));
    assert_eq!(world.owner(0), owner);
    assert!(is_owned(&world, 1));
}

#[test]
fn failures_of_long_ago_do_not_count() {
    let mut world = World::settled(2, 2);
    let owner = world.owner(0);
    for _ in 0..3 {
        world.fail(0);
        world.until(HEARTBEAT + SECOND, |world| is_owned(world, 0));
        assert_eq!(world.owner(0), owner);
        world.run(300 * SECOND);
    }
}

#[test]
fn a_unit_that_is_unhealthy_moves_at_once_and_alone() {
    let mut world = World::settled(3, 9);
    let (first, before) = (world.owner(0), others(&world, 0, 9));
    world.sicken(0);
    world.until(SECOND, |world| is_owned(world, 0));
    assert_ne!(world.owner(0), first);
    world.run(30 * SECOND);
    assert_ne!(world.owner(0), first);
    assert_others_stayed(&world, &before);
}

#[test]
fn an_unhealthy_handler_that_does_not_end_is_an_overrun() {
    let mut world = World::settled(2, 2);
    let first = world.owner(0);
    world.nodes[first].stubborn = true;
    world.sicken(0);
    world.run(STOP + SECOND / 10);
    assert!(!is_owned(&world, 0), "its term is revoked");
    world.run_short_of(TTL, SECOND);
    assert!(!is_owned(&world, 0), "a lease has to pass");
    world.until(2 * SECOND, |world| is_owned(world, 0));
    assert_ne!(world.owner(0), first);
}

/// Without anybody else it begins again where it is.
#[test]
fn an_unhealthy_unit_of_the_only_member_begins_again_with_a_greater_token() {
    let mut world = World::settled(1, 1);
    let before = world.sequence(&GroupKey::Unit(unit(0)));
    world.sicken(0);
    world.until(2 * SECOND, |world| is_owned(world, 0));
    assert!(world.sequence(&GroupKey::Unit(unit(0))) > before);
}

#[test]
fn a_whole_group_that_fails_is_owned_again() {
    let mut world = World::settled(3, 60);
    for _ in 0..3 {
        for number in 0..60 {
            // Others fail while this one is on its way.
            if is_owned(&world, number) {
                world.fail(number);
            }
        }
        world.until(90 * SECOND, |world| (0..60).all(|it| is_owned(world, it)));
    }
    world.run(10 * SECOND);
    assert!((0..60).all(|it| is_owned(&world, it)));
}
