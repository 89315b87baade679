//! Writes that fail while reads succeed.

use nats_elect_core::event::{EndCause, Event, FailureKind};

use crate::world::Refusing;
use crate::{World, ms, settings};

/// A full account, a code that is not known, a full disk whose server does not answer.
const TOLD: [Option<FailureKind>; 4] = [
    None,
    Some(FailureKind::Unavailable),
    Some(FailureKind::BucketFull),
    Some(FailureKind::Rejected),
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

#[test]
fn a_term_whose_heartbeats_are_not_taken_ends_with_its_lease() {
    for told in TOLD {
        let mut world = World::new(7, 1, &settings(|_| {}));
        let leader = world.await_leader(ms(50));
        let until = world.now + ms(3000);
        world.refusing = Some(Refusing { until, told });
        world.run(ms(1000));
        let expired = |event: &Event| {
            let Event::TermEnding { cause, .. } = event else {
                return false;
            };
            *cause == EndCause::LeaseExpired
        };
        assert!(world.told(leader, expired), "{told:?}");
    }
}
