//! Winding down: the lease meanwhile, and the release.

use std::time::Duration;

use super::solo::{
    BUCKET, OLD_FENCE, Solo, assert_frees, entry, failure, fence_of, free, ms, proven_release,
    released, settings, stranger, tuned,
};
use crate::config::RoleConfig;
use crate::event::{EndCause, Event, FailureKind, Outcome};
use crate::moment::Moment;
use crate::record::{Content, FenceEntry};
use crate::status::RoleState;
use crate::{
    Effect, HandlerEnd, Input, Intent, Link, Reply, RequestId, TermId, Write, WriteOutcome,
};

const ASK: RequestId = RequestId(7);

fn leading(change: impl FnOnce(&mut RoleConfig)) -> (Solo, TermId) {
    let mut settings = settings(change);
    settings.validation_interval = ms(60_000);
    let (mut solo, term) = Solo::in_term(settings);
    solo.wait(ms(10));
    solo.take();
    (solo, term)
}

fn lease(solo: &Solo) -> Moment {
    solo.election.status().lease_until.expect("a lease")
}

fn wait_until(solo: &mut Solo, moment: Moment) {
    solo.wait(moment.since(solo.now));
}

#[test]
fn a_lease_is_renewed_while_its_handler_winds_down_until_the_abort() {
    let (mut solo, term) = leading(|config| config.stop_budget = Some(ms(500)));
    solo.step_down(ASK);
    let stop_by = solo.now + ms(500);
    solo.take();
    solo.wait(ms(200));
    let renewal = solo.write();
    let sent = solo.sent;
    solo.ack(&renewal, 103);
    assert!(solo.has(|effect| matches!(
        effect,
        Effect::Extend { term: of, proved, acting: None, .. } if *of == term && *proved == sent
    )));
    solo.take();
    solo.wait(ms(200));
    let renewal = solo.write();
    solo.ack(&renewal, 104);
    wait_until(&mut solo, stop_by);
    assert!(solo.aborts() && !solo.revokes());
    solo.take();
    solo.wait(ms(300));
    assert!(solo.find_write().is_none(), "no heartbeat after the abort");
}

#[test]
fn a_process_that_wakes_up_at_the_abort_sends_no_heartbeat_first() {
    let (mut solo, _) = leading(|config| config.stop_budget = Some(ms(500)));
    solo.step_down(ASK);
    solo.sleep(ms(500));
    solo.feed(Input::Tick);
    assert!(solo.aborts());
    assert!(solo.find_write().is_none());
}

#[test]
fn a_lease_is_renewed_until_the_tasks_that_the_handler_spawned_have_ended() {
    let (mut solo, term) = leading(|_| {});
    let ending = |term| Input::HandlerEnding {
        term,
        end: HandlerEnd::Returned,
    };
    solo.feed(ending(TermId(term.0 + 1)));
    assert_eq!(solo.state(), RoleState::Leader);
    solo.feed(ending(term));
    assert_eq!(solo.state(), RoleState::Draining);
    assert!(solo.has(|effect| *effect == Effect::Cancel { term }));
    assert!(!solo.revokes());
    solo.end_handler(term);
    assert!(solo.revokes());
    assert_frees(&solo.write(), 101, None);
}

/// The bucket is gone, so the lease is revoked. The handler has only the time that an abort takes.
#[test]
fn a_handler_with_a_revoked_lease_is_aborted_after_the_allowance_and_overruns_after_another() {
    let (mut solo, _) = leading(|_| {});
    let gone = failure(FailureKind::BucketMissing);
    let allowance = solo.settings.abort_allowance();
    solo.feed(Input::Link(Link::Unusable(gone)));
    assert!(solo.revokes() && !solo.aborts());
    assert_eq!(solo.election.status().lease_until, None);
    solo.wait(allowance - ms(1));
    assert!(!solo.aborts());
    solo.wait(ms(1));
    assert!(solo.aborts());
    let overran = |solo: &Solo| solo.told(|event| matches!(event, Event::HandlerOverrun { .. }));
    solo.wait(allowance - ms(1));
    assert!(!overran(&solo));
    solo.wait(ms(1));
    assert!(overran(&solo));
}

#[test]
fn a_lease_that_ends_while_its_handler_runs_is_revoked() {
    let (mut solo, _) = leading(|_| {});
    let until = lease(&solo);
    solo.disconnect();
    wait_until(&mut solo, until - ms(1));
    assert!(!solo.revokes());
    solo.wait(ms(1));
    assert!(solo.revokes());
    assert!(solo.told(|event| matches!(event, Event::HandlerOverrun { .. })));
}

/// The whole process stood still, its handler included.
#[test]
fn a_handler_that_wakes_after_its_lease_overruns_only_if_it_outlives_its_abort() {
    for ends in [true, false] {
        let (mut solo, term) = leading(|_| {});
        let until = lease(&solo);
        let allowance = solo.settings.abort_allowance();
        solo.sleep(until.since(solo.now) + ms(9000));
        solo.feed(Input::Tick);
        assert!(solo.revokes() && solo.aborts());
        assert_eq!(solo.election.status().lease_until, None);
        let overran =
            |solo: &Solo| solo.told(|event| matches!(event, Event::HandlerOverrun { .. }));
        solo.wait(allowance - ms(1));
        assert!(!overran(&solo));
        if ends {
            solo.end_handler(term);
        }
        solo.wait(ms(1));
        assert_eq!(overran(&solo), !ends);
        let written = solo.writes();
        assert!(!written, "the others have waited for the lease already");
    }
}

#[test]
fn a_release_that_cannot_be_sent_is_given_up_when_the_lease_has_ended() {
    let (mut solo, term) = leading(|_| {});
    let until = lease(&solo);
    solo.disconnect();
    solo.end_handler(term);
    wait_until(&mut solo, until - ms(1));
    assert_eq!(solo.released(), None);
    solo.wait(ms(1));
    assert_eq!(solo.released(), Some(false));
}

#[test]
fn a_release_has_two_request_timeouts_even_if_the_lease_ends_before() {
    let (mut solo, term) = leading(|_| {});
    let until = lease(&solo);
    solo.disconnect();
    wait_until(&mut solo, until - ms(50));
    solo.end_handler(term);
    solo.wait(solo.settings.request_timeout * 2 - ms(1));
    assert_eq!(solo.released(), None);
    solo.wait(ms(1));
    assert_eq!(solo.released(), Some(false));
}

#[test]
fn an_unanswered_release_that_is_stored_has_freed_the_role() {
    let (mut solo, term) = leading(|_| {});
    solo.end_handler(term);
    let release = solo.write();
    solo.lose(&release);
    let stands = entry(103, released(&release));
    solo.read(Some(stands), Some(OLD_FENCE));
    assert_eq!(solo.released(), Some(true));
    assert!(solo.find_write().is_none());
}

/// A stale read may show the release of an earlier term of ours.
#[test]
fn an_unanswered_release_is_looked_for_again_if_a_read_is_stale() {
    let (mut solo, term) = leading(|_| {});
    solo.end_handler(term);
    let release = solo.write();
    solo.lose(&release);
    solo.read(Some(free(100)), Some(OLD_FENCE));
    assert_eq!(solo.released(), None);
    let pause = solo.settings.heartbeat;
    solo.take();
    solo.wait(pause - ms(1));
    assert!(solo.find_read().is_none());
    solo.wait(ms(1));
    let stands = entry(103, released(&release));
    solo.read(Some(stands), Some(OLD_FENCE));
    assert_eq!(solo.released(), Some(true));
}

/// Lets another client delete the leader's key and ends the handler. The marker is being turned
/// into a release.
fn passing_on(solo: &mut Solo, term: TermId) -> Write {
    solo.wait(ms(192));
    let renewal = solo.write();
    solo.refuse(&renewal, 105);
    solo.read(Some(entry(105, Content::ForeignMarker)), Some(OLD_FENCE));
    assert!(solo.ends(EndCause::Deleted));
    assert!(!solo.revokes(), "there is a lease to finish under");
    solo.end_handler(term);
    let release = solo.write();
    assert_frees(&release, 105, None);
    release
}

#[test]
fn a_delete_by_another_client_is_passed_on_as_a_release() {
    let (mut solo, term) = leading(|_| {});
    let release = passing_on(&mut solo, term);
    solo.ack(&release, 106);
    assert_eq!(solo.released(), Some(true));
}

#[test]
fn a_delete_is_passed_on_only_while_its_own_marker_stands() {
    for (stands_at, goes_on) in [(105, true), (107, false)] {
        let (mut solo, term) = leading(|_| {});
        let release = passing_on(&mut solo, term);
        solo.lose(&release);
        let marker = entry(stands_at, Content::ForeignMarker);
        solo.read(Some(marker), Some(OLD_FENCE));
        let release = solo.find_write();
        assert_eq!(release.is_some(), goes_on);
        if let Some(release) = release {
            assert_frees(&release, 105, None);
        }
    }
}

#[test]
fn a_stop_without_release_applies_to_a_term_that_already_ends() {
    for release in [true, false] {
        let (mut solo, term) = leading(|_| {});
        solo.step_down(ASK);
        solo.leave(Intent::Stop { release });
        solo.end_handler(term);
        assert_eq!(solo.find_write().is_some(), release);
    }
}

/// An instance whose claim of a missing key is given back before its fence record is written. The
/// fence key holds `before`.
fn bare_claim_given_back(before: Option<FenceEntry>) -> Solo {
    let mut solo = Solo::new(settings(|_| {}), BUCKET);
    solo.read(None, before);
    if before.is_some() {
        solo.wait(ms(1003));
        solo.read(None, before);
    }
    solo.wait(ms(3));
    let claim = solo.write();
    solo.ack(&claim, 101);
    let fence = solo.write();
    solo.leave(Intent::Stop { release: true });
    solo.end(&fence, WriteOutcome::Failed(failure(FailureKind::Timeout)));
    solo
}

/// If another fence record came since, no instance believes that release.
#[test]
fn a_claim_of_a_missing_key_is_given_back_at_once() {
    let nonce = stranger(None).nonce().expect("a nonce");
    for before in [None, Some(fence_of(99, nonce))] {
        let mut solo = bare_claim_given_back(before);
        assert_frees(&solo.write(), 101, None);
    }
}

#[test]
fn an_instance_that_gives_its_claim_back_replies_not_leader_to_a_step_down() {
    let mut solo = Solo::claimed_too_late(settings(|_| {}));
    solo.step_down(ASK);
    assert_eq!(solo.reply(ASK), Some(&Reply::NotLeader));
}

/// Answers all requests until a term starts.
fn serve_until_leading(solo: &mut Solo, last: &mut u64) -> TermId {
    for _ in 0..100_000 {
        if let Some(term) = solo.started() {
            return term;
        }
        for effect in solo.take() {
            serve(solo, effect, last);
        }
        if solo.effects.is_empty() {
            solo.wait(ms(1));
        }
    }
    panic!("no term");
}

fn serve(solo: &mut Solo, effect: Effect, last: &mut u64) {
    match effect {
        Effect::Write(write) => {
            *last += 1;
            solo.ack(&write, *last);
        }
        Effect::Read { op, .. } => {
            solo.show(op, Some(entry(*last, proven_release())), Some(OLD_FENCE));
        }
        _ => {}
    }
}

/// How long the instance stays out after this end.
fn cool_down(solo: &mut Solo, term: TermId, end: HandlerEnd, last: &mut u64) -> Duration {
    for effect in solo.take() {
        serve(solo, effect, last);
    }
    solo.feed(Input::HandlerEnded { term, end });
    let release = solo.write();
    *last += 1;
    solo.ack(&release, *last);
    let start = solo.now;
    assert_eq!(solo.state(), RoleState::Demoted);
    solo.take();
    while solo.state() == RoleState::Demoted {
        solo.wait(ms(1));
    }
    solo.now.since(start)
}

#[test]
fn the_cool_down_doubles_while_handlers_fail_one_after_the_other() {
    let mut solo = Solo::leading(tuned(|it| {
        it.cooldown = ms(400);
        it.max_cooldown = ms(2000);
        it.validation_interval = ms(60_000);
    }));
    let mut last = 102;
    let mut after = |end, lasts: Duration| {
        let term = serve_until_leading(&mut solo, &mut last);
        let over = solo.now + lasts;
        while solo.now < over {
            for effect in solo.take() {
                serve(&mut solo, effect, &mut last);
            }
            solo.wait(ms(1));
        }
        cool_down(&mut solo, term, end, &mut last)
    };
    let short = ms(0);
    assert_eq!(after(HandlerEnd::Failed, short), ms(400));
    assert_eq!(after(HandlerEnd::Failed, short), ms(800));
    assert_eq!(after(HandlerEnd::Panicked, short), ms(1600));
    assert_eq!(after(HandlerEnd::Failed, short), ms(2000), "its limit");
    assert_eq!(after(HandlerEnd::Returned, short), ms(400), "no failure");
    assert_eq!(after(HandlerEnd::Failed, short), ms(400));
    assert_eq!(after(HandlerEnd::Failed, short), ms(800));
    assert_eq!(
        after(HandlerEnd::Failed, ms(2000)),
        ms(400),
        "one that ran for as long as the longest cool-down"
    );
}

#[test]
fn the_cool_down_doubles_while_claims_are_given_back() {
    let mut solo = Solo::new(settings(|_| {}), BUCKET);
    let mut last = 100;
    solo.read(Some(entry(last, proven_release())), Some(OLD_FENCE));
    let mut pauses = Vec::new();
    for _ in 0..3 {
        let start = solo.now;
        let mut claim = None;
        while claim.is_none() {
            solo.wait(ms(1));
            for effect in solo.take() {
                match effect {
                    Effect::Write(write) => claim = Some(write),
                    other => serve(&mut solo, other, &mut last),
                }
            }
        }
        let claim = claim.expect("a claim");
        pauses.push(solo.now.since(start));
        solo.sleep(ms(900));
        solo.ack(&claim, last + 1);
        let release = solo.write();
        last += 2;
        solo.ack(&release, last);
    }
    assert!(pauses[1] >= ms(400) && pauses[1] < ms(410), "{pauses:?}");
    assert!(pauses[2] >= ms(800) && pauses[2] < ms(810), "{pauses:?}");
}

/// Its lease was revoked in order. The answer says nothing bad about NATS.
#[test]
fn a_heartbeat_that_is_confirmed_after_the_handlers_end_is_not_late() {
    let (mut solo, term) = leading(|_| {});
    let heartbeat = solo.settings.heartbeat;
    solo.wait(heartbeat);
    let renewal = solo.write();
    solo.end_handler(term);
    solo.wait(ms(1));
    solo.ack(&renewal, 103);
    let confirmed = Outcome::Confirmed;
    assert!(solo.told(
        |event| matches!(event, Event::HeartbeatEnded { outcome, .. } if *outcome == confirmed)
    ));
    assert_frees(&solo.write(), 103, None);
}
