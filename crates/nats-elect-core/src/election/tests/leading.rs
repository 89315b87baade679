//! A term: when heartbeats are sent, the fence record is read, and the handler's health is checked.

use uuid::Uuid;

use super::solo::{
    BUCKET, OLD_FENCE, OWN, Solo, assert_renews, entry, failure, fence_of, ms, own, record_of,
    settings, stranger, tuned,
};
use crate::config::RoleSettings;
use crate::event::{EndCause, FailureKind};
use crate::record::{Entry, FenceEntry, Nonce};
use crate::status::ConnectionStatus;
use crate::{Bucket, Effect, Input, Link, RequestId, TermId, Write, WriteOutcome};

const TTL: std::time::Duration = ms(1000);

const FOREIGN: Nonce = Nonce {
    incarnation: Uuid::from_u128(2),
    beat: 9,
};

/// Our claim, as it stands at 101.
fn claim() -> Entry {
    entry(101, record_of(OWN, 0, Some(TTL)))
}

/// A leader whose first heartbeat is under way and that has not yet read the fence record.
fn renewing(change: impl FnOnce(&mut RoleSettings)) -> (Solo, Write) {
    let mut solo = Solo::leading(tuned(|it| {
        it.validation_interval = ms(60_000);
        change(it);
    }));
    let renewal = solo.heartbeat();
    (solo, renewal)
}

#[test]
fn a_heartbeat_is_sent_once_per_interval() {
    let (mut solo, renewal) = renewing(|_| {});
    let first = solo.sent;
    solo.wait(ms(30));
    solo.ack(&renewal, 103);
    solo.take();
    solo.wait((first + ms(200)).since(solo.now) - ms(1));
    assert!(solo.find_write().is_none());
    solo.wait(ms(1));
    let next = solo.write();
    assert_renews(&next, 103);
}

/// Waits for a read of the fence record, and answers it.
fn look(solo: &mut Solo, role: Option<Entry>, fence: FenceEntry) {
    solo.take();
    while !solo.asks() {
        solo.wait(ms(1));
    }
    assert!(!solo.writes(), "a look comes first");
    solo.read(role, Some(fence));
}

/// A leader since 1 ms after its claim, with its first heartbeat at 103.
fn looking() -> (Solo, Write) {
    let (mut solo, renewal) = renewing(|it| it.validation_interval = ms(200));
    solo.ack(&renewal, 103);
    (solo, renewal)
}

#[test]
fn the_fence_record_is_read_once_per_interval_and_nothing_follows_if_it_is_ours() {
    let (mut solo, renewal) = looking();
    let beat_at = solo.sent + ms(200);
    let ours = fence_of(
        102,
        Nonce {
            incarnation: OWN,
            beat: 1,
        },
    );
    let stands = Some(entry(103, own(&renewal, TTL)));
    look(&mut solo, stands.clone(), ours);
    assert!(solo.now < beat_at - ms(150));
    solo.wait(beat_at.since(solo.now) - ms(1));
    assert!(
        !solo.asks(),
        "neither a heartbeat before its time nor another look"
    );
    solo.wait(ms(1));
    let next = solo.write();
    solo.ack(&next, 104);
    solo.wait(ms(5));
    assert!(solo.find_read().is_some());
    assert!(solo.ending().is_none());
}

/// A watch that shows these shows fence records, too.
#[test]
fn the_fence_record_is_not_read_while_the_watch_shows_the_own_heartbeats() {
    let (mut solo, mut renewal) = renewing(|it| it.validation_interval = ms(300));
    solo.ack(&renewal, 103);
    solo.take();
    for revision in 103..120 {
        let shown = entry(revision, own(&renewal, TTL));
        solo.feed(Input::Observed(shown));
        solo.wait(ms(200));
        assert!(!solo.reads());
        renewal = solo.write();
        solo.ack(&renewal, revision + 1);
    }
    solo.wait(ms(150));
    assert!(solo.find_read().is_some(), "the watch is silent");
}

#[test]
fn a_fence_record_that_the_watch_shows_over_ours_is_read_at_once() {
    let others = fence_of(104, stranger(None).nonce().expect("a nonce"));
    let by_hand = FenceEntry {
        revision: 104,
        record: None,
    };
    for shown in [others, by_hand] {
        let (mut solo, renewal) = looking();
        let stands = entry(103, own(&renewal, TTL));
        solo.feed(Input::Observed(stands.clone()));
        solo.take();
        solo.feed(Input::ObservedFence(shown));
        let op = solo.find_read().expect("a read");
        // The watch is no proof, and the next heartbeat on it does not calm anybody.
        assert!(solo.ending().is_none());
        solo.feed(Input::Observed(stands.clone()));
        solo.show(op, Some(stands), Some(shown));
        assert!(solo.ends(EndCause::Superseded));
    }
}

#[test]
fn the_own_fence_record_on_the_watch_is_no_news() {
    let (mut solo, _) = looking();
    solo.take();
    let incarnation = OWN;
    let ours = fence_of(
        102,
        Nonce {
            incarnation,
            beat: 1,
        },
    );
    for shown in [ours, OLD_FENCE] {
        solo.feed(Input::ObservedFence(shown));
        assert_eq!(solo.find_read(), None);
    }
}

#[test]
fn a_read_of_the_fence_record_never_delays_a_heartbeat() {
    let (mut solo, renewal) = renewing(|it| it.validation_interval = ms(340));
    solo.ack(&renewal, 103);
    solo.take();
    let beat_at = solo.sent + ms(200);
    solo.wait(beat_at.since(solo.now));
    assert!(!solo.reads());
    let next = solo.write();
    solo.ack(&next, 104);
    assert!(solo.find_read().is_some());
}

#[test]
fn an_older_fence_record_of_another_is_a_stale_read() {
    let (mut solo, renewal) = looking();
    let stands = Some(entry(103, own(&renewal, TTL)));
    look(&mut solo, stands, OLD_FENCE);
    assert!(solo.ending().is_none());
}

#[test]
fn a_fence_record_written_by_hand_over_ours_ends_the_term() {
    let (mut solo, renewal) = looking();
    let stands = Some(entry(103, own(&renewal, TTL)));
    let tampered = FenceEntry {
        revision: 104,
        record: None,
    };
    look(&mut solo, stands, tampered);
    assert!(solo.ends(EndCause::Superseded));
}

/// Confirmed writes were lost, and their sequences were given again, down to the fence record's.
#[test]
fn another_record_at_our_own_revisions_revokes_the_lease_at_once() {
    let (mut solo, _) = looking();
    let stands = Some(entry(103, stranger(None)));
    look(&mut solo, stands, fence_of(102, FOREIGN));
    assert!(solo.ends(EndCause::Regressed));
    assert!(solo.revokes());
}

#[test]
fn our_own_lost_heartbeat_at_the_revision_of_a_confirmed_one_ends_the_term() {
    let (mut solo, renewal) = renewing(|_| {});
    solo.lose(&renewal);
    solo.read(Some(entry(101, own(&renewal, TTL))), Some(OLD_FENCE));
    assert!(solo.ends(EndCause::Regressed));
}

#[test]
fn a_key_that_is_gone_without_a_marker_revokes_the_lease() {
    let (mut solo, renewal) = renewing(|_| {});
    solo.refuse(&renewal, 0);
    solo.read(None, Some(OLD_FENCE));
    assert!(solo.ends(EndCause::Deleted));
    assert!(solo.revokes());
}

#[test]
fn a_leader_that_is_refused_twice_while_its_record_seems_to_stand_ends_its_term() {
    let (mut solo, renewal) = renewing(|_| {});
    solo.end(&renewal, WriteOutcome::Conflict { current: None });
    solo.read(Some(claim()), Some(OLD_FENCE));
    assert!(solo.ending().is_none(), "the read may be stale, but which?");
    let again = solo.write();
    solo.end(&again, WriteOutcome::Conflict { current: None });
    solo.read(Some(claim()), Some(OLD_FENCE));
    assert!(solo.ends(EndCause::Superseded));
    assert!(solo.revokes());
}

#[test]
fn a_confirmed_heartbeat_resets_the_count_of_refusals() {
    let (mut solo, renewal) = renewing(|_| {});
    solo.end(&renewal, WriteOutcome::Conflict { current: None });
    solo.read(Some(claim()), Some(OLD_FENCE));
    let again = solo.write();
    solo.ack(&again, 103);
    solo.wait(ms(200));
    let third = solo.write();
    solo.end(&third, WriteOutcome::Conflict { current: None });
    solo.read(Some(entry(103, own(&again, TTL))), Some(OLD_FENCE));
    assert!(solo.ending().is_none());
}

/// The proof was sent early, for a caller. The regular heartbeat must not have to settle its doubt.
#[test]
fn a_lost_proof_on_demand_is_followed_by_another_heartbeat_after_one_read() {
    for can_read in [true, false] {
        let mut solo = Solo::leading(settings(|_| {}));
        solo.wait(ms(10));
        solo.take();
        solo.validate(RequestId(1));
        let proof = solo.write();
        solo.wait(ms(20));
        solo.time_out(&proof);
        solo.wait(ms(60));
        if can_read {
            solo.read(Some(claim()), Some(OLD_FENCE));
        } else {
            let op = solo.find_read().expect("a look");
            solo.feed(Input::ReadEnded {
                op,
                outcome: Err(failure(FailureKind::Unavailable)),
            });
            // The pause after the second failure.
            solo.wait(ms(101));
        }
        assert_renews(&solo.write(), 101);
    }
}

#[test]
fn a_heartbeat_that_is_confirmed_after_the_grace_period_extends_nothing() {
    let (mut solo, renewal) = renewing(|it| it.grace = Some(ms(400)));
    solo.disconnect();
    solo.sleep(ms(450));
    solo.ack(&renewal, 103);
    assert!(solo.ends(EndCause::ConnectionLost));
    assert!(!solo.extends());
}

#[test]
fn the_grace_period_ends_a_term_before_its_lease_does() {
    let mut solo = Solo::leading(settings(|config| {
        config.disconnect_grace_period = Some(ms(400));
    }));
    solo.disconnect();
    solo.wait(ms(399));
    assert!(solo.ending().is_none());
    solo.wait(ms(1));
    assert!(solo.ends(EndCause::ConnectionLost));
}

#[test]
fn a_leader_survives_transient_failures_and_ends_its_term_on_permanent_ones() {
    let unusable = |kind| {
        let mut solo = Solo::leading(settings(|_| {}));
        solo.feed(Input::Link(Link::Unusable(failure(kind))));
        solo
    };
    let solo = unusable(FailureKind::Unavailable);
    assert!(solo.ending().is_none());
    assert_eq!(
        solo.election.status().connection,
        ConnectionStatus::Suspended
    );
    let solo = unusable(FailureKind::PermissionDenied);
    assert!(solo.ends(EndCause::BucketLost) && !solo.revokes());
    for gone in [FailureKind::BucketMissing, FailureKind::BucketUnfit] {
        let solo = unusable(gone);
        assert!(solo.ends(EndCause::BucketLost) && solo.revokes());
    }
}

#[test]
fn a_health_check_runs_once_per_interval_and_each_answer_counts_once() {
    let mut solo = Solo::leading(tuned(|it| {
        it.health.interval = ms(50);
        it.health.timeout = ms(20);
        it.health.max_consecutive_failures = 2;
    }));
    let term = solo.started().expect("a term");
    let asked = |solo: &mut Solo| {
        let effects = solo.take();
        let check = |effect: &&Effect| matches!(effect, Effect::CheckHealth { .. });
        effects.iter().filter(check).count()
    };
    solo.take();
    solo.wait(ms(49));
    assert_eq!(asked(&mut solo), 0);
    solo.wait(ms(1));
    assert_eq!(asked(&mut solo), 1);
    let told = |term, healthy| Input::Health { term, healthy };
    let ill = |term| told(term, false);
    for _ in 0..3 {
        solo.feed(ill(TermId(term.0 + 1)));
    }
    assert!(solo.ending().is_none(), "another term's");
    solo.wait(ms(30));
    assert_eq!(asked(&mut solo), 0, "not before it has answered");
    solo.feed(ill(term));
    solo.feed(ill(term));
    assert!(solo.ending().is_none(), "answered twice");
    solo.wait(ms(49));
    assert_eq!(asked(&mut solo), 0);
    for healthy in [true, false] {
        solo.wait(ms(50));
        assert_eq!(asked(&mut solo), 1);
        solo.feed(told(term, healthy));
        assert!(solo.ending().is_none(), "not one after the other");
    }
    solo.wait(ms(50));
    solo.feed(ill(term));
    assert!(solo.ends(EndCause::Unhealthy));
}

/// The bucket is replaced while the fence record is being written.
#[test]
fn a_claim_of_the_old_bucket_is_not_fenced_in_the_new_one() {
    let next = Bucket {
        epoch: BUCKET.epoch + 1,
        ..BUCKET
    };
    let (mut solo, _, fence) = Solo::fencing(settings(|_| {}));
    solo.feed(Input::Link(Link::Up(next)));
    solo.ack(&fence, 102);
    solo.wait(ms(60));
    assert!(solo.started().is_none());
    let asked: Vec<_> = solo.take();
    assert!(
        !asked
            .iter()
            .any(|effect| matches!(effect, Effect::Write(_)))
    );
    assert!(
        asked
            .iter()
            .any(|effect| matches!(effect, Effect::Read { .. }))
    );
}
