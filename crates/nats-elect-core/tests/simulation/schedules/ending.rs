//! How terms end, and what is freed when.

use std::time::Duration;

use super::step_down;
use crate::node::Health;
use crate::{Fate, Kind, ModelBucket, World, ms, settings, tuned};
use nats_elect_core::event::{EndCause, Event};
use nats_elect_core::status::RoleState;
use nats_elect_core::{HandlerEnd, Input, Intent, Reply, RequestId};

/// The request of the first `step_down`.
const ASK: RequestId = RequestId(77);

#[test]
fn a_leader_that_winds_down_by_choice_keeps_its_lease_up() {
    let settings = settings(|config| config.stop_budget = Some(ms(450)));
    let mut world = World::new(1, 2, &settings);
    let leader = world.await_leader(ms(50));
    world.run(ms(300));
    world.nodes[leader].handler.winds_down_in = Some(ms(440));
    let term = world.term(leader);
    world.nodes[leader]
        .terms
        .get_mut(&term)
        .expect("a term")
        .handler
        .winds_down_in = Some(ms(440));
    let before = world.nodes[leader].sent.len();
    step_down(&mut world, leader);
    world.run(ms(439));
    let renewals = world.nodes[leader].sent[before..]
        .iter()
        .filter(|(_, kind)| *kind == Kind::Renew)
        .count();
    assert_eq!(renewals, 2);
    assert!(world.leader().is_none(), "but leads no longer");
    let next = world.await_leader(ms(20));
    assert_ne!(next, leader);
}

#[test]
fn what_a_handler_spawned_winds_down_under_a_lease_that_is_kept_up() {
    let settings = settings(|config| config.stop_budget = Some(ms(450)));
    let mut world = World::unstarted(1, ModelBucket::new(), vec![settings; 2]);
    for node in 0..2 {
        world.nodes[node].handler.ends = Some((ms(300), HandlerEnd::Failed));
        world.nodes[node].handler.lingers = Some(ms(440));
        world.nodes[node].handler.winds_down_in = None;
        world.boot(node);
    }
    let leader = world.await_leader(ms(50));
    world.run_until(ms(400), |world| world.state(leader) == RoleState::Draining);
    let before = world.nodes[leader].sent.len();
    assert!(world.leader().is_none());
    world.run(ms(435));
    assert!(world.nodes[leader].runs_handler());
    let renewals = world.nodes[leader].sent[before..]
        .iter()
        .filter(|(_, kind)| *kind == Kind::Renew)
        .count();
    assert_eq!(renewals, 2);
    let next = world.await_leader(ms(20));
    assert_ne!(next, leader);
    assert!(world.told(leader, |event| matches!(
        event,
        Event::TermEnded {
            cause: EndCause::Failed,
            released: true,
            ..
        }
    )));
}

#[test]
fn step_down_stop_and_health_each_free_the_role_for_another() {
    let inputs = [
        Some(Input::Intend(
            ASK,
            Intent::StepDown {
                to: None,
                expected: None,
                hold_off: Duration::ZERO,
            },
        )),
        Some(Input::Intend(
            RequestId::NOBODY,
            Intent::Stop { release: true },
        )),
        None,
    ];
    for (i, input) in inputs.into_iter().enumerate() {
        let mut world = World::new(
            1,
            2,
            &tuned(|it| {
                it.health.interval = ms(50);
                it.health.timeout = ms(25);
            }),
        );
        let leader = world.await_leader(ms(50));
        world.run(ms(100));
        if input.is_none() {
            world.nodes[leader].health = Health::Ill;
        }
        if let Some(input) = input {
            world.input(leader, input);
        }
        let took = world
            .run_until(ms(400), |world| {
                world.leader().is_some_and(|next| next != leader)
            })
            .unwrap_or_else(|| panic!("{i}"));
        assert!(took < ms(200), "{took:?}");
    }
}

#[test]
fn a_handler_that_blocks_is_told_of_frees_nothing_and_is_not_started_again() {
    let mut world = World::new(1, 2, &settings(|_| {}));
    for node in 0..2 {
        world.nodes[node].handler.winds_down_in = None;
        world.nodes[node].handler.aborts_in = None;
    }
    let leader = world.await_leader(ms(50));
    world.run(ms(300));
    step_down(&mut world, leader);
    world.run(ms(1300));
    assert!(world.told(leader, |event| matches!(
        event,
        Event::HandlerOverrun { .. }
    )));
    assert!(
        !world.nodes[leader]
            .sent
            .iter()
            .any(|(_, kind)| *kind == Kind::Release)
    );
    assert_eq!(world.state(leader), RoleState::Draining);
    let next = world.leader().expect("the lease ran out");
    assert_ne!(next, leader);
    world.run(ms(5000));
    assert_eq!(world.state(leader), RoleState::Draining);
    let term = world.term(leader);
    world.end_handler(leader, term, Duration::ZERO, HandlerEnd::Returned);
    world.run(ms(10));
    assert_eq!(world.state(leader), RoleState::Demoted);
    assert!(world.nodes[leader].replies.contains(&(
        ASK,
        Reply::SteppedDown {
            released: false,
            handoff: None
        }
    )));
}

#[test]
fn the_cool_down_doubles_with_each_failure_in_a_row_up_to_its_limit() {
    let settings = tuned(|it| {
        it.cooldown = ms(100);
        it.max_cooldown = ms(700);
    });
    let mut world = World::new(1, 1, &settings);
    world.nodes[0].handler.ends = Some((ms(5), HandlerEnd::Failed));
    let mut pauses = Vec::new();
    for _ in 0..6 {
        world.await_leader(ms(1000));
        world.run_until(ms(100), |world| world.state(0) == RoleState::Demoted);
        let pause = world
            .run_until(ms(1000), |world| world.state(0) != RoleState::Demoted)
            .expect("it stands again");
        pauses.push(pause.as_millis());
    }
    assert_eq!(pauses, [100, 200, 400, 700, 700, 700]);
}

#[test]
fn a_good_end_makes_the_cool_down_short_again() {
    let settings = tuned(|it| {
        it.cooldown = ms(100);
        it.max_cooldown = ms(700);
    });
    let mut world = World::new(1, 1, &settings);
    for end in [
        HandlerEnd::Panicked,
        HandlerEnd::Failed,
        HandlerEnd::Returned,
        HandlerEnd::Failed,
    ] {
        world.nodes[0].handler.ends = Some((ms(5), end));
        world.await_leader(ms(1000));
        world.run_until(ms(100), |world| world.state(0) == RoleState::Demoted);
        let pause = world
            .run_until(ms(1000), |world| world.state(0) != RoleState::Demoted)
            .expect("it stands again");
        let expected = match end {
            HandlerEnd::Failed if world.nodes[0].terms.len() == 2 => 200,
            _ => 100,
        };
        assert_eq!(pause.as_millis(), expected, "{end:?}");
    }
}

#[test]
fn a_lost_release_is_looked_after() {
    for fate in [Fate::Lost, Fate::AckLost] {
        for seed in 0..10 {
            let mut world = World::new(seed, 2, &settings(|_| {}));
            let leader = world.await_leader(ms(50));
            world.run(ms(300));
            world.nodes[leader].plans.push((Kind::Release, fate));
            step_down(&mut world, leader);
            let next = world.until_led_by_another_than(leader, ms(400));
            assert!(next < ms(300), "{next:?}");
        }
    }
}
