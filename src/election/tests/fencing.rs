//! The fence record and the order of terms.

use uuid::Uuid;

use super::solo::{BUCKET, OLD_FENCE, Solo, entry, fence_of, ms, own, release_over, settings};
use crate::election::{
    Bucket, Effect, FenceCondition, Input, Link, Write, WriteKind, WriteOutcome,
};
use crate::model::event::Event;
use crate::model::record::{Content, Nonce};

const TTL: std::time::Duration = ms(1000);

/// A claim over a release at 100 is on its way.
fn claiming(bucket: Bucket) -> (Solo, Write) {
    let mut solo = Solo::new(settings(|_| {}), bucket);
    solo.read(Some(entry(100, Content::Release(None))), Some(OLD_FENCE));
    solo.wait(ms(3));
    let claim = solo.write();
    (solo, claim)
}

/// The claim stands at 101, its fence is being written.
fn fencing() -> (Solo, Write, Write) {
    let (mut solo, claim) = claiming(BUCKET);
    solo.ack(&claim, 101);
    let fence = solo.write();
    (solo, claim, fence)
}

fn condition(write: &Write) -> FenceCondition {
    match &write.kind {
        WriteKind::Fence { condition, .. } => *condition,
        other => panic!("no fence: {other:?}"),
    }
}

fn promoted_at(solo: &Solo) -> Option<u64> {
    solo.effects.iter().find_map(|effect| match effect {
        Effect::StartTerm(start) => Some(start.fencing_token.sequence),
        _ => None,
    })
}

#[test]
fn one_confirmed_write_makes_no_leader_two_do() {
    let (mut solo, _, fence) = fencing();
    assert!(solo.started().is_none());
    assert_eq!(condition(&fence), FenceCondition::RoleKeyAt(101));
    solo.ack(&fence, 102);
    assert_eq!(promoted_at(&solo), Some(102));
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

/// The fence landed, but since then another stands in the role's key.
#[test]
fn our_fence_alone_makes_no_leader_when_our_claim_is_gone() {
    let (mut solo, _, fence) = fencing();
    solo.wait(ms(80));
    solo.time_out(&fence);
    solo.wait(ms(60));
    solo.read(
        Some(entry(103, Content::ForeignMarker)),
        Some(fence_of(102, fence.nonce)),
    );
    assert!(solo.started().is_none());
    assert!(solo.find_write().is_none(), "it does not fence again");
}

#[test]
fn a_lost_fence_ack_is_read_back() {
    let (mut solo, claim, fence) = fencing();
    solo.wait(ms(80));
    solo.time_out(&fence);
    assert!(solo.started().is_none(), "a timeout is no fence");
    solo.wait(ms(60));
    solo.read(
        Some(entry(101, own(&claim, TTL))),
        Some(fence_of(102, fence.nonce)),
    );
    assert_eq!(promoted_at(&solo), Some(102));
}

#[test]
fn a_lost_fence_is_written_again_under_a_new_nonce() {
    let (mut solo, claim, fence) = fencing();
    solo.wait(ms(80));
    solo.time_out(&fence);
    solo.wait(ms(60));
    solo.read(Some(entry(101, own(&claim, TTL))), Some(OLD_FENCE));
    let again = solo.write();
    assert_eq!(condition(&again), FenceCondition::RoleKeyAt(101));
    assert_ne!(again.nonce, fence.nonce);
}

/// The nonce of an earlier term of this incarnation.
#[test]
fn a_fence_of_our_last_term_promotes_no_new_one() {
    let mut solo = Solo::leading(settings(|_| {}));
    let term = solo.started().expect("a term");
    let old = Nonce {
        incarnation: super::solo::OWN,
        beat: 0,
    };
    solo.feed(Input::HandlerEnded {
        term,
        end: crate::election::HandlerEnd::Returned,
    });
    let release = solo.write();
    solo.ack(&release, 103);
    solo.feed(Input::Link(Link::Up(BUCKET)));
    solo.wait(ms(401));
    solo.read(
        Some(entry(103, Content::Release(Some(release.nonce)))),
        Some(fence_of(102, old)),
    );
    solo.wait(ms(3));
    let claim = solo.write();
    solo.ack(&claim, 104);
    let fence = solo.write();
    solo.wait(ms(80));
    solo.time_out(&fence);
    solo.wait(ms(60));
    solo.read(Some(entry(104, own(&claim, TTL))), Some(fence_of(102, old)));
    assert!(solo.started().is_none());
    assert_eq!(
        condition(&solo.write()),
        FenceCondition::RoleKeyAt(104),
        "it writes its own"
    );
}

#[test]
fn a_fence_below_a_sequence_that_was_seen_is_written_again() {
    let mut solo = Solo::new(settings(|_| {}), BUCKET);
    let foreign = Nonce {
        incarnation: Uuid::from_u128(2),
        beat: 1,
    };
    solo.read(
        Some(entry(100, Content::Release(None))),
        Some(fence_of(150, foreign)),
    );
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
    assert_eq!(promoted_at(&solo), Some(151));
}

#[test]
fn an_old_server_fences_by_the_fence_keys_own_sequence_and_proves_the_claim_after() {
    let (mut solo, _, fence) = fencing();
    solo.end(&fence, WriteOutcome::Unsupported);
    solo.read(
        Some(entry(101, own(&fence_claim(&fence), TTL))),
        Some(OLD_FENCE),
    );
    let fence = solo.write();
    assert_eq!(condition(&fence), FenceCondition::FenceKeyAt(99));
    solo.ack(&fence, 102);
    assert!(solo.started().is_none(), "the claim may be gone");
    let proof = solo.write();
    assert!(matches!(proof.kind, WriteKind::Renew { over: 101, .. }));
    solo.ack(&proof, 103);
    assert_eq!(promoted_at(&solo), Some(102));
}

/// The claim before this fence write: the beat before.
fn fence_claim(fence: &Write) -> Write {
    let mut claim = fence.clone();
    claim.nonce.beat -= 1;
    claim
}

#[test]
fn on_an_old_server_a_lost_proof_ends_the_acquisition() {
    let (mut solo, _, fence) = fencing();
    solo.end(&fence, WriteOutcome::Unsupported);
    solo.read(
        Some(entry(101, own(&fence_claim(&fence), TTL))),
        Some(OLD_FENCE),
    );
    let fence = solo.write();
    solo.ack(&fence, 102);
    let proof = solo.write();
    solo.refuse(&proof, 110);
    solo.read(
        Some(entry(110, Content::Opaque)),
        Some(fence_of(102, fence.nonce)),
    );
    solo.wait(ms(900));
    assert!(solo.started().is_none());
}

#[test]
fn a_proof_after_the_old_deadline_proves_nothing() {
    let (mut solo, _, fence) = fencing();
    solo.end(&fence, WriteOutcome::Unsupported);
    solo.read(
        Some(entry(101, own(&fence_claim(&fence), TTL))),
        Some(OLD_FENCE),
    );
    let fence = solo.write();
    solo.wait(ms(700));
    solo.ack(&fence, 102);
    let proof = solo.write();
    solo.sleep(ms(400));
    solo.ack(&proof, 103);
    assert!(solo.started().is_none());
}

/// While a fence that looked at its own key alone is on its way, the connection flaps.
#[test]
fn a_reconnect_does_not_spare_an_old_servers_proof() {
    let (mut solo, _, fence) = fencing();
    solo.end(&fence, WriteOutcome::Unsupported);
    solo.read(
        Some(entry(101, own(&fence_claim(&fence), TTL))),
        Some(OLD_FENCE),
    );
    let fence = solo.write();
    solo.feed(Input::Link(Link::Down));
    solo.feed(Input::Link(Link::Up(BUCKET)));
    solo.ack(&fence, 102);
    assert!(solo.started().is_none());
    assert!(matches!(solo.write().kind, WriteKind::Renew { .. }));
}

#[test]
fn a_refused_fence_on_an_old_server_is_tried_over_what_a_read_shows() {
    let (mut solo, _, fence) = fencing();
    solo.end(&fence, WriteOutcome::Unsupported);
    solo.read(
        Some(entry(101, own(&fence_claim(&fence), TTL))),
        Some(OLD_FENCE),
    );
    let fence = solo.write();
    solo.refuse(&fence, 140);
    let foreign = Nonce {
        incarnation: Uuid::from_u128(2),
        beat: 3,
    };
    solo.read(
        Some(entry(101, own(&fence_claim(&fence_claim(&fence)), TTL))),
        Some(fence_of(139, foreign)),
    );
    assert_eq!(condition(&solo.write()), FenceCondition::FenceKeyAt(139));
}

#[test]
fn no_term_starts_without_the_time_to_wind_it_down() {
    let (mut solo, _, fence) = fencing();
    solo.wait(ms(700));
    solo.sleep(ms(90));
    solo.ack(&fence, 102);
    assert!(solo.started().is_none());
}

#[test]
fn a_late_claim_is_given_back_without_a_fence() {
    for more in [ms(0), ms(100)] {
        let (mut solo, claim) = claiming(BUCKET);
        let lease = TTL - solo.settings.drift_margin();
        let late = solo.sent + lease - solo.settings.stop_budget + more;
        solo.sleep(late.since(solo.now));
        solo.ack(&claim, 101);
        let release = solo.write();
        assert_eq!(release.kind, release_over(101));
    }
}

#[test]
fn a_bucket_without_unique_sequences_is_looked_at_before_a_claim_and_before_a_term() {
    let plain = Bucket {
        unique_sequences: false,
        ..BUCKET
    };
    let (mut solo, claim) = claiming(plain);
    solo.ack(&claim, 101);
    let fence = solo.write();
    solo.ack(&fence, 102);
    assert!(solo.started().is_none());
    solo.read(
        Some(entry(101, own(&claim, TTL))),
        Some(fence_of(102, fence.nonce)),
    );
    assert_eq!(promoted_at(&solo), Some(102));
}

/// On a server that can't check another key: the fence stands at 102, the claim at 101 is being proved.
fn proving() -> (Solo, Write, Write, Write) {
    let (mut solo, claim, fence) = fencing();
    solo.end(&fence, WriteOutcome::Unsupported);
    solo.read(Some(entry(101, own(&claim, TTL))), Some(OLD_FENCE));
    let fence = solo.write();
    solo.wait(ms(300));
    solo.ack(&fence, 102);
    let proof = solo.write();
    (solo, claim, fence, proof)
}

#[test]
fn a_term_starts_with_the_lease_of_its_proof() {
    let (mut solo, _, _, proof) = proving();
    let sent = solo.sent;
    solo.wait(ms(50));
    solo.ack(&proof, 103);
    let lease = sent + TTL - solo.settings.drift_margin();
    assert!(solo.has(|effect| matches!(
        effect,
        Effect::StartTerm(start) if start.proved == sent && start.lease == lease
    )));
    solo.take();
    solo.wait(ms(200));
    assert!(
        matches!(solo.write().kind, WriteKind::Renew { over: 103, .. }),
        "and goes on from it"
    );
}

/// The proof was not answered, but stands: a read shows it at 103.
fn proof_read_back() -> (Solo, Write, Write) {
    let (mut solo, claim, fence, proof) = proving();
    let sent = solo.sent;
    solo.wait(ms(80));
    solo.time_out(&proof);
    solo.wait(ms(60));
    solo.read(
        Some(entry(103, own(&proof, TTL))),
        Some(fence_of(102, fence.nonce)),
    );
    assert!(solo.started().is_none(), "a read is no proof");
    assert_eq!(solo.election.status().last_heartbeat, Some(sent));
    (solo, claim, fence)
}

#[test]
fn a_lost_proof_is_read_back_and_the_claim_is_proved_over_it() {
    let (mut solo, _, _) = proof_read_back();
    let again = solo.write();
    assert!(matches!(again.kind, WriteKind::Renew { over: 103, .. }));
    // Its own lease counts, no longer that of the claim.
    solo.wait(ms(400));
    solo.ack(&again, 104);
    assert_eq!(promoted_at(&solo), Some(102));
}

#[test]
fn a_claim_that_stands_again_in_place_of_its_proof_is_lost() {
    let (mut solo, claim, fence) = proof_read_back();
    let again = solo.write();
    solo.wait(ms(80));
    solo.time_out(&again);
    solo.wait(ms(60));
    solo.read(
        Some(entry(101, own(&claim, TTL))),
        Some(fence_of(102, fence.nonce)),
    );
    assert!(solo.find_write().is_none() && solo.started().is_none());
}

#[test]
fn a_copy_of_a_write_of_ours_at_another_revision_is_not_our_claim() {
    let (_, claim, fence) = fencing();
    for copied in [claim, fence] {
        let (mut solo, _, fence) = fencing();
        solo.wait(ms(80));
        solo.time_out(&fence);
        solo.wait(ms(60));
        solo.read(
            Some(entry(105, own(&copied, TTL))),
            Some(fence_of(102, fence.nonce)),
        );
        assert!(solo.started().is_none() && solo.find_write().is_none());
    }
}

/// The read may be older than what refused the fence.
#[test]
fn a_refused_fence_is_not_written_again_although_our_claim_seems_to_stand() {
    let (mut solo, claim, fence) = fencing();
    solo.refuse(&fence, 104);
    solo.read(Some(entry(101, own(&claim, TTL))), Some(OLD_FENCE));
    assert!(solo.find_write().is_none());
    let pause = solo.settings.retry.initial_backoff;
    solo.wait(pause - ms(1));
    assert!(solo.find_read().is_none(), "not at once");
    solo.wait(ms(1));
    solo.read(Some(entry(101, own(&claim, TTL))), Some(OLD_FENCE));
    solo.wait(ms(3));
    assert!(
        matches!(solo.write().kind, WriteKind::Claim { over: 101, .. }),
        "it stands anew"
    );
}

/// A claim where nothing stands does not tell whether somebody led since and was purged: the fence does.
#[test]
fn a_fence_in_place_of_which_another_stands_makes_way_for_a_lease() {
    let mut solo = Solo::new(settings(|_| {}), BUCKET);
    solo.read(None, None);
    solo.wait(ms(3));
    let claim = solo.write();
    solo.ack(&claim, 101);
    let fence = solo.write();
    assert_eq!(condition(&fence), FenceCondition::FenceKeyAt(0));
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
    assert!(matches!(claim.kind, WriteKind::Claim { over: 101, .. }));
    // Over such a claim nothing tells either.
    solo.ack(&claim, 102);
    assert_eq!(condition(&solo.write()), FenceCondition::FenceKeyAt(99));
}

#[test]
fn a_fence_that_was_read_back_is_in_doubt_no_longer() {
    let (mut solo, claim, fence) = fencing();
    solo.wait(ms(80));
    solo.time_out(&fence);
    solo.wait(ms(60));
    solo.read(
        Some(entry(101, own(&claim, TTL))),
        Some(fence_of(102, fence.nonce)),
    );
    let term = solo.started().expect("a term");
    solo.feed(Input::HandlerEnded {
        term,
        end: crate::election::HandlerEnd::Returned,
    });
    let release = solo.write();
    solo.refuse(&release, 140);
    assert!(
        solo.told(|event| matches!(
            event,
            Event::TermEnded {
                released: false,
                ..
            }
        )),
        "no write of ours can have come late: another has the role"
    );
}
