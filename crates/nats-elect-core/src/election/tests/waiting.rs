//! Long waits for leases: their reports, and their end by an operator.

use std::time::Duration;

use uuid::Uuid;

use super::solo::{
    BUCKET, OLD_FENCE, SECRET, Solo, entry, hashed_fence, ms, record_of, settings, stranger,
};
use crate::event::{Event, WaitReason};
use crate::record::{Content, Entry, FenceEntry, Release};
use crate::{Bucket, Input, Intent, Link, Reply, RequestId, WriteKind};

const ASK: RequestId = RequestId(3);
const LONG: Duration = ms(60_000);

/// The reports of waits since effects were last taken.
fn waits(solo: &mut Solo) -> Vec<Event> {
    let event = |effect| match effect {
        crate::Effect::Event(event @ Event::WaitingForLease { .. }) => Some(event),
        _ => None,
    };
    solo.take().into_iter().filter_map(event).collect()
}

/// An instance that waits for this message, with this fence record.
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
fn a_wait_for_a_longer_lease_is_reported_once_after_our_own_ttl_and_a_heartbeat() {
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
fn a_heartbeat_ends_a_long_wait_and_another_silence_is_reported_again() {
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
fn a_wait_for_a_lease_of_our_own_length_is_not_reported() {
    for content in [stranger(Some(ms(1200))), Content::ForeignMarker] {
        let role = entry(100, content);
        let mut solo = waiting(Some(&role), Some(OLD_FENCE));
        solo.wait(ms(1300));
        assert_eq!(waits(&mut solo), []);
    }
}

#[test]
fn a_long_wait_is_reported_with_its_reason() {
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
fn a_wait_after_the_bucket_was_recreated_is_reported_as_one_for_lost_writes() {
    let mut solo = waiting(Some(&entry(100, stranger(None))), Some(long_fence()));
    let next = Bucket {
        epoch: BUCKET.epoch + 1,
        ..BUCKET
    };
    solo.feed(Input::Link(Link::Up(next)));
    assert_eq!(solo.wait_showing_in(next, ms(1300), None, None), None);
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
fn an_operator_ends_the_wait_for_the_message_in_the_key() {
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
fn an_operator_ends_the_wait_for_lost_writes() {
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
fn a_later_record_is_waited_for_although_an_operator_ended_the_wait() {
    let leader = |beat: u64| entry(100 + beat, stranger(Some(ms(5000))));
    let mut solo = waiting(Some(&leader(0)), Some(OLD_FENCE));
    let request = ASK;
    let revision = 99;
    solo.feed(Input::EndLease { request, revision });
    assert_eq!(solo.reply(ASK), Some(&Reply::Changed));
    solo.take();
    // The heartbeat comes while the role is being claimed.
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
fn an_instance_that_does_not_wait_replies_changed() {
    let ends = |mut solo: Solo, revision| {
        let request = ASK;
        solo.feed(Input::EndLease { request, revision });
        assert_eq!(solo.reply(ASK), Some(&Reply::Changed));
        solo
    };
    let solo = ends(Solo::leading(settings(|_| {})), 101);
    assert!(solo.ending().is_none());
    // The keys were not read yet.
    ends(Solo::new(settings(|_| {}), BUCKET), 0);
    let mut stopped = waiting(None, Some(OLD_FENCE));
    stopped.feed(Input::Intend(
        RequestId::NOBODY,
        Intent::Stop { release: true },
    ));
    ends(stopped, 0);
}

#[test]
fn a_paused_instance_whose_wait_is_ended_claims_after_the_resume() {
    let leader = entry(100, stranger(Some(LONG)));
    let mut solo = waiting(Some(&leader), Some(OLD_FENCE));
    solo.feed(Input::Intend(RequestId(1), Intent::Pause));
    let (request, revision) = (ASK, 100);
    solo.feed(Input::EndLease { request, revision });
    assert_eq!(solo.reply(ASK), Some(&Reply::Noted));
    assert_eq!(
        solo.wait_showing(ms(500), Some(&leader), Some(OLD_FENCE)),
        None
    );
    solo.feed(Input::Intend(RequestId(2), Intent::Resume));
    let claim = solo.wait_showing(ms(3), Some(&leader), Some(OLD_FENCE));
    assert!(claim.is_some());
}
