//! The fence record and the order of terms.

use super::{boots_to_stale_reads, led_by_the_first};
use crate::{Fate, Kind, ModelBucket, World, ms, settings};
use nats_elect_core::record::Content;
use nats_elect_core::status::RoleState;

/// Else it would renew a claim that comes to nothing for ever, and nobody could lead.
#[test]
fn an_instance_that_may_not_write_fences_leaves_the_role_to_others() {
    for seed in 0..10 {
        let bucket = ModelBucket::new();
        let mut world = World::unstarted(seed, bucket, vec![settings(|_| {}); 2]);
        for _ in 0..100 {
            world.nodes[0].plans.push((Kind::Fence, Fate::Denied));
        }
        world.boot(0);
        world.run(ms(300));
        world.boot(1);
        let leader = world.await_leader(ms(2500));
        assert_eq!(leader, 1);
        assert_eq!(world.state(0), RoleState::Follower);
    }
}

/// A marker wipes a confirmed claim.
#[test]
fn a_claim_that_is_wiped_before_its_fence_leads_for_a_heartbeat_at_most() {
    for seed in 0..10 {
        let bucket = ModelBucket::new().max_age(ms(1500));
        let mut world = World::with(seed, bucket, vec![settings(|_| {}); 2]);
        let first = world.await_leader(ms(50));
        world.crash(first);
        world.run_until(ms(4000), |world| {
            let sent = &world.nodes[1 - first].sent;
            sent.iter().any(|(_, kind)| *kind == Kind::Fence)
        });
        world.put(Content::ForeignMarker);
        world.run(ms(220));
        assert!(world.leader().is_none());
        world.run(ms(680));
        assert!(world.leader().is_none());
        world.await_leader(ms(2000));
    }
}

/// The role's key was purged. A new instance reads both keys as they were before the leader's term,
/// and claims the role. The fence record of that term refuses the new one's.
#[test]
pub fn a_fence_record_that_was_not_seen_ends_the_claim_over_a_purged_key() {
    for seed in 0..20 {
        let fleet = vec![settings(|_| {}); 2];
        let mut world = led_by_the_first(seed, ModelBucket::new(), fleet);
        world.run(ms(10));
        world.bucket.purge(world.now);
        boots_to_stale_reads(&mut world, 1);
        let claims = |world: &World| world.nodes[1].sent.iter().any(|it| it.1 == Kind::Fence);
        world.run_until(ms(100), claims).expect("a claim");
        world.weather.stale_read = 0;
        world.run(ms(3000));
    }
}
