//! Handing over, from the leader's side and the candidate's.

use uuid::Uuid;

use super::asked::{answered, asked};
use super::solo::{
    OLD_FENCE, OWN, SECRET, Solo, assert_claims, could_lead, entry, ms, proven_release, record_of,
    settings, step_down, tuned,
};
use crate::event::{EndCause, Event};
use crate::handoff::Handoff;
use crate::peer::{Contender, PeerReply, PeerRequest, Refusal};
use crate::record::{Content, Nonce, Release};
use crate::status::RoleState;
use crate::{Effect, Input, Intent, PeerRequestId, Reply, RequestId, TermId, Write, WriteKind};

const ASK: RequestId = RequestId(7);
const HEIR: Uuid = Uuid::from_u128(2);

fn contender(incarnation: Uuid, priority: i64) -> Contender {
    Contender {
        id: "node-2".into(),
        incarnation,
        priority,
    }
}

fn ready(incarnation: Uuid, priority: i64) -> PeerReply {
    let contender = contender(incarnation, priority);
    PeerReply::Ready { contender }
}

fn question(solo: &Solo) -> Option<(PeerRequestId, PeerRequest)> {
    solo.effects.iter().find_map(|effect| match effect {
        Effect::AskPeers { id, question, .. } => Some((*id, question.clone())),
        _ => None,
    })
}

/// The outcome of the handoff in the reply to the caller.
fn handoff(solo: &Solo) -> Option<Handoff> {
    match solo.reply(ASK)? {
        Reply::SteppedDown {
            released: true,
            handoff,
        } => *handoff,
        other => panic!("{other:?}"),
    }
}

/// Whether the event of a handoff with this outcome was reported.
fn told(solo: &Solo, outcome: Option<Handoff>) -> bool {
    solo.has(|effect| *effect == Effect::Event(Event::HandedOver { outcome }))
}

/// The request of this candidate for the role of the writer of a record.
fn wants_the_role(leader: Uuid, by: Uuid, priority: i64) -> Input {
    let record = Nonce {
        incarnation: leader,
        beat: 0,
    };
    asked(PeerRequest::hand_over(record, contender(by, priority)))
}

/// A leader whose successor replied that it is ready.
fn handing_over() -> (Solo, TermId) {
    let (mut solo, term) = Solo::in_term(settings(|_| {}));
    solo.take();
    solo.feed(step_down(ASK, Some("node-2"), None, ms(0)));
    let (question, _) = question(&solo).expect("a question");
    let answer = Some(ready(HEIR, 0));
    solo.feed(Input::PeerReplied { question, answer });
    (solo, term)
}

/// Whether this write frees the role for this heir.
fn frees(write: &Write, heir: Option<Uuid>) -> bool {
    matches!(write.kind, WriteKind::Release { release, .. } if release.heir == heir)
}

/// The release that was asked for, which names the heir.
fn release_to_heir(solo: &mut Solo) -> Write {
    let release = solo.write();
    assert!(frees(&release, Some(HEIR)));
    release
}

/// Ends the handler and frees the role in the heir's name, by the marker at this revision.
fn handed_over(marker: u64) -> Solo {
    let (mut solo, term) = handing_over();
    solo.end_handler(term);
    let release = release_to_heir(&mut solo);
    solo.ack(&release, marker);
    solo
}

#[test]
fn a_leader_asks_its_successor_before_it_ends_its_term() {
    let mut solo = Solo::leading(settings(|_| {}));
    solo.take();
    solo.feed(step_down(ASK, Some("node-2"), None, ms(0)));
    let asked = could_lead(Some("node-2"), Some(SECRET));
    assert_eq!(question(&solo), Some((PeerRequestId(2), asked)));
    assert_eq!(solo.state(), RoleState::Leader);
    assert!(!solo.has(|effect| matches!(effect, Effect::Cancel { .. })));
}

#[test]
fn a_leader_without_its_successor_leads_on() {
    let refusal = PeerReply::Refused {
        why: Refusal::Unhealthy,
    };
    for (answer, reply) in [
        (None, Reply::SuccessorAbsent),
        (Some(PeerReply::Yielding), Reply::SuccessorAbsent),
        (Some(refusal), Reply::SuccessorRefused(Refusal::Unhealthy)),
    ] {
        let mut solo = Solo::leading(settings(|_| {}));
        solo.take();
        solo.feed(step_down(ASK, Some("node-2"), None, ms(0)));
        let (question, _) = question(&solo).expect("a question");
        solo.feed(Input::PeerReplied { question, answer });
        assert_eq!(solo.reply(ASK), Some(&reply));
        let why = (reply != Reply::SuccessorAbsent).then_some(Refusal::Unhealthy);
        assert!(solo.has(|effect| *effect == Effect::Event(Event::HandoffRefused { why })));
        assert_eq!(solo.state(), RoleState::Leader);
        // Later replies find no handoff to end.
        let answer = Some(ready(HEIR, 0));
        solo.feed(Input::PeerReplied { question, answer });
        assert_eq!(solo.state(), RoleState::Leader);
    }
}

#[test]
fn a_second_handoff_is_refused_while_the_first_is_pending() {
    let mut solo = Solo::leading(settings(|_| {}));
    solo.feed(step_down(ASK, Some("node-2"), None, ms(0)));
    let request = RequestId(8);
    solo.feed(step_down(request, Some("node-3"), None, ms(0)));
    let busy = Reply::SuccessorRefused(Refusal::Busy);
    assert_eq!(solo.reply(request), Some(&busy));
}

#[test]
fn a_term_that_ends_meanwhile_ends_the_handoff() {
    let (mut solo, term) = Solo::in_term(settings(|_| {}));
    solo.feed(step_down(ASK, Some("node-2"), None, ms(0)));
    solo.feed(Input::LeaseOver { term });
    assert_eq!(solo.reply(ASK), Some(&Reply::NotLeader));
}

#[test]
fn a_leader_asks_no_successor_while_the_connection_is_down() {
    let mut solo = Solo::leading(settings(|_| {}));
    solo.take();
    solo.disconnect();
    solo.feed(step_down(ASK, Some("node-2"), None, ms(0)));
    assert_eq!(question(&solo), None);
    assert_eq!(solo.reply(ASK), Some(&Reply::SuccessorAbsent));
}

#[test]
fn the_role_is_freed_in_its_heirs_name_only_after_the_handler_has_ended() {
    let (mut solo, term) = handing_over();
    assert!(solo.has(|effect| *effect == Effect::Cancel { term }));
    assert_eq!(solo.find_write(), None);
    solo.end_handler(term);
    let revoked = solo
        .effects
        .iter()
        .position(|effect| *effect == Effect::Revoke { term });
    let released = solo
        .effects
        .iter()
        .position(|effect| matches!(effect, Effect::Write(write) if frees(write, Some(HEIR))));
    assert!(
        revoked.is_some() && revoked < released,
        "{:?}",
        solo.effects
    );
}

#[test]
fn the_handoff_is_accepted_when_the_heirs_record_is_seen() {
    let mut solo = handed_over(103);
    assert_eq!(solo.reply(ASK), None, "nobody has claimed it yet");
    let heirs = record_of(HEIR, 0, Some(ms(1000)));
    solo.feed(Input::Observed(entry(104, heirs)));
    assert_eq!(handoff(&solo), Some(Handoff::Accepted));
    assert!(told(&solo, Some(Handoff::Accepted)));
    assert_eq!(solo.state(), RoleState::Demoted);
}

#[test]
fn a_record_of_another_instance_is_reported_as_taken_by_another() {
    let mut solo = handed_over(103);
    let anothers = record_of(Uuid::from_u128(3), 0, Some(ms(1000)));
    solo.feed(Input::Observed(entry(104, anothers)));
    assert_eq!(handoff(&solo), Some(Handoff::TakenByAnother));
}

#[test]
fn an_heir_that_is_not_seen_to_claim_is_looked_for_and_then_given_up() {
    let mut solo = handed_over(103);
    solo.wait(solo.settings.handoff_hold());
    let marker = Content::Release(Release {
        nonce: None,
        heir: Some(HEIR),
        ..Release::default()
    });
    solo.read(Some(entry(103, marker)), Some(OLD_FENCE));
    assert_eq!(solo.reply(ASK), None);
    solo.wait(solo.settings.request_timeout);
    assert_eq!(handoff(&solo), Some(Handoff::TimedOut));
    assert!(told(&solo, Some(Handoff::TimedOut)));
}

#[test]
fn the_last_read_finds_an_heir_that_the_watch_did_not_show() {
    let mut solo = handed_over(103);
    solo.wait(solo.settings.handoff_hold());
    let heirs = record_of(HEIR, 0, Some(ms(1000)));
    solo.read(Some(entry(104, heirs)), Some(OLD_FENCE));
    assert_eq!(handoff(&solo), Some(Handoff::Accepted));
}

#[test]
fn the_old_leader_stays_out_for_the_hold_off_that_was_asked_for() {
    let (mut solo, term) = Solo::in_term(tuned(|it| it.claim_delay = ms(0)));
    let hold_off = ms(5000);
    solo.feed(step_down(ASK, None, None, hold_off));
    solo.end_handler(term);
    let release = solo.write();
    solo.ack(&release, 103);
    solo.wait(hold_off - ms(1));
    assert_eq!(solo.state(), RoleState::Demoted);
    assert!(!solo.asks());
    solo.wait(ms(1));
    assert!(solo.asks());
}

#[test]
fn an_heir_claims_at_once_and_the_others_leave_it_a_heartbeat() {
    for (heir, waits) in [(OWN, ms(0)), (HEIR, ms(200))] {
        let settings = tuned(|it| it.claim_delay = ms(90));
        let mut solo = Solo::new(settings, super::solo::BUCKET);
        // The random delay before a claim is the longest for those that race.
        solo.chance = 0.0;
        let leading = record_of(Uuid::from_u128(9), 3, Some(ms(1000)));
        solo.read(Some(entry(100, leading)), Some(OLD_FENCE));
        solo.chance = 0.99;
        let before = solo.now;
        let release = Release {
            heir: Some(heir),
            ..Release::default()
        };
        solo.feed(Input::Observed(entry(101, Content::Release(release))));
        if heir != OWN {
            solo.wait(waits - ms(1));
            assert_eq!(solo.find_write(), None);
            solo.wait(ms(100));
        }
        let claim = solo.write();
        assert_claims(&claim, 101);
        assert!(solo.sent >= before + waits);
    }
}

#[test]
fn a_stop_hands_over_to_the_ready_candidate_of_the_highest_priority() {
    let (mut solo, term) = Solo::in_term(settings(|_| {}));
    solo.take();
    solo.leave(Intent::Stop { release: true });
    let (question, asked) = question(&solo).expect("a question");
    assert!(matches!(
        asked,
        PeerRequest::Ready { to: None, urgent: true, release, .. } if release == Some(SECRET.hash())
    ));
    let others = [(3, 1), (2, 5), (4, 5)].map(|(i, priority)| ready(Uuid::from_u128(i), priority));
    for answer in others.map(Some) {
        solo.feed(Input::PeerReplied { question, answer });
    }
    solo.end_handler(term);
    let release = release_to_heir(&mut solo);
    solo.ack(&release, 103);
    assert!(solo.election.is_stopped(), "it does not wait for the heir");
    assert!(told(&solo, None));
}

#[test]
fn a_stop_waits_for_an_answer_only_for_a_moment() {
    let (mut solo, term) = Solo::in_term(settings(|_| {}));
    solo.leave(Intent::Stop { release: true });
    solo.take();
    solo.end_handler(term);
    assert_eq!(solo.find_write(), None);
    solo.wait(ms(16));
    assert!(frees(&solo.write(), None));
}

#[test]
fn a_leader_yields_to_a_higher_priority_and_names_it_heir() {
    let (mut solo, term) = Solo::in_term(settings(|_| {}));
    solo.take();
    solo.feed(wants_the_role(OWN, HEIR, 1));
    assert_eq!(answered(&solo), Some(PeerReply::Yielding));
    assert!(solo.ends(EndCause::Preempted));
    solo.end_handler(term);
    let release = release_to_heir(&mut solo);
    solo.ack(&release, 103);
    assert_eq!(solo.state(), RoleState::Demoted, "at once");
}

#[test]
fn a_leader_does_not_yield_to_an_equal_or_lower_priority() {
    for priority in [0, -1] {
        let mut solo = Solo::leading(settings(|_| {}));
        solo.take();
        solo.feed(wants_the_role(OWN, HEIR, priority));
        let why = Refusal::PriorityNotHigher;
        assert_eq!(answered(&solo), Some(PeerReply::Refused { why }));
        assert_eq!(solo.state(), RoleState::Leader);
    }
}

#[test]
fn a_takeover_request_for_another_term_ends_no_term() {
    let (mut solo, term) = Solo::in_term(settings(|_| {}));
    let request = wants_the_role(OWN, HEIR, 9);
    solo.step_down(ASK);
    solo.end_handler(term);
    let release = solo.find_write().expect("a release");
    solo.ack(&release, 103);
    solo.take();
    solo.wait(ms(401));
    solo.read(Some(entry(103, proven_release())), Some(OLD_FENCE));
    solo.wait(ms(3));
    // The instance is elected again.
    let claim = solo.find_write().expect("a claim");
    solo.ack(&claim, 104);
    let fence = solo.find_write().expect("a fence");
    solo.ack(&fence, 105);
    assert_eq!(solo.state(), RoleState::Leader);
    solo.take();
    solo.feed(request);
    let why = Refusal::NotLeader;
    assert_eq!(answered(&solo), Some(PeerReply::Refused { why }));
    assert_eq!(solo.state(), RoleState::Leader);
    // A request to an older process of the same name gets no reply.
    solo.take();
    solo.feed(wants_the_role(Uuid::from_u128(77), HEIR, 9));
    assert_eq!(answered(&solo), None);
}

#[test]
fn the_higher_priority_of_two_takeover_requests_gets_the_role() {
    let (mut solo, term) = Solo::in_term(settings(|_| {}));
    solo.feed(wants_the_role(OWN, HEIR, 1));
    solo.take();
    let third = Uuid::from_u128(3);
    solo.feed(wants_the_role(OWN, third, 2));
    assert_eq!(answered(&solo), Some(PeerReply::Yielding));
    solo.take();
    solo.feed(wants_the_role(OWN, HEIR, 1));
    let why = Refusal::PriorityNotHigher;
    assert_eq!(answered(&solo), Some(PeerReply::Refused { why }));
    solo.end_handler(term);
    assert!(frees(&solo.write(), Some(third)));
}

#[test]
fn a_successor_that_an_operator_named_is_not_displaced() {
    let (mut solo, _) = handing_over();
    solo.take();
    solo.feed(wants_the_role(OWN, Uuid::from_u128(3), 9));
    let why = Refusal::Busy;
    assert_eq!(answered(&solo), Some(PeerReply::Refused { why }));
}

#[test]
fn a_takeover_request_that_comes_twice_is_agreed_to_twice() {
    let mut solo = Solo::leading(settings(|_| {}));
    for _ in 0..2 {
        solo.take();
        solo.feed(wants_the_role(OWN, HEIR, 5));
        assert_eq!(answered(&solo), Some(PeerReply::Yielding));
    }
    solo.take();
    solo.feed(wants_the_role(OWN, Uuid::from_u128(3), 5));
    let why = Refusal::PriorityNotHigher;
    assert_eq!(answered(&solo), Some(PeerReply::Refused { why }));
}
