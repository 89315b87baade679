//! Writes that fail while reads succeed.

use nats_elect_core::event::FailureKind;

use crate::world::Refusing;
use crate::{Kind, ModelBucket, World, ms, settings};

/// A full account, a code that is not known, a full disk whose server does not answer, a stream's
/// leader that lost its quorum.
const TOLD: [Option<FailureKind>; 5] = [
    None,
    Some(FailureKind::Unavailable),
    Some(FailureKind::BucketFull),
    Some(FailureKind::Rejected),
    Some(FailureKind::Contended),
];

#[test]
pub fn writes_that_are_not_taken_for_a_while_end_no_term() {
    for told in TOLD {
        let mut world = World::new(7, 2, &settings(|_| {}));
        let leader = world.await_leader(ms(50));
        world.run(ms(500));
        let until = world.now + ms(400);
        world.refusing = Some(Refusing { until, told });
        world.run(ms(5000));
        assert_eq!(world.leader(), Some(leader), "{told:?}");
        assert_eq!(world.nodes[leader].terms.len(), 1, "{told:?}");
    }
}

/// Each in a minute without room, and with a leader soon after it.
#[test]
pub fn claims_that_are_not_taken_grow_rare_and_the_role_is_led_soon_after_there_is_room() {
    for told in TOLD {
        let settings = settings(|config| config.ttl = ms(3000));
        let mut world = World::unstarted(3, ModelBucket::new(), vec![settings.clone(); 2]);
        let full = ms(60_000);
        world.refusing = Some(Refusing { until: full, told });
        for node in 0..2 {
            world.boot(node);
        }
        world.run(full);
        for node in &world.nodes {
            let claims = node.sent.iter().filter(|(_, kind)| *kind == Kind::Claim);
            let claims = claims.count();
            assert!((10..=25).contains(&claims), "{told:?}: {claims} claims");
        }
        world.await_leader(settings.retry.max_backoff + settings.request_timeout * 2);
    }
}
