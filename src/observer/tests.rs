//! The reports about roles, message by message and moment by moment.

mod histories;
mod interruptions;
mod times;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use uuid::Uuid;

use super::observed::{Change, ChangeCause, Observed, RoleChange, Standing, WatchStatus};
use super::tracked_role::Now;
use super::tracked_roles::{Scope, TrackedRoles};
use crate::model::statement::Keyring;
use crate::store::Written;
use nats_elect_core::Moment;
use nats_elect_core::heirs::Heirs;
use nats_elect_core::name::{BucketName, RoleName};
use nats_elect_core::record::{
    Content, Entry, FenceEntry, Nonce, Release, SeenFence, SeenRecord, Snapshot,
};
use nats_elect_core::release::ReleaseSecret;

const LEASE: u64 = 1000;
const EPOCH: u64 = 7;

/// Tracked roles, and a clock in milliseconds.
struct Stage {
    tracked_roles: TrackedRoles,
    ms: u64,
}

fn role(name: &str) -> RoleName {
    RoleName::new(name).expect("a name")
}

fn record(id: u128, revision: u64) -> Entry {
    Entry {
        revision,
        content: Content::Record(Box::new(SeenRecord {
            id: format!("node-{id}"),
            priority: 0,
            meta: BTreeMap::new(),
            ttl: Some(Duration::from_millis(LEASE)),
            incarnation: Some(Uuid::from_u128(id)),
            beat: Some(revision),
            release: None,
            heirs: Heirs::NONE,
            proof: None,
            application: None,
        })),
    }
}

fn fence(id: u128, revision: u64) -> FenceEntry {
    let nonce = Nonce {
        incarnation: Uuid::from_u128(id),
        beat: revision,
    };
    FenceEntry {
        revision,
        record: Some(SeenFence {
            nonce,
            ttl: None,
            release: None,
        }),
    }
}

fn marker(revision: u64, content: Content) -> Entry {
    Entry { revision, content }
}

fn found(role: Option<Entry>) -> Snapshot {
    Snapshot {
        role,
        fence: None,
        epoch: None,
        last_sequence: None,
    }
}

impl Stage {
    fn new(roles: Option<&[&str]>) -> Self {
        let named = |roles: &[&str]| roles.iter().map(|name| role(name)).collect();
        let scope = Scope {
            bucket: BucketName::new("leaders").expect("a name"),
            roles: roles.map(named),
            default_ttl: Duration::from_secs(15),
            keyring: Keyring::default(),
        };
        let tracked_roles = TrackedRoles::new(scope, Moment::from_nanos(0));
        Self {
            tracked_roles,
            ms: 1,
        }
    }

    /// Returns a stage whose watch has seen that the bucket is empty.
    fn watching() -> Self {
        let mut stage = Self::new(None);
        stage.watch(EPOCH, &[]);
        stage.told();
        stage
    }

    /// The same, which has seen and told that `node-1` leads since 10.
    fn led() -> Self {
        let mut stage = Self::watching();
        stage.show(record(1, 10));
        stage.told();
        stage
    }

    fn now(&self) -> Now {
        Now {
            clock: Moment::from_nanos(self.ms * 1_000_000),
            wall: SystemTime::UNIX_EPOCH,
        }
    }

    fn watch(&mut self, epoch: u64, stands: &[(&str, Entry)]) {
        let now = self.now();
        self.begin(epoch);
        for (name, entry) in stands {
            self.tracked_roles
                .role(&role(name), entry.clone(), None, now);
            if let Content::Record(record) = &entry.content {
                let id = record.incarnation.unwrap_or_default().as_u128();
                let fence = fence(id, entry.revision - 1);
                self.tracked_roles.fence(&role(name), fence, None, now);
            }
        }
        self.tracked_roles.caught_up(now);
    }

    /// Begins a watch that has shown nothing yet.
    fn begin(&mut self, epoch: u64) {
        self.tracked_roles.bucket_is(epoch, None, self.now());
        self.tracked_roles.watch_begins();
    }

    /// Shows a fence record of this instance under the role `r`.
    fn show_fence(&mut self, id: u128, revision: u64) {
        let now = self.now();
        let fence = fence(id, revision);
        self.tracked_roles.fence(&role("r"), fence, None, now);
    }

    fn show(&mut self, entry: Entry) {
        self.tracked_roles.role(&role("r"), entry, None, self.now());
    }

    /// Lets time pass. Returns the roles to look at.
    fn wait(&mut self, ms: u64) -> Vec<RoleName> {
        self.ms += ms;
        self.tracked_roles.tick(10, self.now())
    }

    fn looked(&mut self, found: Option<Snapshot>) {
        let found = found.map(|found| (found, Written::default()));
        self.tracked_roles.looked(&role("r"), found, self.now());
    }

    fn changes(&mut self) -> Vec<RoleChange> {
        let changes = self.tracked_roles.take_changes().into_iter();
        let of_roles = changes.filter_map(|change| match change {
            Change::Role(change) => Some(*change),
            _ => None,
        });
        of_roles.collect()
    }

    /// Returns the old leader, the new leader and the cause of each change.
    fn told(&mut self) -> Vec<(String, String, ChangeCause)> {
        let name = |leader: Option<crate::LeaderInfo>| {
            leader.map_or("-".to_owned(), |leader| leader.instance_id)
        };
        let changes = self.changes().into_iter();
        let told = changes.map(|change| (name(change.from), name(change.to), change.cause));
        told.collect()
    }

    fn tells(&mut self, from: &str, to: &str, cause: ChangeCause) {
        assert_eq!(self.told(), [(from.to_owned(), to.to_owned(), cause)]);
    }

    fn observed(&self) -> Observed {
        let observed = self.tracked_roles.observed("r", self.now().clock);
        observed.expect("a role that was seen")
    }
}

#[test]
fn a_leader_that_claims_and_renews_is_reported_once_and_is_confirmed() {
    let mut stage = Stage::watching();
    stage.show(record(1, 10));
    stage.tells("-", "node-1", ChangeCause::Claimed);
    assert!(stage.observed().confirmed);
    for beat in 11..20 {
        assert!(stage.wait(LEASE / 2).is_empty());
        stage.show(record(1, beat));
    }
    assert!(stage.told().is_empty());
    let observed = stage.observed();
    assert_eq!(observed.since, Some(Duration::from_millis(LEASE / 2 * 9)));
    assert_eq!(observed.age, Some(Duration::ZERO));
    assert_eq!(observed.remaining, observed.ttl);
    stage.ms += LEASE / 4;
    assert_eq!(
        stage.observed().remaining,
        Some(Duration::from_millis(LEASE / 4 * 3))
    );
}

#[test]
fn a_record_from_before_the_watch_is_an_unconfirmed_leader_until_it_renews_or_expires() {
    for renews in [true, false] {
        let mut stage = Stage::new(None);
        stage.watch(EPOCH, &[("r", record(1, 10))]);
        stage.tells("-", "node-1", ChangeCause::Found);
        assert!(!stage.observed().confirmed);
        assert_eq!(stage.tracked_roles.confirmed_leader("r"), None);
        assert!(stage.wait(LEASE - 1).is_empty());
        if renews {
            stage.show(record(1, 11));
            assert!(stage.observed().confirmed);
            assert!(stage.told().is_empty());
            continue;
        }
        assert_eq!(stage.wait(1), [role("r")]);
        assert!(stage.wait(1).is_empty(), "one look at a time");
        assert!(stage.told().is_empty(), "nobody has looked yet");
        stage.looked(Some(found(Some(record(1, 10)))));
        stage.tells("node-1", "-", ChangeCause::Expired);
        let observed = stage.observed();
        assert_eq!(observed.standing, Standing::Expired);
        assert_eq!(observed.last_leader.expect("one").instance_id, "node-1");
        assert!(stage.wait(LEASE * 10).is_empty(), "it is known");
    }
}

#[test]
fn a_heartbeat_that_only_the_stream_leader_has_keeps_the_leader() {
    let mut stage = Stage::led();
    assert_eq!(stage.wait(LEASE), [role("r")]);
    stage.looked(Some(found(Some(record(1, 11)))));
    stage.show(record(1, 11));
    assert!(stage.told().is_empty());
    assert!(stage.wait(LEASE - 1).is_empty());
    // A look that the watch has overtaken changes nothing.
    assert_eq!(stage.wait(1), [role("r")]);
    stage.show(record(2, 12));
    stage.told();
    stage.ms += LEASE;
    stage.looked(Some(found(Some(record(1, 11)))));
    assert!(stage.told().is_empty());
    assert_eq!(stage.observed().revision, Some(12));
}

#[test]
fn a_claim_comes_with_the_time_since_the_last_sign_of_the_leader_before() {
    let mut stage = Stage::watching();
    let silence = |stage: &mut Stage| stage.changes().pop().expect("a change").silence;
    stage.show(record(1, 10));
    assert_eq!(silence(&mut stage), None, "nobody led before");
    stage.wait(200);
    stage.show(record(1, 11));
    // It dies, and another one claims the role before anybody has looked.
    stage.wait(LEASE + 50);
    stage.show(record(2, 12));
    let of = Duration::from_millis;
    assert_eq!(silence(&mut stage), Some(of(LEASE + 50)));
    stage.wait(300);
    stage.show(marker(13, Content::Release(Release::default())));
    assert_eq!(silence(&mut stage), None, "nobody leads");
    stage.wait(3);
    stage.show(record(1, 14));
    assert_eq!(silence(&mut stage), Some(of(3)), "since the release");
    // A stranger's marker is no sign of the leader.
    stage.wait(100);
    stage.show(marker(15, Content::ForeignMarker));
    stage.wait(LEASE);
    stage.show(record(2, 16));
    assert_eq!(silence(&mut stage), Some(of(LEASE + 100)));
    // The watch was interrupted. The record that it shows then may have stood there for long.
    stage.tracked_roles.watch_ended("cut off".into());
    stage.watch(EPOCH, &[("r", record(2, 20))]);
    stage.wait(LEASE + 50);
    stage.show(record(1, 21));
    assert_eq!(silence(&mut stage), None);
}

#[test]
fn a_role_is_free_at_once_when_it_is_released_or_deleted() {
    let heir = Uuid::from_u128(2);
    let released = Content::Release(Release::default());
    let handed_over = Content::Release(Release {
        heir: Some(heir),
        ..Release::default()
    });
    let (freed, deleted) = (ChangeCause::Released, ChangeCause::Deleted);
    for (content, standing, cause) in [
        (released, Standing::Released, freed),
        (handed_over, Standing::HandedOver, freed),
        (Content::ForeignMarker, Standing::Deleted, deleted),
    ] {
        let mut stage = Stage::led();
        stage.show(marker(11, content.clone()));
        stage.tells("node-1", "-", cause);
        let observed = stage.observed();
        assert_eq!((observed.standing, observed.age), (standing, None));
        assert!(standing.is_free());
        stage.show(record(2, 12));
        let by_heir = matches!(content, Content::Release(Release { heir: Some(_), .. }));
        let claim = if by_heir {
            ChangeCause::HandedOver
        } else {
            ChangeCause::Claimed
        };
        stage.tells("-", "node-2", claim);
    }
}

#[test]
fn a_fencing_token_belongs_to_the_term_whose_begin_was_seen() {
    let mut stage = Stage::watching();
    stage.show(record(1, 10));
    assert_eq!(stage.observed().fencing_token, None);
    stage.show_fence(1, 11);
    assert!(stage.observed().fencing_token.is_some());
    stage.show(marker(12, Content::Release(Release::default())));
    stage.show(record(1, 13));
    assert_eq!(
        stage.observed().fencing_token,
        None,
        "that was its last term"
    );
    stage.show_fence(2, 14);
    assert_eq!(stage.observed().fencing_token, None, "of another");
    stage.show_fence(1, 15);
    assert_eq!(stage.observed().fencing_token.expect("one").sequence, 15);
}

/// Its lease had run out, and nobody else claimed the role meanwhile.
#[test]
fn a_leader_that_claims_over_its_own_record_begins_another_term() {
    let of_term = |revision, secret| {
        let mut entry = record(1, revision);
        if let Content::Record(record) = &mut entry.content {
            record.release = Some(ReleaseSecret::new(secret).hash());
        }
        entry
    };
    let mut stage = Stage::watching();
    stage.show(of_term(10, 1));
    stage.show_fence(1, 11);
    stage.show(of_term(12, 1));
    assert_eq!(stage.observed().fencing_token.expect("one").sequence, 11);
    stage.show(of_term(13, 2));
    assert_eq!(stage.observed().fencing_token, None);
    assert_eq!(stage.observed().since, Some(Duration::ZERO));
    stage.show_fence(1, 14);
    assert_eq!(stage.observed().fencing_token.expect("one").sequence, 14);
}

#[test]
fn a_value_that_is_no_record_is_a_leader_without_a_name_for_the_default_lease() {
    let mut stage = Stage::watching();
    stage.show(marker(1, Content::Opaque));
    stage.tells("-", "", ChangeCause::Claimed);
    let observed = stage.observed();
    assert!(observed.opaque);
    assert_eq!(observed.ttl, Some(Duration::from_secs(15)));
    assert!(stage.wait(14_999).is_empty());
    assert_eq!(stage.wait(1), [role("r")]);
}

#[test]
fn a_fence_record_that_was_not_shown_is_looked_up_once() {
    let mut stage = Stage::new(None);
    stage.begin(EPOCH);
    stage.show(record(1, 10));
    stage.tracked_roles.caught_up(stage.now());
    assert_eq!(stage.observed().fencing_token, None);
    assert_eq!(stage.wait(1), [role("r")]);
    stage.looked(None);
    assert!(stage.wait(1).is_empty(), "not at once again");
    assert_eq!(stage.wait(LEASE), [role("r")]);
    // The leader renewed meanwhile. The fence record is the same.
    stage.show(record(1, 11));
    stage.looked(Some(Snapshot {
        fence: Some(fence(1, 9)),
        ..found(Some(record(1, 10)))
    }));
    let token = stage.observed().fencing_token.expect("a token");
    assert_eq!((token.epoch, token.sequence), (EPOCH, 9));
    assert!(stage.wait(1).is_empty());

    // A leader of another library has no fence record.
    let mut stage = Stage::new(None);
    stage.begin(EPOCH);
    stage.show(record(1, 10));
    stage.tracked_roles.caught_up(stage.now());
    assert_eq!(stage.wait(1), [role("r")]);
    stage.looked(Some(found(Some(record(1, 10)))));
    assert!(stage.wait(1).is_empty());
    assert_eq!(stage.observed().standing, Standing::Led);
}

#[test]
fn a_look_that_began_before_the_lease_had_passed_proves_no_end() {
    let mut stage = Stage::new(None);
    stage.begin(EPOCH);
    stage.show(record(1, 10));
    stage.tracked_roles.caught_up(stage.now());
    stage.tells("-", "node-1", ChangeCause::Found);
    assert_eq!(stage.wait(1), [role("r")], "for its fence record");
    // The process stood still for longer than the lease. Its heartbeats wait to be read.
    stage.ms += LEASE * 2;
    stage.looked(Some(found(Some(record(1, 10)))));
    assert!(stage.told().is_empty());
    stage.show(record(1, 14));
    assert!(stage.wait(1).is_empty());
    assert!(stage.told().is_empty(), "it has led all the time");
}
