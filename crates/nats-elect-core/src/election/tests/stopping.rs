//! Leaving the election.

use super::solo::{BUCKET, OLD_FENCE, Solo, assert_frees, entry, free, leading, ms, own, settings};
use crate::event::EndCause;
use crate::status::RoleState;
use crate::{Effect, Input, Intent, Link};

#[test]
fn a_stopped_instance_stays_stopped() {
    let (mut solo, term) = leading();
    solo.leave(Intent::Stop { release: true });
    assert_eq!(solo.ending(), Some(EndCause::Stopped));
    assert!(!solo.election.is_stopped());
    solo.end_handler(term);
    // For a moment a candidate may reply that it is ready to take the role.
    solo.wait(solo.settings.request_timeout / 5);
    let release = solo.write();
    solo.ack(&release, 103);
    assert_eq!(solo.state(), RoleState::Stopped);
    assert!(solo.election.is_stopped());
    assert_eq!(solo.election.next_wakeup(), None);
    solo.take();
    solo.feed(Input::Link(Link::Up(BUCKET)));
    solo.feed(Input::Observed(free(300)));
    solo.wait(ms(5000));
    assert!(!solo.asks());
}

#[test]
fn a_stop_without_release_leaves_the_record_to_run_out() {
    let (mut solo, term) = leading();
    solo.leave(Intent::Stop { release: false });
    solo.end_handler(term);
    assert!(!solo.writes());
    assert!(solo.revokes());
    assert_eq!(solo.state(), RoleState::Stopped);
}

#[test]
fn an_abandoned_instance_cancels_its_handler_and_writes_nothing() {
    let (mut solo, term) = leading();
    solo.leave(Intent::Abandon);
    assert!(solo.has(|effect| *effect == Effect::Cancel { term }));
    solo.wait(ms(100));
    solo.end_handler(term);
    assert!(!solo.writes());
    assert_eq!(solo.state(), RoleState::Stopped);
}

#[test]
fn an_abandoned_follower_is_stopped_at_once() {
    let mut solo = Solo::new(settings(|_| {}), BUCKET);
    solo.leave(Intent::Abandon);
    assert_eq!(solo.state(), RoleState::Stopped);
}

#[test]
fn a_stop_while_a_claim_is_under_way_gives_it_back() {
    let (mut solo, claim) = Solo::claiming(settings(|_| {}));
    solo.leave(Intent::Stop { release: true });
    assert_ne!(solo.state(), RoleState::Stopped);
    solo.ack(&claim, 101);
    assert!(solo.started().is_none());
    let release = solo.write();
    assert_frees(&release, 101, None);
    solo.ack(&release, 102);
    assert_eq!(solo.state(), RoleState::Stopped);
}

#[test]
fn a_stop_looks_for_an_unanswered_claim() {
    let (mut solo, claim) = Solo::claiming(settings(|_| {}));
    solo.leave(Intent::Stop { release: true });
    solo.leave_unanswered(&claim);
    solo.read(Some(entry(101, own(&claim, ms(1000)))), Some(OLD_FENCE));
    assert_frees(&solo.write(), 101, None);
}

#[test]
fn a_stop_that_cannot_look_for_an_unanswered_claim_leaves_it_to_run_out() {
    let (mut solo, claim) = Solo::claiming(settings(|_| {}));
    solo.leave(Intent::Stop { release: true });
    solo.time_out(&claim);
    let op = solo.find_read().expect("a look for the claim");
    solo.fail_read(op);
    assert!(solo.election.is_stopped());
}

#[test]
fn a_stop_waits_two_request_timeouts_for_a_claim_to_be_given_back() {
    let (mut solo, _claim, fence) = Solo::fencing(settings(|_| {}));
    solo.leave(Intent::Stop { release: true });
    solo.wait(ms(20));
    solo.ack(&fence, 102);
    assert!(solo.find_write().is_some(), "a release");
    solo.wait(solo.settings.request_timeout * 2 - ms(1));
    assert!(!solo.election.is_stopped());
    solo.wait(ms(1));
    assert!(solo.election.is_stopped());
}
