//! The fence record and the order of terms.

use uuid::Uuid;

use super::solo::{
    BUCKET, OLD_FENCE, Solo, assert_claims, assert_frees, entry, fence_of, free, ms, own, released,
    settings,
};
use crate::event::FailureKind;
use crate::record::{Content, Nonce};
use crate::{Bucket, Input, Link, Write, WriteKind, WriteOutcome};

const TTL: std::time::Duration = ms(1000);

/// An instance whose claim stands at 101 and whose fence record is being written.
fn fencing() -> (Solo, Write, Write) {
    Solo::fencing(settings(|_| {}))
}

/// The sequence that this fence write expects.
fn over(write: &Write) -> u64 {
    match &write.kind {
        WriteKind::Fence { over, .. } => *over,
        other => panic!("no fence: {other:?}"),
    }
}

#[test]
fn a_leader_needs_two_confirmed_writes() {
    let (mut solo, _, fence) = fencing();
    assert!(solo.started().is_none());
    assert_eq!(over(&fence), 99);
    solo.ack(&fence, 102);
    assert_eq!(solo.promoted_at(), Some(102));
}

#[test]
fn a_refused_fence_ends_the_acquisition() {
    let (mut solo, _, fence) = fencing();
    solo.refuse(&fence, 104);
    solo.read(Some(entry(104, Content::ForeignMarker)), Some(OLD_FENCE));
    solo.wait(ms(500));
    assert!(solo.started().is_none());
    assert!(solo.find_write().is_none(), "it does not fence again");
}

/// The fence record is stored, but another record has replaced our claim since.
#[test]
fn our_fence_record_alone_makes_no_leader_when_our_claim_is_gone() {
    let (mut solo, _, fence) = fencing();
    solo.lose(&fence);
    solo.read(
        Some(entry(103, Content::ForeignMarker)),
        Some(fence_of(102, fence.nonce)),
    );
    assert!(solo.started().is_none());
    assert!(solo.find_write().is_none(), "it does not fence again");
}

#[test]
fn a_fence_record_whose_ack_is_lost_is_read_back() {
    let (mut solo, claim, fence) = fencing();
    solo.leave_unanswered(&fence);
    assert!(solo.started().is_none(), "a timeout is no fence");
    solo.wait(ms(60));
    solo.read_back(&claim, &fence);
    assert_eq!(solo.promoted_at(), Some(102));
}

#[test]
fn a_lost_fence_record_is_written_again_under_a_new_nonce() {
    let (mut solo, claim, fence) = fencing();
    solo.lose(&fence);
    solo.read(Some(entry(101, own(&claim, TTL))), Some(OLD_FENCE));
    let again = solo.write();
    assert_eq!(over(&again), 99);
    assert_ne!(again.nonce, fence.nonce);
}

/// The fence record has the nonce of an earlier term of this incarnation.
#[test]
fn a_fence_record_of_our_last_term_starts_no_new_term() {
    let (mut solo, term) = Solo::in_term(settings(|_| {}));
    let old = Nonce {
        incarnation: super::solo::OWN,
        beat: 0,
    };
    solo.feed(Input::HandlerEnded {
        term,
        end: crate::HandlerEnd::Returned,
    });
    let release = solo.write();
    solo.ack(&release, 103);
    solo.feed(Input::Link(Link::Up(BUCKET)));
    solo.wait(ms(401));
    solo.read(
        Some(entry(103, released(&release))),
        Some(fence_of(102, old)),
    );
    solo.wait(ms(3));
    let claim = solo.write();
    solo.ack(&claim, 104);
    let fence = solo.write();
    solo.lose(&fence);
    solo.read(Some(entry(104, own(&claim, TTL))), Some(fence_of(102, old)));
    assert!(solo.started().is_none());
    assert_eq!(over(&solo.write()), 102, "it writes its own");
}

#[test]
fn a_fence_record_below_an_observed_sequence_is_written_again() {
    let mut solo = Solo::new(settings(|_| {}), BUCKET);
    let foreign = Nonce {
        incarnation: Uuid::from_u128(2),
        beat: 1,
    };
    solo.read(Some(free(100)), Some(fence_of(150, foreign)));
    solo.wait(ms(3));
    let claim = solo.write();
    solo.ack(&claim, 101);
    for revision in 102..=150 {
        let fence = solo.write();
        solo.ack(&fence, revision);
        assert!(solo.started().is_none());
    }
    let fence = solo.write();
    solo.ack(&fence, 151);
    assert_eq!(solo.promoted_at(), Some(151));
}

#[test]
fn a_term_starts_only_with_time_to_wind_it_down() {
    let (mut solo, _, fence) = fencing();
    solo.wait(ms(700));
    solo.sleep(ms(90));
    solo.ack(&fence, 102);
    assert!(solo.started().is_none());
}

#[test]
fn a_late_claim_is_given_back_without_a_fence_record() {
    for more in [ms(0), ms(100)] {
        let (mut solo, claim) = Solo::claiming(settings(|_| {}));
        let lease = TTL - solo.settings.drift_margin();
        let late = solo.sent + lease - solo.settings.stop_budget + more;
        solo.sleep(late.since(solo.now));
        solo.ack(&claim, 101);
        let release = solo.write();
        assert_frees(&release, 101, None);
    }
}

#[test]
fn a_bucket_without_unique_sequences_is_read_before_a_claim_and_before_a_term() {
    let plain = Bucket {
        unique_sequences: false,
        ..BUCKET
    };
    let mut solo = Solo::new(settings(|_| {}), plain);
    solo.read(Some(free(100)), Some(OLD_FENCE));
    solo.wait(ms(3));
    let claim = solo.write();
    solo.ack(&claim, 101);
    let fence = solo.write();
    solo.ack(&fence, 102);
    assert!(solo.started().is_none());
    solo.read_back(&claim, &fence);
    assert_eq!(solo.promoted_at(), Some(102));
}

#[test]
fn a_copy_of_our_write_at_another_revision_is_not_our_claim() {
    let (_, claim, fence) = fencing();
    for copied in [claim, fence] {
        let (mut solo, _, fence) = fencing();
        solo.lose(&fence);
        solo.read(
            Some(entry(105, own(&copied, TTL))),
            Some(fence_of(102, fence.nonce)),
        );
        assert!(solo.started().is_none() && solo.find_write().is_none());
    }
}

#[test]
fn a_fence_record_that_is_refused_for_no_reason_gives_the_claim_back() {
    let (mut solo, claim, fence) = fencing();
    solo.refuse(&fence, 104);
    solo.read(Some(entry(101, own(&claim, TTL))), Some(OLD_FENCE));
    assert!(solo.fails(FailureKind::Rejected));
    let release = solo.write();
    assert_frees(&release, 101, None);
    solo.ack(&release, 105);
    let freed = released(&release);
    let freed = entry(105, freed);
    let cooldown = solo.settings.cooldown;
    let early = solo.wait_showing(cooldown - ms(1), Some(&freed), Some(OLD_FENCE));
    assert_eq!(early, None, "it stays out for the cool-down");
    let claim = solo.wait_showing(ms(5), Some(&freed), Some(OLD_FENCE));
    assert_claims(&claim.expect("a claim"), 105);
}

/// A server that refuses every fence record causes no more writes than the cool-downs allow.
#[test]
fn a_server_that_refuses_every_fence_record_gets_fewer_and_fewer_claims() {
    let mut solo = Solo::new(settings(|_| {}), BUCKET);
    let mut last = 100;
    let mut role = free(last);
    let end = solo.now + ms(600_000);
    let mut writes = 0;
    while solo.now < end {
        let rest = end.since(solo.now);
        let Some(write) = solo.wait_showing(rest, Some(&role), Some(OLD_FENCE)) else {
            break;
        };
        writes += 1;
        if let WriteKind::Fence { .. } = write.kind {
            let current = None;
            solo.end(&write, WriteOutcome::Conflict { current });
            continue;
        }
        last += 1;
        let content = match write.kind {
            WriteKind::Release { release, .. } => Content::Release(release),
            _ => own(&write, TTL),
        };
        role = entry(last, content);
        solo.ack(&write, last);
    }
    assert!(solo.started().is_none());
    assert!(writes >= 9, "it never gives up: {writes}");
    assert!(writes <= 150, "{writes}");
}

#[test]
fn a_claim_whose_expected_fence_record_is_gone_is_repeated() {
    for shown in [
        None,
        Some(fence_of(98, OLD_FENCE.nonce().expect("a nonce"))),
    ] {
        let (mut solo, claim, fence) = fencing();
        solo.refuse(&fence, 0);
        let role = entry(101, own(&claim, TTL));
        solo.read(Some(role.clone()), shown);
        assert!(solo.find_write().is_none(), "it is not given back");
        let claim = solo.wait_showing(TTL * 2, Some(&role), shown);
        assert_claims(&claim.expect("a claim"), 101);
    }
}

/// A claim of a missing key does not tell whether another instance led since and was purged. The
/// fence record does.
#[test]
fn a_fence_record_refused_for_another_waits_for_the_others_lease() {
    let mut solo = Solo::new(settings(|_| {}), BUCKET);
    solo.read(None, None);
    solo.wait(ms(3));
    let claim = solo.write();
    solo.ack(&claim, 101);
    let fence = solo.write();
    assert_eq!(over(&fence), 0);
    solo.refuse(&fence, 99);
    let foreign = Nonce {
        incarnation: Uuid::from_u128(2),
        beat: 3,
    };
    let role = entry(101, own(&claim, TTL));
    solo.read(Some(role.clone()), Some(fence_of(99, foreign)));
    let freed = solo.now + TTL;
    assert_eq!(
        solo.election.status().leader,
        None,
        "who it is, is not seen"
    );
    solo.wait(ms(60));
    solo.read(Some(role), Some(fence_of(99, foreign)));
    solo.wait(freed.since(solo.now) - ms(1));
    assert!(solo.find_write().is_none());
    solo.wait(ms(4));
    let claim = solo.write();
    assert_claims(&claim, 101);
    // A second claim over that claim does not tell it either.
    solo.ack(&claim, 102);
    assert_eq!(over(&solo.write()), 99);
}
