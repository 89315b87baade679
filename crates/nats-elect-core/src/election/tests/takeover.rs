//! Taking over from a leader of lower priority.

use uuid::Uuid;

use super::solo::{BUCKET, OLD_FENCE, OWN, Solo, entry, ms, step_down, tuned};
use crate::config::{RoleSettings, Takeover};
use crate::heirs::Heirs;
use crate::peer::{PeerReply, PeerRequest, Refusal};
use crate::record::{Content, Nonce, Release, SeenRecord};
use crate::{Effect, Input, Intent, Link, PeerRequestId, RequestId};

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

fn ambitious(takeover: Takeover) -> RoleSettings {
    tuned(|it| {
        it.priority = 5;
        it.takeover = takeover;
        it.takeover_hysteresis = ms(600);
        it.claim_delay = ms(0);
    })
}

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

fn questions(solo: &Solo) -> Vec<(PeerRequestId, PeerRequest)> {
    let asked = solo.effects.iter().filter_map(|effect| match effect {
        Effect::AskPeers { id, question, .. } => Some((*id, question.clone())),
        _ => None,
    });
    asked.collect()
}

fn is_idle(solo: &Solo) -> bool {
    questions(solo).is_empty() && !solo.writes()
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
        solo.disconnect();
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
fn a_silent_leader_keeps_the_role() {
    let mut solo = following(ambitious(Takeover::Cooperative));
    for beat in 1..=50 {
        beats(&mut solo, beat..=beat);
        for (question, _) in questions(&solo) {
            let answer = None;
            solo.feed(Input::PeerReplied { question, answer });
        }
        assert!(!solo.writes());
        solo.take();
    }
}

#[test]
fn a_leader_of_another_library_is_not_asked_and_keeps_the_role() {
    let mut solo = Solo::new(ambitious(Takeover::Cooperative), BUCKET);
    let seen = |beat| entry(100 + beat, record(None, beat, 0));
    solo.read(Some(seen(0)), Some(OLD_FENCE));
    solo.take();
    for beat in 1..=8 {
        let claim = solo.wait_showing(ms(200), Some(&seen(beat - 1)), Some(OLD_FENCE));
        assert_eq!(claim, None);
        solo.feed(Input::Observed(seen(beat)));
    }
    assert_eq!(questions(&solo), []);
}

#[test]
fn an_instance_that_stays_out_sends_no_takeover_request() {
    let (mut solo, term) = Solo::in_term(ambitious(Takeover::Cooperative));
    solo.feed(step_down(RequestId(1), None, None, ms(3000)));
    solo.end_handler(term);
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
fn a_paused_instance_drops_its_takeover_request() {
    let mut solo = following(ambitious(Takeover::Cooperative));
    beats(&mut solo, 1..=3);
    assert!(!questions(&solo).is_empty());
    let request = RequestId(1);
    solo.feed(Input::Intend(request, Intent::Pause));
    solo.take();
    beats(&mut solo, 4..=20);
    assert!(is_idle(&solo));
    // The hysteresis starts again.
    solo.feed(Input::Intend(request, Intent::Resume));
    beats(&mut solo, 21..=22);
    assert!(is_idle(&solo));
    beats(&mut solo, 23..=23);
    assert!(!is_idle(&solo));
}
