//! Pause, resume and cordon.

use std::time::Duration;

use uuid::Uuid;

use super::asked::{answered, asked};
use super::solo::{
    BUCKET, OLD_FENCE, Solo, assert_claims, assert_frees, could_lead, entry, free, ms, own,
    proven_release, record_of, settings, stranger, tuned,
};
use crate::event::{EndCause, Event};
use crate::handoff::Handoff;
use crate::peer::{Contender, PeerReply, PeerRequest, Refusal};
use crate::record::{Content, Release};
use crate::status::RoleState;
use crate::{
    Effect, HandlerEnd, Input, Intent, Link, PeerRequestId, Reply, RequestId, TermId, Write,
};

const ASK: RequestId = RequestId(7);
const TTL: Duration = ms(1000);
const HEIR: Uuid = Uuid::from_u128(2);

const PAUSE: Input = Input::Intend(ASK, Intent::Pause);
const RESUME: Input = Input::Intend(ASK, Intent::Resume);
const CORDON: Input = Input::Intend(ASK, Intent::Cordon);

/// The claim that is sent within this time. Each read shows a role that is free since this release.
fn claim_within(solo: &mut Solo, time: Duration, released: u64) -> Option<Write> {
    let free = entry(released, proven_release());
    solo.wait_showing(time, Some(&free), Some(OLD_FENCE))
}

fn leading() -> (Solo, TermId) {
    let (mut solo, term) = Solo::in_term(settings(|_| {}));
    solo.take();
    (solo, term)
}

#[track_caller]
fn stepped_down(solo: &Solo, released: bool, handoff: Option<Handoff>) {
    let expected = Reply::SteppedDown { released, handoff };
    assert_eq!(solo.reply(ASK), Some(&expected));
}

fn search(solo: &Solo) -> Option<PeerRequestId> {
    solo.effects.iter().find_map(|effect| match effect {
        Effect::AskPeers {
            id,
            question: PeerRequest::Ready { to: None, .. },
            ..
        } => Some(*id),
        _ => None,
    })
}

fn ready() -> PeerReply {
    PeerReply::Ready {
        contender: Contender {
            id: "node-2".into(),
            incarnation: HEIR,
            priority: 0,
        },
    }
}

#[test]
fn a_paused_instance_leaves_a_free_role_alone_until_it_is_resumed() {
    let mut solo = Solo::facing_free(settings(|_| {}));
    solo.feed(PAUSE);
    assert_eq!(solo.reply(ASK), Some(&Reply::Noted));
    assert_eq!(claim_within(&mut solo, TTL * 10, 100), None);
    assert_eq!(solo.state(), RoleState::Candidate);
    assert!(solo.election.status().paused);
    solo.take();
    solo.feed(RESUME);
    assert_eq!(solo.reply(ASK), Some(&Reply::Noted));
    assert_claims(&solo.write(), 100);
}

#[test]
fn a_pause_and_its_end_are_reported_once() {
    let mut solo = Solo::facing_free(settings(|_| {}));
    for (input, told) in [
        (PAUSE, 1),
        (PAUSE, 0),
        (CORDON, 0),
        (RESUME, 1),
        (RESUME, 0),
    ] {
        solo.take();
        solo.feed(input);
        let changes = solo
            .effects
            .iter()
            .filter(|effect| matches!(effect, Effect::Event(Event::Paused | Event::Resumed)));
        assert_eq!(changes.count(), told);
        assert!(solo.reply(ASK).is_some());
    }
}

#[test]
fn a_paused_instance_reports_the_leader_with_and_without_the_watch() {
    let mut solo = Solo::facing_free(settings(|_| {}));
    solo.feed(PAUSE);
    solo.feed(Input::Observed(entry(110, stranger(Some(TTL)))));
    assert_eq!(solo.state(), RoleState::Follower);
    let leader = solo.election.status().leader.expect("a leader");
    assert_eq!(leader.instance_id, "somebody");
    // The watch falls silent. When the lease should be over, the keys are read.
    solo.take();
    solo.wait(TTL - ms(1));
    assert!(solo.find_read().is_none());
    solo.wait(ms(1));
    let renewed = record_of(Uuid::from_u128(99), 5, Some(TTL));
    solo.read(Some(entry(120, renewed)), Some(OLD_FENCE));
    assert_eq!(solo.state(), RoleState::Follower);
    assert!(solo.election.status().leader.is_some());
}

#[test]
fn a_paused_instance_reads_a_free_role_once_a_lease() {
    let mut solo = Solo::facing_free(settings(|_| {}));
    solo.feed(PAUSE);
    let mut reads = Vec::new();
    for _ in 0..3 {
        for _ in 0..200 {
            if !solo.reads() {
                solo.wait(ms(10));
            }
        }
        reads.push(solo.now);
        solo.read(Some(free(100)), Some(OLD_FENCE));
    }
    assert_eq!(reads[1].since(reads[0]), TTL);
    assert_eq!(reads[2].since(reads[1]), TTL);
}

#[test]
fn a_paused_leader_leads_on_and_stays_out_when_its_term_ends() {
    let (mut solo, term) = Solo::in_term(tuned(|it| it.validation_interval = ms(60_000)));
    solo.feed(PAUSE);
    let mut revision = 102;
    for _ in 0..10 {
        solo.wait(ms(200));
        while let Some(renewal) = solo.find_write() {
            revision += 1;
            solo.ack(&renewal, revision);
        }
    }
    assert_eq!(solo.state(), RoleState::Leader);
    let end = HandlerEnd::Returned;
    solo.feed(Input::HandlerEnding { term, end });
    solo.end_handler(term);
    let release = solo.write();
    revision += 1;
    solo.ack(&release, revision);
    assert_eq!(claim_within(&mut solo, TTL * 5, revision), None);
    assert!(solo.election.status().paused);
    assert_eq!(solo.state(), RoleState::Candidate);
}

#[test]
fn a_claim_that_is_won_after_a_pause_is_given_back() {
    let (mut solo, claim) = Solo::claiming(settings(|_| {}));
    solo.feed(PAUSE);
    solo.ack(&claim, 101);
    assert!(solo.started().is_none());
    let release = solo.write();
    assert_frees(&release, 101, None);
    solo.ack(&release, 102);
    assert_eq!(claim_within(&mut solo, TTL * 3, 102), None);
    assert!(!solo.election.is_stopped());
    solo.take();
    solo.feed(RESUME);
    assert_claims(&solo.write(), 102);
}

#[test]
fn a_claim_whose_fence_record_is_confirmed_after_a_pause_starts_no_term() {
    let (mut solo, _, fence) = Solo::fencing(settings(|_| {}));
    solo.feed(PAUSE);
    solo.ack(&fence, 102);
    assert!(solo.started().is_none());
    assert_frees(&solo.write(), 101, None);
}

#[test]
fn an_unanswered_claim_is_looked_for_after_a_pause_and_given_back() {
    let (mut solo, claim) = Solo::claiming(settings(|_| {}));
    solo.feed(PAUSE);
    solo.time_out(&claim);
    solo.wait(ms(60));
    solo.read(Some(entry(101, own(&claim, TTL))), Some(OLD_FENCE));
    assert_frees(&solo.write(), 101, None);
}

#[test]
fn a_claim_that_is_given_back_for_a_pause_is_no_failure() {
    let mut solo = Solo::facing_free(settings(|_| {}));
    let mut over = 100;
    let mut claim = claim_within(&mut solo, ms(4), over);
    for _ in 0..5 {
        let claimed = claim.expect("a claim");
        solo.feed(PAUSE);
        solo.ack(&claimed, over + 1);
        let release = solo.write();
        over += 2;
        solo.ack(&release, over);
        solo.feed(RESUME);
        // It stands again after the plain cool-down, not after a doubled one.
        let cooldown = solo.settings.cooldown;
        let early = claim_within(&mut solo, cooldown - ms(1), over);
        assert_eq!(early, None, "a cool-down is not cut short");
        claim = claim_within(&mut solo, ms(4), over);
    }
    assert!(claim.is_some());
}

#[test]
fn a_claim_that_is_answered_after_the_resume_starts_a_term() {
    let (mut solo, claim) = Solo::claiming(settings(|_| {}));
    solo.feed(PAUSE);
    solo.feed(RESUME);
    solo.ack(&claim, 101);
    solo.fences();
    assert!(solo.started().is_some());
}

#[test]
fn a_cordoned_leader_hands_over_and_stays_in_the_election() {
    let (mut solo, term) = leading();
    solo.feed(CORDON);
    assert!(solo.ends(EndCause::Cordoned));
    assert!(solo.has(|effect| *effect == Effect::Cancel { term }));
    let question = search(&solo).expect("the others are asked");
    let answer = Some(ready());
    solo.feed(Input::PeerReplied { question, answer });
    assert!(!solo.writes(), "its handler still runs");
    solo.end_handler(term);
    let release = solo.write();
    assert_frees(&release, 101, Some(HEIR));
    solo.ack(&release, 103);
    assert_eq!(solo.reply(ASK), None, "the heir has not claimed it yet");
    solo.feed(Input::Observed(entry(104, record_of(HEIR, 0, Some(TTL)))));
    stepped_down(&solo, true, Some(Handoff::Accepted));
    assert!(solo.election.status().leader.is_some());
    solo.take();
    // The heir dies. The cordoned instance still leads nothing.
    solo.wait(TTL * 5);
    assert!(!solo.writes());
    assert!(!solo.election.is_stopped());
}

#[test]
fn a_cordon_of_an_instance_that_does_not_lead_is_answered_at_once() {
    let (solo, _) = Solo::claiming(settings(|_| {}));
    for mut solo in [Solo::facing_free(settings(|_| {})), solo] {
        solo.feed(CORDON);
        assert_eq!(solo.reply(ASK), Some(&Reply::NotLeader));
        assert!(solo.election.status().paused);
    }
}

#[test]
fn a_cordon_while_a_term_ends_waits_for_its_end() {
    let (mut solo, term) = leading();
    let end = HandlerEnd::Returned;
    solo.feed(Input::HandlerEnding { term, end });
    solo.feed(CORDON);
    assert_eq!(solo.reply(ASK), None);
    assert!(search(&solo).is_none(), "it ends as it began to");
    solo.end_handler(term);
    let release = solo.write();
    solo.ack(&release, 103);
    stepped_down(&solo, true, None);
}

#[test]
fn a_leader_that_is_cordoned_while_disconnected_lets_its_lease_run_out() {
    let (mut solo, term) = leading();
    solo.disconnect();
    solo.feed(CORDON);
    assert!(search(&solo).is_none(), "nobody can be asked");
    solo.end_handler(term);
    solo.wait(TTL);
    stepped_down(&solo, false, None);
    assert!(!solo.writes());
}

#[test]
fn an_instance_resumed_while_its_cordoned_term_ends_becomes_candidate_after_the_cool_down() {
    let (mut solo, term) = leading();
    solo.feed(CORDON);
    solo.feed(RESUME);
    solo.end_handler(term);
    solo.wait(solo.settings.request_timeout / 5);
    let release = solo.write();
    solo.ack(&release, 103);
    solo.take();
    let cooldown = solo.settings.cooldown;
    assert_eq!(claim_within(&mut solo, cooldown - ms(1), 103), None);
    assert!(claim_within(&mut solo, ms(4), 103).is_some());
}

#[test]
fn a_paused_instance_answers_paused_if_it_is_named_and_else_not_at_all() {
    let mut solo = Solo::facing_free(settings(|_| {}));
    solo.feed(PAUSE);
    for (to, why) in [(Some("solo"), Some(Refusal::Paused)), (None, None)] {
        solo.take();
        solo.feed(asked(could_lead(to, None)));
        let answer = why.map(|why| PeerReply::Refused { why });
        assert_eq!(answered(&solo), answer);
    }
}

#[test]
fn an_heir_that_is_paused_leaves_the_role_to_the_others() {
    let mut solo = Solo::following(TTL);
    solo.feed(asked(could_lead(Some("solo"), None)));
    assert!(matches!(answered(&solo), Some(PeerReply::Ready { .. })));
    solo.feed(PAUSE);
    solo.take();
    solo.wait(ms(100));
    assert!(solo.find_read().is_none(), "nothing is expected any more");
    let handoff = Content::Release(Release {
        nonce: None,
        heir: Some(super::solo::OWN),
        ..Release::default()
    });
    solo.feed(Input::Observed(entry(101, handoff)));
    solo.wait(TTL / 2);
    assert!(!solo.writes());
}

#[test]
fn a_paused_instance_can_be_stopped() {
    let mut solo = Solo::facing_free(settings(|_| {}));
    solo.feed(PAUSE);
    solo.wait(ms(10));
    if solo.reads() {
        solo.read(Some(free(100)), Some(OLD_FENCE));
    }
    solo.leave(Intent::Stop { release: true });
    assert!(solo.election.is_stopped());
}

#[test]
fn a_new_link_does_not_end_a_pause() {
    let mut solo = Solo::facing_free(settings(|_| {}));
    solo.disconnect();
    solo.feed(PAUSE);
    assert_eq!(solo.reply(ASK), Some(&Reply::Noted));
    solo.take();
    solo.feed(Input::Link(Link::Up(BUCKET)));
    solo.read(Some(free(100)), Some(OLD_FENCE));
    solo.wait(TTL * 2);
    assert!(!solo.writes());
}

#[test]
fn an_election_can_begin_paused() {
    let mut solo = Solo::unlinked(settings(|_| {}), 0, true);
    solo.feed(Input::Tick);
    assert_eq!(solo.take(), [], "whoever made it so has told already");
    solo.feed(Input::Link(Link::Up(BUCKET)));
    solo.read(Some(free(100)), Some(OLD_FENCE));
    solo.wait(TTL * 2);
    assert!(!solo.writes());
}

#[test]
fn a_read_that_fails_is_tried_again_while_paused() {
    let mut solo = Solo::new(settings(|_| {}), BUCKET);
    solo.feed(PAUSE);
    solo.lose_read();
    solo.wait(TTL);
    solo.read(Some(entry(100, stranger(Some(TTL)))), Some(OLD_FENCE));
    assert!(solo.election.status().leader.is_some());
}
