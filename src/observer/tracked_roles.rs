//! The state of all roles of a bucket. It has no I/O and no clock, so that it can be tested as it
//! is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use uuid::Uuid;

use super::observed::{Change, Observed, WatchStatus};
use super::tracked_role::{Now, TrackedRole};
use crate::actors::Signatures;
use crate::model::statement::Keyring;
use crate::store::Written;
use nats_elect_core::Moment;
use nats_elect_core::name::{BucketName, RoleName};
use nats_elect_core::record::{Entry, FOREIGN_LEASE, FenceEntry, Snapshot};
use nats_elect_core::status::LeaderInfo;

/// The roles that an observer looks at, and its settings.
#[derive(Clone)]
pub(super) struct Scope {
    pub bucket: BucketName,
    /// The named roles. `None` means all roles of the bucket.
    pub roles: Option<BTreeSet<RoleName>>,
    /// The lease of records that do not contain one, in a bucket without a max age.
    pub default_ttl: Duration,
    pub keyring: Keyring,
}

/// All roles. Every input leaves the resulting changes in [`take_changes`](Self::take_changes).
pub(super) struct TrackedRoles {
    scope: Scope,
    roles: BTreeMap<RoleName, TrackedRole>,
    /// The reason why not everything is seen, in words. `None` while the watch is running and has
    /// shown everything.
    stale: Option<String>,
    heard: Moment,
    /// What the clock of the server said, and when: it dates what the stream holds. It is for
    /// people: leases are counted on the own clock.
    server: Option<(SystemTime, Moment)>,
    epoch: Option<u64>,
    /// The number of the present watch. What an earlier one showed late does not count.
    watch: u64,
    /// The bucket was another one when data was last seen.
    replaced: bool,
    default_lease: Duration,
    changes: Vec<Change>,
}

impl TrackedRoles {
    pub fn new(scope: Scope, now: Moment) -> Self {
        let mut tracked_roles = Self {
            default_lease: scope.default_ttl,
            roles: BTreeMap::new(),
            stale: Some("no answer yet".into()),
            heard: now,
            server: None,
            epoch: None,
            watch: 0,
            replaced: false,
            changes: Vec::new(),
            scope,
        };
        for role in tracked_roles.scope.roles.clone().unwrap_or_default() {
            tracked_roles.tracked(&role, now);
        }
        tracked_roles
    }

    /// Sets the bucket that is about to be watched.
    pub fn bucket_is(&mut self, epoch: u64, max_age: Option<Duration>, now: Now) {
        let (shortest, longest) = FOREIGN_LEASE;
        let lease = max_age.unwrap_or(self.scope.default_ttl);
        self.default_lease = lease.clamp(shortest, longest);
        let known = self.epoch.replace(epoch);
        for tracked in self.roles.values_mut() {
            tracked.signatures().bucket_is(&self.scope.bucket, epoch);
        }
        if known.is_none_or(|known| known == epoch) {
            return;
        }
        let server = self.server_or_own(now);
        for (role, tracked) in &mut self.roles {
            tracked.forget();
            self.changes.extend(tracked.settle(role, server, now));
        }
        self.replaced = true;
    }

    /// Takes what the clock of the stream's leader says. Another server may have another clock.
    pub const fn server_says(&mut self, time: SystemTime, now: Now) {
        self.server = Some((time, now.clock));
    }

    /// Returns when a message was stored, by the server's clock: not after now, by that clock. A
    /// message that says so shows that the clock is further than was known.
    fn written(&mut self, time: Option<SystemTime>, now: Now) -> SystemTime {
        let by_clock = self.server_or_own(now);
        let written = time.unwrap_or(by_clock);
        if self.server.is_none() || written > by_clock {
            self.server = Some((written.max(by_clock), now.clock));
        }
        written
    }

    fn server_time(&self, now: Moment) -> Option<SystemTime> {
        let (time, at) = self.server?;
        time.checked_add(now.since(at))
    }

    fn server_or_own(&self, now: Now) -> SystemTime {
        self.server_time(now.clock).unwrap_or(now.wall)
    }

    /// Starts a new watch, and returns its number. Until it has caught up, nothing is current.
    pub fn watch_begins(&mut self) -> u64 {
        self.forget_watch();
        self.watch
    }

    /// The number of the present watch, or of none if the last one has ended.
    pub const fn watch(&self) -> u64 {
        self.watch
    }

    fn forget_watch(&mut self) {
        self.watch += 1;
        for tracked in self.roles.values_mut() {
            tracked.watch_begins();
        }
    }

    /// Records that the watch has shown everything in the bucket.
    pub fn caught_up(&mut self, now: Now) {
        self.heard = now.clock;
        let server = self.server_or_own(now);
        for (role, tracked) in &mut self.roles {
            tracked.caught_up();
            self.changes.extend(tracked.settle(role, server, now));
        }
        if std::mem::take(&mut self.replaced) && self.scope.roles.is_none() {
            // Roles that only the other bucket had do not exist here.
            self.roles.retain(|_, tracked| tracked.is_there());
        }
        if self.stale.take().is_some() {
            self.changes.push(Change::Current);
        }
    }

    /// Records that the watch is over.
    pub fn watch_ended(&mut self, reason: String) {
        if self.stale.replace(reason.clone()).is_none() {
            self.changes.push(Change::Stale { reason });
        }
        self.forget_watch();
    }

    /// Records that the watch is alive.
    pub const fn heard(&mut self, now: Moment) {
        self.heard = now;
    }

    /// Takes an entry that the watch showed under a role's key.
    pub fn role(&mut self, role: &RoleName, entry: Entry, written: Option<SystemTime>, now: Now) {
        self.heard = now.clock;
        if !self.is_wanted(role) {
            return;
        }
        let (live, lease) = (self.stale.is_none(), self.default_lease);
        let shown = (entry, self.written(written, now));
        let tracked = self.tracked(role, now.clock);
        tracked.show(shown, live, lease, now.clock);
        self.settle(role, now);
    }

    /// Takes an entry that the watch showed under a role's fence key.
    pub fn fence(
        &mut self,
        role: &RoleName,
        fence: FenceEntry,
        written: Option<SystemTime>,
        now: Now,
    ) {
        self.heard = now.clock;
        if self.is_wanted(role) {
            let shown = (fence, self.written(written, now));
            self.tracked(role, now.clock).show_fence(shown);
        }
    }

    /// Lets time pass. Returns at most `most` roles whose keys are to be read. Their leases have
    /// passed, and only the stream leader knows that nothing newer is under way to the observer.
    pub fn tick(&mut self, most: usize, now: Now) -> Vec<RoleName> {
        let current = self.stale.is_none();
        let server = self.server_or_own(now);
        let mut looks = Vec::new();
        for (role, tracked) in &mut self.roles {
            if tracked.tick(current, looks.len() < most, now.clock) {
                looks.push(role.clone());
            }
            if tracked.may_have_turned() {
                self.changes.extend(tracked.settle(role, server, now));
            }
        }
        looks
    }

    /// Takes the entries that were read from a role's keys, or `None` if the keys could not be
    /// read.
    pub fn looked(&mut self, role: &RoleName, found: Option<(Snapshot, Written)>, now: Now) {
        let lease = self.default_lease;
        let found = found.map(|(found, Written { role, fence })| {
            let role = found.role.map(|entry| (entry, self.written(role, now)));
            let fence = found.fence.map(|entry| (entry, self.written(fence, now)));
            (role, fence)
        });
        if let Some(tracked) = self.roles.get_mut(role) {
            tracked.looked(found, lease, now.clock);
            self.settle(role, now);
        }
    }

    pub fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    pub fn leader(&self, role: &str) -> Option<LeaderInfo> {
        self.roles.get(role)?.told().leader.clone()
    }

    /// Returns the leader, if it was seen alive and the known state is current.
    pub fn confirmed_leader(&self, role: &str) -> Option<LeaderInfo> {
        let tracked = self.roles.get(role).filter(|_| self.stale.is_none())?;
        tracked.confirmed_leader().cloned()
    }

    pub fn observed(&self, role: &str, now: Moment) -> Option<Observed> {
        let tracked = self.roles.get(role)?;
        Some(tracked.observed(self.epoch, self.server_time(now), now))
    }

    pub fn all(&self, now: Moment) -> BTreeMap<String, Observed> {
        let server = self.server_time(now);
        let observed = |(role, tracked): (&RoleName, &TrackedRole)| {
            let observed = tracked.observed(self.epoch, server, now);
            (role.as_str().to_owned(), observed)
        };
        self.roles.iter().map(observed).collect()
    }

    pub fn status(&self, now: Moment) -> WatchStatus {
        match &self.stale {
            None => WatchStatus::Current,
            Some(reason) => WatchStatus::Stale {
                since: now.since(self.heard),
                reason: reason.clone(),
            },
        }
    }

    pub fn is_wanted(&self, role: &RoleName) -> bool {
        let wanted = self.scope.roles.as_ref();
        wanted.is_none_or(|wanted| wanted.contains(role))
    }

    fn tracked(&mut self, role: &RoleName, now: Moment) -> &mut TrackedRole {
        let (scope, epoch) = (&self.scope, self.epoch);
        let current = self.stale.is_none();
        self.roles.entry(role.clone()).or_insert_with(|| {
            // An observer is no instance, so no record is its own.
            let mut signatures = Signatures::new(role.clone(), scope.keyring.clone(), Uuid::nil());
            if let Some(epoch) = epoch {
                signatures.bucket_is(&scope.bucket, epoch);
            }
            TrackedRole::new(signatures, current, now)
        })
    }

    fn settle(&mut self, role: &RoleName, now: Now) {
        let server = self.server_or_own(now);
        if let Some(tracked) = self.roles.get_mut(role) {
            self.changes.extend(tracked.settle(role, server, now));
        }
    }
}
