//! When a role is free.

use std::time::Duration;

use uuid::Uuid;

use super::solo::{
    BUCKET, OLD_FENCE, OWN, SECRET, Solo, assert_claims, entry, fence_of, hashed_fence, ms, own,
    proven_release, record_of, settings, stranger, tuned,
};
use crate::record::{Content, FOREIGN_LEASE, FenceEntry, Release, SeenFence};
use crate::{Effect, Input};

/// The time until a new instance claims over the message that it reads. `None` if it does not claim
/// within a minute.
fn waits(content: Option<Content>, fence: Option<FenceEntry>) -> Option<Duration> {
    let role = content.map(|content| entry(100, content));
    let mut solo = Solo::new(tuned(|it| it.claim_delay = ms(0)), BUCKET);
    let start = solo.now;
    let claim = solo.wait_showing(ms(60_000), role.as_ref(), fence)?;
    assert_claims(&claim, role.map_or(0, |entry| entry.revision));
    Some(solo.now.since(start))
}

#[test]
fn the_release_of_the_last_term_frees_a_role_at_once() {
    let old_form = Content::Release(Release::default());
    assert_eq!(waits(Some(old_form), Some(OLD_FENCE)), Some(ms(0)));
    let release = proven_release();
    let fence = hashed_fence(99, None, SECRET);
    assert_eq!(waits(Some(release), Some(fence)), Some(ms(0)));
}

#[test]
fn what_no_leader_of_ours_left_is_waited_for_as_long_as_our_own_lease_or_as_its_own() {
    let mut of_our_id = record_of(Uuid::from_u128(2), 7, Some(ms(1000)));
    if let Content::Record(record) = &mut of_our_id {
        record.id = "solo".to_owned();
    }
    let forged = record_of(OWN, 7, Some(ms(1000)));
    let go = Content::parse(br#"{"id":"go-1","token":"abc","priority":3}"#);
    let newer = Content::parse(br#"{"id":"n","v":99,"ttl_ms":2000,"shape":{"of":["things"]}}"#);
    for (content, fence, wait) in [
        (None, None, 0),
        (None, Some(OLD_FENCE), 1000),
        (Some(Content::ForeignMarker), None, 1000),
        (Some(Content::Opaque), None, 1000),
        (Some(stranger(None)), None, 1000),
        (Some(of_our_id), None, 1000),
        (Some(forged), None, 1000),
        (Some(go), None, 1000),
        (Some(newer), None, 2000),
    ] {
        assert_eq!(waits(content.clone(), fence), Some(ms(wait)), "{content:?}");
    }
}

#[test]
fn the_record_of_the_last_term_is_waited_for_as_long_as_its_lease() {
    for ttl in [200, 1000, 7000] {
        let content = stranger(Some(ms(ttl)));
        assert_eq!(waits(Some(content), Some(OLD_FENCE)), Some(ms(ttl)));
    }
    let longest = stranger(Some(FOREIGN_LEASE.1));
    let mut solo = Solo::new(settings(|_| {}), BUCKET);
    let role = entry(100, longest);
    let early = FOREIGN_LEASE.1 - ms(1);
    assert_eq!(solo.wait_showing(early, Some(&role), Some(OLD_FENCE)), None);
    let claim = solo.wait_showing(ms(10), Some(&role), Some(OLD_FENCE));
    assert!(claim.is_some());
}

#[test]
fn a_message_without_a_lease_is_waited_for_as_long_as_the_max_age() {
    let bucket = crate::Bucket {
        max_age: Some(ms(3000)),
        ..BUCKET
    };
    // A lease that no fence record proves counts only up to the max age.
    for content in [Content::Opaque, stranger(Some(ms(60_000)))] {
        let mut solo = Solo::new(settings(|_| {}), bucket);
        let role = entry(100, content);
        assert_eq!(solo.wait_showing(ms(2999), Some(&role), None), None);
        assert!(solo.wait_showing(ms(5), Some(&role), None).is_some());
    }
}

#[test]
fn a_hostile_lease_is_waited_for_within_bounds() {
    let never = Content::parse(br#"{"id":"n","ttl_ms":18446744073709551615}"#);
    let Content::Record(record) = &never else {
        panic!("a record");
    };
    assert_eq!(record.ttl, Some(FOREIGN_LEASE.1));
    assert_eq!(waits(Some(never), None), Some(ms(4000)));
    let none = br#"{"id":"n","ttl_ms":0,"incarnation":"00000000-0000-0000-0000-000000000002"}"#;
    assert_eq!(
        waits(Some(Content::parse(none)), None),
        Some(FOREIGN_LEASE.0)
    );
    // A writer that does not tell its incarnation may have written over a leader with a longer
    // lease.
    let stranger = br#"{"id":"n","ttl_ms":200}"#;
    assert_eq!(waits(Some(Content::parse(stranger)), None), Some(ms(1000)));
}

#[test]
fn the_record_of_an_earlier_machine_of_our_incarnation_is_reclaimed_at_once() {
    let mut solo = Solo::with_first_beat(settings(|_| {}), BUCKET, 8);
    let role = entry(100, record_of(OWN, 7, Some(ms(1000))));
    let claim = solo.wait_showing(ms(3), Some(&role), Some(OLD_FENCE));
    assert_claims(&claim.expect("a claim"), 100);
}

#[test]
fn a_count_begins_anew_with_each_revision() {
    let mut solo = Solo::following(ms(1000));
    for beat in 1..10 {
        solo.wait(ms(900));
        assert!(solo.find_write().is_none());
        solo.feed(Input::Observed(entry(100 + beat, stranger(Some(ms(1000))))));
    }
    solo.wait(ms(1003));
    assert!(solo.find_write().is_some());
}

#[test]
fn a_count_begins_anew_with_another_record_at_the_same_revision() {
    let mut solo = Solo::new(settings(|_| {}), BUCKET);
    let one = record_of(uuid::Uuid::from_u128(2), 7, Some(ms(1000)));
    let another = record_of(uuid::Uuid::from_u128(3), 1, Some(ms(1000)));
    solo.read(Some(entry(100, one.clone())), None);
    solo.wait(ms(900));
    solo.feed(Input::Observed(entry(100, one)));
    let another = entry(100, another);
    solo.feed(Input::Observed(another.clone()));
    assert_eq!(solo.wait_showing(ms(999), Some(&another), None), None);
    assert!(solo.wait_showing(ms(4), Some(&another), None).is_some());
}

#[test]
fn a_lease_is_not_counted_from_a_revision_in_an_error() {
    let mut solo = Solo::following(ms(200));
    solo.wait(ms(202));
    let claim = solo.write();
    solo.refuse(&claim, 140);
    // The record at that revision has a longer lease, and is received only now.
    solo.wait(ms(190));
    solo.read(Some(entry(140, stranger(Some(ms(3000))))), Some(OLD_FENCE));
    solo.wait(ms(2999));
    assert!(solo.find_write().is_none());
    solo.wait(ms(4));
    let claim = solo.write();
    assert_claims(&claim, 140);
}

#[test]
fn a_record_written_over_a_living_lease_does_not_shorten_it() {
    let short = record_of(Uuid::from_u128(3), 1, Some(ms(100)));
    for content in [short, Content::Opaque, Content::ForeignMarker] {
        let mut solo = Solo::following(ms(5000));
        solo.wait(ms(100));
        let over = entry(101, content);
        solo.feed(Input::Observed(over.clone()));
        let early = solo.wait_showing(ms(4890), Some(&over), Some(OLD_FENCE));
        assert_eq!(early, None);
        let claim = solo.wait_showing(ms(20), Some(&over), Some(OLD_FENCE));
        assert!(claim.is_some());
    }
}

#[test]
fn a_longer_lease_in_the_fence_record_is_waited_for_when_the_role_key_no_longer_shows_it() {
    let ttl = Some(ms(4000));
    let record = OLD_FENCE.record.map(|it| SeenFence { ttl, ..it });
    let fence = FenceEntry {
        record,
        ..OLD_FENCE
    };
    let short = record_of(Uuid::from_u128(98), 1, Some(ms(500)));
    for content in [
        None,
        Some(Content::ForeignMarker),
        Some(Content::Opaque),
        Some(short),
    ] {
        let waited = waits(content, Some(fence)).unwrap();
        assert!((ms(4000)..ms(4003)).contains(&waited), "{waited:?}");
    }
    // Nor does a record in the leader's name shorten it.
    let in_its_name = record_of(Uuid::from_u128(99), 5, Some(ms(500)));
    let waited = waits(Some(in_its_name), Some(fence)).unwrap();
    assert!((ms(4000)..ms(4003)).contains(&waited), "{waited:?}");
    assert_eq!(
        waits(Some(Content::Release(Release::default())), Some(fence)),
        Some(ms(0))
    );
}

#[test]
fn a_marker_that_the_watch_shows_first_is_not_claimed_over_before_a_read_of_the_fence() {
    let mut solo = Solo::new(settings(|_| {}), BUCKET);
    let op = solo.find_read().unwrap();
    solo.feed(Input::Observed(entry(100, Content::ForeignMarker)));
    solo.fail_read(op);
    solo.wait(ms(1500));
    assert!(solo.find_write().is_none());
}

#[test]
fn a_marker_after_the_leaders_release_is_waited_for_only_as_long_as_our_own_lease() {
    let mut solo = Solo::new(settings(|_| {}), BUCKET);
    let fence = hashed_fence(99, Some(ms(5000)), SECRET);
    solo.read(Some(entry(100, stranger(Some(ms(5000))))), Some(fence));
    let release = Release {
        secret: Some(SECRET),
        ..Release::default()
    };
    solo.feed(Input::Observed(entry(101, Content::Release(release))));
    let marker = entry(102, Content::ForeignMarker);
    solo.feed(Input::Observed(marker.clone()));
    let early = solo.wait_showing(ms(999), Some(&marker), Some(fence));
    assert_eq!(early, None);
    assert!(
        solo.wait_showing(ms(4), Some(&marker), Some(fence))
            .is_some()
    );
}

/// Another instance may have led since, and its record may have been deleted. Its lease must be
/// waited for, so this instance must not free the role.
#[test]
fn a_leader_leaves_a_marker_that_it_finds_after_its_lease() {
    let (mut solo, term) = Solo::in_term(settings(|_| {}));
    let renewal = solo.heartbeat();
    solo.refuse(&renewal, 105);
    let read = solo.find_read().expect("a read");
    solo.sleep(ms(2000));
    solo.show(read, Some(entry(105, Content::ForeignMarker)), None);
    solo.feed(Input::HandlerEnded {
        term,
        end: crate::HandlerEnd::Returned,
    });
    solo.wait(ms(200));
    assert!(solo.find_write().is_none());
}

/// The wait for a missing key may end long before the claim. The fence record shows whether another
/// instance led meanwhile.
#[test]
fn a_missing_key_is_read_again_right_before_the_claim() {
    let mut solo = Solo::new(settings(|_| {}), BUCKET);
    solo.read(None, Some(OLD_FENCE));
    solo.wait(ms(1003));
    let nonce = stranger(None).nonce().expect("a nonce");
    solo.read(None, Some(fence_of(130, nonce)));
    assert!(solo.find_write().is_none(), "somebody led and was purged");
    solo.wait(ms(1003));
    solo.read(None, Some(fence_of(130, nonce)));
    assert!(solo.find_write().is_some());
}

#[test]
fn a_process_suspended_before_its_claim_of_a_missing_key_reads_again() {
    let mut solo = Solo::new(settings(|_| {}), BUCKET);
    solo.read(None, None);
    solo.take();
    solo.sleep(ms(60_000));
    solo.feed(Input::Tick);
    let nonce = stranger(None).nonce().expect("a nonce");
    solo.read(None, Some(fence_of(130, nonce)));
    assert!(solo.find_write().is_none());
}

#[test]
fn an_unanswered_claim_is_adopted_and_counts_from_its_sending() {
    let (mut solo, claim) = Solo::claiming(settings(|_| {}));
    let sent = solo.sent;
    solo.lose(&claim);
    solo.read(Some(entry(101, own(&claim, ms(1000)))), Some(OLD_FENCE));
    solo.fences();
    let lease = sent + ms(1000) - solo.settings.drift_margin();
    assert!(solo.has(|effect| matches!(
        effect,
        Effect::StartTerm(start) if start.lease == lease && start.fencing_token.sequence == 102
    )));
}

#[test]
fn an_unanswered_claim_that_turns_up_too_late_is_claimed_over() {
    let (mut solo, claim) = Solo::claiming(settings(|_| {}));
    let sent = solo.sent;
    solo.lose(&claim);
    let read = solo.find_read().expect("a read");
    // A term would not have the time to wind down.
    let late = sent + ms(1000) - solo.settings.drift_margin() - solo.settings.stop_budget;
    solo.sleep(late.since(solo.now));
    solo.show(
        read,
        Some(entry(101, own(&claim, ms(1000)))),
        Some(OLD_FENCE),
    );
    assert!(solo.started().is_none());
    solo.wait(ms(3));
    let next = solo.write();
    assert_ne!(next.nonce, claim.nonce);
    assert_claims(&next, 101);
}
