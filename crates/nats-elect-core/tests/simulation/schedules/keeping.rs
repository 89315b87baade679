//! Heartbeats and what becomes of them.

use std::time::Duration;

use crate::{World, ms, settings};
use nats_elect_core::event::{EndCause, Event};
use nats_elect_core::status::RoleState;

const TTL: Duration = ms(1000);

/// How long the leader of this world goes on without a connection.
fn gives_up_after(world: &mut World, leader: usize) -> Duration {
    world.run(ms(700));
    world.disconnect(leader);
    world
        .run_until(ms(3000), |world| !world.nodes[leader].is_leader(world.now))
        .expect("it gives up")
}

#[test]
fn a_grace_period_longer_than_the_lease_changes_nothing() {
    let settings = settings(|config| config.disconnect_grace_period = Some(ms(5000)));
    let mut world = World::new(7, 2, &settings);
    let leader = world.await_leader(ms(50));
    let took = gives_up_after(&mut world, leader);
    assert!(took <= TTL - settings.drift_margin() - settings.stop_budget);
    assert!(world.told(leader, |event| matches!(
        event,
        Event::TermEnding {
            cause: EndCause::LeaseExpired,
            ..
        }
    )));
}

#[test]
fn an_outage_shorter_than_the_grace_period_ends_nothing() {
    let settings = settings(|config| config.disconnect_grace_period = Some(ms(500)));
    let mut world = World::new(8, 2, &settings);
    let leader = world.await_leader(ms(50));
    world.run(ms(700));
    for _ in 0..5 {
        world.disconnect(leader);
        world.run(ms(300));
        world.connect(leader);
        world.run(ms(300));
    }
    assert_eq!(world.leader(), Some(leader));
    assert_eq!(world.nodes[leader].terms.len(), 1);
}

#[test]
fn a_leader_that_is_paused_past_its_lease_finds_another_in_office() {
    for seed in 0..20 {
        let mut world = World::new(seed, 3, &settings(|_| {}));
        let leader = world.await_leader(ms(50));
        world.run(ms(500));
        world.pause(leader);
        world.run(ms(1500));
        let next = world.leader().expect("a next leader");
        world.resume(leader);
        world.run(ms(1000));
        assert_eq!(world.leader(), Some(next));
        assert_eq!(world.state(leader), RoleState::Follower);
    }
}
