//! Handing over, from the leader's side and the candidate's.

use std::time::Duration;

use uuid::Uuid;

use super::solo::{
    BUCKET, OLD_FENCE, OWN, SECRET, Solo, assert_claims, entry, hashed_fence, ms, proven_release,
    record_of, settings, stranger, tuned,
};
use crate::election::{
    Effect, Input, PeerRequestId, Reply, ReplyId, RequestId, TermId, Write, WriteKind,
};
use crate::event::{EndCause, Event};
use crate::handoff::Handoff;
use crate::heirs::Heirs;
use crate::peer::{Contender, PeerReply, PeerRequest, Refusal};
use crate::record::{Content, Nonce, Release};
use crate::release::ReleaseSecret;
use crate::status::RoleState;

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

/// A request in the form of older versions, without a release hash.
const fn ready_to(to: Option<String>) -> PeerRequest {
    PeerRequest::Ready {
        to,
        release: None,
        hold_off_ms: None,
        urgent: false,
    }
}

fn answered(solo: &Solo) -> Option<PeerReply> {
    solo.effects.iter().find_map(|effect| match effect {
        Effect::AnswerPeer { answer, .. } => Some(answer.clone()),
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

fn hand_over() -> Input {
    Input::StepDown {
        request: ASK,
        to: Some("node-2".into()),
        expected: None,
        hold_off: ms(0),
    }
}

fn asked(question: PeerRequest) -> Input {
    Input::PeerAsked {
        reply_to: ReplyId(1),
        question,
    }
}

fn wants_the_role(beat: u64, priority: i64) -> Input {
    let record = Nonce {
        incarnation: OWN,
        beat,
    };
    asked(PeerRequest::hand_over(record, contender(HEIR, priority)))
}

/// A leader whose successor replied that it is ready.
fn handing_over() -> (Solo, TermId) {
    let (mut solo, term) = Solo::in_term(settings(|_| {}));
    solo.take();
    solo.feed(hand_over());
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
    solo.feed(hand_over());
    let to = Some("node-2".to_owned());
    let release = Some(SECRET.hash());
    assert_eq!(
        question(&solo),
        Some((
            PeerRequestId(2),
            PeerRequest::Ready {
                to,
                release,
                hold_off_ms: None,
                urgent: false,
            }
        ))
    );
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
        solo.feed(hand_over());
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
    solo.feed(hand_over());
    let request = RequestId(8);
    let (to, hold_off) = (Some("node-3".into()), ms(0));
    solo.feed(Input::StepDown {
        request,
        to,
        expected: None,
        hold_off,
    });
    let busy = Reply::SuccessorRefused(Refusal::Busy);
    assert_eq!(solo.reply(request), Some(&busy));
}

#[test]
fn a_term_that_ends_meanwhile_ends_the_handoff() {
    let (mut solo, term) = Solo::in_term(settings(|_| {}));
    solo.feed(hand_over());
    solo.feed(Input::LeaseOver { term });
    assert_eq!(solo.reply(ASK), Some(&Reply::NotLeader));
}

#[test]
fn a_leader_asks_no_successor_while_the_connection_is_down() {
    let mut solo = Solo::leading(settings(|_| {}));
    solo.take();
    solo.disconnect();
    solo.feed(hand_over());
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
    solo.feed(Input::StepDown {
        request: ASK,
        to: None,
        expected: None,
        hold_off,
    });
    solo.end_handler(term);
    let release = solo.find_write().expect("a release");
    solo.take();
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
    solo.feed(Input::Stop { release: true });
    let (question, asked) = question(&solo).expect("a question");
    let release = Some(SECRET.hash());
    assert_eq!(
        asked,
        PeerRequest::Ready {
            to: None,
            release,
            hold_off_ms: None,
            urgent: true,
        }
    );
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
    solo.feed(Input::Stop { release: true });
    solo.take();
    solo.end_handler(term);
    assert_eq!(solo.find_write(), None);
    solo.wait(ms(16));
    assert!(frees(&solo.write(), None));
}

#[test]
fn a_candidate_that_could_lead_replies_that_it_is_ready() {
    let mut solo = Solo::new(settings(|config| config.priority = 4), super::solo::BUCKET);
    let leading = record_of(HEIR, 3, Some(ms(1000)));
    solo.read(Some(entry(100, leading)), Some(OLD_FENCE));
    for to in [None, Some("solo".to_owned())] {
        solo.take();
        solo.feed(asked(ready_to(to)));
        let contender = Contender {
            id: "solo".into(),
            incarnation: OWN,
            priority: 4,
        };
        assert_eq!(answered(&solo), Some(PeerReply::Ready { contender }));
    }
    solo.take();
    solo.feed(asked(ready_to(Some("another".into()))));
    assert_eq!(answered(&solo), None);
    solo.disconnect();
    solo.feed(asked(ready_to(Some("solo".into()))));
    let why = Refusal::Disconnected;
    assert_eq!(answered(&solo), Some(PeerReply::Refused { why }));
}

/// The record of a leader whose release this secret will prove.
fn showing(secret: ReleaseSecret) -> Content {
    let Content::Record(mut record) = stranger(Some(ms(1000))) else {
        panic!("a record");
    };
    record.release = Some(secret.hash());
    Content::Record(record)
}

fn release(secret: ReleaseSecret, heir: Uuid) -> Content {
    Content::Release(Release {
        nonce: stranger(None).nonce(),
        heir: Some(heir),
        line: Heirs::NONE,
        secret: Some(secret),
    })
}

/// The watch never shows a record that is overwritten at once to a slow reader. So its release
/// would not be believed.
#[test]
fn a_candidate_that_has_not_seen_the_term_reads_before_it_is_ready() {
    const NEXT: ReleaseSecret = ReleaseSecret::new(0x2);
    let fence = |revision, secret| Some(hashed_fence(revision, Some(ms(1000)), secret));
    let is_ready = || {
        asked(PeerRequest::Ready {
            to: Some("solo".into()),
            release: Some(NEXT.hash()),
            hold_off_ms: None,
            urgent: false,
        })
    };
    let behind = Some(PeerReply::Refused {
        why: Refusal::Behind,
    });
    let mut solo = Solo::new(settings(|_| {}), super::solo::BUCKET);
    solo.read(Some(entry(100, showing(SECRET))), fence(99, SECRET));
    let mut unseen = solo.clone();
    solo.wait(ms(300));
    solo.feed(Input::Observed(entry(101, release(SECRET, HEIR))));
    solo.take();
    solo.feed(is_ready());
    assert_eq!(answered(&solo), behind);
    solo.read(Some(entry(103, showing(NEXT))), fence(104, NEXT));
    solo.feed(is_ready());
    assert!(matches!(answered(&solo), Some(PeerReply::Ready { .. })));
    solo.feed(Input::Observed(entry(105, release(NEXT, OWN))));
    solo.wait(ms(1));
    assert_claims(&solo.write(), 105);

    // The end of the term before was not seen, so its lease may last.
    unseen.feed(Input::Observed(entry(103, showing(NEXT))));
    unseen.feed(Input::ObservedFence(fence(104, NEXT).expect("one")));
    unseen.take();
    unseen.feed(is_ready());
    assert_eq!(answered(&unseen), behind);
    unseen.wait_showing(ms(1000), Some(&entry(103, showing(NEXT))), fence(104, NEXT));
    unseen.take();
    unseen.feed(is_ready());
    assert!(matches!(answered(&unseen), Some(PeerReply::Ready { .. })));
}

/// The number of reads is bounded even if many requests name a term that never was.
#[test]
fn requests_about_an_unknown_term_cost_few_reads() {
    let mut solo = Solo::new(settings(|_| {}), super::solo::BUCKET);
    let leading = entry(100, record_of(HEIR, 3, Some(ms(1000))));
    solo.read(Some(leading.clone()), Some(OLD_FENCE));
    let mut reads = 0;
    let heartbeat = settings(|_| {}).heartbeat;
    let end = solo.now + heartbeat;
    while solo.now < end {
        solo.feed(asked(PeerRequest::Ready {
            to: None,
            release: Some(SECRET.hash()),
            hold_off_ms: None,
            urgent: false,
        }));
        solo.wait(ms(1));
        if let Some(op) = solo.find_read() {
            reads += 1;
            solo.show(op, Some(leading.clone()), Some(OLD_FENCE));
        }
    }
    assert!((1..=4).contains(&reads), "{reads}");
    // At most one read follows the last request.
    let more = |solo: &mut Solo| {
        solo.wait(heartbeat / 4);
        let op = solo.find_read()?;
        solo.show(op, Some(leading.clone()), Some(OLD_FENCE));
        Some(())
    };
    more(&mut solo);
    assert_eq!(more(&mut solo), None);
}

/// The watch has shown the leader.
#[test]
fn an_instance_whose_first_read_is_under_way_is_ready() {
    let mut solo = Solo::new(settings(|_| {}), super::solo::BUCKET);
    solo.feed(Input::Observed(entry(100, showing(SECRET))));
    assert_eq!(solo.state(), RoleState::Follower);
    solo.feed(asked(PeerRequest::Ready {
        to: None,
        release: Some(SECRET.hash()),
        hold_off_ms: None,
        urgent: false,
    }));
    assert!(matches!(answered(&solo), Some(PeerReply::Ready { .. })));
}

/// In a bucket with a max age a fence record may expire while its leader leads.
#[test]
fn the_leaders_record_alone_is_enough_to_be_ready_without_a_fence_record() {
    let mut solo = Solo::new(settings(|_| {}), super::solo::BUCKET);
    solo.read(Some(entry(100, showing(SECRET))), None);
    for to in [None, Some("solo".to_owned())] {
        solo.take();
        let release = Some(SECRET.hash());
        solo.feed(asked(PeerRequest::Ready {
            to,
            release,
            hold_off_ms: None,
            urgent: false,
        }));
        assert!(matches!(answered(&solo), Some(PeerReply::Ready { .. })));
    }
    solo.feed(Input::Observed(entry(101, release(SECRET, OWN))));
    let claim = solo.wait_showing(ms(2), Some(&entry(101, release(SECRET, OWN))), None);
    assert_claims(&claim.expect("a claim"), 101);
}

#[test]
fn a_leader_yields_to_a_higher_priority_and_names_it_heir() {
    let (mut solo, term) = Solo::in_term(settings(|_| {}));
    solo.take();
    solo.feed(wants_the_role(0, 1));
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
        solo.feed(wants_the_role(0, priority));
        let why = Refusal::PriorityNotHigher;
        assert_eq!(answered(&solo), Some(PeerReply::Refused { why }));
        assert_eq!(solo.state(), RoleState::Leader);
    }
}

#[test]
fn a_takeover_request_for_another_term_ends_no_term() {
    let (mut solo, term) = Solo::in_term(settings(|_| {}));
    let request = wants_the_role(0, 9);
    let (to, hold_off) = (None, ms(0));
    solo.feed(Input::StepDown {
        request: ASK,
        to,
        expected: None,
        hold_off,
    });
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
    let record = Nonce {
        incarnation: Uuid::from_u128(77),
        beat: 0,
    };
    solo.feed(asked(PeerRequest::hand_over(record, contender(HEIR, 9))));
    assert_eq!(answered(&solo), None);
}

#[test]
fn the_higher_priority_of_two_takeover_requests_gets_the_role() {
    let (mut solo, term) = Solo::in_term(settings(|_| {}));
    solo.feed(wants_the_role(0, 1));
    solo.take();
    let record = Nonce {
        incarnation: OWN,
        beat: 0,
    };
    let third = Uuid::from_u128(3);
    solo.feed(asked(PeerRequest::hand_over(record, contender(third, 2))));
    assert_eq!(answered(&solo), Some(PeerReply::Yielding));
    solo.take();
    solo.feed(wants_the_role(0, 1));
    let why = Refusal::PriorityNotHigher;
    assert_eq!(answered(&solo), Some(PeerReply::Refused { why }));
    solo.end_handler(term);
    assert!(frees(&solo.write(), Some(third)));
}

#[test]
fn a_successor_that_an_operator_named_is_not_displaced() {
    let (mut solo, _) = handing_over();
    solo.take();
    let record = Nonce {
        incarnation: OWN,
        beat: 0,
    };
    let other = contender(Uuid::from_u128(3), 9);
    solo.feed(asked(PeerRequest::hand_over(record, other)));
    let why = Refusal::Busy;
    assert_eq!(answered(&solo), Some(PeerReply::Refused { why }));
}

#[test]
fn a_takeover_request_that_comes_twice_is_agreed_to_twice() {
    let mut solo = Solo::leading(settings(|_| {}));
    for _ in 0..2 {
        solo.take();
        solo.feed(wants_the_role(0, 5));
        assert_eq!(answered(&solo), Some(PeerReply::Yielding));
    }
    solo.take();
    let other = contender(Uuid::from_u128(3), 5);
    let record = Nonce {
        incarnation: OWN,
        beat: 0,
    };
    solo.feed(asked(PeerRequest::hand_over(record, other)));
    let why = Refusal::PriorityNotHigher;
    assert_eq!(answered(&solo), Some(PeerReply::Refused { why }));
}

/// When a candidate answers a question to all, and one to itself, after it has seen that line.
fn answer_times(line: &[Uuid], chance: f64) -> (Duration, Duration) {
    let mut solo = Solo::new(settings(|_| {}), BUCKET);
    let Content::Record(mut record) = stranger(Some(ms(15_000))) else {
        panic!("a record");
    };
    record.heirs = line.iter().copied().collect();
    solo.read(Some(entry(100, Content::Record(record))), Some(OLD_FENCE));
    // The first record of a new leader names nobody.
    let entry = entry(101, record_of(HEIR, 1, Some(ms(15_000))));
    solo.feed(Input::Observed(entry));
    solo.chance = chance;
    let mut after = |to: Option<&str>, now: bool| {
        solo.take();
        let mut question = ready_to(to.map(ToOwned::to_owned));
        if let PeerRequest::Ready { urgent, .. } = &mut question {
            *urgent = now;
        }
        solo.feed(asked(question));
        let found = solo.effects.iter().find_map(|effect| match effect {
            Effect::AnswerPeer { after, .. } => Some(*after),
            _ => None,
        });
        found.expect("an answer")
    };
    assert_eq!(after(None, true), ms(0), "the asker's term is ending");
    (after(None, false), after(Some("solo"), false))
}

#[test]
fn of_hundreds_the_heirs_answer_a_new_leader_at_once_and_the_others_each_at_random() {
    let others = [3, 4, 5].map(Uuid::from_u128);
    assert_eq!(answer_times(&others, 0.0), (ms(0), ms(0)));
    assert_eq!(answer_times(&others, 1.0), (ms(50), ms(0)));
    let with_us = [others[0], OWN, others[1]];
    assert_eq!(answer_times(&with_us, 1.0), (ms(0), ms(0)));
    // A line with room names all that there are.
    assert_eq!(answer_times(&others[..2], 1.0), (ms(0), ms(0)));
    assert_eq!(answer_times(&[], 1.0), (ms(0), ms(0)));
}
