//! What anybody can write: releases of others' terms, and leases that nobody has.

use std::time::Duration;

use uuid::Uuid;

use super::solo::{
    BUCKET, OLD_FENCE, OWN, SECRET, Solo, entry, hashed_fence, ms, record_of, settings, stranger,
};
use crate::election::{Input, WriteKind};
use crate::record::{Content, Entry, FenceEntry, Nonce, Release};
use crate::release::ReleaseSecret;

const TTL: Duration = ms(1000);
const ANOTHER: ReleaseSecret = ReleaseSecret::new(0xbad);
const SECOND: ReleaseSecret = ReleaseSecret::new(0x2);
const HOUR: Duration = Duration::from_secs(3600);

/// Follows the leader whose fence record stands at 99 and whose record stands at 100.
fn following(fence: FenceEntry) -> Solo {
    let mut solo = Solo::new(settings(|_| {}), BUCKET);
    solo.read(Some(entry(100, stranger(Some(TTL)))), Some(fence));
    solo
}

/// A release at 101, by this secret.
fn release(secret: Option<ReleaseSecret>) -> Entry {
    let release = Release {
        nonce: stranger(None).nonce(),
        heir: None,
        secret,
    };
    entry(101, Content::Release(release))
}

/// How long nothing is claimed although each read shows this; not at all within a minute if there is nothing.
fn claimed_after(solo: &mut Solo, role: &Entry, fence: Option<FenceEntry>) -> Option<Duration> {
    let start = solo.now;
    let claim = solo.wait_showing(ms(60_000), Some(role), fence)?;
    assert!(
        matches!(claim.kind, WriteKind::Claim { over, .. } if over == role.revision),
        "{claim:?}"
    );
    Some(solo.now.since(start))
}

#[test]
fn the_leaders_release_frees_its_role_at_once_and_without_a_read() {
    let mut solo = following(hashed_fence(99, Some(TTL), SECRET));
    solo.wait(ms(300));
    solo.feed(Input::Observed(release(Some(SECRET))));
    solo.wait(ms(1));
    assert!(solo.find_write().is_some());
}

#[test]
fn a_forged_release_is_waited_out_like_any_marker() {
    for forged in [None, Some(ANOTHER)] {
        let fence = hashed_fence(99, Some(TTL), SECRET);
        let mut solo = following(fence);
        solo.wait(ms(300));
        let forged = release(forged);
        solo.feed(Input::Observed(forged.clone()));
        assert!(
            solo.has(|effect| matches!(effect, crate::election::Effect::Read { .. })),
            "perhaps another fence record stands there by now"
        );
        let waited = claimed_after(&mut solo, &forged, Some(fence)).expect("a claim");
        assert!((TTL..TTL + ms(3)).contains(&waited), "{waited:?}");
    }
}

#[test]
fn a_forged_release_names_no_heir_either() {
    let fence = hashed_fence(99, Some(TTL), SECRET);
    let mut solo = following(fence);
    let forged = Content::Release(Release {
        nonce: None,
        heir: Some(OWN),
        secret: Some(ANOTHER),
    });
    let forged = entry(101, forged);
    solo.feed(Input::Observed(forged.clone()));
    let waited = claimed_after(&mut solo, &forged, Some(fence));
    assert!(waited.expect("a claim") >= TTL);
}

#[test]
fn what_a_forged_release_was_written_over_lasts_whatever_follows() {
    let fence = hashed_fence(99, Some(ms(5000)), SECRET);
    let mut solo = Solo::new(settings(|_| {}), BUCKET);
    solo.read(Some(entry(100, stranger(Some(ms(5000))))), Some(fence));
    solo.feed(Input::Observed(release(Some(ANOTHER))));
    solo.wait(ms(100));
    // The leader's own heartbeat, refused by the forged one, comes no more; but it may lead until its lease ends.
    let short = entry(102, record_of(Uuid::from_u128(3), 1, Some(ms(100))));
    solo.feed(Input::Observed(short.clone()));
    let waited = claimed_after(&mut solo, &short, Some(fence)).expect("a claim");
    assert!(waited >= ms(4900), "{waited:?}");
}

#[test]
fn an_old_leaders_release_needs_no_secret_and_a_new_ones_does() {
    let mut solo = following(OLD_FENCE);
    solo.feed(Input::Observed(release(None)));
    solo.wait(ms(1));
    assert!(solo.find_write().is_some());

    let fence = hashed_fence(99, Some(TTL), SECRET);
    let mut solo = following(fence);
    let old_form = release(None);
    solo.feed(Input::Observed(old_form.clone()));
    let waited = claimed_after(&mut solo, &old_form, Some(fence));
    assert!(waited.expect("a claim") >= TTL);
}

/// The watch did not show the fence record of the term that was released.
#[test]
fn a_release_that_an_older_fence_record_does_not_prove_is_believed_as_soon_as_its_own_was_read() {
    let mut solo = following(hashed_fence(99, Some(ms(9000)), ANOTHER));
    solo.wait(ms(1));
    let freed = release(Some(SECRET));
    solo.feed(Input::Observed(freed.clone()));
    let fence = hashed_fence(98, Some(TTL), SECRET);
    let fence = FenceEntry {
        revision: 100,
        ..fence
    };
    let waited = claimed_after(&mut solo, &freed, Some(fence)).expect("a claim");
    assert!(waited < ms(3), "{waited:?}");
}

#[test]
fn where_no_fence_record_is_known_the_last_record_seen_tells_whose_release_it_is() {
    for (told, genuine) in [(Some(SECRET), true), (Some(ANOTHER), false), (None, false)] {
        let mut solo = Solo::new(settings(|_| {}), BUCKET);
        let mut record = stranger(Some(TTL));
        if let Content::Record(record) = &mut record {
            record.release = Some(SECRET.hash());
        }
        solo.read(Some(entry(100, record)), None);
        solo.wait(ms(1));
        let freed = release(told);
        solo.feed(Input::Observed(freed.clone()));
        let waited = claimed_after(&mut solo, &freed, None).expect("a claim");
        assert_eq!(waited < ms(3), genuine, "{told:?}: {waited:?}");
        assert!(genuine || waited >= TTL);
    }
}

/// Who gives a claim back never had a fence record.
#[test]
fn a_claim_that_is_given_back_frees_the_role_at_once_for_others() {
    for (told, genuine) in [(SECOND, true), (ANOTHER, false)] {
        let fence = hashed_fence(99, Some(TTL), SECRET);
        let mut solo = following(fence);
        // The last term ends.
        solo.wait(ms(1));
        solo.chance = 0.99;
        solo.feed(Input::Observed(release(Some(SECRET))));
        let mut claim = record_of(Uuid::from_u128(3), 0, Some(TTL));
        if let Content::Record(record) = &mut claim {
            record.release = Some(SECOND.hash());
        }
        solo.feed(Input::Observed(entry(102, claim)));
        solo.wait(ms(100));
        let freed = entry(103, release(Some(told)).content);
        solo.feed(Input::Observed(freed.clone()));
        let waited = claimed_after(&mut solo, &freed, Some(fence)).expect("a claim");
        assert_eq!(waited < ms(3), genuine, "{waited:?}");
        assert!(genuine || waited >= ms(800), "{waited:?}");
    }
}

#[test]
fn a_release_of_nobody_knows_whom_is_waited_out() {
    for secret in [None, Some(SECRET)] {
        let mut solo = Solo::new(settings(|_| {}), BUCKET);
        let waited = claimed_after(&mut solo, &release(secret), None);
        assert!((TTL..TTL + ms(3)).contains(&waited.expect("a claim")));
    }
}

#[test]
fn a_stray_record_of_an_hour_is_waited_for_no_longer_than_somebody_may_lead() {
    let stray = entry(100, record_of(Uuid::from_u128(3), 1, Some(HOUR)));
    let four_ttls = TTL * 4;
    for (fence, lease) in [
        (None, four_ttls),
        (Some(OLD_FENCE), TTL),
        (Some(hashed_fence(99, Some(ms(3000)), SECRET)), ms(3000)),
    ] {
        let mut solo = Solo::new(settings(|_| {}), BUCKET);
        let waited = claimed_after(&mut solo, &stray, fence).expect("a claim");
        assert!((lease..lease + ms(3)).contains(&waited), "{waited:?}");
    }
}

#[test]
fn a_stray_record_makes_the_wait_for_a_later_purge_no_longer() {
    let mut solo = following(OLD_FENCE);
    let stray = record_of(Uuid::from_u128(3), 1, Some(HOUR));
    solo.feed(Input::Observed(entry(101, stray)));
    solo.wait(ms(500));
    let purged = entry(102, Content::ForeignMarker);
    solo.feed(Input::Observed(purged.clone()));
    let waited = claimed_after(&mut solo, &purged, Some(OLD_FENCE)).expect("a claim");
    assert!((TTL..TTL + ms(3)).contains(&waited), "{waited:?}");
}

/// A term of long leases was followed by one of short leases, by another instance whose fence record the watch did not show.
#[test]
fn a_shorter_lease_is_believed_as_soon_as_its_fence_record_was_read() {
    let next = |revision| FenceEntry {
        revision,
        record: hashed_fence(0, Some(TTL), SECRET)
            .record
            .map(|record| crate::record::SeenFence {
                nonce: Nonce {
                    incarnation: Uuid::from_u128(98),
                    beat: 1,
                },
                ..record
            }),
    };
    let before = hashed_fence(99, Some(ms(10_000)), SECRET);
    for (shown, lease) in [(next(102), TTL), (before, ms(10_000))] {
        let mut solo = Solo::new(settings(|_| {}), BUCKET);
        solo.read(Some(release(Some(SECRET))), Some(before));
        let short = entry(103, record_of(Uuid::from_u128(98), 2, Some(TTL)));
        solo.feed(Input::Observed(short.clone()));
        let waited = claimed_after(&mut solo, &short, Some(shown));
        if shown == before {
            // It was released before: who wrote that record has no fence record, and nobody else leads.
            assert!(waited.expect("a claim") < TTL + ms(3));
        } else {
            let waited = waited.expect("a claim");
            assert!((lease..lease + ms(3)).contains(&waited), "{waited:?}");
        }
    }
    // The same where the long term was not seen to end.
    for (shown, lease) in [(next(102), TTL), (before, ms(10_000))] {
        let mut solo = Solo::new(settings(|_| {}), BUCKET);
        let short = entry(103, record_of(Uuid::from_u128(98), 2, Some(TTL)));
        solo.read(Some(short.clone()), Some(before));
        let waited = claimed_after(&mut solo, &short, Some(shown)).expect("a claim");
        assert!((lease..lease + ms(3)).contains(&waited), "{waited:?}");
    }
}
