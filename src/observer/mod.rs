//! The observer: watches the leaders of a bucket without taking part in elections.
//!
//! ```text
//! builder ── monitor (actor)   the connection and the bucket, as a manager has it
//!         └─ watching (task)   one watch over all keys, and the data that it shows
//!            └─ tracked_roles  the state of all roles: no I/O, no clock
//!               └─ tracked_role  the state of one role
//! followed_groups                  the groups: read when they are asked for, or followed
//! └─ following_groups              the watch on them
//!    └─ tracked_groups             what it has shown: no I/O, no clock
//!       └─ observed_groups         the reports about them
//! ```

mod builder;
mod followed_groups;
mod following_groups;
mod observed;
mod observed_groups;
#[cfg(test)]
mod tests;
mod tracked_groups;
mod tracked_role;
mod tracked_roles;
mod watching;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use ractor::ActorRef;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

pub use self::builder::ObserverBuilder;
pub use self::followed_groups::FollowedGroups;
use self::following_groups::WATCH_ANEW;
pub use self::observed::{Change, ChangeCause, Observed, RoleChange, Standing, WatchStatus};
pub use self::observed_groups::{
    GroupProblem, ObservedGroup, ObservedGroups, ObservedMember, ObservedUnit, UnitKind,
    UnitStanding,
};
use self::tracked_roles::TrackedRoles;
use self::watching::Shared;
use crate::actors::MonitorMsg;
use crate::broadcasts::until_ended;
use crate::clock;
use crate::error::Error;
use crate::model::admin::BucketId;
use nats_elect_core::name::RoleName;
use nats_elect_core::status::LeaderInfo;

/// Watches roles of a bucket without taking part in elections.
///
/// An observer is cheap to clone. It ends when the last clone is dropped.
///
/// The observer writes nothing, and needs no permission to write. `deploy/nats/observer.conf` has
/// every permission that it needs. However many roles there are, it makes one watch. It restarts
/// the watch whenever the watch ends.
///
/// # How reliable its reports are
///
/// An observer reports what it has seen. Its reports are late by the time that messages are under
/// way. Only a leader itself knows whether it may act. The observer counts leases on a local
/// monotonic clock, from the moment when a heartbeat was received:
///
/// - A leader is reported as gone at once when it freed its role, when someone deleted the key, or
///   when another instance claimed the role. Otherwise it is reported as gone only when two
///   conditions hold: its record has stood unchanged for its whole lease, *and* the stream leader,
///   asked after that, had nothing newer.
/// - While the observer can see nothing, it does not report any leader as gone.
///   [`connection`](Self::connection) then returns that the reports are stale, and since when. If
///   the last leader's lease passes meanwhile, the role is [`Unknown`](Standing::Unknown), which is
///   not the same as free. After the interruption the count begins anew with the records that the
///   new watch shows.
/// - A record that stood there when the watch began may be of a leader that died long ago. It is
///   reported as the leader, but not as [`confirmed`](Observed::confirmed) until a heartbeat is
///   seen. If none comes, the role is [`Expired`](Standing::Expired) after the lease.
/// - A new watch may be on a NATS server that lags behind the others. The watch counts only once it
///   has shown, for all roles, the data that the stream leader had when the watch began. A record
///   older than one already seen counts only if the stream leader confirms that it stands there.
/// - If the bucket is deleted and created again, all roles begin anew. They are not known until the
///   new bucket was read.
#[derive(Clone)]
#[must_use = "dropping the observer ends it"]
pub struct Observer {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    monitor: ActorRef<MonitorMsg>,
    /// The tasks are aborted when they are dropped.
    _tasks: JoinSet<()>,
}

impl Observer {
    /// Returns a builder for an observer.
    pub fn builder() -> ObserverBuilder {
        ObserverBuilder::default()
    }

    /// Returns the leader of the role, as far as it is known. The leader may be stale or not
    /// confirmed yet. [`role`](Self::role) returns more detail.
    pub fn leader(&self, role: &str) -> Option<LeaderInfo> {
        self.inner.shared.tracked_roles().leader(role)
    }

    /// Returns the role at the time of this call. Returns `None` if the role is not watched, or
    /// never appeared.
    pub fn role(&self, role: &str) -> Option<Observed> {
        // Read the clock within the lock. The known state must not be younger than the clock.
        let tracked_roles = self.inner.shared.tracked_roles();
        tracked_roles.observed(role, clock::now())
    }

    /// Returns all roles at the time of this call: the roles that were asked for, or all that
    /// appeared in this bucket.
    pub fn roles(&self) -> BTreeMap<String, Observed> {
        let tracked_roles = self.inner.shared.tracked_roles();
        tracked_roles.all(clock::now())
    }

    /// Returns whether the reports are current.
    pub fn connection(&self) -> WatchStatus {
        let tracked_roles = self.inner.shared.tracked_roles();
        tracked_roles.status(clock::now())
    }

    /// Returns what tells the bucket apart from others of its name, while the bucket is in reach.
    pub fn bucket_id(&self) -> Option<BucketId> {
        let (bucket, epoch) = self.inner.shared.link.borrow().up()?;
        Some(bucket.id(epoch))
    }

    /// Returns a stream of the changes from now on. Call [`roles`](Self::roles) after this method
    /// to get the state from which they start.
    ///
    /// A reader that is too slow gets [`Change::Lagged`], with the number of changes that it
    /// missed. The stream ends with the observer, and does not keep the observer alive.
    ///
    /// # Cancel safety
    /// Nothing is lost if a pending `next` is dropped.
    pub fn changes(&self) -> impl Stream<Item = Change> + Send + Unpin + use<> {
        let changes = self.inner.shared.changes.subscribe();
        let ended = self.inner.shared.ended.clone();
        until_ended(changes, ended, |missed| Change::Lagged { missed })
    }

    /// Waits until a leader of the role is known to be alive.
    ///
    /// A leader counts only if it was seen alive. A leader whose record merely stands there does
    /// not count. Nor does a leader that was seen before an interruption that still lasts.
    ///
    /// # Errors
    /// Returns [`Error::Name`] if the name breaks a rule. Returns [`Error::UnknownRole`] if the
    /// role is not among those that were asked for. Returns [`Error::Stopped`] if the observer has
    /// ended.
    ///
    /// # Cancel safety
    /// This method is cancel safe. Nothing is lost if the future is dropped.
    pub async fn wait_for_leader(&self, role: &str) -> Result<LeaderInfo, Error> {
        let name = RoleName::new(role)?;
        if !self.inner.shared.tracked_roles().is_wanted(&name) {
            return Err(Error::UnknownRole(role.to_owned()));
        }
        self.until(|tracked_roles| tracked_roles.confirmed_leader(role))
            .await
    }

    /// Reads the groups of the bucket. Then watches until each member was seen alive, for `within`
    /// at most: heartbeats come each second by default. With zero it reads alone, and hardly a
    /// member is confirmed.
    ///
    /// The groups are read anew by each call, with a watch of its own: everything that stands under
    /// their keys, as one server of the bucket shows it. Nothing of it is a proof. Only the owner of
    /// a unit knows whether it may act.
    ///
    /// # Errors
    /// Returns [`Error::Unavailable`] while the bucket is out of reach, or if the watch ends again
    /// and again before it has shown everything. Returns [`Error::PermissionDenied`] if a permission
    /// is missing.
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing is left running.
    pub async fn groups(&self, within: Duration) -> Result<ObservedGroups, Error> {
        if self.inner.shared.link.borrow().up().is_none() {
            return Err(self.unavailable(Duration::ZERO, "the bucket is out of reach"));
        }
        self.follow_groups()?.read(within).await
    }

    /// Follows the groups of the bucket, with one more watch for as long as the result is kept. The
    /// watch is restarted whenever it ends.
    ///
    /// Use it to ask again and again, as a router does: what it knows is in memory. It keeps the map
    /// of each group, a few bytes for a unit, and the records of the members. While the bucket is
    /// idle it is told the heartbeats of the members, and no more.
    ///
    /// It runs as a task on the runtime on which this method is called. Nothing was read when the
    /// method returns: [`FollowedGroups::wait_until`] waits for that.
    ///
    /// # Errors
    /// Returns [`Error::NoRuntime`] outside of a runtime.
    pub fn follow_groups(&self) -> Result<FollowedGroups, Error> {
        Handle::try_current().map_err(|_| Error::NoRuntime)?;
        Ok(FollowedGroups::begin(self.clone(), WATCH_ANEW))
    }

    /// Returns the error of an observer that sees nothing. `otherwise` is said if it does.
    fn unavailable(&self, after: Duration, otherwise: &str) -> Error {
        let reason = match self.connection() {
            WatchStatus::Stale { reason, .. } => reason,
            WatchStatus::Current => otherwise.to_owned(),
        };
        Error::Unavailable { after, reason }
    }

    async fn until<T>(
        &self,
        mut holds: impl FnMut(&TrackedRoles) -> Option<T>,
    ) -> Result<T, Error> {
        let shared = &self.inner.shared;
        let mut moved = shared.moved.subscribe();
        let known = async {
            loop {
                if let Some(found) = holds(&shared.tracked_roles()) {
                    return Ok(found);
                }
                moved.changed().await.map_err(|_| Error::Stopped)?;
            }
        };
        let ended = shared.ended.run_until_cancelled(known).await;
        ended.unwrap_or(Err(Error::Stopped))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Cancel first, so that the end of the monitor is not reported as a failure.
        self.shared.ended.cancel();
        self.monitor.stop(None);
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer")
            .field("connection", &self.connection())
            .field("roles", &self.roles())
            .finish_non_exhaustive()
    }
}
