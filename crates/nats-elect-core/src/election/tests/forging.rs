//! Writes that any client can make: releases of other terms, and leases without a leader.

use std::time::Duration;

use uuid::Uuid;

use super::solo::{
    BUCKET, OLD_FENCE, OWN, SECRET, Solo, assert_claims, entry, hashed_fence, ms, record_of,
    settings, stranger,
};
use crate::Input;
use crate::heirs::Heirs;
use crate::record::{Content, Entry, FenceEntry, Nonce, Release};
use crate::release::ReleaseSecret;

const TTL: Duration = ms(1000);
const ANOTHER: ReleaseSecret = ReleaseSecret::new(0xbad);
const SECOND: ReleaseSecret = ReleaseSecret::new(0x2);
const HOUR: Duration = Duration::from_secs(3600);

/// An instance that follows the leader whose fence record stands at 99 and whose record stands at
/// 100.
fn following(fence: FenceEntry) -> Solo {
    let mut solo = Solo::new(settings(|_| {}), BUCKET);
    solo.read(Some(entry(100, stranger(Some(TTL)))), Some(fence));
    solo
}

/// A release at 101 with this secret.
fn release(secret: Option<ReleaseSecret>) -> Entry {
    let release = Release {
        nonce: stranger(None).nonce(),
        heir: None,
        line: Heirs::NONE,
        secret,
    };
    entry(101, Content::Release(release))
}

/// The time until the role is claimed, while each read shows this message. `None` if it is not
/// claimed within a minute.
fn claimed_after(solo: &mut Solo, role: &Entry, fence: Option<FenceEntry>) -> Option<Duration> {
    let start = solo.now;
    let claim = solo.wait_showing(ms(60_000), Some(role), fence)?;
    assert_claims(&claim, role.revision);
    Some(solo.now.since(start))
}

#[test]
fn the_leaders_release_frees_its_role_at_once_without_a_read() {
    let mut solo = following(hashed_fence(99, Some(TTL), SECRET));
    solo.wait(ms(300));
    solo.feed(Input::Observed(release(Some(SECRET))));
    solo.wait(ms(1));
    assert!(solo.find_write().is_some());
}

#[test]
fn a_forged_release_is_waited_out_like_a_delete_marker() {
    for forged in [None, Some(ANOTHER)] {
        let fence = hashed_fence(99, Some(TTL), SECRET);
        let mut solo = following(fence);
        solo.wait(ms(300));
        let forged = release(forged);
        solo.feed(Input::Observed(forged.clone()));
        assert!(
            solo.has(|effect| matches!(effect, crate::Effect::Read { .. })),
            "perhaps another fence record stands there by now"
        );
        let waited = claimed_after(&mut solo, &forged, Some(fence)).expect("a claim");
        assert!((TTL..TTL + ms(3)).contains(&waited), "{waited:?}");
    }
}

#[test]
fn a_forged_release_names_no_heir() {
    let fence = hashed_fence(99, Some(TTL), SECRET);
    let mut solo = following(fence);
    let forged = Content::Release(Release {
        nonce: None,
        heir: Some(OWN),
        line: Heirs::NONE,
        secret: Some(ANOTHER),
    });
    let forged = entry(101, forged);
    solo.feed(Input::Observed(forged.clone()));
    let waited = claimed_after(&mut solo, &forged, Some(fence));
    assert!(waited.expect("a claim") >= TTL);
}

#[test]
fn a_lease_under_a_forged_release_is_waited_for_whatever_follows() {
    let fence = hashed_fence(99, Some(ms(5000)), SECRET);
    let mut solo = Solo::new(settings(|_| {}), BUCKET);
    solo.read(Some(entry(100, stranger(Some(ms(5000))))), Some(fence));
    solo.feed(Input::Observed(release(Some(ANOTHER))));
    solo.wait(ms(100));
    // The forged release makes the leader's next heartbeat fail. But the leader may lead until its
    // lease ends.
    let short = entry(102, record_of(Uuid::from_u128(3), 1, Some(ms(100))));
    solo.feed(Input::Observed(short.clone()));
    let waited = claimed_after(&mut solo, &short, Some(fence)).expect("a claim");
    assert!(waited >= ms(4900), "{waited:?}");
}

#[test]
fn a_release_needs_a_secret_unless_an_older_version_wrote_the_fence_record() {
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

/// The watch did not show the fence record of the released term.
#[test]
fn a_release_is_believed_as_soon_as_the_fence_record_of_its_term_is_read() {
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
fn the_last_record_proves_a_release_where_no_fence_record_is_known() {
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

/// The writer of a claim that is given back never had a fence record.
#[test]
fn a_claim_that_is_given_back_frees_the_role_for_others_at_once() {
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
fn a_release_of_an_unknown_term_is_waited_out() {
    for secret in [None, Some(SECRET)] {
        let mut solo = Solo::new(settings(|_| {}), BUCKET);
        let waited = claimed_after(&mut solo, &release(secret), None);
        assert!((TTL..TTL + ms(3)).contains(&waited.expect("a claim")));
    }
}

#[test]
fn a_stray_record_with_a_long_lease_is_waited_for_only_as_long_as_a_leader_may_lead() {
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
fn a_stray_record_does_not_lengthen_the_wait_after_a_later_purge() {
    let mut solo = following(OLD_FENCE);
    let stray = record_of(Uuid::from_u128(3), 1, Some(HOUR));
    solo.feed(Input::Observed(entry(101, stray)));
    solo.wait(ms(500));
    let purged = entry(102, Content::ForeignMarker);
    solo.feed(Input::Observed(purged.clone()));
    let waited = claimed_after(&mut solo, &purged, Some(OLD_FENCE)).expect("a claim");
    assert!((TTL..TTL + ms(3)).contains(&waited), "{waited:?}");
}

/// A term of long leases was followed by one of short leases, by another instance. The watch did
/// not show that one's fence record.
#[test]
fn a_shorter_lease_is_believed_as_soon_as_its_fence_record_is_read() {
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
            // The old term was released. The writer of this record has no fence record, and no
            // other instance leads.
            assert!(waited.expect("a claim") < TTL + ms(3));
        } else {
            let waited = waited.expect("a claim");
            assert!((lease..lease + ms(3)).contains(&waited), "{waited:?}");
        }
    }
    // The same, where the end of the long term was not seen.
    for (shown, lease) in [(next(102), TTL), (before, ms(10_000))] {
        let mut solo = Solo::new(settings(|_| {}), BUCKET);
        let short = entry(103, record_of(Uuid::from_u128(98), 2, Some(TTL)));
        solo.read(Some(short.clone()), Some(before));
        let waited = claimed_after(&mut solo, &short, Some(shown)).expect("a claim");
        assert!((lease..lease + ms(3)).contains(&waited), "{waited:?}");
    }
}
