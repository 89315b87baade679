//! Leases that are waited for: what is told of a long wait, and how an operator ends one.

use std::time::Duration;

use uuid::Uuid;

use super::solo::{
    BUCKET, OLD_FENCE, SECRET, Solo, entry, hashed_fence, ms, record_of, settings, stranger,
};
use crate::election::{Bucket, Input, Link, Reply, RequestId, WriteKind};
use crate::event::{Event, WaitReason};
use crate::record::{Content, Entry, FenceEntry, Release};

const ASK: RequestId = RequestId(3);
const LONG: Duration = ms(60_000);

/// What was told of waits since effects were last taken.
fn waits(solo: &mut Solo) -> Vec<Event> {
    let event = |effect| match effect {
        crate::election::Effect::Event(event @ Event::WaitingForLease { .. }) => Some(event),
        _ => None,
    };
    solo.take().into_iter().filter_map(event).collect()
}

/// Waits for what stands there, with this fence record.
fn waiting(role: Option<&Entry>, fence: Option<FenceEntry>) -> Solo {
    let mut solo = Solo::new(settings(|_| {}), BUCKET);
    solo.read(role.cloned(), fence);
    solo.take();
    solo
}

fn long_fence() -> FenceEntry {
    hashed_fence(99, Some(ms(5000)), SECRET)
}

#[test]
fn a_lease_longer_than_ours_is_told_once_when_ours_has_passed_and_a_heartbeat() {
    let leader = entry(100, stranger(Some(LONG)));
    let mut solo = waiting(Some(&leader), Some(OLD_FENCE));
    let due = solo.settings.ttl + solo.settings.heartbeat;
    solo.wait(due - ms(1));
    assert_eq!(waits(&mut solo), []);
    solo.wait(ms(1));
    let told = Event::WaitingForLease {
        holder: Some("somebody".to_owned()),
        why: WaitReason::Leader,
        revision: 100,
        waited: due,
        left: LONG - due,
    };
    assert_eq!(waits(&mut solo), [told]);
    solo.wait(LONG - due - ms(1));
    assert_eq!(waits(&mut solo), [], "once");
}

#[test]
fn a_leader_that_is_heard_is_no_wait_and_one_that_falls_silent_again_is_another() {
    let leader = |beat: u64| entry(100 + beat, stranger(Some(LONG)));
    let mut solo = waiting(Some(&leader(0)), Some(OLD_FENCE));
    for beat in 1..=20 {
        solo.wait(solo.settings.ttl);
        solo.feed(Input::Observed(leader(beat)));
    }
    assert_eq!(waits(&mut solo), []);
    for beat in 21..=22 {
        solo.wait(solo.settings.ttl * 2);
        assert_eq!(waits(&mut solo).len(), 1);
        solo.feed(Input::Observed(leader(beat)));
    }
}

#[test]
fn a_lease_of_our_own_length_is_no_long_wait() {
    for content in [stranger(Some(ms(1200))), Content::ForeignMarker] {
        let role = entry(100, content);
        let mut solo = waiting(Some(&role), Some(OLD_FENCE));
        solo.wait(ms(1300));
        assert_eq!(waits(&mut solo), []);
    }
}

#[test]
fn a_wait_is_told_with_its_reason() {
    let stray = record_of(Uuid::from_u128(3), 1, Some(LONG));
    let short = record_of(Uuid::from_u128(3), 1, Some(ms(500)));
    let forged = Content::Release(Release::default());
    let fenced = Some(long_fence());
    for (content, fence, reason) in [
        (Some(stranger(Some(LONG))), fenced, WaitReason::Leader),
        (Some(stray), None, WaitReason::UnfencedRecord),
        (Some(Content::Opaque), fenced, WaitReason::UnreadableRecord),
        (Some(forged), fenced, WaitReason::UnprovenRelease),
        (Some(Content::ForeignMarker), fenced, WaitReason::Deleted),
        (None, fenced, WaitReason::Deleted),
        (Some(short), fenced, WaitReason::FenceRecord),
    ] {
        let role = content.map(|content| entry(100, content));
        let mut solo = waiting(role.as_ref(), fence);
        assert_eq!(solo.wait_showing(ms(1300), role.as_ref(), fence), None);
        let told = waits(&mut solo);
        assert!(
            matches!(&told[..], [Event::WaitingForLease { why, .. }] if *why == reason),
            "{reason:?}: {told:?}"
        );
    }
}

#[test]
fn a_wait_after_the_bucket_was_made_anew_is_told_as_one_for_what_was_lost() {
    let mut solo = waiting(Some(&entry(100, stranger(None))), Some(long_fence()));
    solo.feed(Input::Link(Link::Up(Bucket {
        epoch: BUCKET.epoch + 1,
        ..BUCKET
    })));
    let op = solo.find_read().expect("a read");
    solo.feed(Input::ReadEnded {
        op,
        outcome: Ok(crate::election::Snapshot {
            role: None,
            fence: None,
            epoch: Some(BUCKET.epoch + 1),
            last_sequence: None,
        }),
    });
    solo.wait(ms(1300));
    let told = waits(&mut solo);
    assert!(
        matches!(
            &told[..],
            [Event::WaitingForLease {
                why: WaitReason::Lost,
                holder: None,
                revision: 0,
                ..
            }]
        ),
        "{told:?}"
    );
}

#[test]
fn an_operator_ends_the_wait_for_what_stands_there() {
    let stray = record_of(Uuid::from_u128(3), 1, Some(LONG));
    let fenced = Some(long_fence());
    for (content, fence) in [
        (Some(stranger(Some(LONG))), fenced),
        (Some(stranger(Some(LONG))), Some(OLD_FENCE)),
        (Some(stray.clone()), None),
        (Some(stray), fenced),
        (Some(Content::Opaque), fenced),
        (Some(Content::Release(Release::default())), fenced),
        (Some(Content::ForeignMarker), fenced),
        (None, fenced),
    ] {
        let role = content.map(|content| entry(100, content));
        let mut solo = waiting(role.as_ref(), fence);
        assert_eq!(solo.wait_showing(ms(100), role.as_ref(), fence), None);
        let over = role.as_ref().map_or(0, |role| role.revision);
        let (request, revision) = (ASK, over);
        solo.feed(Input::EndLease { request, revision });
        assert_eq!(solo.reply(ASK), Some(&Reply::Noted));
        let claim = solo.wait_showing(ms(3), role.as_ref(), fence);
        let claim = claim.unwrap_or_else(|| panic!("no claim over {role:?}"));
        assert!(matches!(claim.kind, WriteKind::Claim { over: is, .. } if is == over));
    }
}

#[test]
fn the_wait_after_writes_were_lost_can_be_ended_too() {
    let leader = entry(100, stranger(Some(LONG)));
    let mut solo = waiting(Some(&leader), Some(OLD_FENCE));
    solo.feed(Input::Link(Link::Up(BUCKET)));
    let older = entry(95, stranger(Some(ms(1000))));
    solo.read(Some(older.clone()), Some(OLD_FENCE));
    let (request, revision) = (ASK, 95);
    solo.feed(Input::EndLease { request, revision });
    assert_eq!(solo.reply(ASK), Some(&Reply::Noted));
    let claim = solo.wait_showing(ms(3), Some(&older), Some(OLD_FENCE));
    assert!(claim.is_some());
}

#[test]
fn what_came_since_is_waited_for_all_the_same() {
    let leader = |beat: u64| entry(100 + beat, stranger(Some(ms(5000))));
    let mut solo = waiting(Some(&leader(0)), Some(OLD_FENCE));
    let request = ASK;
    let revision = 99;
    solo.feed(Input::EndLease { request, revision });
    assert_eq!(solo.reply(ASK), Some(&Reply::Changed));
    solo.take();
    // It comes while the role is being claimed.
    let revision = 100;
    solo.feed(Input::EndLease { request, revision });
    assert_eq!(solo.reply(ASK), Some(&Reply::Noted));
    solo.feed(Input::Observed(leader(1)));
    let role = leader(1);
    assert_eq!(
        solo.wait_showing(ms(4999), Some(&role), Some(OLD_FENCE)),
        None
    );
    let claim = solo.wait_showing(ms(4), Some(&role), Some(OLD_FENCE));
    assert!(claim.is_some());
}

#[test]
fn who_does_not_wait_ends_no_wait() {
    let ends = |mut solo: Solo, revision| {
        let request = ASK;
        solo.feed(Input::EndLease { request, revision });
        assert_eq!(solo.reply(ASK), Some(&Reply::Changed));
        solo
    };
    let solo = ends(Solo::leading(settings(|_| {})), 101);
    assert!(!solo.told(|event| matches!(event, Event::TermEnding { .. })));
    // The keys were not read yet.
    ends(Solo::new(settings(|_| {}), BUCKET), 0);
    let mut stopped = waiting(None, Some(OLD_FENCE));
    stopped.feed(Input::Stop { release: true });
    ends(stopped, 0);
}

#[test]
fn a_paused_instance_takes_the_operators_word_and_claims_when_it_goes_on() {
    let leader = entry(100, stranger(Some(LONG)));
    let mut solo = waiting(Some(&leader), Some(OLD_FENCE));
    solo.feed(Input::Pause {
        request: RequestId(1),
    });
    let (request, revision) = (ASK, 100);
    solo.feed(Input::EndLease { request, revision });
    assert_eq!(solo.reply(ASK), Some(&Reply::Noted));
    assert_eq!(
        solo.wait_showing(ms(500), Some(&leader), Some(OLD_FENCE)),
        None
    );
    solo.feed(Input::Resume {
        request: RequestId(2),
    });
    let claim = solo.wait_showing(ms(3), Some(&leader), Some(OLD_FENCE));
    assert!(claim.is_some());
}
