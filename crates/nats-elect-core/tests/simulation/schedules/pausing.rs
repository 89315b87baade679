//! Pausing and cordoning.

use std::time::Duration;

use crate::{World, ms, settings};
use nats_elect_core::record::Content;
use nats_elect_core::{Input, Intent, Reply, RequestId};

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

#[test]
fn a_cordoned_leader_is_followed_within_milliseconds_and_stays_out() {
    for seed in 0..20 {
        let mut world = World::new(seed, 2, &settings(|_| {}));
        let leader = world.await_leader(ms(50));
        world.run(ms(500));
        world.input(leader, Input::Intend(ASK, Intent::Cordon));
        let other = 1 - leader;
        world
            .run_until(ms(50), |world| world.leader() == Some(other))
            .expect("the other leads");
        world.run(ms(500));
        let replies = &world.nodes[leader].replies;
        assert!(
            matches!(
                replies[..],
                [(ASK, Reply::SteppedDown { released: true, .. })]
            ),
            "{replies:?}"
        );
        world.crash(other);
        world.run(ms(5000));
        assert_eq!(world.leader(), None);
        world.input(leader, Input::Intend(RequestId(2), Intent::Resume));
        world
            .run_until(ms(50), |world| world.leader() == Some(leader))
            .expect("it leads again");
    }
}
