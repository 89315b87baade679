//! An operator names the next leader, and others have a higher priority.

use std::time::Duration;

use nats_elect_core::config::Takeover;
use nats_elect_core::{Input, Intent, RequestId};

use crate::{ModelBucket, World, ms, settings};

const HOUR: Duration = ms(3_600_000);

/// The last of three leads, as it has the highest priority. The first has the lowest.
fn led_by_the_highest() -> World {
    let of = |priority| {
        settings(|config| {
            config.priority = priority;
            config.takeover = Takeover::Cooperative;
        })
    };
    let mut world = World::with(1, ModelBucket::new(), vec![of(1), of(2), of(3)]);
    world.run_until(ms(30_000), leads(2)).expect("the highest");
    world.run(ms(2000));
    world
}

fn leads(node: usize) -> impl Fn(&World) -> bool {
    move |world| world.leader() == Some(node)
}

fn hand_to(world: &mut World, from: usize, to: usize, hold_off: Duration) {
    let intent = Intent::StepDown {
        to: Some(format!("node-{to}")),
        expected: None,
        hold_off,
    };
    world.input(from, Input::Intend(RequestId(1), intent));
    world.run_until(ms(500), leads(to)).expect("a handoff");
}

/// Nobody else leads for so long.
fn stays_with(world: &mut World, node: usize, time: Duration) {
    let another = move |world: &World| world.leader().is_some_and(|leader| leader != node);
    assert_eq!(world.run_until(time, another), None);
}

#[test]
pub fn an_order_holds_against_priorities_for_its_time() {
    for (hold_off, holds) in [(Duration::ZERO, HOUR), (ms(60_000), ms(60_000))] {
        let mut world = led_by_the_highest();
        hand_to(&mut world, 2, 0, hold_off);
        stays_with(&mut world, 0, holds - ms(100));
        world.run_until(ms(10_000), leads(2)).expect("by priority");
    }
}

#[test]
fn a_resumed_leader_yields_to_a_higher_priority_again() {
    let mut world = led_by_the_highest();
    hand_to(&mut world, 2, 0, Duration::ZERO);
    stays_with(&mut world, 0, ms(60_000));
    world.input(0, Input::Intend(RequestId(2), Intent::Resume));
    world.run_until(ms(10_000), |world| world.leader() != Some(0));
    world.run_until(ms(10_000), leads(2)).expect("by priority");
}

#[test]
fn an_order_is_replaced_by_the_next_and_ends_with_its_term() {
    let mut world = led_by_the_highest();
    hand_to(&mut world, 2, 0, Duration::ZERO);
    stays_with(&mut world, 0, ms(20_000));
    hand_to(&mut world, 0, 1, Duration::ZERO);
    stays_with(&mut world, 1, ms(20_000));
    world.crash(1);
    world.run_until(ms(10_000), leads(2)).expect("by priority");
    world.boot(1);
    stays_with(&mut world, 2, ms(20_000));
}
