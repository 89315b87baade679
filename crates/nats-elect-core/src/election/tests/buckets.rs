//! Buckets that are recreated, unfit, or lose confirmed writes.

use super::solo::{
    BUCKET, OLD_FENCE, Solo, entry, fence_of, free, ms, own, settings, stranger, tuned,
};
use crate::event::{EndCause, Event, FailureKind};
use crate::record::{Content, Release};
use crate::{Bucket, Effect, Input, Link};

const NEXT: Bucket = Bucket {
    epoch: BUCKET.epoch + 1,
    ..BUCKET
};

fn regressed(solo: &Solo) -> bool {
    solo.fails(FailureKind::Regression)
}

#[test]
fn a_leader_whose_bucket_is_recreated_demotes_at_once() {
    let mut solo = Solo::leading(settings(|_| {}));
    solo.take();
    solo.feed(Input::Link(Link::Up(NEXT)));
    assert!(solo.ends(EndCause::BucketLost));
    assert!(solo.revokes());
    assert!(!solo.writes());
}

#[test]
fn a_read_of_another_bucket_ends_the_term_and_asks_for_a_look() {
    let (mut solo, renewal) = Solo::beating(settings(|_| {}));
    solo.refuse(&renewal, 700);
    let op = solo.find_read().expect("a read");
    solo.show_in(NEXT, op, None, None);
    assert!(solo.ends(EndCause::BucketLost));
    assert!(solo.has(|effect| matches!(effect, Effect::Reopen)));
}

/// A leader in the old bucket may not know yet that the bucket is gone.
#[test]
fn a_role_in_a_recreated_bucket_is_not_free_before_a_lease_has_passed() {
    for content in [None, Some(Content::Release(Release::default()))] {
        let mut solo = Solo::following(ms(2000));
        solo.feed(Input::Link(Link::Up(NEXT)));
        let role = content.map(|content| entry(200, content));
        let early = solo.wait_showing_in(NEXT, ms(1990), role.as_ref(), None);
        assert_eq!(early, None);
        let claim = solo.wait_showing_in(NEXT, ms(20), role.as_ref(), None);
        assert!(claim.is_some());
    }
}

/// An instance may lead in the old bucket although its fence record has expired.
#[test]
fn a_role_in_a_recreated_bucket_is_not_free_before_the_old_max_age_has_passed() {
    let max_age = Some(ms(6000));
    let mut solo = Solo::new(settings(|_| {}), Bucket { max_age, ..BUCKET });
    solo.read(Some(entry(100, Content::ForeignMarker)), None);
    solo.take();
    solo.feed(Input::Link(Link::Up(NEXT)));
    assert_eq!(solo.wait_showing_in(NEXT, ms(5900), None, None), None);
}

#[test]
fn a_claim_under_way_when_the_bucket_is_replaced_makes_no_leader() {
    let (mut solo, claim) = Solo::claiming(settings(|_| {}));
    solo.feed(Input::Link(Link::Up(NEXT)));
    assert!(!solo.reads(), "one operation at a time");
    solo.ack(&claim, 102);
    assert!(solo.started().is_none());
    let op = solo.find_read().expect("a read of the new bucket");
    solo.show_in(
        NEXT,
        op,
        Some(entry(101, own(&claim, ms(1000)))),
        Some(fence_of(102, claim.nonce)),
    );
    solo.wait(ms(900));
    assert!(solo.started().is_none() && solo.find_write().is_none());
}

/// The watch may show entries of a bucket that the instance does not know of yet.
#[test]
fn a_jump_in_sequences_is_checked_by_a_read_before_a_term() {
    let mut solo = Solo::following(ms(2000));
    solo.wait(ms(10));
    solo.feed(Input::Observed(free(90_000_000)));
    solo.wait(ms(3));
    let claim = solo.write();
    solo.ack(&claim, 90_000_001);
    let fence = solo.write();
    solo.ack(&fence, 90_000_002);
    assert!(solo.started().is_none());
    let op = solo.find_read().expect("a look at the bucket");
    solo.show_in(
        NEXT,
        op,
        Some(entry(90_000_001, own(&claim, ms(1000)))),
        Some(fence_of(90_000_002, fence.nonce)),
    );
    assert!(solo.has(|effect| matches!(effect, Effect::Reopen)));
    assert!(solo.started().is_none());
}

#[test]
fn a_bucket_with_a_max_age_below_the_ttl_is_unfit() {
    let mut solo = Solo::new(
        settings(|_| {}),
        Bucket {
            max_age: Some(ms(999)),
            ..BUCKET
        },
    );
    assert!(solo.fails(FailureKind::BucketUnfit));
    solo.wait(ms(5000));
    assert!(!solo.asks());
    solo.feed(Input::Link(Link::Up(Bucket {
        max_age: Some(ms(1000)),
        ..BUCKET
    })));
    assert!(solo.find_read().is_some(), "equality is fine");
}

/// The number of requests to look at the bucket since effects were last taken.
fn looks(solo: &mut Solo) -> usize {
    let look = |effect: &Effect| matches!(effect, Effect::Reopen);
    solo.take().iter().filter(|effect| look(effect)).count()
}

/// No other part finds the bucket unfit, so no other part looks at it again.
#[test]
fn an_instance_with_an_unfit_bucket_asks_for_looks_and_leads_when_it_is_fit() {
    let unfit = Bucket {
        max_age: Some(ms(999)),
        ..BUCKET
    };
    let mut solo = Solo::new(settings(|_| {}), unfit);
    assert_eq!(looks(&mut solo), 0);
    let pause = solo.settings.retry.max_backoff;
    for _ in 0..3 {
        solo.wait(pause - ms(1));
        assert_eq!(looks(&mut solo), 0);
        solo.wait(ms(1));
        assert_eq!(looks(&mut solo), 1);
    }
    // The bucket may still be unfit at that look.
    solo.feed(Input::Link(Link::Up(unfit)));
    solo.wait(pause);
    assert_eq!(looks(&mut solo), 1);
    solo.feed(Input::Link(Link::Up(BUCKET)));
    let free = free(100);
    let claim = solo.wait_showing(ms(10), Some(&free), Some(OLD_FENCE));
    let claim = claim.expect("a claim");
    solo.ack(&claim, 101);
    solo.fences();
    assert!(solo.started().is_some());
    solo.take();
    solo.disconnect();
    solo.wait(pause * 2);
    assert_eq!(looks(&mut solo), 0, "it has had its answer");
}

#[test]
fn an_instance_that_reads_another_bucket_asks_for_looks_until_it_is_told_of_one() {
    let mut solo = Solo::new(settings(|_| {}), BUCKET);
    let op = solo.find_read().expect("a read");
    solo.show_in(NEXT, op, None, None);
    assert_eq!(looks(&mut solo), 1);
    let pause = solo.settings.retry.max_backoff;
    for _ in 0..3 {
        solo.wait(pause);
        assert_eq!(looks(&mut solo), 1);
    }
    solo.feed(Input::Link(Link::Up(NEXT)));
    solo.wait(pause * 2);
    assert_eq!(looks(&mut solo), 0);
}

#[test]
fn a_max_age_that_is_reduced_below_the_ttl_ends_the_term() {
    let mut solo = Solo::leading(settings(|_| {}));
    solo.feed(Input::Link(Link::Up(Bucket {
        max_age: Some(ms(500)),
        ..BUCKET
    })));
    assert!(solo.ends(EndCause::BucketLost));
}

#[test]
fn a_regression_is_reported_and_waited_out() {
    let mut solo = Solo::following(ms(1000));
    solo.feed(Input::Link(Link::Up(BUCKET)));
    solo.read(Some(free(95)), Some(OLD_FENCE));
    assert!(regressed(&solo));
    solo.feed(Input::Observed(free(96)));
    solo.wait(ms(990));
    assert!(solo.find_write().is_none(), "even a release is waited for");
    solo.wait(ms(20));
    assert!(solo.find_write().is_some());
}

/// The watch showed a claim that is lost now. Its writer may lead, although the key shows a
/// release.
#[test]
fn a_release_below_an_observed_record_is_waited_out() {
    let mut solo = Solo::new(settings(|_| {}), BUCKET);
    solo.feed(Input::Observed(entry(120, stranger(Some(ms(1000))))));
    solo.wait(ms(1));
    let op = solo.find_read().expect("the first read");
    solo.fail_read(op);
    solo.wait(ms(60));
    solo.feed(Input::Link(Link::Up(BUCKET)));
    solo.read(Some(free(100)), Some(OLD_FENCE));
    solo.wait(ms(990));
    assert!(solo.find_write().is_none());
    solo.wait(ms(20));
    assert!(solo.find_write().is_some());
}

/// An unanswered claim below the observed sequence: the later end of the stream was lost.
#[test]
fn a_regressed_claim_of_ours_is_not_adopted() {
    let (mut solo, claim) = Solo::claiming(settings(|_| {}));
    solo.lose(&claim);
    solo.read(Some(entry(105, stranger(Some(ms(1000))))), Some(OLD_FENCE));
    solo.feed(Input::Link(Link::Up(BUCKET)));
    solo.read_back(&claim, &claim);
    solo.wait(ms(900));
    assert!(solo.started().is_none());
    assert!(solo.find_write().is_none());
}

#[test]
fn a_missing_key_is_no_regression() {
    let mut solo = Solo::new(settings(|_| {}), BUCKET);
    solo.read(Some(entry(100, stranger(None))), Some(OLD_FENCE));
    solo.feed(Input::Link(Link::Up(BUCKET)));
    solo.read(None, Some(OLD_FENCE));
    assert!(!regressed(&solo));
}

#[test]
fn the_watch_alone_never_reports_a_regression() {
    let mut solo = Solo::new(settings(|_| {}), BUCKET);
    solo.feed(Input::Observed(entry(120, stranger(None))));
    solo.wait(ms(1));
    solo.read(Some(entry(100, stranger(None))), Some(OLD_FENCE));
    solo.feed(Input::Observed(entry(90, stranger(None))));
    assert!(!regressed(&solo));
}

#[test]
fn a_leader_that_finds_its_own_older_record_twice_demotes() {
    let (mut solo, first) = Solo::beating(tuned(|it| it.validation_interval = ms(60_000)));
    solo.ack(&first, 103);
    solo.wait(ms(200));
    let second = solo.write();
    solo.ack(&second, 104);
    solo.wait(ms(200));
    let third = solo.write();
    solo.refuse(&third, 103);
    assert!(regressed(&solo));
    // That server may no longer lead the stream.
    solo.read(Some(entry(103, own(&first, ms(1000)))), None);
    assert!(!solo.ends(EndCause::Regressed));
    let again = solo.write();
    assert_ne!(again.nonce, third.nonce);
    solo.refuse(&again, 103);
    solo.read(Some(entry(103, own(&first, ms(1000)))), None);
    assert!(solo.ends(EndCause::Regressed));
    assert!(!solo.told(|event| *event == Event::ValidationFailed));
    assert!(solo.revokes());
}
