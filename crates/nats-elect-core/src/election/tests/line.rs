//! The line of succession, from the leader's side and the heirs'.

use uuid::Uuid;

use super::solo::{BUCKET, OWN, SECRET, Solo, entry, hashed_fence, ms, settings, stranger, tuned};
use crate::heirs::{Heirs, TURN};
use crate::peer::{Contender, PeerReply, PeerRequest};
use crate::record::{Content, Release};
use crate::{Effect, Input, Intent, PeerRequestId, RequestId, Write, WriteKind};

const TTL: std::time::Duration = ms(1000);

fn id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

fn heirs(numbers: &[u128]) -> Heirs {
    numbers.iter().copied().map(id).collect()
}

/// The last question to candidates.
fn poll(solo: &Solo) -> Option<PeerRequestId> {
    polled(solo).map(|(question, _)| question)
}

/// The last question to candidates, and which of them were asked.
fn polled(solo: &Solo) -> Option<(PeerRequestId, Heirs)> {
    solo.effects.iter().rev().find_map(|effect| match effect {
        Effect::AskPeers {
            id,
            question:
                PeerRequest::Ready {
                    to: None,
                    release,
                    hold_off_ms: None,
                    urgent: _,
                },
            among,
            ..
        } => {
            assert_eq!(*release, Some(SECRET.hash()));
            Some((*id, *among))
        }
        _ => None,
    })
}

fn ready(solo: &mut Solo, question: PeerRequestId, number: u128, priority: i64) {
    let contender = Contender {
        id: format!("node-{number}"),
        incarnation: id(number),
        priority,
    };
    let answer = Some(PeerReply::Ready { contender });
    solo.feed(Input::PeerReplied { question, answer });
}

fn time_is_up(solo: &mut Solo, question: PeerRequestId) {
    let answer = None;
    solo.feed(Input::PeerReplied { question, answer });
}

/// A leader whose candidates said that they could lead.
fn leading(candidates: &[(u128, i64)]) -> Solo {
    let mut solo = Solo::leading(tuned(|it| it.validation_interval = ms(60_000)));
    let question = poll(&solo).expect("the candidates are asked");
    for (number, priority) in candidates {
        ready(&mut solo, question, *number, *priority);
    }
    solo
}

/// Waits for the next heartbeat, and takes it.
fn heartbeat(solo: &mut Solo) -> Write {
    solo.take();
    let heartbeat = solo.settings.heartbeat;
    solo.wait(heartbeat);
    solo.write()
}

fn heirs_in(write: &Write) -> Heirs {
    match &write.kind {
        WriteKind::Renew { record, .. } | WriteKind::Claim { record, .. } => record.heirs,
        WriteKind::Release { release, .. } => release.line,
        WriteKind::Fence { .. } => panic!("no line"),
    }
}

/// Leaves the election. The handler takes a while to wind down.
fn leave(solo: &mut Solo) {
    solo.take();
    solo.leave(Intent::Stop { release: true });
    assert_eq!(polled(solo), None);
    solo.wait(TURN);
}

fn end_handler(solo: &mut Solo) -> Write {
    let term = solo.started().expect("a term");
    solo.step_down(RequestId(1));
    solo.end_handler(term);
    solo.write()
}

#[test]
fn a_leader_names_those_that_could_lead_by_priority_and_then_in_their_order() {
    let mut solo = leading(&[(7, 0), (8, 0), (9, 5), (10, 0)]);
    assert_eq!(heirs_in(&heartbeat(&mut solo)), heirs(&[9, 7, 8]));
}

#[test]
fn a_release_is_sent_at_once_and_bears_the_line() {
    let mut solo = leading(&[(7, 0), (8, 0)]);
    assert_eq!(heirs_in(&end_handler(&mut solo)), heirs(&[7, 8]));
}

/// A handler that takes longer to wind down leaves time for a question. An heir that has just said
/// that it is ready is better than the line.
#[test]
fn an_instance_that_leaves_asks_but_does_not_wait_if_it_has_a_line() {
    for answered in [false, true] {
        let mut solo = leading(&[(7, 0)]);
        let term = solo.started().expect("a term");
        leave(&mut solo);
        let question = poll(&solo).expect("the candidates are asked");
        if answered {
            ready(&mut solo, question, 8, 0);
        }
        solo.end_handler(term);
        let (named, named_line) = match solo.write().kind {
            WriteKind::Release { release, .. } => (release.heir, release.line),
            other => panic!("{other:?}"),
        };
        if answered {
            assert_eq!((named, named_line), (Some(id(8)), Heirs::NONE));
        } else {
            assert_eq!((named, named_line), (None, heirs(&[7])));
        }
    }
}

#[test]
fn candidates_are_asked_every_other_lease_and_the_silent_ones_leave_the_line() {
    let mut solo = leading(&[(7, 0), (8, 0)]);
    let first = poll(&solo).expect("the candidates were asked");
    time_is_up(&mut solo, first);
    let (started, mut revision) = (solo.now, 200);
    let second = loop {
        solo.take();
        let heartbeat = solo.settings.heartbeat;
        solo.wait(heartbeat);
        let next = poll(&solo);
        let write = solo.write();
        assert_eq!(next.is_some(), solo.sent >= started + TTL * 2);
        assert_eq!(heirs_in(&write), heirs(&[7, 8]));
        revision += 1;
        solo.ack(&write, revision);
        if let Some(question) = next {
            break question;
        }
    };
    ready(&mut solo, second, 8, 0);
    time_is_up(&mut solo, second);
    // Answers to an earlier question count no more.
    ready(&mut solo, first, 7, 0);
    assert_eq!(heirs_in(&heartbeat(&mut solo)), heirs(&[8]));
}

/// The time for a question is the time of a health check as well. Its interval is not bound to the
/// lease.
#[test]
fn the_silent_ones_leave_the_line_although_a_health_check_may_outlast_the_lease() {
    let mut solo = leading(&[(7, 0), (8, 0), (9, 0)]);
    let (mut asked, mut revision) = (0, 200);
    let line = loop {
        solo.take();
        let heartbeat = solo.settings.heartbeat;
        solo.wait(heartbeat);
        let question = poll(&solo);
        let write = solo.write();
        if let Some(question) = question {
            if asked == 2 {
                break heirs_in(&write);
            }
            asked += 1;
            // The time of no question is ever up.
            ready(&mut solo, question, 10, 0);
        }
        revision += 1;
        solo.ack(&write, revision);
    };
    assert_eq!(line, heirs(&[10]));
}

/// With hundreds of candidates each question to all would wake hundreds of processes.
#[test]
fn a_full_line_is_asked_alone_but_for_each_fifth_time() {
    let line = heirs(&[7, 8, 9]);
    let mut solo = leading(&[(7, 0), (8, 0), (9, 0), (10, 0)]);
    let asked = [(); 5].map(|()| poll_and_gap(&mut solo, &[]).0);
    assert_eq!(asked, [line, line, line, line, Heirs::NONE]);

    let mut solo = leading(&[(7, 0), (8, 0)]);
    assert_eq!(poll_and_gap(&mut solo, &[]).0, Heirs::NONE);
}

#[test]
fn if_an_heir_has_gone_all_candidates_are_asked_with_the_next_heartbeat() {
    let mut solo = leading(&[(7, 0), (8, 0), (9, 0)]);
    let (first, _) = poll_and_gap(&mut solo, &[8]);
    assert_eq!(first, heirs(&[7, 8, 9]));
    let (second, gap) = poll_and_gap(&mut solo, &[]);
    assert_eq!((second, gap), (Heirs::NONE, solo.settings.heartbeat));
}

/// The next poll, whom it asks, and how long after now it is sent. All who are asked alone are
/// ready but these.
fn poll_and_gap(solo: &mut Solo, gone: &[u128]) -> (Heirs, std::time::Duration) {
    let before = solo.now;
    loop {
        solo.take();
        let heartbeat = solo.settings.heartbeat;
        solo.wait(heartbeat);
        let next = polled(solo);
        let write = solo.write();
        let WriteKind::Renew { over, .. } = write.kind else {
            panic!("no heartbeat: {write:?}");
        };
        solo.ack(&write, over + 1);
        let Some((question, among)) = next else {
            continue;
        };
        for heir in among.iter().filter(|heir| !gone.contains(&heir.as_u128())) {
            ready(solo, question, heir.as_u128(), 0);
        }
        time_is_up(solo, question);
        return (among, solo.now.since(before));
    }
}

#[test]
fn nobody_is_asked_without_a_connection() {
    let mut solo = Solo::leading(settings(|_| {}));
    solo.disconnect();
    solo.take();
    solo.wait(ms(400));
    assert_eq!(poll(&solo), None);
}

/// A candidate that watches a leader's record, which names these heirs.
fn following(heirs: Heirs) -> Solo {
    let Content::Record(mut record) = stranger(Some(TTL)) else {
        panic!("a record");
    };
    record.heirs = heirs;
    record.release = Some(SECRET.hash());
    let mut solo = Solo::new(tuned(|it| it.claim_delay = ms(500)), BUCKET);
    solo.chance = 1.0;
    let fence = hashed_fence(99, Some(TTL), SECRET);
    solo.read(Some(entry(100, Content::Record(record))), Some(fence));
    solo
}

/// How long after now the candidate claims the role.
fn claims_after(solo: &mut Solo) -> std::time::Duration {
    let before = solo.now;
    let due = loop {
        solo.take();
        let next = solo.election.next_wakeup().expect("something is due");
        solo.wait(next.since(solo.now));
        if let Some(write) = solo.find_write() {
            assert!(matches!(write.kind, WriteKind::Claim { .. }));
            break solo.now;
        }
        if let Some(op) = solo.find_read() {
            panic!("no read is needed: {op:?}");
        }
    };
    due.since(before)
}

#[test]
fn heirs_claim_in_their_turn_when_the_lease_is_over_and_the_others_after_them() {
    let own = OWN.as_u128();
    let quarter = following(Heirs::NONE).settings.heartbeat / 4;
    let quarter = u64::try_from(quarter.as_millis()).expect("a short one");
    for (line, turns, delay) in [
        (heirs(&[own, 7, 8]), 0, 0),
        (heirs(&[7, own]), 1, 0),
        (heirs(&[7, 8, own]), 2, 0),
        (heirs(&[7, 8, 9]), 3, quarter + 500),
        (heirs(&[7]), 1, 500),
        (heirs(&[]), 0, 500),
    ] {
        let mut solo = following(line);
        assert_eq!(claims_after(&mut solo), TTL + TURN * turns + ms(delay));
    }
}

#[test]
fn heirs_claim_in_their_turn_after_a_release_and_the_others_after_them() {
    let own = OWN.as_u128();
    for (line, turns, delay) in [
        (heirs(&[own]), 0, 0),
        (heirs(&[7, own]), 1, 0),
        (heirs(&[7, 8]), 2, 500),
    ] {
        let mut solo = following(Heirs::NONE);
        solo.wait(ms(100));
        let before = solo.now;
        let release = Content::Release(Release {
            nonce: stranger(None).nonce(),
            heir: None,
            line,
            secret: Some(SECRET),
        });
        solo.take();
        solo.feed(Input::Observed(entry(101, release)));
        if solo.find_write().is_none() {
            claims_after(&mut solo);
        }
        assert_eq!(solo.now.since(before), TURN * turns + ms(delay));
    }
}
