//! Taking over from a leader of lower priority.

use uuid::Uuid;

use super::solo::{BUCKET, OLD_FENCE, OWN, Solo, entry, ms, record_of, tuned};
use crate::config::{RoleSettings, Takeover};
use crate::election::{
    Bucket, Effect, HandlerEnd, Input, Link, PeerRequestId, RequestId, Snapshot, WriteKind,
};
use crate::heirs::Heirs;
use crate::peer::{PeerReply, PeerRequest, Refusal};
use crate::record::{Content, Nonce, Release, SeenRecord};
use crate::status::RoleState;

const RIVAL: Uuid = Uuid::from_u128(99);

/// The rival's record. Without an incarnation it is of another library.
fn record(incarnation: Option<Uuid>, beat: u64, priority: i64) -> Content {
    Content::Record(Box::new(SeenRecord {
        id: "rival".to_owned(),
        priority,
        meta: std::collections::BTreeMap::new(),
        ttl: Some(ms(1000)),
        incarnation,
        beat: Some(beat),
        release: None,
        heirs: Heirs::NONE,
        proof: None,
        application: None,
    }))
}

fn record_of_other_library(id: &str, priority: i64) -> Content {
    match record(None, 0, priority) {
        Content::Record(mut record) => {
            id.clone_into(&mut record.id);
            record.ttl = None;
            Content::Record(record)
        }
        other => other,
    }
}

fn ambitious(takeover: Takeover) -> RoleSettings {
    tuned(|it| {
        it.priority = 5;
        it.takeover = takeover;
        it.takeover_hysteresis = ms(600);
        it.claim_delay = ms(0);
    })
}

const FORCED: Takeover = Takeover::Forced { after: ms(800) };

/// An instance that follows the rival, whose record stands at 100. The rival's heartbeats come
/// every 200 ms.
fn following(settings: RoleSettings) -> Solo {
    let mut solo = Solo::new(settings, BUCKET);
    solo.read(Some(entry(100, record(Some(RIVAL), 0, 0))), Some(OLD_FENCE));
    solo.take();
    solo
}

/// Lets the rival send the heartbeats with these beats. Each stands at revision 100 plus its beat.
fn beats(solo: &mut Solo, range: std::ops::RangeInclusive<u64>) {
    for beat in range {
        solo.wait(ms(200));
        solo.feed(Input::Observed(entry(
            100 + beat,
            record(Some(RIVAL), beat, 0),
        )));
    }
}

/// The same. Requests that are sent meanwhile are not answered in time.
fn silently(solo: &mut Solo, range: std::ops::RangeInclusive<u64>) {
    let mut heard = 0;
    for beat in range {
        beats(solo, beat..=beat);
        for (question, _) in questions(solo).into_iter().skip(heard) {
            let answer = None;
            solo.feed(Input::PeerReplied { question, answer });
            heard += 1;
        }
    }
}

fn questions(solo: &Solo) -> Vec<(PeerRequestId, PeerRequest)> {
    let asked = solo.effects.iter().filter_map(|effect| match effect {
        Effect::AskPeers { id, question, .. } => Some((*id, question.clone())),
        _ => None,
    });
    asked.collect()
}

fn is_idle(solo: &Solo) -> bool {
    questions(solo).is_empty() && !solo.has(|effect| matches!(effect, Effect::Write(_)))
}

#[test]
fn a_leader_of_lower_priority_is_asked_after_the_hysteresis() {
    let mut solo = following(ambitious(Takeover::Cooperative));
    beats(&mut solo, 1..=2);
    solo.wait(ms(199));
    assert!(is_idle(&solo));
    solo.wait(ms(1));
    let [(_, question)] = &questions(&solo)[..] else {
        panic!("not asked once");
    };
    // The request names the record that was seen last.
    let leader = Nonce {
        incarnation: RIVAL,
        beat: 2,
    };
    let PeerRequest::Yield { by, .. } = question else {
        panic!("{question:?}");
    };
    assert_eq!(*question, PeerRequest::hand_over(leader, by.clone()));
    assert_eq!((by.incarnation, by.priority), (OWN, 5));
}

#[test]
fn a_leader_is_asked_only_by_a_higher_priority_that_may_take_over() {
    for (takeover, rivals) in [
        (Takeover::Never, 0),
        (Takeover::Cooperative, 5),
        (Takeover::Cooperative, 6),
        (FORCED, 5),
    ] {
        let mut solo = Solo::new(ambitious(takeover), BUCKET);
        for beat in 0..20 {
            let seen = entry(100 + beat, record(Some(RIVAL), beat, rivals));
            if beat == 0 {
                solo.read(Some(seen), Some(OLD_FENCE));
            } else {
                solo.feed(Input::Observed(seen));
            }
            solo.wait(ms(200));
        }
        assert!(is_idle(&solo), "{takeover:?} against {rivals}");
    }
}

#[test]
fn another_leader_or_a_lost_connection_starts_the_hysteresis_again() {
    let another = |solo: &mut Solo| {
        let released = Content::Release(Release::default());
        solo.feed(Input::Observed(entry(102, released)));
        let other = record(Some(Uuid::from_u128(98)), 0, 0);
        solo.feed(Input::Observed(entry(103, other)));
    };
    let flap = |solo: &mut Solo| {
        solo.feed(Input::Link(Link::Down));
        solo.feed(Input::Link(Link::Up(BUCKET)));
    };
    let interruptions: [fn(&mut Solo); 2] = [another, flap];
    for interrupt in interruptions {
        let mut solo = following(ambitious(Takeover::Cooperative));
        beats(&mut solo, 1..=2);
        solo.wait(ms(150));
        interrupt(&mut solo);
        solo.wait(ms(599));
        assert_eq!(questions(&solo), []);
        solo.wait(ms(1));
        assert_eq!(questions(&solo).len(), 1);
    }
}

/// The leader before was not seen to release the role, so it may lead until its lease is over. The
/// next leader's release would not be claimed before.
#[test]
fn a_leader_is_asked_only_when_its_release_would_free_the_role() {
    let mut solo = following(ambitious(Takeover::Cooperative));
    solo.wait(ms(100));
    let other = record(Some(Uuid::from_u128(98)), 0, 0);
    solo.feed(Input::Observed(entry(101, other)));
    solo.wait(ms(899));
    assert_eq!(questions(&solo), []);
    solo.wait(ms(1));
    assert_eq!(questions(&solo).len(), 1);
}

#[test]
fn a_leader_is_asked_again_after_the_hysteresis_if_it_refuses_and_sooner_if_it_is_silent() {
    let refusal = PeerReply::Refused { why: Refusal::Busy };
    for (answer, again) in [(Some(refusal), ms(600)), (None, ms(400))] {
        let mut solo = following(ambitious(Takeover::Cooperative));
        beats(&mut solo, 1..=3);
        let (question, _) = questions(&solo)[0].clone();
        solo.take();
        solo.feed(Input::PeerReplied { question, answer });
        let before = solo.now;
        let mut beat = 4;
        while questions(&solo).is_empty() {
            beats(&mut solo, beat..=beat);
            beat += 1;
        }
        assert_eq!(solo.now.since(before), again);
    }
}

#[test]
fn a_silent_leader_keeps_the_role_without_force() {
    let mut solo = following(ambitious(Takeover::Cooperative));
    for beat in 1..=50 {
        beats(&mut solo, beat..=beat);
        for (question, _) in questions(&solo) {
            let answer = None;
            solo.feed(Input::PeerReplied { question, answer });
        }
        assert!(!solo.has(|effect| matches!(effect, Effect::Write(_))));
        solo.take();
    }
}

#[test]
fn a_forced_takeover_claims_over_the_living_leader_after_its_time() {
    let mut solo = following(ambitious(FORCED));
    beats(&mut solo, 1..=3);
    let (question, _) = questions(&solo)[0].clone();
    let answer = None;
    solo.feed(Input::PeerReplied { question, answer });
    beats(&mut solo, 4..=6);
    // The leader was asked once more, and is silent again.
    let (question, _) = questions(&solo)[1].clone();
    let answer = None;
    solo.feed(Input::PeerReplied { question, answer });
    solo.wait(ms(199));
    assert_eq!(solo.find_write(), None);
    solo.wait(ms(1));
    let claim = solo.write();
    assert!(matches!(claim.kind, WriteKind::Claim { over: 106, .. }));
    solo.ack(&claim, 107);
    let fence = solo.write();
    solo.ack(&fence, 108);
    assert_eq!(solo.election.status().state, RoleState::Leader);
}

#[test]
fn a_lost_forced_claim_is_tried_over_the_next_heartbeat() {
    let mut solo = following(ambitious(FORCED));
    silently(&mut solo, 1..=7);
    let claim = solo.write();
    solo.refuse(&claim, 108);
    solo.feed(Input::Observed(entry(108, record(Some(RIVAL), 8, 0))));
    let claim = solo.write();
    assert!(matches!(claim.kind, WriteKind::Claim { over: 108, .. }));
}

#[test]
fn a_leader_that_has_just_agreed_gets_the_time_to_hand_over_once() {
    let mut solo = following(ambitious(FORCED));
    silently(&mut solo, 1..=4);
    solo.take();
    // The leader gets the next request shortly before the forced claim would come.
    beats(&mut solo, 5..=5);
    solo.wait(ms(150));
    let (asked, _) = *questions(&solo).last().expect("a question");
    for answer in [Some(PeerReply::Yielding), None] {
        solo.feed(Input::PeerReplied {
            question: asked,
            answer,
        });
    }
    let handed_by = solo.settings.stop_budget + solo.settings.heartbeat * 2;
    solo.wait(handed_by - ms(1));
    assert!(!solo.has(|effect| matches!(effect, Effect::Write(_))));
}

#[test]
fn an_instance_of_unknown_health_forces_nothing() {
    let mut solo = following(ambitious(FORCED));
    for beat in 1..=50 {
        beats(&mut solo, beat..=beat);
    }
    // The health check hangs, so the request stays open.
    assert_eq!(questions(&solo).len(), 1);
    assert!(!solo.has(|effect| matches!(effect, Effect::Write(_))));
}

#[test]
fn an_unhealthy_instance_forces_nothing() {
    let mut solo = following(ambitious(FORCED));
    for beat in 1..=50 {
        beats(&mut solo, beat..=beat);
        for (question, _) in questions(&solo) {
            let why = Refusal::Unhealthy;
            let answer = Some(PeerReply::Refused { why });
            solo.feed(Input::PeerReplied { question, answer });
        }
        assert!(!solo.has(|effect| matches!(effect, Effect::Write(_))));
        solo.take();
    }
}

#[test]
fn a_leader_of_another_library_can_only_be_replaced_by_force() {
    for takeover in [Takeover::Cooperative, FORCED] {
        let mut solo = Solo::new(ambitious(takeover), BUCKET);
        let seen = |beat| entry(100 + beat, record(None, beat, 0));
        solo.read(Some(seen(0)), Some(OLD_FENCE));
        solo.take();
        let (mut heard, mut forced) = (0, false);
        for beat in 1..=8 {
            // Its record does not show whether another instance has led since. The keys do.
            let claim = solo.wait_showing(ms(200), Some(&seen(beat - 1)), Some(OLD_FENCE));
            forced |= claim.is_some();
            solo.feed(Input::Observed(seen(beat)));
            for (question, _) in questions(&solo).into_iter().skip(heard) {
                let answer = None;
                solo.feed(Input::PeerReplied { question, answer });
                heard += 1;
            }
        }
        // No peer receives the request. It finds out whether this instance is healthy.
        assert_eq!(heard > 0, takeover == FORCED);
        assert_eq!(forced, takeover == FORCED);
    }
}

#[test]
fn an_instance_that_stays_out_sends_no_takeover_request() {
    let mut solo = Solo::leading(ambitious(Takeover::Cooperative));
    let term = solo.started().expect("a term");
    let (request, to, hold_off) = (RequestId(1), None, ms(3000));
    solo.feed(Input::StepDown {
        request,
        to,
        expected: None,
        hold_off,
    });
    let end = HandlerEnd::Returned;
    solo.feed(Input::HandlerEnded { term, end });
    let release = solo.find_write().expect("a release");
    solo.ack(&release, 103);
    solo.take();
    for beat in 4..19 {
        let seen = entry(100 + beat, record(Some(RIVAL), beat, 0));
        solo.feed(Input::Observed(seen));
        solo.wait(ms(200));
    }
    assert_eq!(questions(&solo), []);
}

#[test]
fn a_forced_claim_waits_while_the_leader_of_a_replaced_bucket_may_lead() {
    let mut solo = Solo::new(ambitious(FORCED), BUCKET);
    let patient = record_of(RIVAL, 1, Some(ms(3000)));
    solo.read(Some(entry(200, patient)), Some(OLD_FENCE));
    let replaced = solo.now;
    let epoch = BUCKET.epoch + 1;
    solo.feed(Input::Link(Link::Up(Bucket { epoch, ..BUCKET })));
    let op = solo.find_read().expect("a read");
    let snapshot = Snapshot {
        role: Some(entry(100, record(Some(RIVAL), 0, 0))),
        fence: Some(OLD_FENCE),
        epoch: Some(epoch),
        last_sequence: None,
    };
    let outcome = Ok(snapshot);
    solo.feed(Input::ReadEnded { op, outcome });
    beats(&mut solo, 1..=14);
    assert!(is_idle(&solo));
    silently(&mut solo, 15..=18);
    assert!(!solo.has(|effect| matches!(effect, Effect::Write(_))));
    silently(&mut solo, 19..=19);
    assert_eq!(solo.now.since(replaced), ms(3000) + ms(800));
    let claim = solo.write();
    assert!(matches!(claim.kind, WriteKind::Claim { .. }), "{claim:?}");
}

/// Neither record shows a release hash.
#[test]
fn a_forced_claim_waits_while_an_overwritten_leader_of_another_library_may_lead() {
    let max_age = Some(ms(10_000));
    let mut solo = Solo::new(ambitious(FORCED), Bucket { max_age, ..BUCKET });
    let leader = record_of_other_library("leader", 9);
    solo.read(Some(entry(100, leader)), None);
    solo.wait(ms(100));
    let stranger = entry(101, record_of_other_library("stranger", 0));
    solo.feed(Input::Observed(stranger.clone()));
    let since = solo.now;
    let claimed = loop {
        let mut written = false;
        for effect in solo.take() {
            match effect {
                Effect::AskPeers { id: question, .. } => solo.feed(Input::PeerReplied {
                    question,
                    answer: None,
                }),
                Effect::Read { op, .. } => solo.show(op, Some(stranger.clone()), None),
                Effect::Write(_) => written = true,
                _ => {}
            }
        }
        let waited = solo.now.since(since);
        if written {
            break waited;
        }
        assert!(waited < ms(21_000), "it claims in the end");
        solo.wait(ms(1));
    };
    assert!((ms(9900)..=ms(10_100)).contains(&claimed), "{claimed:?}");
}

#[test]
fn a_paused_instance_drops_its_takeover_request_and_forces_nothing() {
    for takeover in [Takeover::Cooperative, FORCED] {
        let mut solo = following(ambitious(takeover));
        silently(&mut solo, 1..=3);
        assert!(!questions(&solo).is_empty());
        solo.feed(Input::Pause {
            request: RequestId(1),
        });
        solo.take();
        beats(&mut solo, 4..=20);
        assert!(is_idle(&solo));
        // The hysteresis starts again.
        solo.feed(Input::Resume {
            request: RequestId(1),
        });
        beats(&mut solo, 21..=22);
        assert!(is_idle(&solo));
        beats(&mut solo, 23..=23);
        assert!(!is_idle(&solo));
    }
}

#[test]
fn a_forced_claim_that_is_won_after_a_pause_is_given_back() {
    let mut solo = following(ambitious(FORCED));
    silently(&mut solo, 1..=6);
    for _ in 0..1000 {
        if !solo.has(|effect| matches!(effect, Effect::Write(_))) {
            solo.wait(ms(1));
        }
    }
    let claim = solo.write();
    solo.feed(Input::Pause {
        request: RequestId(1),
    });
    solo.ack(&claim, 200);
    assert!(solo.started().is_none());
    assert!(matches!(
        solo.write().kind,
        WriteKind::Release { over: 200, .. }
    ));
}
