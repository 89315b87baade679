//! Leaving the election.

use std::time::Duration;

use crate::{World, ms, settings};
use nats_elect_core::record::Content;
use nats_elect_core::status::RoleState;
use nats_elect_core::{Input, Intent, RequestId};

#[test]
fn a_stop_at_any_time_ends_stopped_within_a_lease() {
    for wait in 0..300 {
        let mut world = World::new(wait, 1, &settings(|_| {}));
        world.run(Duration::from_micros(wait * 37));
        world.input(
            0,
            Input::Intend(RequestId::NOBODY, Intent::Stop { release: true }),
        );
        world
            .run_until(ms(1000), |world| world.state(0) == RoleState::Stopped)
            .expect("it stops");
        let entry = world.bucket.role().map(|entry| &entry.content);
        assert!(
            matches!(entry, None | Some(Content::Release(_))),
            "nothing of ours is left: {entry:?}"
        );
    }
}
