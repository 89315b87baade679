//! Heartbeats, and what follows from one that is not simply confirmed.

use uuid::Uuid;

use super::solo::{
    BUCKET, OLD_FENCE, OWN, Solo, assert_renews, entry, ms, own, record_of, settings, step_down,
};
use crate::event::{EndCause, Event, Outcome};
use crate::record::Content;
use crate::status::ConnectionStatus;
use crate::{Effect, Input, Intent, Link, RequestId, WriteKind};

const TTL: std::time::Duration = ms(1000);

#[test]
fn a_lease_counts_from_the_sending_of_its_heartbeat() {
    let (mut solo, renewal) = Solo::beating(settings(|_| {}));
    let sent = solo.sent;
    solo.wait(ms(50));
    solo.take();
    solo.ack(&renewal, 103);
    assert!(solo.extended(sent));
    assert!(solo.heartbeat_ended(Outcome::Confirmed));
}

#[test]
fn a_late_ack_extends_nothing() {
    let (mut solo, renewal) = Solo::beating(settings(|_| {}));
    solo.sleep(ms(900));
    solo.ack(&renewal, 103);
    assert!(!solo.extends());
    assert!(solo.ends(EndCause::LeaseExpired));
    assert!(solo.heartbeat_ended(Outcome::TooLate));
    assert!(solo.find_write().is_none(), "no further heartbeat");
}

#[test]
fn our_late_heartbeat_is_adopted_after_a_refusal() {
    let (mut solo, ghost) = Solo::beating(settings(|_| {}));
    solo.lose(&ghost);
    solo.read(Some(entry(101, record_of(OWN, 0, Some(TTL)))), None);
    let second = solo.write();
    solo.wait(ms(1));
    solo.refuse(&second, 103);
    solo.read(Some(entry(103, own(&ghost, TTL))), None);
    assert!(!solo.ends(EndCause::Superseded));
    solo.wait(ms(200));
    let third = solo.write();
    assert_renews(&third, 103);
}

#[test]
fn a_copy_of_our_record_at_another_revision_is_not_adopted() {
    let (mut solo, renewal) = Solo::beating(settings(|_| {}));
    solo.ack(&renewal, 103);
    solo.wait(ms(200));
    let next = solo.write();
    solo.refuse(&next, 104);
    solo.read(Some(entry(104, own(&renewal, TTL))), None);
    assert!(solo.ends(EndCause::Superseded));
    assert!(solo.revokes());
}

#[test]
fn another_nonce_than_that_of_a_heartbeat_is_not_ours() {
    let others = |beat| [(OWN, 4_000), (Uuid::from_u128(2), beat)];
    for which in 0..2 {
        let (mut solo, renewal) = Solo::beating(settings(|_| {}));
        solo.refuse(&renewal, 103);
        let (incarnation, beat) = others(renewal.nonce.beat)[which];
        let foreign = record_of(incarnation, beat, Some(TTL));
        solo.read(Some(entry(103, foreign)), None);
        assert!(solo.ends(EndCause::Superseded));
    }
}

#[test]
fn a_stale_read_after_a_timeout_does_not_prove_a_loss() {
    let (mut solo, renewal) = Solo::beating(settings(|_| {}));
    solo.time_out(&renewal);
    solo.wait(ms(60));
    solo.read(
        Some(entry(90, record_of(Uuid::from_u128(2), 1, None))),
        None,
    );
    assert!(solo.ending().is_none());
    let next = solo.write();
    assert!(
        matches!(next.kind, WriteKind::Renew { over: 101, .. }),
        "the next compare-and-set decides"
    );
    solo.refuse(&next, 104);
    solo.read(
        Some(entry(104, record_of(Uuid::from_u128(2), 2, None))),
        None,
    );
    assert!(solo.ends(EndCause::Superseded));
}

#[test]
fn a_foreign_record_on_the_watch_makes_the_leader_prove_itself_at_once() {
    let mut solo = Solo::leading(settings(|_| {}));
    solo.wait(ms(20));
    solo.take();
    solo.feed(Input::Observed(entry(
        110,
        record_of(Uuid::from_u128(2), 1, None),
    )));
    let renewal = solo.write();
    solo.ack(&renewal, 111);
    assert!(solo.ending().is_none());
}

#[test]
fn a_strangers_record_at_our_own_revision_ends_the_term_before_a_heartbeat_writes_over_it() {
    let mut solo = Solo::leading(settings(|_| {}));
    solo.wait(ms(20));
    solo.take();
    let impostor = entry(101, record_of(Uuid::from_u128(2), 1, Some(TTL)));
    solo.feed(Input::Observed(impostor.clone()));
    let op = solo.find_read().expect("a look instead of a heartbeat");
    // While it can't be looked at, no heartbeat is sent either.
    solo.fail_read(op);
    solo.wait(ms(500));
    assert!(solo.find_write().is_none());
    let mut solo = Solo::leading(settings(|_| {}));
    solo.feed(Input::Observed(impostor.clone()));
    solo.read(Some(impostor), Some(OLD_FENCE));
    assert!(solo.ends(EndCause::Regressed));
    assert!(solo.revokes());
}

#[test]
fn a_late_heartbeat_suspends_the_connection_and_the_next_restores_it() {
    let mut solo = Solo::leading(settings(|config| {
        config.disconnect_grace_period = Some(ms(500));
    }));
    let renewal = solo.heartbeat();
    solo.leave_unanswered(&renewal);
    let suspended = |status| move |event: &Event| matches!(event, Event::ConnectionChanged(now) if *now == status);
    assert!(solo.told(suspended(ConnectionStatus::Suspended)));
    let until = solo.now + ms(500);
    assert!(
        solo.has(|effect| matches!(effect, Effect::Suspend { acting, .. } if *acting == until))
    );
    solo.wait(ms(60));
    solo.read(Some(entry(103, own(&renewal, TTL))), None);
    assert!(solo.told(suspended(ConnectionStatus::Connected)));
    assert!(solo.has(|effect| matches!(
        effect,
        Effect::Extend { lease, acting, .. } if *acting == Some(*lease)
    )));
}

#[test]
fn a_leader_proves_itself_after_a_reconnect_by_a_heartbeat() {
    let mut solo = Solo::leading(settings(|_| {}));
    solo.disconnect();
    solo.wait(ms(100));
    solo.take();
    solo.feed(Input::Link(Link::Up(BUCKET)));
    assert!(matches!(solo.write().kind, WriteKind::Renew { .. }));
}

#[test]
fn nothing_is_sent_while_the_link_is_down() {
    let mut solo = Solo::leading(settings(|_| {}));
    solo.take();
    solo.disconnect();
    solo.wait(ms(3000));
    assert!(!solo.asks());
    assert!(solo.ends(EndCause::LeaseExpired));
}

#[test]
fn a_suspended_process_wakes_up_to_wind_down_and_sends_no_heartbeat() {
    for input in 0..6 {
        let mut solo = Solo::leading(settings(|_| {}));
        solo.wait(ms(10));
        solo.take();
        solo.sleep(ms(5000));
        solo.feed(match input {
            0 => Input::Tick,
            1 => Input::Link(Link::Up(BUCKET)),
            2 => Input::Observed(entry(200, Content::Opaque)),
            3 => Input::Validate {
                request: RequestId(1),
                term: None,
            },
            4 => step_down(RequestId(1), None, None, ms(0)),
            _ => Input::Intend(RequestId::NOBODY, Intent::Stop { release: true }),
        });
        assert!(!solo.writes(), "{input}");
        assert!(solo.ending().is_some(), "{input}");
        assert!(solo.aborts(), "{input}");
    }
}

#[test]
fn a_deadline_that_was_seen_passed_is_never_extended() {
    let (mut solo, term) = Solo::in_term(settings(|_| {}));
    solo.take();
    solo.feed(Input::LeaseOver { term });
    assert!(solo.revokes());
    assert!(solo.has(|effect| matches!(effect, Effect::Cancel { .. })));
    assert!(solo.ends(EndCause::LeaseExpired));
}

/// A write can tell what neither an answer nor a read can.
#[test]
fn the_next_heartbeat_decides_after_a_lost_heartbeat_and_a_failed_read() {
    let (mut solo, renewal) = Solo::beating(settings(|_| {}));
    solo.leave_unanswered(&renewal);
    assert!(solo.heartbeat_ended(Outcome::TimedOut));
    solo.wait(ms(60));
    solo.lose_read();
    solo.wait(ms(150));
    assert_renews(&solo.write(), 101);
}
