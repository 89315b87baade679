//! How a leader comes to be, and the next one.

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
