//! What is known of all roles of a bucket: no I/O and no clock, so that it can be tested as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use uuid::Uuid;

use super::observed::{Change, Observed, RoleChange, WatchStatus};
use super::sight::{How, Sight, Turn};
use crate::actors::Vouching;
use crate::model::notary::Notary;
use nats_elect_core::Moment;
use nats_elect_core::name::{BucketName, RoleName};
use nats_elect_core::record::{Entry, FenceEntry, Snapshot};
use nats_elect_core::status::LeaderInfo;

/// What an observer is to look at, and how.
#[derive(Clone)]
pub(super) struct Scope {
    pub bucket: BucketName,
    /// All roles of the bucket, if none are named.
    pub roles: Option<BTreeSet<RoleName>>,
    /// The lease of records that do not tell theirs, in a bucket without a max age.
    pub default_ttl: Duration,
    pub notary: Notary,
}

/// A moment on both clocks: the first one counts, the second one is told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub clock: Moment,
    pub wall: SystemTime,
}

/// Whether the watch is running, and everything was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Watching {
    Stale(String),
    Current,
}

/// All roles. Every input leaves what changed by it in [`take_changes`](Self::take_changes).
pub(super) struct Sights {
    scope: Scope,
    roles: BTreeMap<RoleName, Sight>,
    watching: Watching,
    heard: Moment,
    epoch: Option<u64>,
    /// It was another one when something was seen last.
    replaced: bool,
    default_lease: Duration,
    changes: Vec<Change>,
}

impl Sights {
    pub fn new(scope: Scope, now: Moment) -> Self {
        let mut sights = Self {
            default_lease: scope.default_ttl,
            roles: BTreeMap::new(),
            watching: Watching::Stale("no answer yet".into()),
            heard: now,
            epoch: None,
            replaced: false,
            changes: Vec::new(),
            scope,
        };
        for role in sights.scope.roles.clone().unwrap_or_default() {
            sights.sight(&role, now);
        }
        sights
    }

    /// The bucket that is about to be watched.
    pub fn bucket_is(&mut self, epoch: u64, max_age: Option<Duration>, now: Now) {
        self.default_lease = max_age.unwrap_or(self.scope.default_ttl);
        let known = self.epoch.replace(epoch);
        for sight in self.roles.values_mut() {
            sight.vouching().bucket_is(&self.scope.bucket, epoch);
        }
        if known.is_none_or(|known| known == epoch) {
            return;
        }
        for (role, sight) in &mut self.roles {
            if let Some(turn) = sight.forget(now.clock) {
                self.changes.push(change(role, sight, turn, now));
            }
        }
        self.replaced = true;
    }

    /// A watch begins. Until it has caught up, nothing is current.
    pub fn watch_begins(&mut self) {
        for sight in self.roles.values_mut() {
            sight.watch_begins();
        }
    }

    /// The watch has shown all that stands in the bucket.
    pub fn caught_up(&mut self, now: Now) {
        self.heard = now.clock;
        for (role, sight) in &mut self.roles {
            sight.caught_up();
            if let Some(turn) = sight.settle(now.clock) {
                self.changes.push(change(role, sight, turn, now));
            }
        }
        if std::mem::take(&mut self.replaced) && self.scope.roles.is_none() {
            // Those that only the other one had are none here.
            self.roles.retain(|_, sight| sight.is_there());
        }
        if std::mem::replace(&mut self.watching, Watching::Current) != Watching::Current {
            self.changes.push(Change::Current);
        }
    }

    /// The watch is over.
    pub fn watch_ended(&mut self, reason: String) {
        let stale = Watching::Stale(reason.clone());
        let was = std::mem::replace(&mut self.watching, stale);
        if was == Watching::Current {
            self.changes.push(Change::Stale { reason });
        }
        for sight in self.roles.values_mut() {
            sight.watch_begins();
        }
    }

    /// The watch is alive.
    pub const fn heard(&mut self, now: Moment) {
        self.heard = now;
    }

    /// The watch showed a role's key.
    pub fn role(&mut self, role: &RoleName, entry: Entry, now: Now) {
        self.heard = now.clock;
        if !self.is_wanted(role) {
            return;
        }
        let (how, lease) = (self.how(), self.default_lease);
        let sight = self.sight(role, now.clock);
        sight.show(entry, how, lease, now.clock);
        self.settle(role, now);
    }

    /// The watch showed a role's fence key.
    pub fn fence(&mut self, role: &RoleName, fence: FenceEntry, now: Now) {
        self.heard = now.clock;
        if self.is_wanted(role) {
            self.sight(role, now.clock).show_fence(fence);
        }
    }

    /// Time has passed. Returns roles whose keys are to be read, at most so many: their leases have passed, and only the
    /// stream leader can say that nothing newer is under way to here.
    pub fn tick(&mut self, most: usize, now: Now) -> Vec<RoleName> {
        let current = self.watching == Watching::Current;
        let mut looks = Vec::new();
        for (role, sight) in &mut self.roles {
            if sight.tick(current, now.clock) && looks.len() < most {
                sight.looks(now.clock);
                looks.push(role.clone());
            }
            if sight.may_have_turned()
                && let Some(turn) = sight.settle(now.clock)
            {
                self.changes.push(change(role, sight, turn, now));
            }
        }
        looks
    }

    /// What was read of a role's keys; nothing if they could not be.
    pub fn looked(&mut self, role: &RoleName, found: Option<Snapshot>, now: Now) {
        let lease = self.default_lease;
        if let Some(sight) = self.roles.get_mut(role) {
            sight.looked(found, lease, now.clock);
            self.settle(role, now);
        }
    }

    pub fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    pub fn leader(&self, role: &str) -> Option<LeaderInfo> {
        self.roles.get(role)?.told().leader.clone()
    }

    /// The leader, if it was seen alive and what is known is current.
    pub fn confirmed_leader(&self, role: &str) -> Option<LeaderInfo> {
        let sight = self
            .roles
            .get(role)
            .filter(|_| self.watching == Watching::Current)?;
        sight.confirmed_leader().cloned()
    }

    pub fn observed(&self, role: &str, now: Moment) -> Option<Observed> {
        let sight = self.roles.get(role)?;
        Some(sight.observed(self.epoch, now))
    }

    pub fn all(&self, now: Moment) -> BTreeMap<String, Observed> {
        self.roles
            .iter()
            .map(|(role, sight)| (role.as_str().to_owned(), sight.observed(self.epoch, now)))
            .collect()
    }

    pub fn status(&self, now: Moment) -> WatchStatus {
        match &self.watching {
            Watching::Current => WatchStatus::Current,
            Watching::Stale(reason) => WatchStatus::Stale {
                since: now.since(self.heard),
                reason: reason.clone(),
            },
        }
    }

    pub fn is_wanted(&self, role: &RoleName) -> bool {
        let wanted = self.scope.roles.as_ref();
        wanted.is_none_or(|wanted| wanted.contains(role))
    }

    fn how(&self) -> How {
        match self.watching {
            Watching::Current => How::Live,
            Watching::Stale(_) => How::Stood,
        }
    }

    fn sight(&mut self, role: &RoleName, now: Moment) -> &mut Sight {
        let (scope, epoch) = (&self.scope, self.epoch);
        let current = self.watching == Watching::Current;
        self.roles.entry(role.clone()).or_insert_with(|| {
            // No instance: nothing that stands there is its own.
            let mut vouching = Vouching::new(role.clone(), scope.notary.clone(), Uuid::nil());
            if let Some(epoch) = epoch {
                vouching.bucket_is(&scope.bucket, epoch);
            }
            Sight::new(vouching, current, now)
        })
    }

    fn settle(&mut self, role: &RoleName, now: Now) {
        let Some(sight) = self.roles.get_mut(role) else {
            return;
        };
        if let Some(turn) = sight.settle(now.clock) {
            self.changes.push(change(role, sight, turn, now));
        }
    }
}

fn change(role: &RoleName, sight: &Sight, turn: Turn, now: Now) -> Change {
    let told = sight.told();
    Change::Role(Box::new(RoleChange {
        role: role.as_str().to_owned(),
        from: turn.from,
        to: told.leader.clone(),
        standing: told.standing,
        cause: turn.cause,
        at: now.wall,
    }))
}
