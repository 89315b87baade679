use super::sequences::BURST;
use super::*;
use crate::record::{Release, SeenFence};

const HOLD: Duration = Duration::from_millis(200);
const OWN: Uuid = Uuid::from_u128(1);
const NOW: Moment = Moment::from_nanos(5_000_000_000_000);

fn observed_role() -> ObservedRole {
    ObservedRole::new(OWN, Duration::from_secs(1), HOLD)
}

fn fence(revision: u64, incarnation: u128, beat: u64, ttl: Option<Duration>) -> FenceEntry {
    let nonce = Nonce {
        incarnation: Uuid::from_u128(incarnation),
        beat,
    };
    let release = None;
    let record = Some(SeenFence {
        nonce,
        ttl,
        release,
    });
    FenceEntry { revision, record }
}

fn opaque(revision: u64) -> Entry {
    Entry {
        revision,
        content: Content::Opaque,
    }
}

fn shows(role: Option<Entry>) -> Snapshot {
    Snapshot {
        role,
        fence: None,
        epoch: None,
        last_sequence: None,
    }
}

#[test]
fn a_refusal_below_a_known_sequence_returns_the_regression() {
    let mut observed_role = observed_role();
    observed_role.read(&shows(Some(opaque(100))), false, NOW, NOW);
    assert_eq!(observed_role.refused_at(0, NOW), None, "a missing key");
    assert_eq!(observed_role.refused_at(100, NOW), None);
    assert_eq!(observed_role.refused_at(120, NOW), None);
    assert_eq!(observed_role.refused_at(98, NOW), Some((120, 98)));
    assert_eq!(observed_role.refused_at(98, NOW), None, "told once");
}

#[test]
fn a_watched_entry_is_news_unless_it_is_older_or_the_same() {
    let mut observed_role = observed_role();
    observed_role.read(&shows(Some(opaque(100))), false, NOW, NOW);
    assert!(!observed_role.watched(opaque(90), false, NOW));
    assert!(!observed_role.watched(opaque(100), false, NOW));
    assert_eq!(observed_role.claim_over(), 100);
    assert!(observed_role.watched(opaque(110), false, NOW));
    assert_eq!(observed_role.claim_over(), 110);
}

#[test]
fn our_write_replaces_the_observed_record_unless_a_newer_one_was_seen() {
    let mut observed_role = observed_role();
    let shown = Snapshot {
        fence: Some(fence(99, 2, 1, None)),
        ..shows(Some(opaque(100)))
    };
    observed_role.read(&shown, false, NOW, NOW);
    observed_role.wrote(101, Content::Release(Release::default()), NOW);
    assert_eq!(observed_role.free_at(), Some(NOW), "a release");
    assert_eq!(observed_role.revision(), Some(101));
    observed_role.watched(opaque(105), false, NOW);
    observed_role.wrote(103, Content::Release(Release::default()), NOW);
    assert_eq!(observed_role.revision(), Some(105));
    assert!(observed_role.free_at() > Some(NOW));
}

#[test]
fn sequences_are_of_one_bucket_while_they_rise_no_faster_than_a_bucket_can() {
    let mut observed_role = observed_role();
    assert!(!observed_role.is_known_sequence(1, NOW), "nothing was read");
    observed_role.read(&shows(Some(opaque(1000))), false, NOW, NOW);
    assert!(observed_role.is_known_sequence(1000 + BURST, NOW));
    assert!(!observed_role.is_known_sequence(1001 + BURST, NOW));
    let later = NOW + Duration::from_millis(5);
    assert!(observed_role.is_known_sequence(1000 + BURST + 500, later));
    assert!(!observed_role.is_known_sequence(1001 + BURST + 500, later));
    let much_later = NOW + Duration::from_secs(3600);
    assert!(!observed_role.is_known_sequence(1001 + BURST + 100_000, much_later));
    // Only a sequence in line with the others becomes the new reference.
    observed_role.watched(opaque(1000 + BURST), false, NOW);
    assert!(observed_role.is_known_sequence(1000 + 2 * BURST, NOW));
    observed_role.watched(opaque(50_000), false, NOW);
    assert!(!observed_role.is_known_sequence(50_000, NOW));
}

#[test]
fn a_fence_record_that_is_read_after_a_marker_lengthens_the_wait() {
    let mut observed_role = observed_role();
    let marker = Entry {
        revision: 100,
        content: Content::ForeignMarker,
    };
    observed_role.watched(marker.clone(), false, NOW);
    assert_eq!(observed_role.free_at(), Some(NOW + Duration::from_secs(1)));
    let lease = Duration::from_secs(4);
    let shown = Snapshot {
        fence: Some(fence(99, 2, 1, Some(lease))),
        ..shows(Some(marker))
    };
    let later = NOW + Duration::from_millis(10);
    observed_role.read(&shown, false, NOW, later);
    assert_eq!(observed_role.free_at(), Some(NOW + lease));
}

#[test]
fn our_fence_record_stays_above_the_others_and_another_at_its_revision_does_not() {
    let mut observed_role = observed_role();
    assert!(observed_role.fenced(fence(5, 1, 1, None)));
    assert!(observed_role.fenced(fence(5, 1, 1, None)), "read back");
    assert!(
        !observed_role.fenced(fence(5, 1, 2, None)),
        "a later term's"
    );
}

#[test]
fn the_watch_does_not_bring_back_an_older_fence_record() {
    let mut observed_role = observed_role();
    observed_role.watched_fence(fence(5, 2, 1, None), NOW);
    observed_role.watched_fence(fence(4, 3, 1, None), NOW);
    assert_eq!(observed_role.fence_over(), 5);
    observed_role.watched_fence(fence(6, 3, 1, None), NOW);
    assert_eq!(observed_role.fence_over(), 6);
}

/// The answer to a read may come after what the watch showed meanwhile. By the older fence record
/// our own would be refused, and the role be left for a lease.
#[test]
fn a_read_that_the_watch_overtook_takes_no_fence_record_back() {
    let (sent, shown) = (NOW, NOW + Duration::from_millis(10));
    let answered = NOW + Duration::from_millis(20);
    for old in [None, Some(fence(90, 2, 1, None))] {
        let snapshot = Snapshot {
            fence: old,
            ..shows(None)
        };
        let mut observed_role = observed_role();
        observed_role.watched_fence(fence(99, 3, 1, None), shown);
        observed_role.read(&snapshot, false, sent, answered);
        assert_eq!(observed_role.fence_over(), 99);
        // A read that was sent later shows that it was lost.
        let sent = answered;
        observed_role.read(&snapshot, false, sent, sent + Duration::from_millis(1));
        assert_eq!(
            observed_role.fence_over(),
            old.map_or(0, |fence| fence.revision)
        );
    }
}
