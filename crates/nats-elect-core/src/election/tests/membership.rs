//! The lease of a member of groups.

use super::solo::{BUCKET, Solo, assert_claims, entry, ms, own, settings};
use crate::config::{Membership, RoleSettings};
use crate::group::{EpochKey, MemberInfo};
use crate::record::Content;
use crate::release::ReleaseSecret;
use crate::status::RoleState;
use crate::{Effect, Input, Intent, LastWill, WillStep, Write, WriteKind};

const SECRET: ReleaseSecret = ReleaseSecret::new(0x0e90_c000);

fn info(zone: &str) -> MemberInfo {
    MemberInfo {
        zone: Some(zone.to_owned()),
        ..MemberInfo::new(EpochKey::new([7; 32]))
    }
}

fn member() -> RoleSettings {
    RoleSettings {
        member: Some(Box::new(Membership {
            secret: SECRET,
            info: info("a"),
        })),
        ..settings(|_| {})
    }
}

/// Its key was never used. Its claim is on its way.
fn claiming() -> (Solo, Write) {
    let mut solo = Solo::new(member(), BUCKET);
    solo.read(None, None);
    solo.wait(ms(3));
    let claim = solo.write();
    assert_claims(&claim, 0);
    (solo, claim)
}

/// One read tells in which bucket its claim stands.
fn leading() -> Solo {
    let (mut solo, claim) = claiming();
    solo.ack(&claim, 101);
    solo.read(Some(entry(101, own(&claim, ms(1000)))), None);
    solo
}

fn asks_peers(effect: &Effect) -> bool {
    matches!(effect, Effect::AskPeers { .. })
}

#[test]
fn a_confirmed_claim_begins_the_term_without_a_fence_record() {
    let mut solo = leading();
    assert!(solo.started().is_some());
    assert!(!solo.has(asks_peers));
    assert_eq!(solo.find_write(), None);
}

#[test]
fn the_record_shows_the_member_and_the_secret_of_its_epoch() {
    let (_, claim) = claiming();
    let WriteKind::Claim { record, .. } = claim.kind else {
        panic!("no claim");
    };
    assert_eq!(record.release, SECRET.hash());
    assert_eq!(record.member, Some(Box::new(info("a"))));
    let json = String::from_utf8(record.to_json()).unwrap();
    assert!(json.contains(r#""zone":"a""#), "{json}");
}

#[test]
fn heartbeats_say_what_it_was_told_last_and_nothing_else_is_sent() {
    let mut solo = leading();
    solo.feed(Input::Tell(Box::new(info("b"))));
    let other_key = MemberInfo {
        key: EpochKey::new([8; 32]),
        ..info("c")
    };
    solo.feed(Input::Tell(Box::new(other_key)));
    let mut revision = 101;
    for _ in 0..300 {
        solo.wait(ms(10));
        assert!(!solo.has(|effect| asks_peers(effect) || matches!(effect, Effect::Read { .. })));
        if let Some(write) = solo.find_write() {
            let WriteKind::Renew { over, record } = &write.kind else {
                panic!("no heartbeat: {:?}", write.kind);
            };
            assert_eq!(
                (*over, &record.member),
                (revision, &Some(Box::new(info("b"))))
            );
            revision += 1;
            solo.ack(&write, revision);
        }
    }
    assert!(revision > 104);
}

#[test]
fn a_claim_that_a_read_shows_begins_the_term() {
    let (mut solo, claim) = claiming();
    solo.time_out(&claim);
    solo.wait(ms(100));
    let stands = entry(101, own(&claim, ms(1000)));
    solo.read(Some(stands), None);
    assert!(solo.started().is_some());
}

#[test]
fn a_claim_that_was_lost_is_not_sent_again() {
    let (mut solo, claim) = claiming();
    solo.time_out(&claim);
    assert_eq!(solo.wait_showing(ms(5000), None, None), None);
    assert!(solo.election.is_stopped());
}

#[test]
fn a_deposed_epoch_is_not_claimed_again() {
    let mut solo = leading();
    let term = solo.started().unwrap();
    solo.take();
    let tombstone = entry(110, Content::ForeignMarker);
    solo.feed(Input::Observed(tombstone.clone()));
    let mut ended = false;
    for _ in 0..200 {
        ended |= solo.has(|effect| matches!(effect, Effect::Cancel { .. } | Effect::Revoke { .. }));
        if ended && !solo.election.is_stopped() {
            solo.end_handler(term);
        }
        if let Some(write) = solo.wait_showing(ms(20), Some(&tombstone), None) {
            match write.kind {
                WriteKind::Claim { .. } => panic!("another claim"),
                WriteKind::Release { over: 110, .. } => solo.ack(&write, 111),
                _ => solo.refuse(&write, 110),
            }
        }
    }
    assert!(ended && solo.election.is_stopped());
}

#[test]
fn its_last_will_is_that_release_over_the_record_that_was_confirmed_last() {
    let (mut solo, claim) = claiming();
    assert_eq!(solo.election.bequest(), None);
    solo.ack(&claim, 101);
    solo.read(Some(entry(101, own(&claim, ms(1000)))), None);
    let term = solo.started().unwrap();
    solo.take();
    solo.wait(ms(300));
    let beat = solo.write();
    assert_eq!(solo.election.bequest().map(|it| it.revision), Some(101));
    solo.ack(&beat, 102);
    let bequest = solo.election.bequest().unwrap();
    assert_eq!((bequest.revision, bequest.secret), (102, SECRET));
    let step = LastWill::new(bequest).died(solo.now, Some(bequest.fencing_token.epoch));
    let WillStep::Release { over, release } = step else {
        panic!("{step:?}");
    };
    assert_eq!(
        (over, release.secret, release.heir),
        (102, Some(SECRET), None)
    );
    solo.leave(Intent::Stop { release: true });
    solo.end_handler(term);
    assert_eq!(
        solo.election.bequest(),
        None,
        "it releases its lease itself"
    );
}

#[test]
fn its_release_tells_the_secret_of_the_epoch_and_waits_for_nobody() {
    let mut solo = leading();
    let term = solo.started().unwrap();
    solo.take();
    solo.leave(Intent::Stop { release: true });
    solo.end_handler(term);
    assert!(!solo.has(asks_peers));
    let write = solo.write();
    let WriteKind::Release { over, release } = &write.kind else {
        panic!("no release: {:?}", write.kind);
    };
    assert_eq!((*over, release.secret), (101, Some(SECRET)));
    solo.ack(&write, 102);
    assert_eq!(solo.state(), RoleState::Stopped);
}
