//! Instances whose terms keep failing, and that have the highest priority.

use std::time::Duration;

use nats_elect_core::HandlerEnd;
use nats_elect_core::config::Takeover;
use nats_elect_core::event::{EndCause, Event};
use nats_elect_core::{Input, Intent, RequestId};

use super::led_by_the_first;
use crate::node::Handler;
use crate::{ModelBucket, World, ms, settings};

/// The third instance would lead rather than the two others.
const PREFERRED: usize = 2;

fn world(seed: u64) -> World {
    let preferred = settings(|config| {
        config.priority = 10;
        config.takeover = Takeover::Cooperative;
    });
    let healthy = || settings(|_| {});
    let fleet = vec![healthy(), healthy(), preferred];
    let mut world = led_by_the_first(seed, ModelBucket::new(), fleet);
    world.boot(1);
    world
}

fn fails_at_once(world: &mut World) {
    world.nodes[PREFERRED].handler = Handler {
        ends: Some((ms(5), HandlerEnd::Failed)),
        ..Handler::default()
    };
}

/// When the healthy instances lost a term to the preferred one, or were claimed over.
fn healthy_terms_ended(world: &World) -> Vec<Duration> {
    let healthy = world.nodes[..PREFERRED].iter();
    let mut ended: Vec<_> = healthy
        .flat_map(|node| &node.events)
        .filter(|(_, event)| {
            let lost = [EndCause::Preempted, EndCause::Superseded];
            matches!(event, Event::TermEnding { cause, .. } if lost.contains(cause))
        })
        .map(|(at, _)| *at)
        .collect();
    ended.sort_unstable();
    ended
}

/// None ends for ten minutes after the third.
fn three_end_and_then_none_for_ten_minutes(mut world: World) -> World {
    let begin = world.now;
    world.run(ms(660_000));
    let ended = healthy_terms_ended(&world);
    assert!((2..=3).contains(&ended.len()), "{ended:?}");
    let last = ended.last().expect("some");
    assert!(*last < begin + ms(600_000), "{ended:?}");
    while world.now < *last + ms(600_000) {
        world.run(ms(1000));
    }
    assert_eq!(healthy_terms_ended(&world), ended);
    world
}

/// The handler of the preferred instance fails at once, each time.
#[test]
pub fn a_preferred_instance_that_fails_at_once_ends_three_healthy_terms_at_most() {
    for seed in 0..3 {
        let mut world = world(seed);
        fails_at_once(&mut world);
        world.boot(PREFERRED);
        let mut world = three_end_and_then_none_for_ten_minutes(world);
        assert!(world.told(PREFERRED, |event| matches!(event, Event::Failing { .. })));
        // Once it is mended, an operator gives it a chance at once.
        world.nodes[PREFERRED].handler = Handler::default();
        world.input(PREFERRED, Input::Intend(RequestId(1), Intent::Resume));
        world.until_led_by(PREFERRED, ms(5000));
    }
}

/// The process of the preferred instance dies soon after it has come to lead, and starts again.
#[test]
pub fn an_id_whose_processes_die_as_soon_as_they_lead_ends_three_healthy_terms_at_most() {
    for seed in 0..3 {
        let mut world = world(seed);
        world.nodes[PREFERRED].dies_after = Some(ms(100));
        world.boot(PREFERRED);
        three_end_and_then_none_for_ten_minutes(world);
    }
}

fn awaits_the_preferred(world: &mut World) {
    world.until_led_by(PREFERRED, ms(10_000));
}

/// As deployments do, one after the other. Each term is short, and none fails.
#[test]
fn an_id_whose_processes_release_what_they_led_is_not_failing() {
    let mut world = world(1);
    for _ in 0..5 {
        world.boot(PREFERRED);
        awaits_the_preferred(&mut world);
        world.run(ms(500));
        world.input(
            PREFERRED,
            Input::Intend(RequestId::NOBODY, Intent::Stop { release: true }),
        );
        let another = |world: &World| world.leader().is_some_and(|leader| leader != PREFERRED);
        world.run_until(ms(5000), another).expect("another leader");
        world.crash(PREFERRED);
    }
}

/// The others have just started, or were cut off, when they see a leader of ten minutes. When it
/// dies, they don't know for how long it led.
#[test]
fn a_term_counts_as_short_only_if_its_beginning_was_seen() {
    let mut world = world(1);
    world.boot(PREFERRED);
    awaits_the_preferred(&mut world);
    world.run(ms(660_000));
    for node in 0..PREFERRED {
        world.crash(node);
        world.boot(node);
    }
    world.run(ms(1000));
    for _ in 0..2 {
        world.crash(PREFERRED);
        world.run(ms(3000));
        world.boot(PREFERRED);
        awaits_the_preferred(&mut world);
    }
}

/// It gets another chance by itself, and when it leads for long all is forgotten.
#[test]
fn an_instance_that_was_mended_gets_another_chance_after_the_pause() {
    let mut world = world(1);
    fails_at_once(&mut world);
    world.boot(PREFERRED);
    world.run(ms(60_000));
    world.nodes[PREFERRED].handler = Handler::default();
    world.until_led_by(PREFERRED, ms(300_000));
    world.run(ms(600_000));
    fails_at_once(&mut world);
    let term = world.term(PREFERRED);
    world.end_handler(PREFERRED, term, ms(0), HandlerEnd::Failed);
    world.run(ms(100));
    world.nodes[PREFERRED].handler = Handler::default();
    // One failure is none.
    world.until_led_by(PREFERRED, ms(10_000));
}

/// Nobody else is there.
#[test]
fn an_instance_that_fails_at_once_leads_again_after_each_cool_down_where_it_is_alone() {
    let mut world = world(1);
    fails_at_once(&mut world);
    world.boot(PREFERRED);
    world.run(ms(60_000));
    world.crash(0);
    world.crash(1);
    let terms = |world: &World| {
        let events = &world.nodes[PREFERRED].events;
        let began = |(_, event): &&(Duration, Event)| matches!(event, Event::TermStarted { .. });
        events.iter().filter(began).count()
    };
    for _ in 0..6 {
        let before = terms(&world);
        let begins = |world: &World| terms(world) > before;
        // The longest cool-down, or first the lease of the last leader.
        world.run_until(ms(31_000), begins).expect("a term");
    }
}

/// Both claim the role of a leader that died: one that keeps failing, and one that does not.
#[test]
fn an_instance_that_keeps_failing_claims_after_a_healthy_one() {
    for seed in 0..20 {
        let mut world = world(seed);
        fails_at_once(&mut world);
        world.boot(PREFERRED);
        world.run(ms(60_000));
        let leader = world.leader().expect("a leader");
        assert_ne!(leader, PREFERRED);
        world.crash(leader);
        let another = |world: &World| world.leader().is_some();
        world.run_until(ms(3000), another).expect("a leader");
        assert_eq!(world.leader(), Some(1 - leader));
    }
}
