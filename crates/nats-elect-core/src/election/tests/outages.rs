//! Outages, and grace periods that end within them.

use super::solo::{BUCKET, Solo, ms, settings};
use crate::config::RoleSettings;
use crate::event::EndCause;
use crate::moment::Moment;
use crate::{Effect, Input, Link, Write, WriteKind};

fn graced() -> RoleSettings {
    settings(|config| config.disconnect_grace_period = Some(ms(400)))
}

fn acts_until(solo: &Solo) -> Option<Moment> {
    let mut effects = solo.effects.iter().rev();
    effects.find_map(|effect| match effect {
        Effect::Suspend { acting, .. } => Some(*acting),
        _ => None,
    })
}

#[test]
fn an_outage_that_is_heard_of_late_counts_from_its_beginning() {
    let mut solo = Solo::leading(graced());
    let since = solo.now;
    solo.wait(ms(150));
    solo.feed(Input::Link(Link::Down { since }));
    assert_eq!(acts_until(&solo), Some(since + ms(400)));
    solo.wait(ms(249));
    assert!(!solo.ends(EndCause::ConnectionLost));
    solo.wait(ms(1));
    assert!(solo.ends(EndCause::ConnectionLost));

    let mut solo = Solo::leading(graced());
    let since = solo.now;
    solo.sleep(ms(400));
    solo.feed(Input::Link(Link::Down { since }));
    assert!(solo.ends(EndCause::ConnectionLost));
}

#[test]
fn an_outage_that_began_before_a_heartbeat_was_late_counts_from_its_beginning() {
    let mut solo = Solo::leading(graced());
    solo.wait(ms(199));
    let (since, renewal) = (solo.now, solo.write());
    solo.leave_unanswered(&renewal);
    assert_eq!(acts_until(&solo), Some(since + ms(480)));
    solo.feed(Input::Link(Link::Down { since }));
    assert_eq!(acts_until(&solo), Some(since + ms(400)));
}

#[test]
fn the_monitors_word_ends_a_term_even_if_nothing_else_told_of_the_outage() {
    let mut solo = Solo::leading(graced());
    let since = solo.now;
    solo.wait(ms(150));
    assert!(!solo.ends(EndCause::ConnectionLost));
    solo.feed(Input::GraceOver { since });
    assert!(solo.ends(EndCause::ConnectionLost));
    solo.take();
    solo.feed(Input::GraceOver { since });
    assert!(!solo.ends(EndCause::ConnectionLost), "it ends once");
}

#[test]
fn the_monitors_word_about_an_outage_that_is_over_ends_no_term() {
    let mut solo = Solo::leading(graced());
    let since = solo.now;
    solo.disconnect();
    solo.wait(ms(300));
    solo.feed(Input::Link(Link::Up(BUCKET)));
    let renewal = solo.write();
    solo.ack(&renewal, 103);
    solo.feed(Input::GraceOver { since });
    assert!(!solo.ends(EndCause::ConnectionLost));
    solo.disconnect();
    solo.feed(Input::GraceOver { since });
    assert!(
        !solo.ends(EndCause::ConnectionLost),
        "this outage is another one"
    );
}

#[test]
fn a_heartbeat_that_was_sent_before_the_outage_does_not_end_it() {
    let (mut solo, renewal) = Solo::beating(graced());
    solo.wait(ms(1));
    let since = solo.now;
    solo.disconnect();
    solo.wait(ms(100));
    solo.ack(&renewal, 103);
    solo.feed(Input::GraceOver { since });
    assert!(solo.ends(EndCause::ConnectionLost));
}

#[test]
fn an_outage_counts_from_the_last_proof_at_the_earliest() {
    let mut solo = Solo::leading(graced());
    let before = solo.now;
    solo.wait(ms(199));
    let (renewal, sent) = (solo.write(), solo.sent);
    solo.wait(ms(20));
    solo.ack(&renewal, 103);
    solo.feed(Input::Link(Link::Down { since: before }));
    assert_eq!(acts_until(&solo), Some(sent + ms(400)));
    assert!(!solo.ends(EndCause::ConnectionLost));
}

#[test]
fn an_answer_that_comes_in_the_next_outage_has_ended_the_one_before() {
    let mut solo = Solo::leading(graced());
    solo.disconnect();
    solo.wait(ms(150));
    solo.feed(Input::Link(Link::Up(BUCKET)));
    let (renewal, sent) = (solo.write(), solo.sent);
    solo.wait(ms(10));
    solo.disconnect();
    solo.ack(&renewal, 103);
    let acting = sent + ms(400);
    assert!(
        solo.has(
            |effect| matches!(effect, Effect::Extend { acting: Some(it), .. } if *it == acting)
        )
    );
    solo.wait(acting.since(solo.now) - ms(1));
    assert!(!solo.ends(EndCause::ConnectionLost));
    solo.wait(ms(1));
    assert!(solo.ends(EndCause::ConnectionLost));
}

#[test]
fn outages_in_short_order_count_as_one_until_a_heartbeat_is_confirmed() {
    let mut solo = Solo::leading(graced());
    let since = solo.now;
    solo.disconnect();
    solo.wait(ms(150));
    solo.feed(Input::Link(Link::Up(BUCKET)));
    solo.wait(ms(10));
    solo.disconnect();
    solo.wait((since + ms(400)).since(solo.now) - ms(1));
    assert!(!solo.ends(EndCause::ConnectionLost));
    solo.wait(ms(1));
    assert!(solo.ends(EndCause::ConnectionLost));
}

#[test]
fn the_monitors_word_means_nothing_to_an_instance_that_does_not_lead() {
    let mut solo = Solo::new(graced(), BUCKET);
    let since = solo.now;
    solo.wait(ms(50));
    let before = solo.election.status();
    solo.take();
    solo.feed(Input::GraceOver { since });
    assert!(solo.take().is_empty());
    assert_eq!(solo.election.status(), before);
}

/// An instance that lost its connection when its fence record was under way, which is confirmed
/// after so long. With both of its writes.
fn fenced_in_an_outage(after: std::time::Duration) -> (Solo, Write, Write) {
    let (mut solo, claim, fence) = Solo::fencing(graced());
    assert!(matches!(fence.kind, WriteKind::Fence { .. }));
    solo.disconnect();
    solo.sleep(after);
    solo.ack(&fence, 102);
    (solo, claim, fence)
}

#[test]
fn a_term_that_begins_in_an_outage_has_what_is_left_of_the_grace_period() {
    let (mut solo, ..) = fenced_in_an_outage(ms(300));
    assert!(solo.started().is_some());
    assert_eq!(acts_until(&solo), Some(solo.now + ms(100)));
    solo.wait(ms(100));
    assert!(solo.ends(EndCause::ConnectionLost));
}

#[test]
fn no_term_begins_in_an_outage_after_the_grace_period() {
    let (mut solo, claim, fence) = fenced_in_an_outage(ms(400));
    assert!(solo.started().is_none());
    solo.take();
    solo.feed(Input::Link(Link::Up(BUCKET)));
    solo.read_back(&claim, &fence);
    assert!(solo.started().is_some());
    assert_eq!(acts_until(&solo), None);
}
