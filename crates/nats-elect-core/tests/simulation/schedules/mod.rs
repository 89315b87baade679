//! Named schedules: each once broke a draft of the protocol, or would break it without a rule.

use std::ops::Range;
use std::time::Duration;

use nats_elect_core::config::{RoleConfig, RoleSettings};
use nats_elect_core::event::Event;
use nats_elect_core::{Input, Intent, RequestId};

use crate::node::Trouble;
use crate::{ModelBucket, World, ms, settings};

pub mod attacks;
pub mod buckets;
mod electing;
pub mod failing;
pub mod failover;
mod fenced;
pub mod fencing;
mod freeing;
mod keeping;
pub mod ordering;
mod pausing;
pub mod refusals;
mod retiring;
mod stopping;
pub mod unseen;

fn of_ttl(ttl: Duration) -> RoleSettings {
    settings(|config| config.ttl = ttl)
}

/// As they are without any setting but the ttl.
fn defaults(ttl: Duration) -> RoleSettings {
    let mut config = RoleConfig::default();
    config.ttl = ttl;
    config.settings().expect("the defaults obey the rules")
}

/// Only the first has started, and leads.
fn led_by_the_first(seed: u64, bucket: ModelBucket, settings: Vec<RoleSettings>) -> World {
    let mut world = World::unstarted(seed, bucket, settings);
    world.boot(0);
    assert_eq!(world.await_leader(ms(50)), 0);
    world
}

/// All have started, where each message takes so long, or half a second more at some of its way.
fn on_a_network(
    seed: u64,
    all: Vec<RoleSettings>,
    one_way: Range<Duration>,
    stalled: u32,
) -> World {
    let mut world = World::unstarted(seed, ModelBucket::new(), all);
    world.climate.latency = one_way.clone();
    world.climate.watch_delay = one_way;
    world.climate.stalled = stalled;
    world.weather = world.climate.clone();
    (0..world.nodes.len()).for_each(|node| world.boot(node));
    world
}

/// Sees nothing from now on but by reads, and these show what stood there before anybody led.
fn boots_to_stale_reads(world: &mut World, node: usize) {
    world.boot(node);
    world.nodes[node].watching = false;
    world.afflict(node, Trouble::Unwatched, ms(5000));
    world.weather.stale_read = 1000;
    world.weather.staleness = ms(60_000);
}

fn step_down(world: &mut World, node: usize) {
    let answered = u64::try_from(world.nodes[node].replies.len()).expect("a short run");
    let request = RequestId(77 + answered);
    let intent = Intent::StepDown {
        to: None,
        expected: None,
        hold_off: Duration::ZERO,
    };
    world.input(node, Input::Intend(request, intent));
}

/// How many of its terms have ended.
fn demotions(world: &World, node: usize) -> usize {
    let ends = |(_, event): &&(Duration, Event)| matches!(event, Event::TermEnding { .. });
    world.nodes[node].events.iter().filter(ends).count()
}
