//! Late and missing answers, and false refusals.

use std::time::Duration;

use super::solo::{
    OLD_FENCE, OWN, Solo, assert_renews, entry, failure, fence_of, free, ms, own, settings,
    stranger, tuned,
};
use crate::event::{EndCause, Event, FailureKind};
use crate::moment::Moment;
use crate::record::{Content, Nonce};
use crate::{Effect, Input, Write, WriteKind, WriteOutcome};

const TTL: Duration = ms(1000);

/// An instance whose claim over a release at 100 was not answered in time.
fn silent_claim() -> (Solo, Write) {
    let (mut solo, claim) = Solo::claiming(settings(|_| {}));
    solo.leave_unanswered(&claim);
    (solo, claim)
}

fn renews_over(write: &Write, revision: u64) -> bool {
    matches!(write.kind, WriteKind::Renew { over, .. } if over == revision)
}

/// A leader whose heartbeat over 101 was not answered in time, and when that was sent.
fn silent_heartbeat() -> (Solo, Write, Moment) {
    let (mut solo, renewal) = Solo::beating(settings(|_| {}));
    let sent = solo.sent;
    solo.leave_unanswered(&renewal);
    solo.take();
    (solo, renewal, sent)
}

#[test]
fn a_heartbeat_that_is_confirmed_late_counts_from_its_sending() {
    for looking in [false, true] {
        let (mut solo, renewal, sent) = silent_heartbeat();
        solo.wait(if looking { ms(60) } else { ms(1) });
        let read = solo.find_read();
        assert_eq!(read.is_some(), looking);
        solo.ack(&renewal, 103);
        assert!(solo.extended(sent));
        if let Some(read) = read {
            solo.show(read, Some(entry(103, own(&renewal, TTL))), Some(OLD_FENCE));
        }
        solo.wait(ms(200));
        let next = solo.write();
        assert_renews(&next, 103);
        assert!(solo.ending().is_none());
    }
}

#[test]
fn a_late_answer_counts_only_if_it_confirms_and_only_once() {
    let (mut solo, renewal, sent) = silent_heartbeat();
    let refused = WriteOutcome::Conflict { current: Some(104) };
    solo.end(&renewal, refused);
    solo.end(
        &renewal,
        WriteOutcome::Failed(failure(FailureKind::Rejected)),
    );
    assert_eq!(solo.take(), []);
    solo.ack(&renewal, 103);
    assert!(solo.extended(sent));
    solo.take();
    solo.ack(&renewal, 103);
    assert_eq!(solo.take(), []);
}

/// The sequence that the second heartbeat expects is gone.
#[test]
fn a_second_heartbeat_is_not_awaited_once_the_first_is_confirmed_late() {
    for by_watch in [false, true] {
        let (mut solo, first, sent) = silent_heartbeat();
        solo.wait(ms(60));
        let read = solo.find_read().expect("a read");
        solo.fail_read(read);
        solo.wait(ms(120));
        let second = solo.write();
        assert_renews(&second, 101);
        if by_watch {
            solo.feed(Input::Observed(entry(103, own(&first, TTL))));
        } else {
            solo.ack(&first, 103);
        }
        assert!(solo.extended(sent));
        let third = solo.write();
        assert_renews(&third, 103);
        let third_sent = solo.sent;
        solo.take();
        solo.time_out(&second);
        solo.end(&second, WriteOutcome::Conflict { current: Some(103) });
        assert_eq!(solo.take(), [], "it tells nothing");
        solo.ack(&third, 104);
        assert!(solo.extended(third_sent));
    }
}

/// A flood of other clients' writes costs a lease only if it leaves no gap.
#[test]
fn a_contended_heartbeat_is_sent_again_soon_however_often() {
    let mut solo = Solo::leading(settings(|_| {}));
    solo.wait(ms(199));
    let soon = solo.settings.retry.initial_backoff;
    for _ in 0..8 {
        let renewal = solo.write();
        assert_renews(&renewal, 101);
        let contended = failure(FailureKind::Contended);
        solo.end(&renewal, WriteOutcome::Failed(contended));
        assert!(!solo.told(|event| matches!(event, Event::CircuitOpened)));
        solo.take();
        solo.wait(soon / 2 + ms(1));
    }
    let renewal = solo.write();
    solo.ack(&renewal, 103);
    assert!(solo.extended(solo.sent));
}

#[test]
fn a_claim_that_is_confirmed_late_is_won_and_counts_from_its_sending() {
    for looking in [false, true] {
        let (mut solo, claim) = silent_claim();
        let sent = solo.sent;
        solo.wait(if looking { ms(60) } else { ms(1) });
        let read = solo.find_read();
        assert_eq!(read.is_some(), looking);
        solo.ack(&claim, 101);
        if let Some(read) = read {
            solo.show(read, Some(entry(101, own(&claim, TTL))), Some(OLD_FENCE));
        }
        let fence = solo.write();
        assert!(matches!(fence.kind, WriteKind::Fence { over: 99, .. }));
        solo.ack(&fence, 102);
        let until = sent + TTL - solo.settings.drift_margin();
        assert!(solo.has(|effect| matches!(
            effect,
            Effect::StartTerm(start) if start.lease == until && start.proved == sent
        )));
    }
}

#[test]
fn a_fence_record_that_is_confirmed_late_makes_a_leader() {
    for looking in [false, true] {
        let (mut solo, claim, fence) = Solo::fencing(settings(|_| {}));
        solo.leave_unanswered(&fence);
        assert!(solo.started().is_none());
        solo.wait(if looking { ms(60) } else { ms(1) });
        let read = solo.find_read();
        assert_eq!(read.is_some(), looking);
        solo.ack(&fence, 102);
        assert_eq!(solo.promoted_at(), Some(102));
        if let Some(read) = read {
            let role = entry(101, own(&claim, TTL));
            solo.show(read, Some(role), Some(fence_of(102, fence.nonce)));
        }
        assert!(solo.ending().is_none());
    }
}

#[test]
fn a_late_read_counts_unless_a_write_was_sent_since() {
    for written in [false, true] {
        let (mut solo, renewal, sent) = silent_heartbeat();
        solo.wait(ms(60));
        let read = solo.find_read().expect("a read");
        solo.wait(ms(160));
        solo.fail_read(read);
        solo.take();
        if written {
            solo.wait(ms(200));
            solo.write();
        }
        solo.show(read, Some(entry(103, own(&renewal, TTL))), None);
        assert_eq!(solo.extended(sent), !written);
    }
}

#[test]
fn the_watch_confirms_a_heartbeat_that_was_not_answered_in_time() {
    let (mut solo, renewal, sent) = silent_heartbeat();
    solo.feed(Input::Observed(entry(103, own(&renewal, TTL))));
    assert!(solo.extended(sent));
    solo.wait(ms(200));
    assert_renews(&solo.write(), 103);
}

#[test]
fn the_watch_confirms_a_heartbeat_only_after_its_timeout() {
    let (mut solo, renewal) = Solo::beating(settings(|_| {}));
    let sent = solo.sent;
    solo.take();
    solo.feed(Input::Observed(entry(103, own(&renewal, TTL))));
    assert!(!solo.extends());
    solo.leave_unanswered(&renewal);
    assert!(solo.extended(sent));
}

#[test]
fn the_watch_confirms_a_claim_that_was_not_answered_in_time() {
    let (mut solo, claim) = silent_claim();
    solo.feed(Input::Observed(entry(101, own(&claim, TTL))));
    // The pause after a failure.
    solo.wait(ms(60));
    solo.fences();
    assert_eq!(solo.promoted_at(), Some(102));
}

#[test]
fn a_copy_of_a_confirmed_heartbeat_confirms_nothing() {
    let (mut solo, renewal) = Solo::beating(settings(|_| {}));
    solo.ack(&renewal, 103);
    let until = solo.election.status().lease_until;
    solo.feed(Input::Observed(entry(104, own(&renewal, TTL))));
    assert_eq!(solo.election.status().lease_until, until);
    solo.take();
    solo.wait(ms(200));
    assert!(renews_over(&solo.write(), 103), "it proves itself");
}

/// The read takes several round trips. It may show the keys as they were before the write was
/// stored.
#[test]
fn a_read_under_way_when_a_write_is_confirmed_late_reports_no_regression() {
    for by_watch in [false, true] {
        let (mut solo, renewal, sent) = silent_heartbeat();
        solo.wait(ms(60));
        let read = solo.find_read().expect("a read");
        if by_watch {
            solo.feed(Input::Observed(entry(103, own(&renewal, TTL))));
        } else {
            solo.ack(&renewal, 103);
        }
        assert!(solo.extended(sent));
        let before = super::solo::record_of(OWN, 0, Some(TTL));
        solo.show(read, Some(entry(101, before)), Some(OLD_FENCE));
        assert!(!solo.told(|event| matches!(event, Event::Failure { .. })));
        solo.take();
        solo.wait(ms(200));
        assert_renews(&solo.write(), 103);
    }
    let (mut solo, claim) = silent_claim();
    solo.wait(ms(60));
    let read = solo.find_read().expect("a read");
    solo.ack(&claim, 101);
    let free = free(100);
    solo.show(read, Some(free), Some(OLD_FENCE));
    assert!(!solo.told(|event| matches!(event, Event::Failure { .. })));
    solo.fences();
    assert_eq!(solo.promoted_at(), Some(102));
}

/// A server that no longer leads the stream refuses a message that its successor stores.
#[test]
fn a_refused_heartbeat_that_is_stored_all_the_same_does_not_end_the_term() {
    let (mut solo, refused) = Solo::beating(settings(|_| {}));
    let sent = solo.sent;
    solo.refuse(&refused, 99);
    let claim = Nonce {
        incarnation: OWN,
        beat: 0,
    };
    let stands = super::solo::record_of(OWN, claim.beat, Some(TTL));
    solo.read(Some(entry(101, stands)), Some(OLD_FENCE));
    let again = solo.write();
    assert_renews(&again, 101);
    solo.take();
    solo.refuse(&again, 103);
    solo.read(Some(entry(103, own(&refused, TTL))), Some(OLD_FENCE));
    assert!(solo.extended(sent));
    assert!(solo.ending().is_none());
    solo.wait(ms(200));
    assert_renews(&solo.write(), 103);
}

#[test]
fn a_heartbeat_refused_below_the_confirmed_sequence_is_tried_once_more() {
    let (mut solo, first) = Solo::beating(settings(|_| {}));
    solo.refuse(&first, 90);
    solo.read(Some(entry(90, stranger(None))), Some(OLD_FENCE));
    assert!(solo.ending().is_none());
    let second = solo.write();
    solo.ack(&second, 103);
    assert!(solo.ending().is_none(), "it was a server that lags");
}

#[test]
fn only_another_record_is_reported_as_a_failed_validation() {
    for (content, failed, cause) in [
        (Some(stranger(None)), true, EndCause::Superseded),
        (Some(Content::ForeignMarker), false, EndCause::Deleted),
        (None, false, EndCause::Deleted),
    ] {
        let (mut solo, renewal) = Solo::beating(settings(|_| {}));
        solo.end(&renewal, WriteOutcome::Conflict { current: None });
        solo.read(content.map(|content| entry(110, content)), Some(OLD_FENCE));
        assert!(
            solo.told(|event| matches!(event, Event::TermEnding { cause: is, .. } if *is == cause))
        );
        assert_eq!(solo.told(|event| *event == Event::ValidationFailed), failed);
    }
}

#[test]
fn a_refused_claim_that_is_stored_all_the_same_is_won() {
    let (mut solo, claim) = Solo::claiming(settings(|_| {}));
    solo.end(&claim, WriteOutcome::Conflict { current: None });
    solo.wait(ms(100));
    solo.read(Some(entry(101, own(&claim, TTL))), Some(OLD_FENCE));
    solo.fences();
    assert_eq!(solo.promoted_at(), Some(102));
}

#[test]
fn a_refused_fence_record_that_is_stored_all_the_same_makes_a_leader() {
    let (mut solo, claim, fence) = Solo::fencing(settings(|_| {}));
    solo.end(&fence, WriteOutcome::Conflict { current: None });
    solo.read_back(&claim, &fence);
    assert_eq!(solo.promoted_at(), Some(102));
}

#[test]
fn an_overdue_read_of_the_fence_record_does_not_delay_the_next_heartbeat() {
    let (mut solo, renewal) = Solo::beating(tuned(|it| it.validation_interval = ms(200)));
    let sent = solo.sent;
    solo.leave_unanswered(&renewal);
    solo.wait((sent + ms(190)).since(solo.now));
    solo.take();
    solo.ack(&renewal, 103);
    assert!(!solo.reads());
    solo.wait(ms(10));
    assert_renews(&solo.write(), 103);
}

#[test]
fn the_timeout_grows_with_late_answers_within_the_lease() {
    let (mut solo, renewal, sent) = silent_heartbeat();
    assert_eq!(renewal.within, ms(80));
    solo.wait((sent + ms(120)).since(solo.now));
    solo.ack(&renewal, 103);
    solo.wait(ms(80));
    let next = solo.write();
    assert_eq!(next.within, ms(180), "half as much again as it took");
    solo.wait(ms(180));
    solo.time_out(&next);
    solo.wait(ms(60));
    let within = solo.effects.iter().find_map(|effect| match effect {
        Effect::Read { within, .. } => Some(*within),
        _ => None,
    });
    assert_eq!(within, Some(ms(360)), "of two round trips");
    solo.take();
    solo.wait(ms(100));
    solo.ack(&next, 104);
    solo.wait(ms(200));
    let third = solo.write();
    assert!(third.within <= TTL * 3 / 8, "{:?}", third.within);
    assert!(third.within > ms(180), "{:?}", third.within);
}

/// A leader with a lease of a quarter of an hour. Requests fail fast and are tried again soon.
fn long_lease() -> Solo {
    Solo::leading(settings(|config| {
        config.ttl = Duration::from_secs(900);
        config.max_backoff = ms(500);
    }))
}

/// Leaves all requests unanswered for this time. Returns the heartbeats that were sent.
fn outage(solo: &mut Solo, lasts: Duration) -> Vec<Write> {
    let end = solo.now + lasts;
    let mut lost = Vec::new();
    while solo.now < end {
        for effect in solo.take() {
            match effect {
                Effect::Write(write) => {
                    solo.sleep(ms(80));
                    solo.time_out(&write);
                    lost.push(write);
                }
                Effect::Read { op, .. } => {
                    solo.sleep(ms(80));
                    solo.fail_read(op);
                }
                Effect::Event(Event::TermEnding { cause, .. }) => panic!("{cause:?}"),
                _ => {}
            }
        }
        let due = solo.election.next_wakeup().expect("something is due");
        solo.wait(due.since(solo.now));
    }
    lost
}

/// The next request that is sent.
fn next_request(solo: &mut Solo) -> Effect {
    loop {
        let asks = |effect: &Effect| matches!(effect, Effect::Write(_) | Effect::Read { .. });
        if let Some(index) = solo.effects.iter().position(asks) {
            return solo.effects.remove(index);
        }
        let due = solo.election.next_wakeup().expect("something is due");
        solo.wait(due.since(solo.now));
    }
}

#[test]
fn a_long_lease_survives_a_long_outage_with_hundreds_of_unanswered_heartbeats() {
    let mut solo = long_lease();
    let claim = super::solo::record_of(OWN, 0, Some(solo.settings.ttl));
    let lost = outage(&mut solo, Duration::from_secs(400));
    assert!(lost.len() > 200, "{}", lost.len());
    let stands = entry(101, claim);
    let write = solo.wait_showing(ms(60_000), Some(&stands), Some(OLD_FENCE));
    let write = write.expect("a heartbeat");
    assert_renews(&write, 101);
    let sent = solo.sent;
    solo.ack(&write, 103);
    assert!(solo.extended(sent));
    assert!(solo.ending().is_none());
}

#[test]
fn any_heartbeat_of_a_long_outage_is_recognised_if_it_was_stored() {
    for which in [0, 1, 100, 180] {
        let mut solo = long_lease();
        let until = solo.election.status().lease_until.expect("a lease");
        let lost = outage(&mut solo, Duration::from_secs(400));
        let stored = lost.get(which).expect("so many were sent");
        let stored = entry(103, own(stored, solo.settings.ttl));
        loop {
            match next_request(&mut solo) {
                Effect::Read { op, .. } => {
                    solo.show(op, Some(stored.clone()), Some(OLD_FENCE));
                    break;
                }
                Effect::Write(write) => solo.refuse(&write, 103),
                _ => {}
            }
        }
        assert!(solo.ending().is_none(), "{which}");
        let status = solo.election.status();
        let lease = status.lease_until.expect("a lease");
        assert!(lease > until, "{which}");
        assert!(lease < solo.now + solo.settings.ttl - Duration::from_secs(200));
        let next = solo.wait_showing(ms(60_000), Some(&stored), Some(OLD_FENCE));
        assert_renews(&next.expect("a heartbeat"), 103);
    }
}
