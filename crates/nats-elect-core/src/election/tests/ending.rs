//! How terms end, and when the role is freed.

use super::solo::{
    BUCKET, OLD_FENCE, Solo, assert_frees, entry, leading, ms, own, proven_release, settings,
    step_down,
};
use crate::event::{EndCause, Event};
use crate::status::RoleState;
use crate::token::FencingToken;
use crate::{Effect, HandlerEnd, Input, Link, Reply, RequestId, TermId};

const ASK: RequestId = RequestId(7);

#[test]
fn a_step_down_cancels_waits_revokes_releases_and_answers_in_this_order() {
    let (mut solo, term) = leading();
    solo.step_down(ASK);
    let effects = solo.take();
    let at = |what: &Effect| effects.iter().position(|effect| effect == what);
    assert!(at(&Effect::Resign { term }) < at(&Effect::Cancel { term }));
    assert!(
        !effects
            .iter()
            .any(|effect| matches!(effect, Effect::Revoke { .. }))
    );
    assert_eq!(solo.state(), RoleState::Draining);
    let status = solo.election.status();
    assert!(status.lease_until.is_some_and(|until| until > solo.now));

    solo.wait(ms(50));
    solo.take();
    solo.end_handler(term);
    assert!(matches!(solo.effects[0], Effect::Revoke { .. }));
    let release = solo.write();
    assert_frees(&release, 101, None);
    assert!(solo.reply(ASK).is_none());

    solo.ack(&release, 103);
    assert_eq!(
        solo.reply(ASK),
        Some(&Reply::SteppedDown {
            released: true,
            handoff: None
        })
    );
    assert_eq!(solo.released(), Some(true));
    assert_eq!(solo.state(), RoleState::Demoted);
}

#[test]
fn a_handler_that_returns_frees_the_role() {
    for end in [
        HandlerEnd::Returned,
        HandlerEnd::Failed,
        HandlerEnd::Panicked,
    ] {
        let (mut solo, term) = leading();
        solo.feed(Input::HandlerEnded { term, end });
        let expected = match end {
            HandlerEnd::Returned => EndCause::Returned,
            HandlerEnd::Panicked => EndCause::Panicked,
            _ => EndCause::Failed,
        };
        assert_eq!(solo.ending(), Some(expected));
        assert_frees(&solo.write(), 101, None);
    }
}

#[test]
fn a_handler_that_ignores_its_cancellation_is_aborted_within_the_stop_budget() {
    let (mut solo, term) = leading();
    solo.step_down(ASK);
    solo.wait(solo.settings.stop_budget - ms(1));
    assert!(!solo.aborts());
    solo.wait(ms(1));
    assert!(solo.has(|effect| *effect == Effect::Abort { term }));
    solo.feed(Input::HandlerEnded {
        term,
        end: HandlerEnd::Aborted,
    });
    assert!(solo.revokes());
}

#[test]
fn a_handler_without_a_confirmed_heartbeat_is_aborted_before_its_lease_ends() {
    let (mut solo, term) = leading();
    let until = solo.election.status().lease_until.expect("a lease");
    solo.disconnect();
    let budget = solo.settings.stop_budget;
    let allowance = solo.settings.abort_allowance();
    solo.wait((until - budget).since(solo.now) - ms(1));
    assert!(!solo.has(|effect| matches!(effect, Effect::Cancel { .. })));
    solo.wait(ms(1));
    assert!(solo.has(|effect| *effect == Effect::Cancel { term }));
    solo.wait(budget - allowance - ms(1));
    assert!(!solo.aborts());
    solo.wait(ms(1));
    assert!(solo.has(|effect| *effect == Effect::Abort { term }));
}

#[test]
fn a_release_that_meets_a_late_heartbeat_of_ours_replaces_it() {
    let (mut solo, term) = leading();
    solo.wait(ms(189));
    let renewal = solo.write();
    solo.leave_unanswered(&renewal);
    solo.end_handler(term);
    solo.wait(ms(60));
    solo.read(Some(entry(103, own(&renewal, ms(1000)))), None);
    assert_frees(&solo.write(), 103, None);
}

#[test]
fn a_release_that_is_refused_for_a_late_heartbeat_of_ours_replaces_it() {
    let (mut solo, term) = leading();
    solo.wait(ms(189));
    let renewal = solo.write();
    solo.end_handler(term);
    solo.lose(&renewal);
    let release = solo.write();
    assert_frees(&release, 101, None);
    solo.refuse(&release, 103);
    solo.read(Some(entry(103, own(&renewal, ms(1000)))), None);
    assert_frees(&solo.write(), 103, None);
}

#[test]
fn a_role_is_not_freed_after_an_overrun() {
    let (mut solo, term) = leading();
    solo.disconnect();
    solo.wait(ms(1200));
    assert!(solo.told(|event| matches!(event, Event::HandlerOverrun { .. })));
    solo.feed(Input::Link(Link::Up(BUCKET)));
    solo.take();
    solo.end_handler(term);
    assert!(!solo.writes());
    assert_eq!(solo.released(), Some(false));
}

/// A released role is never led again under the old term.
#[test]
fn a_failed_release_restores_nothing() {
    let (mut solo, term) = leading();
    solo.end_handler(term);
    let release = solo.write();
    solo.lose(&release);
    solo.read(
        Some(entry(101, own(&claim_of(&release), ms(1000)))),
        Some(OLD_FENCE),
    );
    assert!(!solo.has(|effect| matches!(effect, Effect::Extend { .. } | Effect::StartTerm(_))));
    assert!(solo.election.status().lease_until.is_none());
    assert_frees(&solo.write(), 101, None);
}

/// The claim of the acquisition that this release ends. The fence write came between.
fn claim_of(write: &crate::Write) -> crate::Write {
    let mut write = write.clone();
    write.nonce.beat -= 2;
    write
}

#[test]
fn a_follower_that_is_asked_to_step_down_replies_not_leader() {
    let mut solo = Solo::new(settings(|_| {}), BUCKET);
    solo.step_down(ASK);
    assert_eq!(solo.reply(ASK), Some(&Reply::NotLeader));
}

#[test]
fn inputs_of_an_old_term_do_not_affect_the_next() {
    let (mut solo, term) = leading();
    let old = TermId(term.0 + 40);
    solo.take();
    solo.feed(Input::HandlerEnded {
        term: old,
        end: HandlerEnd::Failed,
    });
    solo.feed(Input::LeaseOver { term: old });
    solo.feed(Input::Health {
        term: old,
        healthy: false,
    });
    assert_eq!(solo.ending(), None);
    assert_eq!(solo.state(), RoleState::Leader);
}

#[test]
fn a_late_ack_does_not_revive_a_term_that_winds_down() {
    let (mut solo, term) = leading();
    solo.wait(ms(189));
    let renewal = solo.write();
    solo.wait(ms(600));
    assert_eq!(solo.ending(), Some(EndCause::LeaseExpired));
    solo.take();
    solo.ack(&renewal, 103);
    assert!(!solo.extends());
    assert_eq!(solo.state(), RoleState::Draining);
    solo.end_handler(term);
    // Only its revision is learnt.
    assert_frees(&solo.write(), 103, None);
}

/// The fencing token of the term that tests begin with.
const TERM: FencingToken = FencingToken {
    epoch: BUCKET.epoch,
    sequence: 102,
};

#[test]
fn a_step_down_for_another_term_changes_nothing() {
    let (mut solo, _) = leading();
    let other = FencingToken {
        sequence: 90,
        ..TERM
    };
    for to in [None, Some("node-2")] {
        solo.take();
        solo.feed(step_down(ASK, to, Some(other), ms(0)));
        assert_eq!(solo.reply(ASK), Some(&Reply::NotLeader));
        assert_eq!(solo.state(), RoleState::Leader);
    }
    assert!(!solo.has(|effect| matches!(effect, Effect::AskPeers { .. })));
}

#[test]
fn a_step_down_ends_and_waits_for_only_the_term_that_it_expects() {
    let (mut solo, term) = leading();
    solo.feed(step_down(ASK, None, Some(TERM), ms(0)));
    assert_eq!(solo.state(), RoleState::Draining);
    let other = FencingToken {
        sequence: 103,
        ..TERM
    };
    solo.feed(step_down(RequestId(8), None, Some(other), ms(60_000)));
    assert_eq!(solo.reply(RequestId(8)), Some(&Reply::NotLeader));
    solo.end_handler(term);
    let release = solo.write();
    solo.ack(&release, 103);
    assert!(matches!(
        solo.reply(ASK),
        Some(Reply::SteppedDown { released: true, .. })
    ));
    // Nor does its hold-off count.
    solo.take();
    let cooldown = solo.settings.cooldown;
    let free = entry(103, proven_release());
    let claim = solo.wait_showing(cooldown + ms(10), Some(&free), Some(OLD_FENCE));
    assert!(claim.is_some());
}
