//! The table of `docs/failover.md`, row by row. A round trip takes up to 1.6 ms here.

use std::time::Duration;

use nats_elect_core::config::Takeover;
use nats_elect_core::event::Event;
use nats_elect_core::record::Content;
use nats_elect_core::{HandlerEnd, Input, Intent, RequestId};

use super::led_by_the_first;
use crate::network::{Fate, Kind, Wire};
use crate::{ModelBucket, World, ms, settings, tuned};

const TTL: Duration = ms(1000);
/// Claim, fence record, and what has to be read before, where something has.
const ROUND_TRIPS: Duration = ms(12);

/// A leader that has led for a while, among three.
fn led(seed: u64, bucket: ModelBucket) -> (World, usize) {
    let mut world = World::with(seed, bucket, vec![settings(|_| {}); 3]);
    let leader = world.await_leader(ms(50));
    world.run(ms(500));
    (world, leader)
}

/// From now to another leader.
fn next(world: &mut World, leader: usize, limit: Duration) -> Duration {
    world.until_led_by_another_than(leader, limit)
}

/// How many terms began so far.
fn terms(world: &World) -> usize {
    let all = world.nodes.iter().flat_map(|node| &node.events);
    all.filter(|(_, event)| matches!(event, Event::TermStarted { .. }))
        .count()
}

fn worst(what: impl Fn(u64) -> Duration) -> Duration {
    (0..30).map(what).max().expect("thirty")
}

#[test]
fn stop_step_down_and_a_handler_that_returned_take_a_few_round_trips() {
    let inputs: [fn(&World, usize) -> Input; 3] = [
        |_, _| Input::Intend(RequestId::NOBODY, Intent::Stop { release: true }),
        |_, _| {
            let intent = Intent::StepDown {
                to: None,
                expected: None,
                hold_off: Duration::ZERO,
            };
            Input::Intend(RequestId(1), intent)
        },
        |world, leader| Input::HandlerEnding {
            term: world.term(leader),
            end: HandlerEnd::Returned,
        },
    ];
    for input in inputs {
        let took = worst(|seed| {
            let (mut world, leader) = led(seed, ModelBucket::new());
            let input = input(&world, leader);
            let returned = matches!(input, Input::HandlerEnding { .. });
            world.input(leader, input);
            if returned {
                let term = world.term(leader);
                world.end_handler(leader, term, ms(1), HandlerEnd::Returned);
            }
            next(&mut world, leader, ms(500))
        });
        assert!(took <= ROUND_TRIPS + ms(20), "{took:?}");
    }
}

#[test]
fn a_step_down_by_name_takes_a_few_round_trips() {
    let took = worst(|seed| {
        let (mut world, leader) = led(seed, ModelBucket::new());
        hand_to(&mut world, leader, (leader + 1) % 3);
        next(&mut world, leader, ms(500))
    });
    assert!(took <= ROUND_TRIPS, "{took:?}");
}

fn hand_to(world: &mut World, leader: usize, heir: usize) {
    let answered = u64::try_from(world.nodes[leader].replies.len()).expect("a short run");
    let intent = Intent::StepDown {
        to: Some(format!("node-{heir}")),
        expected: None,
        hold_off: Duration::ZERO,
    };
    world.input(leader, Input::Intend(RequestId(1 + answered), intent));
}

/// The heir's watch was dead during a handoff: it would wait for the lease of the leader before,
/// whose release it has not seen.
#[test]
fn a_role_is_handed_by_name_only_to_an_instance_that_would_believe_the_release() {
    let took = worst(|seed| {
        let (mut world, first) = led(seed, ModelBucket::new());
        let (second, heir) = ((first + 1) % 3, (first + 2) % 3);
        world.nodes[heir].watching = false;
        hand_to(&mut world, first, second);
        next(&mut world, first, ms(500));
        hand_to(&mut world, second, heir);
        let led_on = |world: &World| world.leader() == Some(second);
        let over = world.run_until(ms(20), |world| !led_on(world));
        assert_eq!(
            over, None,
            "handed to an instance that did not know of the term"
        );
        world.watch_again(heir);
        let handed = (0..100).any(|_| {
            hand_to(&mut world, second, heir);
            let over = world.run_until(ms(20), |world| !led_on(world));
            over.is_some()
        });
        assert!(handed, "the lease that it waited for is over");
        next(&mut world, second, ms(500))
    });
    assert!(took <= ROUND_TRIPS, "{took:?}");
}

/// The highest priority did not see how the leader before ended: between its record and the next
/// leader's the watch showed no release. A request for the role would empty it, and another
/// instance would claim it, until that leader's lease is over.
#[test]
pub fn a_role_is_asked_for_only_by_an_instance_that_would_believe_the_release() {
    for seed in 0..30 {
        let of = |priority| {
            tuned(|it| {
                it.priority = priority;
                it.takeover = Takeover::Cooperative;
                it.takeover_hysteresis = ms(200);
                it.cooldown = ms(20);
            })
        };
        let bucket = ModelBucket::new();
        let mut world = led_by_the_first(seed, bucket, vec![of(1), of(2), of(3)]);
        world.boot(1);
        world.run(ms(150));
        world.boot(2);
        world.run(ms(20));
        world.nodes[2].watching = false;
        world.until_led_by(1, ms(500));
        world.watch_again(2);
        world.until_led_by(2, TTL * 3);
        assert_eq!(terms(&world), 3);
    }
}

/// The others have a heartbeat without a leader each time.
#[test]
pub fn an_instance_that_cannot_claim_asks_ever_more_seldom() {
    let modest = || settings(|config| config.priority = 1);
    let ambitious = tuned(|it| {
        it.priority = 3;
        it.takeover = Takeover::Cooperative;
        it.takeover_hysteresis = ms(200);
    });
    let bucket = ModelBucket::new();
    let mut world = led_by_the_first(1, bucket, vec![modest(), modest(), ambitious]);
    world.nodes[2].plans = vec![(Kind::Claim, Fate::Denied); 10_000];
    world.boot(1);
    world.boot(2);
    world.run(ms(15_000));
    let at_first = terms(&world);
    world.run(ms(60_000));
    let later = terms(&world) - at_first;
    assert!((2..=8).contains(&at_first), "{at_first} at first");
    assert!((2..=6).contains(&later), "{later} later");
    world.nodes[2].plans.clear();
    world.until_led_by(2, ms(20_000));
}

#[test]
fn a_key_deleted_by_hand_takes_a_few_round_trips() {
    let took = worst(|seed| {
        let (mut world, leader) = led(seed, ModelBucket::new());
        world.put(Content::ForeignMarker);
        next(&mut world, leader, TTL * 3)
    });
    assert!(took <= ROUND_TRIPS, "{took:?}");
}

#[test]
fn a_purged_key_takes_two_leases_at_most() {
    let took = worst(|seed| {
        let (mut world, _) = led(seed, ModelBucket::new());
        world.purge();
        let before = terms(&world);
        let led_again = |world: &World| terms(world) > before;
        world.run_until(TTL * 3, led_again).expect("a leader")
    });
    assert!(took <= TTL * 2 + ROUND_TRIPS, "{took:?}");
}

#[test]
fn a_crash_takes_a_ttl_from_the_last_heartbeat_and_the_claim_delay() {
    for cut_off in [false, true] {
        let took = worst(|seed| {
            let (mut world, leader) = led(seed, ModelBucket::new());
            if cut_off {
                world.nodes[leader].wire = Wire::Cut;
            } else {
                world.crash(leader);
            }
            next(&mut world, leader, TTL * 3)
        });
        let bound = settings(|_| {}).worst_case_failover() + ROUND_TRIPS;
        assert!(took <= bound, "{took:?}");
    }
}

#[test]
fn a_crash_where_keys_expire_takes_two_leases_at_most() {
    let took = worst(|seed| {
        let bucket = ModelBucket::new().max_age(TTL * 2);
        let (mut world, leader) = led(seed, bucket);
        world.crash(leader);
        next(&mut world, leader, TTL * 4)
    });
    assert!(took <= TTL * 2 + ROUND_TRIPS, "{took:?}");
}

#[test]
fn a_recreated_bucket_takes_the_longest_ttl_from_when_it_is_noticed() {
    let took = worst(|seed| {
        let (mut world, _) = led(seed, ModelBucket::new());
        world.recreate();
        for node in 0..3 {
            world.disconnect(node);
            world.connect(node);
        }
        world.run(ms(5));
        let led_again = |world: &World| world.leader().is_some();
        world.run_until(TTL * 3, led_again).expect("a leader")
    });
    assert!(took <= TTL + ROUND_TRIPS, "{took:?}");
}

#[test]
fn a_leader_whose_lease_outlasts_an_outage_goes_on() {
    for seed in 0..30 {
        let (mut world, leader) = led(seed, ModelBucket::new());
        world.outage_until = world.now + TTL / 4;
        world.run(TTL * 3);
        assert_eq!(world.leader(), Some(leader));
    }
}
