//! Requests of others: whether this instance could lead, and when it says so.

use std::time::Duration;

use uuid::Uuid;

use super::solo::{
    BUCKET, OLD_FENCE, OWN, SECRET, Solo, assert_claims, could_lead, entry, hashed_fence, ms,
    record_of, settings, stranger,
};
use crate::heirs::Heirs;
use crate::peer::{Contender, PeerReply, PeerRequest, Refusal};
use crate::record::{Content, Release};
use crate::release::ReleaseSecret;
use crate::status::RoleState;
use crate::{Effect, Input, ReplyId};

const HEIR: Uuid = Uuid::from_u128(2);

pub fn answered(solo: &Solo) -> Option<PeerReply> {
    solo.effects.iter().find_map(|effect| match effect {
        Effect::AnswerPeer { answer, .. } => Some(answer.clone()),
        _ => None,
    })
}

pub fn asked(question: PeerRequest) -> Input {
    Input::PeerAsked {
        reply_to: ReplyId(1),
        question,
    }
}

#[test]
fn a_candidate_that_could_lead_replies_that_it_is_ready() {
    let mut solo = Solo::new(settings(|config| config.priority = 4), BUCKET);
    let leading = record_of(HEIR, 3, Some(ms(1000)));
    solo.read(Some(entry(100, leading)), Some(OLD_FENCE));
    for to in [None, Some("solo")] {
        solo.take();
        // Older versions send no hash of a release.
        solo.feed(asked(could_lead(to, None)));
        let contender = Contender {
            id: "solo".into(),
            incarnation: OWN,
            priority: 4,
        };
        assert_eq!(answered(&solo), Some(PeerReply::Ready { contender }));
    }
    solo.take();
    solo.feed(asked(could_lead(Some("another"), None)));
    assert_eq!(answered(&solo), None);
    solo.disconnect();
    solo.feed(asked(could_lead(Some("solo"), None)));
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
    let is_ready = || asked(could_lead(Some("solo"), Some(NEXT)));
    let behind = Some(PeerReply::Refused {
        why: Refusal::Behind,
    });
    let mut solo = Solo::new(settings(|_| {}), BUCKET);
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
    let mut solo = Solo::new(settings(|_| {}), BUCKET);
    let leading = entry(100, record_of(HEIR, 3, Some(ms(1000))));
    solo.read(Some(leading.clone()), Some(OLD_FENCE));
    let mut reads = 0;
    let heartbeat = settings(|_| {}).heartbeat;
    let end = solo.now + heartbeat;
    while solo.now < end {
        solo.feed(asked(could_lead(None, Some(SECRET))));
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
    let mut solo = Solo::new(settings(|_| {}), BUCKET);
    solo.feed(Input::Observed(entry(100, showing(SECRET))));
    assert_eq!(solo.state(), RoleState::Follower);
    solo.feed(asked(could_lead(None, Some(SECRET))));
    assert!(matches!(answered(&solo), Some(PeerReply::Ready { .. })));
}

/// In a bucket with a max age a fence record may expire while its leader leads.
#[test]
fn the_leaders_record_alone_is_enough_to_be_ready_without_a_fence_record() {
    let mut solo = Solo::new(settings(|_| {}), BUCKET);
    solo.read(Some(entry(100, showing(SECRET))), None);
    for to in [None, Some("solo")] {
        solo.take();
        solo.feed(asked(could_lead(to, Some(SECRET))));
        assert!(matches!(answered(&solo), Some(PeerReply::Ready { .. })));
    }
    solo.feed(Input::Observed(entry(101, release(SECRET, OWN))));
    let claim = solo.wait_showing(ms(2), Some(&entry(101, release(SECRET, OWN))), None);
    assert_claims(&claim.expect("a claim"), 101);
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
        let mut question = could_lead(to, None);
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
