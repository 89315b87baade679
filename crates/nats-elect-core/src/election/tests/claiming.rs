//! Claims: when they are made, and what follows when one is lost.

use std::time::Duration;

use super::solo::{BUCKET, OLD_FENCE, Solo, entry, failure, free, ms, settings, stranger, tuned};
use crate::event::{Event, FailureKind, Outcome};
use crate::{Effect, Input, Write, WriteOutcome};

/// An instance whose claim over a release at 100 is under way.
fn claiming() -> (Solo, Write) {
    let (solo, claim) = Solo::claiming(settings(|_| {}));
    (solo, claim)
}

/// The time until the next effect of this kind.
fn until(solo: &mut Solo, what: impl Fn(&Effect) -> bool) -> Duration {
    let start = solo.now;
    for _ in 0..100_000 {
        if solo.has(&what) {
            return solo.now.since(start);
        }
        solo.wait(ms(1));
    }
    panic!("it never came");
}

const fn is_read(effect: &Effect) -> bool {
    matches!(effect, Effect::Read { .. })
}

#[test]
fn claims_of_a_free_role_are_spread_over_the_claim_delay() {
    for (chance, delay) in [(0.0, ms(0)), (0.25, ms(25)), (0.5, ms(50))] {
        for by_watch in [false, true] {
            let mut solo = Solo::new(tuned(|it| it.claim_delay = ms(100)), BUCKET);
            solo.chance = chance;
            let free = free(101);
            if by_watch {
                solo.chance = 0.9;
                solo.read(Some(entry(100, stranger(None))), Some(OLD_FENCE));
                solo.chance = chance;
                solo.feed(Input::Observed(free));
            } else {
                solo.read(Some(free), Some(OLD_FENCE));
            }
            let waited = until(&mut solo, |effect| matches!(effect, Effect::Write(_)));
            assert_eq!(waited, delay);
        }
    }
}

#[test]
fn a_read_after_a_lost_claim_waits_up_to_half_a_heartbeat_for_the_watch() {
    for chance in [0.0, 0.25, 0.999] {
        let (mut solo, claim) = claiming();
        solo.chance = chance;
        solo.refuse(&claim, 140);
        let waited = until(&mut solo, is_read);
        let heartbeat = solo.settings.heartbeat;
        assert!(waited >= heartbeat / 4, "{waited:?}");
        assert!(waited <= heartbeat / 2, "{waited:?}");
    }
    let (mut solo, claim) = claiming();
    solo.refuse(&claim, 140);
    solo.feed(Input::Observed(entry(140, stranger(Some(ms(1000))))));
    solo.wait(ms(990));
    assert!(solo.find_read().is_none(), "which spares the read");
}

#[test]
fn the_outcome_of_a_claim_is_reported() {
    let ended = |outcome, told| {
        let (mut solo, claim) = claiming();
        solo.end(&claim, outcome);
        solo.told(|event| matches!(event, Event::ClaimEnded { outcome } if *outcome == told))
    };
    let acked = WriteOutcome::Acked { revision: 101 };
    assert!(ended(acked, Outcome::Confirmed));
    let refused = WriteOutcome::Conflict { current: None };
    assert!(ended(refused, Outcome::Conflict));
    let lost = WriteOutcome::Failed(failure(FailureKind::Timeout));
    assert!(ended(lost, Outcome::TimedOut));
    let failed = WriteOutcome::Failed(failure(FailureKind::Unavailable));
    assert!(ended(failed, Outcome::Failed));
}
