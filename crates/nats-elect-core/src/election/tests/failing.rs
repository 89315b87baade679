//! Failed requests and lost links.

use super::solo::{BUCKET, OLD_FENCE, Solo, entry, failure, free, ms, settings, stranger};
use crate::event::{EndCause, Event, FailureKind};
use crate::record::Content;
use crate::status::{ConnectionStatus, RoleState};
use crate::{Effect, Failure, Input, Link, Write, WriteOutcome};

/// A candidate of a free role.
fn candidate() -> Solo {
    Solo::facing_free(settings(|_| {}))
}

/// Its next claim, while the role can be read.
fn next_claim(solo: &mut Solo) -> Write {
    let claim = solo.wait_showing(ms(60_000), Some(&free(100)), Some(OLD_FENCE));
    claim.expect("a claim")
}

#[test]
fn a_missing_permission_is_reported_and_tried_again_slowly() {
    let mut solo = candidate();
    let claim = next_claim(&mut solo);
    let start = solo.now;
    let denied = failure(FailureKind::PermissionDenied);
    solo.end(&claim, WriteOutcome::Failed(denied));
    next_claim(&mut solo);
    let pause = solo.now.since(start);
    assert!(pause >= ms(3600), "{pause:?}");
}

/// A full disk, a full account, or a server that answers no write.
#[test]
fn claims_that_fail_are_a_second_apart_and_then_ever_further_though_reads_succeed() {
    let kinds = [
        FailureKind::BucketFull,
        FailureKind::Unavailable,
        FailureKind::Timeout,
    ];
    for kind in kinds {
        let mut solo = candidate();
        let mut claim = next_claim(&mut solo);
        let (start, mut sent) = (solo.now, Vec::new());
        while sent.len() < 14 {
            solo.end(&claim, WriteOutcome::Failed(failure(kind)));
            claim = next_claim(&mut solo);
            sent.push(solo.now.since(start));
        }
        assert!(sent[0] >= ms(999), "{kind:?} {sent:?}");
        let pauses = sent.windows(2).map(|pair| pair[1].checked_sub(pair[0]));
        let longest = solo.settings.retry.max_backoff;
        for pause in pauses.map(|it| it.expect("in order")) {
            assert!(ms(999) <= pause && pause <= longest, "{kind:?} {sent:?}");
        }
        assert!(sent[13] >= ms(25_000), "{kind:?} {sent:?}");
        let opened = |effect: &&Effect| **effect == Effect::Event(Event::CircuitOpened);
        assert_eq!(solo.effects.iter().filter(opened).count(), 1, "{kind:?}");
        assert!(!solo.told(|event| *event == Event::CircuitClosed));
        solo.ack(&claim, 101);
        assert!(solo.told(|event| *event == Event::CircuitClosed));
    }
}

/// A stream's leader that lost its quorum says of every write that another one is under way.
#[test]
fn claims_that_always_meet_another_write_fail_from_the_fourth_on() {
    let mut solo = candidate();
    let mut sent = Vec::new();
    for _ in 0..16 {
        let claim = next_claim(&mut solo);
        sent.push(solo.now);
        let contended = failure(FailureKind::Contended);
        solo.end(&claim, WriteOutcome::Failed(contended));
    }
    let pauses: Vec<_> = sent.windows(2).map(|it| it[1].since(it[0])).collect();
    assert!(pauses[..3].iter().all(|it| *it < ms(500)), "{pauses:?}");
    assert!(pauses[3..].iter().all(|it| *it >= ms(999)), "{pauses:?}");
    assert!(solo.told(|event| *event == Event::CircuitOpened));
    solo.take();
    solo.feed(Input::Observed(entry(101, stranger(Some(ms(1000))))));
    assert!(solo.told(|event| *event == Event::CircuitClosed));
}

/// An operator mends the permission while another instance leads.
#[test]
fn a_new_link_ends_the_wait_of_a_follower_whose_claim_was_denied() {
    let mut solo = candidate();
    let claim = next_claim(&mut solo);
    let denied = failure(FailureKind::PermissionDenied);
    solo.end(&claim, WriteOutcome::Failed(denied));
    solo.feed(Input::Observed(entry(101, stranger(Some(ms(60_000))))));
    assert!(!solo.told(|event| *event == Event::CircuitClosed));
    solo.feed(Input::Link(Link::Up(BUCKET)));
    let closed = |solo: &Solo| solo.told(|event| *event == Event::CircuitClosed);
    assert!(!closed(&solo), "the link is the same");
    solo.disconnect();
    solo.feed(Input::Link(Link::Up(BUCKET)));
    assert!(closed(&solo));
}

#[test]
fn a_record_of_another_instance_shows_that_writes_succeed_again() {
    let mut solo = candidate();
    for _ in 0..12 {
        let claim = next_claim(&mut solo);
        let full = failure(FailureKind::BucketFull);
        solo.end(&claim, WriteOutcome::Failed(full));
    }
    solo.take();
    solo.feed(Input::Observed(entry(101, stranger(Some(ms(1000))))));
    assert!(solo.told(|event| *event == Event::CircuitClosed));
}

#[test]
fn a_missing_permission_to_write_is_over_only_when_a_write_is_answered() {
    let mut solo = Solo::new(settings(|_| {}), BUCKET);
    solo.read(Some(free(100)), Some(OLD_FENCE));
    for attempt in 0..3 {
        let claim = next_claim(&mut solo);
        let denied = failure(FailureKind::PermissionDenied);
        solo.end(&claim, WriteOutcome::Failed(denied));
        let opened = solo.told(|event| *event == Event::CircuitOpened);
        assert_eq!(opened, attempt == 0);
        let read = loop {
            if let Some(read) = solo.find_read() {
                break read;
            }
            solo.wait(ms(10));
        };
        solo.show(read, Some(free(100)), Some(OLD_FENCE));
        let closed = solo.told(|event| *event == Event::CircuitClosed);
        assert!(!closed, "only the keys may be read");
    }
    let claim = next_claim(&mut solo);
    solo.ack(&claim, 101);
    assert!(solo.told(|event| *event == Event::CircuitClosed));
}

#[test]
fn a_denial_that_comes_late_is_reported() {
    let (mut solo, renewal) = Solo::beating(settings(|_| {}));
    solo.time_out(&renewal);
    solo.take();
    let denied = failure(FailureKind::PermissionDenied);
    solo.end(&renewal, WriteOutcome::Failed(denied));
    let told = solo.take();
    let reported = [Effect::Event(Event::Failure {
        request: None,
        kind: FailureKind::PermissionDenied,
        detail: "test".to_owned(),
    })];
    assert_eq!(told, reported);
}

#[test]
fn the_breaker_opens_after_ten_failures_and_closes_after_a_success() {
    let mut solo = Solo::new(settings(|_| {}), BUCKET);
    let opened = |solo: &Solo| solo.told(|event| *event == Event::CircuitOpened);
    let mut times = Vec::new();
    for attempt in 1..=12 {
        while !solo.reads() {
            solo.wait(ms(1));
        }
        times.push(solo.now);
        solo.lose_read();
        assert_eq!(opened(&solo), attempt == 10, "{attempt}");
    }
    let last = times[11].since(times[10]);
    assert!(last >= ms(3600) && last <= ms(4000), "{last:?}");
    solo.wait(ms(4000));
    solo.read(Some(entry(100, Content::Opaque)), None);
    assert!(solo.told(|event| *event == Event::CircuitClosed));
}

#[test]
fn a_permanently_failing_heartbeat_ends_the_term_in_good_order() {
    let (mut solo, renewal) = Solo::beating(settings(|_| {}));
    solo.end(
        &renewal,
        WriteOutcome::Failed(failure(FailureKind::PermissionDenied)),
    );
    assert!(solo.ends(EndCause::BucketLost));
    assert!(!solo.revokes(), "there is a lease to finish under");
}

/// Limits of the account, codes that are not known, a server that can't take it: all may pass.
#[test]
fn a_heartbeat_that_is_refused_for_any_other_reason_ends_a_term_only_with_its_lease() {
    let kinds = [
        FailureKind::Rejected,
        FailureKind::BucketFull,
        FailureKind::Unavailable,
        FailureKind::Timeout,
        FailureKind::Regression,
    ];
    for kind in kinds {
        let mut solo = Solo::leading(settings(|_| {}));
        let start = solo.now;
        let mut end = None;
        while end.is_none() {
            solo.wait(ms(1));
            for effect in solo.take() {
                match effect {
                    Effect::Event(Event::TermEnding { cause, .. }) => end = Some(cause),
                    Effect::Write(write) => solo.end(&write, WriteOutcome::Failed(failure(kind))),
                    Effect::Read { op, .. } => {
                        let outcome = Err(failure(kind));
                        solo.feed(Input::ReadEnded { op, outcome });
                    }
                    _ => {}
                }
            }
        }
        let lasted = solo.now.since(start);
        assert_eq!(end, Some(EndCause::LeaseExpired), "{kind:?}");
        let left = solo.settings.ttl - solo.settings.stop_budget * 2;
        assert!(lasted >= left, "{kind:?} after {lasted:?}");
    }
}

#[test]
fn a_look_at_the_bucket_that_is_refused_ends_no_term() {
    let mut solo = Solo::leading(settings(|_| {}));
    let refused = failure(FailureKind::Rejected);
    solo.feed(Input::Link(Link::Unusable(refused)));
    assert!(!solo.ends(EndCause::BucketLost));
    solo.feed(Input::Link(Link::Up(BUCKET)));
    assert!(solo.find_write().is_some(), "it proves itself");
}

#[test]
fn a_follower_reports_when_its_connection_is_lost() {
    let mut solo = Solo::new(
        settings(|config| config.disconnect_grace_period = Some(ms(600))),
        BUCKET,
    );
    solo.read(Some(entry(100, stranger(Some(ms(60_000))))), None);
    solo.disconnect();
    let told = |solo: &Solo, status| {
        solo.told(|event| matches!(event, Event::ConnectionChanged(now) if *now == status))
    };
    assert!(told(&solo, ConnectionStatus::Suspended));
    solo.wait(ms(599));
    assert!(!told(&solo, ConnectionStatus::Lost));
    solo.wait(ms(1));
    assert!(told(&solo, ConnectionStatus::Lost));
}

#[test]
fn an_unusable_link_reports_its_reason() {
    let mut solo = Solo::new(settings(|_| {}), BUCKET);
    let reason = Failure {
        kind: FailureKind::BucketMissing,
        detail: "gone".to_owned(),
    };
    solo.feed(Input::Link(Link::Unusable(reason)));
    assert!(solo.fails(FailureKind::BucketMissing));
    assert_eq!(solo.state(), RoleState::Candidate);
    assert!(matches!(
        solo.election.status().connection,
        ConnectionStatus::Suspended
    ));
}
