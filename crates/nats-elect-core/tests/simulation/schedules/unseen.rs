//! What an instance did not see, saw late, or saw in another order; and hands on the fence key.

use std::time::Duration;

use nats_elect_core::config::RoleSettings;
use nats_elect_core::event::Event;
use nats_elect_core::record::{Content, FenceRecord, Nonce};
use nats_elect_core::release::ReleaseSecret;
use nats_elect_core::{Input, Intent, OpId, RequestId, WriteOutcome};
use uuid::Uuid;

use super::{defaults, demotions, led_by_the_first, of_ttl, on_a_network, step_down};
use crate::bucket::stray;
use crate::happening::Answer;
use crate::network::{Fate, Kind, Wire};
use crate::{ModelBucket, World, ms, settings};

/// The second reads that nobody ever led, is paused and cut off; then the first leads.
fn led_after_the_second_had_read(seed: u64) -> World {
    let mut world = World::unstarted(seed, ModelBucket::new(), vec![of_ttl(ms(5000)); 2]);
    world.boot(1);
    world.input(1, Input::Intend(RequestId(1), Intent::Pause));
    world.run(ms(20));
    world.disconnect(1);
    world.boot(0);
    assert_eq!(world.await_leader(ms(50)), 0);
    world
}

/// It read that the key was missing, lost its connection before it claimed, and comes back after a
/// purge: its new watch brings the fence record before the read is answered.
#[test]
fn a_fence_record_brought_by_the_watch_does_not_make_an_old_sight_of_a_missing_key_count() {
    for seed in 0..20 {
        let mut world = led_after_the_second_had_read(seed);
        world.run(ms(6000));
        world.nodes[0].wire = Wire::Cut;
        world.purge();
        world.input(1, Input::Intend(RequestId(2), Intent::Resume));
        world.connect(1);
        let took = world.until_led_by(1, ms(12_000));
        assert!(took >= ms(3900), "{took:?}");
    }
}

/// The same, its leader being well: for up to a heartbeat.
#[test]
fn a_purge_under_a_healthy_leader_makes_no_two() {
    for seed in 0..20 {
        let mut world = led_after_the_second_had_read(seed);
        world.run(ms(6100));
        world.purge();
        world.input(1, Input::Intend(RequestId(2), Intent::Resume));
        world.connect(1);
        world.run(ms(12_000));
    }
}

fn stray_fence() -> FenceRecord {
    FenceRecord {
        id: "nobody".to_owned(),
        ttl: ms(100),
        nonce: Nonce {
            incarnation: Uuid::from_u128(9),
            beat: 1,
        },
        release: ReleaseSecret::new(4).hash(),
    }
}

#[test]
fn a_stray_fence_record_does_not_shorten_a_lease_that_was_vouched_for() {
    let all = vec![of_ttl(ms(15_000)), of_ttl(ms(1000))];
    let mut world = led_by_the_first(1, ModelBucket::new(), all);
    world.run(ms(3050));
    world.boot(1);
    world.run(ms(100));
    world.nodes[0].wire = Wire::Cut;
    world.forge_fence(&stray_fence());
    world.run(ms(20_000));
}

#[test]
fn a_deleted_fence_record_does_not_shorten_a_lease_that_was_vouched_for() {
    let all = vec![of_ttl(ms(15_000)), of_ttl(ms(1000))];
    let mut world = led_by_the_first(1, ModelBucket::new(), all);
    world.run(ms(3050));
    world.boot(1);
    world.run(ms(100));
    world.nodes[0].wire = Wire::Cut;
    let now = world.now;
    world.bucket.delete_fence(now);
    world.announce_fence();
    world.run(ms(20_000));
}

/// Whoever puts a record with the leader's incarnation and a short lease.
#[test]
fn a_forged_record_of_the_leader_does_not_shorten_the_lease_that_its_fence_record_tells() {
    let mut world = led_by_the_first(1, ModelBucket::new(), vec![of_ttl(ms(15_000)); 2]);
    world.run(ms(3000));
    world.nodes[0].wire = Wire::Cut;
    let incarnation = world.nodes[0].candidate.incarnation;
    world.put(stray(Some(ms(100)), Some(incarnation)));
    world.boot(1);
    world.run(ms(20_000));
}

#[test]
fn a_release_frees_a_role_at_once_where_its_fence_record_has_expired() {
    for seed in 0..5 {
        let bucket = ModelBucket::new().max_age(ms(8000));
        let mut world = led_by_the_first(seed, bucket, vec![of_ttl(ms(5000)); 2]);
        world.run(ms(20_000));
        let now = world.now;
        world.bucket.expire(now);
        assert_eq!(world.bucket.fence(), None);
        world.boot(1);
        world.run(ms(3000));
        step_down(&mut world, 0);
        let took = world.until_led_by(1, ms(12_000));
        assert!(took <= ms(100), "{took:?}");
    }
}

#[test]
fn a_late_confirmation_of_an_earlier_terms_release_is_not_taken_for_this_ones() {
    let short = settings(|config| {
        config.ttl = ms(15_000);
        config.cooldown = Some(ms(50));
    });
    let mut world = led_by_the_first(1, ModelBucket::new(), vec![short; 2]);
    world.run(ms(500));
    world.nodes[0].plans.push((Kind::Release, Fate::AckLost));
    step_down(&mut world, 0);
    world.run(ms(20));
    let op = world.nodes[0].in_flight.expect("the release");
    let marker = world.bucket.role().expect("a marker").revision;
    world.until_led_by(0, ms(3000));
    world.boot(1);
    world.run(ms(200));
    world.nodes[0].handler.winds_down_in = Some(ms(300));
    let term = world.term(0);
    world.nodes[0]
        .terms
        .get_mut(&term)
        .unwrap()
        .handler
        .winds_down_in = Some(ms(300));
    step_down(&mut world, 0);
    world.run(ms(100));
    // Four seconds later at most: within the ttl.
    let outcome = WriteOutcome::Acked { revision: marker };
    world.answer(0, OpId(op.0), Answer::Write(outcome));
    let took = world.until_led_by(1, ms(30_000));
    assert!(took <= ms(500), "{took:?}");
}

#[test]
fn one_slow_answer_does_not_make_two_lost_messages_cost_a_term() {
    for slow in [false, true] {
        let mut world = led_by_the_first(1, ModelBucket::new(), vec![defaults(ms(15_000)); 1]);
        world.run(ms(3500));
        if slow {
            world.nodes[0].plans.push((Kind::Renew, Fate::Lost));
            world.nodes[0]
                .plans
                .push((Kind::Read, Fate::Slow(ms(7800))));
        }
        world.run(ms(10_000));
        assert_eq!(demotions(&world, 0), 0, "slow {slow}, before");
        world.nodes[0].plans.push((Kind::Renew, Fate::Lost));
        world.nodes[0].plans.push((Kind::Read, Fate::Lost));
        world.run(ms(20_000));
        assert_eq!(demotions(&world, 0), 0, "slow {slow}");
    }
}

/// The heartbeat was there before the operator's word took effect.
#[test]
fn a_lease_that_an_operator_ended_and_its_leader_renewed_counts_again() {
    let all = vec![of_ttl(ms(15_000)), of_ttl(ms(1000))];
    let mut world = led_by_the_first(1, ModelBucket::new(), all);
    world.boot(1);
    world.run(ms(3000));
    let revision = world.bucket.role().expect("the record").revision;
    let request = RequestId(5);
    let before = world.nodes[0].sent.len();
    let renews = |world: &World| world.nodes[0].sent.len() > before;
    world.run_until(ms(2000), renews).expect("a heartbeat");
    world.nodes[1].plans.push((Kind::Claim, Fate::Slow(ms(5))));
    world.input(1, Input::EndLease { request, revision });
    world.run(ms(8000));
    assert_eq!(world.leader(), Some(0), "it renewed");
    world.nodes[0].wire = Wire::Cut;
    world.put(Content::ForeignMarker);
    world.run(ms(20_000));
}

#[test]
fn a_release_frees_at_once_also_whoever_learnt_of_the_claim_before_it_after_its_fence_record() {
    for seed in 0..5 {
        let mut world = led_by_the_first(seed, ModelBucket::new(), vec![of_ttl(ms(15_000)); 3]);
        world.boot(1);
        world.boot(2);
        world.run(ms(3000));
        world.nodes[2].watching = false;
        // 2 hears of the release, but can't claim.
        world.input(2, Input::Intend(RequestId(1), Intent::Pause));
        world.nodes[2].watching = true;
        step_down(&mut world, 0);
        world.run_until(ms(100), |world| {
            matches!(
                world.bucket.role().map(|entry| &entry.content),
                Some(Content::Release(_))
            )
        });
        world.run(ms(1));
        world.disconnect(2);
        world.until_led_by(1, ms(1000));
        world.run(ms(1500));
        // The read comes before the new watch.
        world.nodes[2].watching = false;
        world.connect(2);
        world.run(ms(20));
        world.watch_again(2);
        world.crash(0);
        world.input(2, Input::Intend(RequestId(2), Intent::Resume));
        world.run(ms(100));
        step_down(&mut world, 1);
        let took = world.until_led_by(2, ms(30_000));
        assert!(took <= ms(100), "{took:?}");
    }
}

/// Its leader never notices; whoever reads later takes its records for nobody's.
#[test]
fn a_purged_fence_record_does_not_shorten_the_lease_of_a_leader_that_was_vouched_for() {
    let all = vec![of_ttl(ms(15_000)), of_ttl(ms(1000))];
    let mut world = led_by_the_first(1, ModelBucket::new(), all);
    world.boot(1);
    world.run(ms(3000));
    let now = world.now;
    world.bucket.purge_fence(now);
    // It reads once, as after any reconnect.
    world.disconnect(1);
    world.connect(1);
    world.run(ms(60_000));
    world.nodes[0].wire = Wire::Cut;
    world.run(ms(20_000));
}

#[test]
fn a_fence_record_that_came_during_a_claim_is_not_noted_as_that_of_a_term_that_ended() {
    let mut slow = settings(|config| {
        config.ttl = ms(15_000);
        config.heartbeat_interval = Some(ms(5000));
    });
    slow.request_timeout = ms(2400);
    let mut world = World::unstarted(1, ModelBucket::new(), vec![slow, of_ttl(ms(1000))]);
    world.nodes[0]
        .plans
        .push((Kind::Fence, Fate::Slow(ms(1045))));
    world.boot(0);
    world.run_until(ms(50), |world| world.bucket.role().is_some());
    world.nodes[0].watching = false;
    world.put(Content::ForeignMarker);
    world.nodes[1].plans.push((Kind::Claim, Fate::AckLost));
    world.boot(1);
    let claimed = |world: &World| {
        matches!(
            world.bucket.role().map(|it| &it.content),
            Some(Content::Record(_))
        )
    };
    world.run_until(ms(1500), claimed).expect("a claim");
    world.nodes[1].plans.push((Kind::Claim, Fate::Slow(ms(60))));
    world.restart_actor(1);
    world.run(ms(20_000));
}

/// An instance that may not write the fence key claims first when the role is freed.
#[test]
fn a_claim_that_is_given_back_frees_the_role_at_once_for_who_saw_it() {
    for seed in 0..20 {
        let mut world = led_by_the_first(seed, ModelBucket::new(), vec![of_ttl(ms(15_000)); 3]);
        world.boot(1);
        world.boot(2);
        world.run(ms(3000));
        world.nodes[1].plans.push((Kind::Fence, Fate::Denied));
        world.nodes[2].plans.push((Kind::Claim, Fate::Lost));
        step_down(&mut world, 0);
        world.run_until(ms(1000), |world| world.bucket.releases.len() > 1);
        if world.bucket.releases.len() < 2 {
            continue;
        }
        world.crash(0);
        world.crash(1);
        let took = world.until_led_by(2, ms(30_000));
        // A claim that was lost is sent again after a second.
        assert!(took <= ms(1100), "{took:?}");
    }
}

/// 800 ms there and back; somebody writes over the fence record.
#[test]
fn a_leader_on_a_slow_network_looks_at_its_fence_record_too() {
    for one_way in [1, 400] {
        let all = vec![defaults(ms(15_000)); 1];
        let mut world = on_a_network(3, all, ms(one_way)..ms(one_way + 1), 0);
        world.await_leader(ms(30_000));
        world.run(ms(10_000));
        world.forge_fence(&stray_fence());
        let ended = |world: &World| demotions(world, 0) > 0;
        let took = world.run_until(ms(600_000), ended);
        assert!(
            took.is_some_and(|took| took < ms(15_000)),
            "{one_way} ms: {took:?}"
        );
    }
}

/// Writes are lost, and what is left is deleted: a read shows nothing. What is written then lies
/// below what was confirmed.
#[test]
pub fn a_loss_that_the_watch_shows_is_not_found_out_only_after_the_wait() {
    let ttl = ms(3000);
    let mut world = World::unstarted(1, ModelBucket::new(), vec![of_ttl(ttl)]);
    world.boot(0);
    world.await_leader(ms(50));
    world.run(ms(3000));
    world.lose_tail(6);
    world.purge();
    world.run(ms(1500));
    assert_eq!(world.leader(), None);
    world.put(stray(Some(ms(3_600_000)), Some(Uuid::from_u128(6))));
    let leads = |world: &World| world.leader().is_some();
    let took = world.run_until(ttl * 9, leads).expect("a leader");
    assert!(took >= ttl * 4 && took < ttl * 4 + ms(500), "{took:?}");
}

/// A leader whose fence record has expired, in a bucket with a max age of six seconds; it is cut
/// off, and does not know.
fn led_without_a_fence_record(markers: bool, all: Vec<RoleSettings>) -> World {
    let mut bucket = ModelBucket::new().max_age(ms(6000));
    bucket.expiry_markers = markers;
    let mut world = led_by_the_first(1, bucket, all);
    world.run(ms(7000));
    assert!(
        world
            .bucket
            .fence()
            .is_none_or(|fence| fence.record.is_none())
    );
    world.nodes[0].wire = Wire::Mute;
    world
}

/// Then somebody deletes the role's key.
#[test]
pub fn where_fence_records_expire_a_new_instance_waits_for_whoever_may_lead_without_one() {
    for markers in [false, true] {
        let all = vec![of_ttl(ms(5000)), of_ttl(ms(500))];
        let mut world = led_without_a_fence_record(markers, all);
        world.put(Content::ForeignMarker);
        world.boot(1);
        let took = world.until_led_by(1, ms(14_000));
        assert!(took >= ms(4000) && took <= ms(7000), "{took:?}");
    }
}

/// The leader has led before, and the watch shows no fence record: the one that is known is of that
/// earlier term. The next one looks for that of the second term, and claims once.
#[test]
pub fn a_claim_over_a_second_term_knows_that_terms_fence_record() {
    let again = settings(|config| {
        config.ttl = ms(1000);
        config.cooldown = Some(ms(20));
    });
    let mut world = World::unstarted(1, ModelBucket::new(), vec![again, of_ttl(ms(1000))]);
    world.fences_watched = false;
    world.boot(0);
    assert_eq!(world.await_leader(ms(50)), 0);
    world.boot(1);
    world.run(ms(100));
    let asks = [1, 2].map(RequestId);
    world.input(1, Input::Intend(asks[0], Intent::Pause));
    step_down(&mut world, 0);
    world.run(ms(100));
    assert_eq!(world.leader(), Some(0), "again");
    world.input(1, Input::Intend(asks[1], Intent::Resume));
    world.run(ms(100));
    world.crash(0);
    world.until_led_by(1, ms(5000));
    let claims = |(_, event): &&(Duration, Event)| matches!(event, Event::ClaimBegan { .. });
    let claims = world.nodes[1].events.iter().filter(claims).count();
    assert_eq!(claims, 1);
}
