//! Several ttls, other hands on the keys, long outages, slow networks: what an attack on the
//! protocol found.

use std::time::Duration;

use nats_elect_core::event::{Event, Outcome};
use nats_elect_core::record::Content;
use nats_elect_core::{Input, Intent, RequestId};
use uuid::Uuid;

use super::{defaults, demotions, led_by_the_first, of_ttl, on_a_network, step_down};
use crate::bucket::stray;
use crate::network::Wire;
use crate::node::Trouble;
use crate::{ModelBucket, World, ms, settings};

const HOUR: Duration = Duration::from_secs(3600);

/// How long it takes until somebody leads.
fn awaited(world: &mut World, limit: Duration) -> Duration {
    let led = world.run_until(limit, |world| world.leader().is_some());
    led.unwrap_or_else(|| panic!("nobody leads within {limit:?}"))
}

/// X led with the short lease; A leads with the long one, unseen by C, and is cut off; somebody
/// deletes the key.
#[test]
fn a_marker_over_an_unseen_longer_lease_makes_no_two_leaders() {
    for (short, long) in [(5, 15), (1, 15)] {
        for seed in 0..20 {
            let short = of_ttl(ms(short * 1000));
            let all = vec![short.clone(), of_ttl(ms(long * 1000)), short];
            let mut world = led_by_the_first(seed, ModelBucket::new(), all);
            world.boot(1);
            world.boot(2);
            world.run(ms(2000));
            world.nodes[2].watching = false;
            step_down(&mut world, 0);
            world.until_led_by(1, ms(50));
            world.run(ms(10));
            world.nodes[1].wire = Wire::Cut;
            world.put(Content::ForeignMarker);
            world.crash(0);
            world.watch_again(2);
            world.run(ms(long * 1000 - 500));
            assert_eq!(world.leader().filter(|leader| *leader != 1), None);
            world.await_leader(ms(2 * long * 1000));
        }
    }
}

#[test]
pub fn a_bucket_that_was_unfit_for_a_while_is_tried_again() {
    let mut world = World::new(1, 3, &of_ttl(ms(1000)));
    world.await_leader(ms(50));
    world.bucket.edit_max_age(Some(ms(500)));
    for node in 0..3 {
        world.disconnect(node);
        world.connect(node);
    }
    world.run(ms(3000));
    assert_eq!(world.leader(), None);
    world.bucket.edit_max_age(None);
    let pause = world.nodes[0].settings.retry.max_backoff;
    awaited(&mut world, pause + ms(1100));
}

/// No stop budget to speak of, so that nothing ends the term but its lease.
#[test]
pub fn a_long_lease_lasts_through_a_long_outage() {
    let mut settings = settings(|config| {
        config.ttl = ms(900_000);
        config.stop_budget = Some(ms(10));
    });
    settings.request_timeout = settings.heartbeat / 2;
    let mut world = World::new(1, 2, &settings);
    let leader = world.await_leader(ms(50));
    world.run(ms(2000));
    world.nodes[leader].wire = Wire::Mute;
    world.afflict(leader, Trouble::Wire, ms(400_000));
    world.run(ms(800_000));
    assert_eq!(world.leader(), Some(leader));
    assert_eq!(demotions(&world, leader), 0);
}

#[test]
pub fn a_stray_record_costs_one_lease_and_makes_no_later_purge_longer() {
    for incarnation in [None, Some(Uuid::from_u128(5))] {
        let ttl = ms(1000);
        let mut world = World::new(1, 2, &of_ttl(ttl));
        world.await_leader(ms(50));
        world.run(ms(500));
        // Its leader finds it there and ends its term.
        world.put(stray(Some(HOUR), incarnation));
        world.run(ms(20));
        assert_eq!(world.leader(), None);
        let took = awaited(&mut world, ttl * 2);
        assert!(took > ttl / 2, "{took:?}");
        world.run(ms(500));
        let leader = world.await_leader(ms(1));
        world.crash(leader);
        world.run(ms(2));
        world.bucket.purge(world.now);
        awaited(&mut world, ttl * 2 + ms(50));
    }
}

#[test]
pub fn a_shortened_ttl_is_believed() {
    for seed in 0..20 {
        let all = vec![of_ttl(ms(15_000)), of_ttl(ms(2000)), of_ttl(ms(2000))];
        let mut world = World::unstarted(seed, ModelBucket::new(), all);
        world.boot(0);
        world.await_leader(ms(50));
        world.run(ms(1000));
        world.input(
            0,
            Input::Intend(RequestId::NOBODY, Intent::Stop { release: true }),
        );
        world.run(ms(50));
        world.crash(0);
        // What their watches show is the role's key alone.
        world.fences_watched = false;
        world.boot(1);
        world.boot(2);
        let leader = world.await_leader(ms(5000));
        world.run(ms(3000));
        world.crash(leader);
        let took = awaited(&mut world, ms(5000));
        assert!(took <= ms(2000 + 100), "{took:?}");
    }
}

/// The release of its own term before, word for word.
#[test]
fn a_release_that_is_put_again_frees_nothing() {
    for seed in 0..20 {
        let mut world = World::new(seed, 3, &of_ttl(ms(1000)));
        let first = world.await_leader(ms(50));
        world.run(ms(500));
        step_down(&mut world, first);
        world.run(ms(500));
        let leader = world.await_leader(ms(50));
        world.nodes[leader].wire = Wire::Cut;
        let genuine = world.bucket.releases[0].clone();
        world.put(genuine);
        let next = |world: &World| world.leader().is_some_and(|next| next != leader);
        let took = world.run_until(ms(3000), next).expect("a next leader");
        assert!(took >= ms(1000), "{took:?}");
    }
}

#[test]
pub fn any_constant_round_trip_up_to_a_quarter_of_the_ttl_keeps_its_leader() {
    for (ttl, round_trips) in [
        (5_000, [520, 900, 1240]),
        (15_000, [600, 1000, 3740]),
        (1_000, [30, 150, 248]),
    ] {
        for round_trip in round_trips {
            let (all, one_way) = (vec![defaults(ms(ttl)); 3], ms(round_trip) / 2);
            let mut world = on_a_network(3, all, one_way..one_way + ms(1) / 1000, 0);
            let took = awaited(&mut world, ms(ttl) * 2);
            let leader = world.leader().expect("it leads");
            world.run(ms(ttl) * 20);
            assert_eq!(
                world.leader(),
                Some(leader),
                "{round_trip} ms, after {took:?}"
            );
            assert_eq!(demotions(&world, leader), 0, "{round_trip} ms");
        }
    }
}

/// 150 ms each way, and some of the messages are held up for half a second: a fifth, and more of
/// them where other roles share the connection, for what is held up holds up all that comes after
/// it.
#[test]
pub fn a_network_that_stalls_demotes_nobody() {
    for (seed, stalled) in (0..60).zip([200, 500, 800].into_iter().cycle()) {
        let all = vec![defaults(ms(5000)); 3];
        let mut world = on_a_network(seed, all, ms(150)..ms(151), stalled);
        // A claim, its fence and a heartbeat that are all held up take as long as the first lease.
        let lasts = |world: &World| {
            let leads = |node: &usize| world.nodes[*node].is_leader(world.now);
            let renewed = |node: &usize| {
                let confirmed = |event: &Event| matches!(event, Event::HeartbeatEnded { outcome, .. } if *outcome == Outcome::Confirmed);
                world.told(*node, confirmed)
            };
            (0..3).any(|node| leads(&node) && renewed(&node))
        };
        world.run_until(ms(30_000), lasts).expect("a leader");
        let leader = world.leader().expect("it leads");
        let before = demotions(&world, leader);
        world.run(ms(600_000));
        assert_eq!(world.leader(), Some(leader), "seed {seed}");
        assert_eq!(demotions(&world, leader), before, "seed {seed}");
    }
}
