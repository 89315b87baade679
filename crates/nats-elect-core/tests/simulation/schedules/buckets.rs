//! Buckets that are recreated, unfit, or lose what they confirmed.

use super::{boots_to_stale_reads, led_by_the_first};
use crate::{Fate, Kind, ModelBucket, World, ms, settings};

#[test]
fn a_recreated_bucket_finds_a_leader_again_without_anybody_being_told() {
    for unique in [true, false] {
        for seed in 0..10 {
            let bucket = if unique {
                ModelBucket::new()
            } else {
                ModelBucket::new().plain()
            };
            let mut world = World::with(seed, bucket, vec![settings(|_| {}); 3]);
            world.await_leader(ms(50));
            world.run(ms(500));
            world.recreate();
            world.run(ms(4000));
            assert!(world.leader().is_some(), "seed {seed}");
        }
    }
}

/// Review item 1: in the old bucket A is at 1 and 2; in the new one C is, too.
#[test]
fn a_stale_heartbeat_meets_no_reused_sequence_in_buckets_of_our_making() {
    for seed in 0..20 {
        let mut world = World::new(seed, 2, &settings(|_| {}));
        let leader = world.await_leader(ms(50));
        world.run(ms(500));
        world.nodes[leader]
            .plans
            .push((Kind::Renew, Fate::Ghost(ms(300))));
        world.run(ms(190));
        world.recreate();
        world.run(ms(4000));
        assert!(world.leader().is_some());
    }
}

#[test]
fn a_fresh_instance_in_a_recreated_bucket_is_the_named_exception_and_does_not_last() {
    for seed in 0..10 {
        let bucket = ModelBucket::new();
        let mut world = World::unstarted(seed, bucket, vec![settings(|_| {}); 2]);
        world.boot(0);
        world.await_leader(ms(50));
        world.run(ms(300));
        world.recreate();
        world.boot(1);
        // The next heartbeat tells the old leader.
        world.run(ms(230));
        world.run(ms(3000));
        assert!(world.leader().is_some());
    }
}

/// A watch showed what was lost afterwards: its sequence must not hide what stands there now.
#[test]
fn a_lost_tail_that_only_the_watch_saw_does_not_leave_the_role_without_a_leader() {
    for seed in 0..10 {
        let mut world = World::new(seed, 3, &settings(|_| {}));
        let leader = world.await_leader(ms(50));
        world.run(ms(700));
        world.crash(leader);
        world.lose_tail(2);
        world.await_leader(ms(3500));
    }
}

#[test]
fn a_leader_whose_last_writes_were_lost_goes_by_its_next_heartbeat() {
    for seed in 0..10 {
        let mut world = World::new(seed, 3, &settings(|_| {}));
        let leader = world.await_leader(ms(50));
        world.run(ms(700));
        world.lose_tail(2);
        world.run(ms(230));
        assert!(!world.nodes[leader].is_leader(world.now));
        world.await_leader(ms(3000));
    }
}

/// The bucket is made anew while an instance reads its keys. The first answer is stale, and shows no
/// leader. The second is of the new bucket.
#[test]
pub fn an_instance_that_reads_while_the_bucket_is_made_anew_waits_for_the_leader_of_the_old_one() {
    for seed in 0..10 {
        for delay in 0..40 {
            let fleet = vec![settings(|_| {}); 2];
            let mut world = led_by_the_first(seed, ModelBucket::new(), fleet);
            world.run(ms(20));
            boots_to_stale_reads(&mut world, 1);
            world.run(ms(1) / 10 * delay);
            world.make_anew();
            world.run(ms(250));
        }
    }
}
