//! Writes under a term's fence.

use nats_elect_core::Input;
use nats_elect_core::status::RoleState;
use nats_elect_core::token::FencingToken;

use crate::checkers::{Note, Promise};
use crate::fenced::Writers;
use crate::plan::Kind;
use crate::{ModelBucket, World, ms, settings};

fn world(seed: u64) -> World {
    let mut world = World::unstarted(seed, ModelBucket::new(), vec![settings(|_| {}); 2]);
    let seeds = seed * 100..;
    world.writers = seeds
        .into_iter()
        .find_map(|seed| Writers::of_seed(seed, Kind::Ours));
    for node in 0..2 {
        world.boot(node);
    }
    world
}

#[test]
fn what_a_paused_leader_writes_when_it_wakes_up_is_refused() {
    let (mut written, mut refused) = (0, 0);
    for seed in 0..50 {
        let mut world = world(seed);
        let paused = world.await_leader(ms(1500));
        world.run(ms(300));
        world.pause(paused);
        world.run_until(ms(3000), |world| {
            world.leader().is_some_and(|leader| leader != paused)
        });
        world.run(ms(10));
        let before = world.tally.fenced_refused;
        world.resume(paused);
        world.run(ms(300));
        refused += world.tally.fenced_refused - before;
        written += world.tally.fenced_written;
    }
    assert!(written > 50 && refused > 10, "{written}, {refused}");
}

#[test]
fn a_refused_write_ends_its_term_before_the_next_heartbeat_does() {
    let mut world = world(1);
    let leader = world.await_leader(ms(1500));
    world.run(ms(50));
    let term = world.term(leader);
    world.input(leader, Input::Superseded { term });
    assert_eq!(world.state(leader), RoleState::Draining);
    assert!(world.nodes[leader].valid_terms(world.now).next().is_none());
    // Nothing stands in the way of a new term with a fence of its own.
    world.await_leader(ms(2500));
}

#[test]
fn a_write_under_an_older_fence_is_noticed() {
    let mut world = world(2);
    world.patient = true;
    world.await_leader(ms(1500));
    let sequence = world.bucket.fence().expect("a fence record").revision;
    let epoch = world.bucket.made.epoch;
    let write = |world: &mut World, sequence| {
        let token = FencingToken { epoch, sequence };
        world.tell(&Note::FencedWrite { token });
        world.violation.take().map(|violation| violation.promise)
    };
    assert_eq!(write(&mut world, sequence), None);
    assert_eq!(write(&mut world, sequence - 1), Some(Promise::FencedWrites));
}
