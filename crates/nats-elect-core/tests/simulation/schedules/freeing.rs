//! What is free, and from when on.

use super::step_down;
use crate::network::Wire;
use crate::{Fate, Kind, ModelBucket, World, ms, settings};
use nats_elect_core::event::{EndCause, Event};
use nats_elect_core::record::Content;

#[test]
fn two_instances_of_one_id_are_two_instances() {
    for seed in 0..10 {
        let mut world = World::unstarted(seed, ModelBucket::new(), vec![settings(|_| {}); 2]);
        for node in 0..2 {
            world.nodes[node].candidate.instance_id = "twin".to_owned();
            world.boot(node);
        }
        let leader = world.await_leader(ms(50));
        world.run(ms(3000));
        assert_eq!(world.leader(), Some(leader));
        world.crash(leader);
        let took = world
            .run_until(ms(3000), |world| world.leader().is_some())
            .expect("the twin");
        assert!(took > ms(700), "the other's lease is waited for: {took:?}");
    }
}

#[test]
fn an_operator_who_deletes_the_key_gets_another_leader_soon() {
    for seed in 0..20 {
        let mut world = World::new(seed, 3, &settings(|_| {}));
        let leader = world.await_leader(ms(50));
        world.run(ms(500));
        world.put(Content::ForeignMarker);
        let took = world.until_led_by_another_than(leader, ms(3000));
        assert!(took < ms(20), "{took:?}");
        assert!(world.told(leader, |event| matches!(
            event,
            Event::TermEnding {
                cause: EndCause::Deleted,
                ..
            }
        )));
    }
}

#[test]
fn a_deleted_key_of_a_leader_that_can_t_see_it_is_waited_for() {
    for seed in 0..20 {
        let mut world = World::new(seed, 3, &settings(|_| {}));
        let leader = world.await_leader(ms(50));
        world.run(ms(500));
        world.nodes[leader].wire = Wire::Cut;
        world.put(Content::ForeignMarker);
        let took = world.until_led_by_another_than(leader, ms(3000));
        assert!(took >= ms(1000), "{took:?}");
    }
}

#[test]
fn expiries_of_every_kind_make_no_two_leaders() {
    for markers in [true, false] {
        for seed in 0..10 {
            let mut bucket = ModelBucket::new().max_age(ms(1000));
            bucket.expiry_markers = markers;
            let mut world = World::with(seed, bucket, vec![settings(|_| {}); 3]);
            let leader = world.await_leader(ms(50));
            world.run(ms(3000));
            assert_eq!(world.leader(), Some(leader));
            world.crash(leader);
            // The record's lease, then the marker's, and where that has expired too, the wait on a
            // missing key.
            world.await_leader(ms(3300));
        }
    }
}

#[test]
fn claims_with_lost_acks_lead_to_a_leader_all_the_same() {
    for seed in 0..10 {
        let mut world = World::new(seed, 3, &settings(|_| {}));
        for node in 0..3 {
            world.nodes[node].plans.push((Kind::Claim, Fate::AckLost));
        }
        world.await_leader(ms(300));
        world.run(ms(2000));
        assert!(world.leader().is_some());
    }
}

#[test]
fn a_leader_that_stepped_down_stands_again_after_the_cool_down_alone() {
    let settings = settings(|config| config.cooldown = Some(ms(700)));
    let mut world = World::new(1, 1, &settings);
    world.await_leader(ms(50));
    step_down(&mut world, 0);
    world.run(ms(690));
    assert!(world.leader().is_none());
    world.await_leader(ms(20));
}
