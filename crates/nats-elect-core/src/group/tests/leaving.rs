//! A member that leaves gives its units away, some at a time.

use std::time::Duration;

use super::super::unit::{Phase, Tenure};
use super::world::*;

const TICK: Duration = Duration::from_millis(100);

/// Two members, and how many units the first one owns.
fn two(shards: u32) -> (World, usize) {
    let world = World::settled(2, shards);
    let owned = world.owned()[0];
    assert!(owned > 32, "{owned}");
    (world, owned)
}

fn count(world: &World, what: impl Fn(&Tenure) -> bool) -> usize {
    let tenures = world.nodes[0].group.tenures.values();
    tenures.filter(|it| what(it)).count()
}

#[test]
fn units_keep_their_handlers_until_it_is_their_turn_to_be_given_away() {
    let (mut world, owned) = two(80);
    let ends = |it: &Tenure| matches!(it.phase, Phase::Ending { .. });
    let acts = |it: &Tenure| it.phase == Phase::Acting;
    world.nodes[0].stubborn = true;
    world.leave(0);
    let counts = (count(&world, ends), count(&world, acts));
    assert_eq!(counts, (16, owned - 16));
}

#[test]
fn handlers_that_are_slow_to_end_hold_up_nobody() {
    let (mut world, owned) = two(80);
    world.nodes[0].stubborn = true;
    world.leave(0);
    let ends = |it: &Tenure| matches!(it.phase, Phase::Ending { .. });
    world.until(3 * TICK, |world| count(world, ends) == owned);
    world.until(STOP + TTL + 3 * TICK, |world| world.owned() == [0, 80]);
}

#[test]
fn without_answers_all_handlers_end_all_the_same() {
    let (mut world, owned) = two(80);
    world.nodes[0].delayed = true;
    world.leave(0);
    let waits = |it: &Tenure| matches!(it.phase, Phase::Giving { .. }) && !it.runs;
    world.until(3 * TICK, |world| count(world, waits) == owned);
}

#[test]
fn many_units_are_given_away_within_moments() {
    let (mut world, _) = two(800);
    world.leave(0);
    world.until(30 * TICK, |world| world.owned() == [0, 800]);
    assert!(world.nodes[0].group.is_idle());
}

#[test]
fn the_units_that_came_last_leave_first() {
    let (mut world, _) = two(80);
    world.nodes[0].stubborn = true;
    world.leave(0);
    let tenures = world.nodes[0].group.tenures.values();
    let (acting, ending): (Vec<&Tenure>, _) = tenures.partition(|it| it.phase == Phase::Acting);
    let last_kept = acting.iter().map(|it| it.sequence).max();
    let first_to_leave = ending.iter().map(|it| it.sequence).min();
    assert!(
        last_kept < first_to_leave,
        "{last_kept:?} {first_to_leave:?}"
    );
}
