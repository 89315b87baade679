//! Claims: when they are made, and what follows when one is lost.

use super::solo::{BUCKET, OLD_FENCE, Solo, entry, failure, free, ms, settings, stranger, tuned};
use crate::event::{Event, FailureKind, Outcome};
use crate::{Input, Write, WriteOutcome};

/// An instance whose claim over a release at 100 is under way.
fn claiming() -> (Solo, Write) {
    Solo::claiming(settings(|_| {}))
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
            let start = solo.now;
            let claim = solo.wait_showing(ms(1000), None, None);
            assert!(claim.is_some());
            assert_eq!(solo.now.since(start), delay);
        }
    }
}

#[test]
fn a_read_after_a_lost_claim_waits_up_to_half_a_heartbeat_for_the_watch() {
    for chance in [0.0, 0.25, 0.999] {
        let (mut solo, claim) = claiming();
        solo.chance = chance;
        solo.refuse(&claim, 140);
        let quarter = solo.settings.heartbeat / 4;
        solo.wait(quarter - ms(1));
        assert!(!solo.reads());
        solo.wait(quarter + ms(1));
        assert!(solo.reads());
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
