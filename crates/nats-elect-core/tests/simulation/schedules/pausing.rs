//! Pausing.

use std::time::Duration;

use crate::{World, ms, settings};
use nats_elect_core::record::Content;
use nats_elect_core::{Input, Intent, RequestId};

const ASK: RequestId = RequestId(1);

#[test]
fn a_pause_at_any_time_leaves_a_leader_or_a_free_role() {
    let (mut led, mut free) = (0, 0);
    for wait in 0..300 {
        let mut world = World::new(wait, 1, &settings(|_| {}));
        world.run(Duration::from_micros(wait * 37));
        let leads = world.leader().is_some();
        world.input(0, Input::Intend(ASK, Intent::Pause));
        world.run(ms(1000));
        assert_eq!(world.leader().is_some(), leads, "after {wait}");
        let entry = world.bucket.role().map(|entry| &entry.content);
        assert!(
            leads || matches!(entry, None | Some(Content::Release(_))),
            "nothing of ours is left: {entry:?}"
        );
        *if leads { &mut led } else { &mut free } += 1;
    }
    assert!(led > 0 && free > 0, "{led} led, {free} did not");
}
