//! Schedules in which members are shown less than was confirmed, or NATS lost it.

use nats_elect_core::assignment::{LONGEST_LEASE, Units};
use nats_elect_core::token::FencingToken;

use crate::faults::Hand;
use crate::schedule::SECOND;
use crate::world::World;

impl World {
    /// The token of the handler that acts on a shard.
    fn token(&self, shard: u32) -> Option<FencingToken> {
        let mut all = (0..self.nodes.len()).flat_map(|node| self.acting(node));
        let it = all.find(|(unit, _)| unit.unit().name().as_shard() == Some(shard));
        it.map(|(_, it)| it.token)
    }
}

/// Schedule 1. Who remembers an epoch as over goes by its name, and not by a sequence, and no name is
/// given twice.
#[test]
fn a_sequence_is_given_again_that_others_remember_of_an_epoch_that_is_over() {
    let mut world = World::warm(7, 4, 3, Units::Shards(6));
    world.leave(2);
    world.goes_well(SECOND);
    let length = world.stream.log.len();
    let ended = world
        .stream
        .log
        .iter()
        .rposition(|it| format!("{:?}", it.value) == "Ended");
    world.lose_writes(length - ended.expect("an end"));
    world.start(3);
    world.goes_well(LONGEST_LEASE + 20 * SECOND);
    assert_eq!(world.all_acts(), 6);
}

/// Schedule 9. What is older than known is ignored, an acknowledgement names what was really seen, and
/// the server refuses a map that was made from an old one.
#[test]
fn all_watches_begin_anew_at_servers_that_are_behind() {
    let mut world = World::warm(7, 4, 3, Units::Shards(6));
    let starts = world.checks.starts;
    for _ in 0..5 {
        (0..3).for_each(|node| world.watch_stale(node));
        world.goes_well(SECOND);
    }
    world.start(3);
    world.watch_stale(3);
    world.goes_well(10 * SECOND);
    assert!(world.checks.starts <= starts + 3);
    assert_eq!(world.all_acts(), 6);
}

/// Schedule 9. A watch that shows nothing costs a member no lease, as reads prove it, and nobody waits
/// for it: a map takes effect once it has read the map.
#[test]
fn one_replica_never_shows_the_newest_values() {
    let mut world = World::warm(7, 4, 3, Units::Shards(6));
    world.nodes[1].deaf_until = world.now + 60 * SECOND;
    let lost = world.nodes[1].epoch();
    world.goes_well(20 * SECOND);
    assert_eq!(world.nodes[1].epoch(), lost);
    assert_eq!(world.acts(), [2, 2, 2, 0]);
    world.crash(0);
    world.goes_well(8 * SECOND);
    assert_eq!(world.all_acts(), 6);
}

/// Schedule 10. Who knew the former bucket waits for the longest lease, and no unit has an owner while
/// a living member waits. A process that starts fresh while nobody is there knows of no other bucket.
#[test]
fn a_bucket_is_made_anew_under_other_leases_and_somebody_starts_fresh() {
    let mut world = World::new(7, 4, Units::Shards(6));
    world.faults.leases = &[(1, 3), (16, 10), (3, 3)];
    (0..3).for_each(|node| world.start(node));
    world.goes_well(2 * SECOND);
    world.nodes[2].paused_until = world.now + 10 * SECOND;
    world.make_bucket_anew(500);
    world.goes_well(3 * SECOND);
    world.start(3);
    world.goes_well(55 * SECOND);
    assert_eq!(world.acts(), [0; 4]);
    world.goes_well(30 * SECOND);
    assert_eq!(world.all_acts(), 6);
}

/// Schedule 12. The next term's token is greater, so a fence that was raised to it refuses what the
/// former owner has in its socket.
#[test]
fn a_former_owner_is_paused_with_writes_in_its_socket() {
    let mut world = World::warm(7, 4, 3, Units::Shards(6));
    let shards = || 0..6;
    let before: Vec<_> = shards().map(|shard| world.token(shard)).collect();
    world.nodes[0].paused_until = world.now + 30 * SECOND;
    world.goes_well(6 * SECOND);
    let after: Vec<_> = shards().map(|shard| world.token(shard)).collect();
    assert!(
        after
            .iter()
            .zip(&before)
            .all(|(it, former)| it >= former && it.is_some())
    );
    assert_ne!(after, before);
}

/// Schedule 14. Who knew of the lost writes notices it by the map's key, and steps down. Two act for
/// the longest lease at most.
#[test]
fn confirmed_writes_are_lost_and_noticed_by_who_knew_them() {
    let mut world = World::warm(7, 4, 3, Units::Shards(6));
    let kept = world.stream.log.len();
    world.leave(2);
    world.goes_well(SECOND);
    let maps = world.stream.log[kept..].iter();
    let has_map = maps.filter(|it| it.key == World::map_key()).count();
    assert!(has_map > 0, "a map is lost");
    world.lose_writes(world.stream.log.len() - kept);
    world.goes_well(LONGEST_LEASE);
    assert!(world.happened.contains("lost writes are noticed"));
    // From here on nothing is excused.
    world.touch(&World::map_key(), Hand::Rubbish);
    world.goes_well(20 * SECOND);
    assert_eq!(world.all_acts(), 6);
}

#[test]
fn a_heartbeat_over_one_that_was_lost_is_tried_twice() {
    let mut world = World::warm(7, 1, 1, Units::Shards(1));
    world.lose_writes(1);
    world.goes_well(3 * SECOND);
    let refused = world.messages.iter().filter(|it| it.contains("refused"));
    assert_eq!(refused.count(), 2);
}
