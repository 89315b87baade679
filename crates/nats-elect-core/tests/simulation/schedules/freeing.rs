//! What is free, and from when on.

use crate::network::Wire;
use crate::{ModelBucket, World, ms, settings};
use nats_elect_core::record::Content;

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
