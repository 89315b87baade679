//! How a leader comes to be, and the next one.

use super::step_down;
use crate::{ModelBucket, World, ms, settings};
use nats_elect_core::status::RoleState;

#[test]
fn one_among_three_is_elected_and_the_others_follow() {
    for seed in 0..20 {
        let mut world = World::new(seed, 3, &settings(|_| {}));
        let leader = world.await_leader(ms(50));
        world.run(ms(3000));
        assert_eq!(world.leader(), Some(leader), "nothing changes by itself");
        for node in 0..3 {
            let expected = if node == leader {
                RoleState::Leader
            } else {
                RoleState::Follower
            };
            assert_eq!(world.state(node), expected);
        }
    }
}

#[test]
fn a_crashed_leader_is_followed_within_its_lease_and_the_claim_delay() {
    for seed in 0..20 {
        let settings = settings(|_| {});
        let mut world = World::new(seed, 3, &settings);
        let leader = world.await_leader(ms(50));
        world.run(ms(1000));
        world.crash(leader);
        let took = world
            .run_until(ms(5000), |world| world.leader().is_some())
            .expect("a next leader");
        let slack = ms(10);
        assert!(took <= settings.worst_case_failover() + slack, "{took:?}");
    }
}

#[test]
fn a_leader_that_steps_down_is_followed_within_milliseconds() {
    for seed in 0..20 {
        let mut world = World::new(seed, 3, &settings(|_| {}));
        let leader = world.await_leader(ms(50));
        world.run(ms(500));
        step_down(&mut world, leader);
        let took = world.until_led_by_another_than(leader, ms(5000));
        assert!(took <= ms(12), "{took:?}");
    }
}

#[test]
fn servers_of_every_kind_can_hold_an_election() {
    let kinds = [
        ModelBucket::new(),
        ModelBucket::new().plain(),
        ModelBucket::new().max_age(ms(2000)),
    ];
    for (seed, bucket) in (0..).zip(kinds) {
        let mut world = World::with(seed, bucket, vec![settings(|_| {}); 3]);
        let first = world.await_leader(ms(50));
        world.run(ms(5000));
        assert_eq!(world.leader(), Some(first));
        world.crash(first);
        world.await_leader(ms(3100));
    }
}
