//! A role is retired while somebody comes after all.

use super::{led_by_the_first, of_ttl};
use crate::retiring::Retiring;
use crate::{ModelBucket, World, ms};

/// The first one has led and is gone; nobody else has started yet. An operator has marked the key,
/// and is held up before the removals.
fn marked(seed: u64) -> (World, Retiring) {
    let all = vec![of_ttl(ms(1000)); 2];
    let mut world = led_by_the_first(seed, ModelBucket::new(), all);
    world.run(ms(500));
    world.crash(0);
    world.retire();
    let is_marked = |world: &World| matches!(world.retiring, Some(Retiring::RemoveRecord { .. }));
    let took = world.run_until(ms(1100), is_marked).expect("the marker");
    assert!(took >= ms(980), "the lease is waited for: {took:?}");
    let held = world.retiring.take().expect("the next step");
    (world, held)
}

/// All that the operator still does, at once.
fn finish(world: &mut World, held: Retiring) {
    world.retiring = Some(held);
    while world.retiring.is_some() {
        world.go_on_retiring(world.retirements);
    }
}

#[test]
fn a_term_that_begins_amid_a_retirement_keeps_its_keys() {
    for seed in 0..20 {
        let (mut world, held) = marked(seed);
        world.boot(1);
        world.await_leader(ms(1200));
        let fence = world.bucket.fence();
        let first = world.bucket.role().map(|role| role.revision);
        finish(&mut world, held);
        assert_eq!(world.bucket.fence(), fence);
        world.run(ms(3000));
        assert_eq!(world.leader(), Some(1));
        assert!(world.bucket.role().map(|role| role.revision) > first);
    }
}

/// The checkers see that its token is greater.
#[test]
fn a_candidate_leads_wherever_a_retirement_was_cut_short() {
    for seed in 0..20 {
        for steps in 0..3 {
            let (mut world, held) = marked(seed);
            world.retiring = Some(held);
            for _ in 0..steps {
                world.go_on_retiring(world.retirements);
            }
            world.retiring = None;
            let is_gone = world.bucket.role().is_none() && world.bucket.fence().is_none();
            assert_eq!(is_gone, steps == 2);
            world.boot(1);
            world.await_leader(ms(1200));
        }
    }
}

#[test]
fn a_heartbeat_ends_a_retirement() {
    for seed in 0..20 {
        let all = vec![of_ttl(ms(1000)); 2];
        let mut world = led_by_the_first(seed, ModelBucket::new(), all);
        world.retire();
        world.run(ms(3000));
        assert!(world.retiring.is_none());
        assert_eq!(world.tally.retirements_refused, 1);
        assert_eq!(world.leader(), Some(0));
    }
}
