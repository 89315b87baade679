//! Proofs on demand.

use super::solo::{BUCKET, Solo, assert_renews, entry, failure, leading, ms, settings, stranger};
use crate::event::FailureKind;
use crate::record::Content;
use crate::{Input, Link, Reply, RequestId, TermId};

const ASK: RequestId = RequestId(5);

fn ask(solo: &mut Solo, term: Option<TermId>) {
    solo.feed(Input::Validate { request: ASK, term });
}

#[test]
fn a_proof_is_a_heartbeat_that_is_sent_at_once() {
    let (mut solo, term) = leading();
    ask(&mut solo, Some(term));
    let renewal = solo.write();
    assert_renews(&renewal, 101);
    assert_eq!(solo.reply(ASK), None);
    solo.ack(&renewal, 103);
    assert!(matches!(solo.reply(ASK), Some(Reply::Proved(token)) if token.sequence == 102));
}

#[test]
fn a_heartbeat_that_was_sent_before_the_request_is_no_proof() {
    let (mut solo, term) = leading();
    solo.wait(ms(189));
    let before = solo.write();
    ask(&mut solo, Some(term));
    solo.ack(&before, 103);
    assert_eq!(solo.reply(ASK), None);
    let renewal = solo.write();
    solo.ack(&renewal, 104);
    assert!(matches!(solo.reply(ASK), Some(Reply::Proved(_))));
}

#[test]
fn a_heartbeat_that_was_sent_at_the_instant_of_the_request_is_no_proof() {
    let (mut solo, term) = leading();
    solo.feed(Input::Observed(entry(150, Content::Opaque)));
    let before = solo.write();
    ask(&mut solo, Some(term));
    solo.ack(&before, 151);
    assert_eq!(solo.reply(ASK), None);
}

#[test]
fn a_failed_heartbeat_leaves_the_lease_unproven() {
    let (mut solo, term) = leading();
    ask(&mut solo, Some(term));
    let renewal = solo.write();
    solo.time_out(&renewal);
    assert!(matches!(
        solo.reply(ASK),
        Some(Reply::Unproven(failure)) if failure.kind == FailureKind::Timeout
    ));
}

#[test]
fn a_request_is_not_answered_by_the_failure_of_an_earlier_heartbeat() {
    let (mut solo, term) = leading();
    solo.wait(ms(189));
    let before = solo.write();
    ask(&mut solo, Some(term));
    solo.time_out(&before);
    assert_eq!(solo.reply(ASK), None);
}

#[test]
fn a_request_without_a_link_is_unproven_at_once() {
    let (mut solo, term) = leading();
    ask(&mut solo, Some(term));
    solo.disconnect();
    assert!(matches!(solo.reply(ASK), Some(Reply::Unproven(_))));
    solo.take();
    ask(&mut solo, Some(term));
    assert!(matches!(solo.reply(ASK), Some(Reply::Unproven(_))));
}

#[test]
fn an_unusable_bucket_leaves_the_lease_unproven() {
    let (mut solo, term) = leading();
    ask(&mut solo, Some(term));
    let reason = failure(FailureKind::Unavailable);
    solo.feed(Input::Link(Link::Unusable(reason)));
    assert!(matches!(solo.reply(ASK), Some(Reply::Unproven(_))));
}

#[test]
fn a_request_for_an_old_term_replies_not_leader_with_or_without_a_link() {
    let (mut solo, term) = leading();
    ask(&mut solo, Some(TermId(term.0 + 1)));
    assert_eq!(solo.reply(ASK), Some(&Reply::NotLeader));
    solo.take();
    solo.disconnect();
    ask(&mut solo, Some(TermId(term.0 + 1)));
    assert_eq!(solo.reply(ASK), Some(&Reply::NotLeader));
}

#[test]
fn a_follower_replies_not_leader() {
    let mut solo = Solo::new(settings(|_| {}), BUCKET);
    ask(&mut solo, None);
    assert_eq!(solo.reply(ASK), Some(&Reply::NotLeader));
}

#[test]
fn a_term_that_ends_replies_not_leader() {
    let (mut solo, term) = leading();
    ask(&mut solo, Some(term));
    solo.end_handler(term);
    assert_eq!(solo.reply(ASK), Some(&Reply::NotLeader));
}

#[test]
fn a_refused_proof_ends_the_term() {
    let (mut solo, term) = leading();
    ask(&mut solo, Some(term));
    let renewal = solo.write();
    solo.refuse(&renewal, 130);
    solo.read(Some(entry(130, stranger(None))), None);
    assert_eq!(solo.reply(ASK), Some(&Reply::NotLeader));
    assert!(solo.revokes());
}
