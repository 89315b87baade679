//! The reports to the outside: states, the leader, how a request ended.

use std::collections::BTreeMap;

use super::solo::{BUCKET, OLD_FENCE, OWN, SECRET, Solo, entry, failure, ms, settings, stranger};
use crate::event::{Event, FailureKind};
use crate::heirs::Heirs;
use crate::moment::Moment;
use crate::record::{Content, SeenRecord};
use crate::status::{LeaderInfo, RoleState};
use crate::token::LeaseToken;
use crate::{Candidate, Effect, Election, Fresh, Input, Link};

#[test]
fn an_instance_is_in_init_until_it_has_seen_the_bucket() {
    let now = Moment::from_nanos(5_000_000_000_000);
    let candidate = Candidate {
        instance_id: "solo".to_owned(),
        incarnation: OWN,
        first_beat: 0,
        paused: false,
        settings: settings(|_| {}),
    };
    let mut election = Election::new(candidate, now);
    let fresh = Fresh {
        lease_token: LeaseToken::new(OWN),
        release_secret: SECRET,
        chance: 0.5,
    };
    election.step(now, fresh, Input::Tick);
    assert_eq!(election.status().state, RoleState::Init);
    election.step(now, fresh, Input::Link(Link::Up(BUCKET)));
    assert_eq!(election.status().state, RoleState::Candidate);
}

#[test]
fn a_leader_is_reported_with_its_whole_record_until_its_lease_ends() {
    let mut solo = Solo::new(settings(|_| {}), BUCKET);
    let meta = BTreeMap::from([("region".to_owned(), "eu".to_owned())]);
    let record = SeenRecord {
        id: "node-2".to_owned(),
        priority: 7,
        meta: meta.clone(),
        ttl: Some(ms(1000)),
        incarnation: Some(uuid::Uuid::from_u128(2)),
        beat: Some(1),
        release: None,
        heirs: Heirs::NONE,
        proof: None,
        application: None,
    };
    solo.read(
        Some(entry(100, Content::Record(Box::new(record)))),
        Some(OLD_FENCE),
    );
    let leader = LeaderInfo {
        instance_id: "node-2".to_owned(),
        incarnation: Some(uuid::Uuid::from_u128(2)),
        priority: 7,
        meta,
        is_self: false,
        signer: None,
    };
    assert_eq!(solo.election.status().leader, Some(leader.clone()));
    assert_eq!(solo.state(), RoleState::Follower);
    assert!(solo.told(|event| *event == Event::LeaderChanged(Some(leader.clone()))));
    solo.take();
    solo.wait(ms(999));
    assert!(!solo.told(|event| matches!(event, Event::LeaderChanged(_))));
    solo.wait(ms(1));
    assert!(solo.told(|event| *event == Event::LeaderChanged(None)));
    assert_eq!(solo.state(), RoleState::Candidate);
}

#[test]
fn an_opaque_leader_is_followed_without_a_name() {
    let mut solo = Solo::new(settings(|_| {}), BUCKET);
    solo.read(Some(entry(100, Content::Opaque)), Some(OLD_FENCE));
    let leader = solo.election.status().leader.expect("a leader");
    assert_eq!((leader.instance_id.as_str(), leader.is_self), ("", false));
    assert_eq!(solo.state(), RoleState::Follower);
}

#[test]
fn a_marker_that_is_waited_for_shows_no_leader() {
    let mut solo = Solo::new(settings(|_| {}), BUCKET);
    solo.read(Some(entry(100, Content::ForeignMarker)), Some(OLD_FENCE));
    assert_eq!(solo.election.status().leader, None);
    assert_eq!(solo.state(), RoleState::Candidate);
}

#[test]
fn a_leader_reports_itself_and_the_sequence_of_its_fencing_token() {
    let solo = Solo::leading(settings(|config| config.priority = 3));
    let status = solo.election.status();
    let leader = status.leader.expect("a leader");
    assert!(leader.is_self && leader.priority == 3 && leader.instance_id == "solo");
    assert_eq!(status.fencing_token.map(|token| token.sequence), Some(102));
    assert_eq!(status.last_heartbeat, Some(solo.sent));
    assert_eq!(status.revision, Some(101));
}

/// An instance whose claim came to no term is not demoted. It follows another leader at once.
#[test]
fn an_instance_in_the_cool_down_after_a_returned_claim_follows_another_leader() {
    let mut solo = Solo::claimed_too_late(settings(|_| {}));
    let release = solo.write();
    solo.ack(&release, 102);
    assert_eq!(solo.state(), RoleState::Candidate);
    solo.feed(Input::Observed(entry(103, stranger(Some(ms(1000))))));
    assert_eq!(solo.state(), RoleState::Follower);
}

#[test]
fn only_a_missing_bucket_is_looked_for_again() {
    for (kind, reopens) in [
        (FailureKind::BucketMissing, true),
        (FailureKind::Timeout, false),
        (FailureKind::PermissionDenied, false),
    ] {
        let mut solo = Solo::new(settings(|_| {}), BUCKET);
        let op = solo.find_read().expect("a read");
        solo.feed(Input::ReadEnded {
            op,
            outcome: Err(failure(kind)),
        });
        assert_eq!(solo.has(|effect| *effect == Effect::Reopen), reopens);
    }
}
