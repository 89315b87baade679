//! Groups as they change, as callers see them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::following_groups::Shared;
use super::observed_groups::{ObservedGroups, ObservedMember, ObservedUnit};
use super::tracked_groups::TrackedGroups;
use super::{Observer, WatchStatus};
use crate::actors::attend;
use crate::clock;
use crate::error::Error;
use crate::store::StoreError;
use nats_elect_core::name::{GroupName, UnitName};

/// For how long a watch is begun again that ends before it has shown everything.
const PATIENCE: Duration = Duration::from_secs(5);
const NOT_READ: &str = "the groups were not read yet";

/// The groups of a bucket, followed as they change. See
/// [`Observer::follow_groups`](super::Observer::follow_groups).
///
/// It tells what it was shown, and nothing of it is a proof. Only the owner of a unit knows whether
/// it may act. While the watch is interrupted everything is as it was last seen, and no member is
/// [`confirmed`](ObservedMember::confirmed).
///
/// No watch shows that a key was purged, or that the server removed an end. So another one takes the
/// place of the watch every five minutes, and what was removed is gone then. Nothing is interrupted
/// by that.
#[must_use = "dropping it ends the watch"]
pub struct FollowedGroups {
    /// The connection lasts as long as it does.
    observer: Observer,
    shared: Arc<Shared>,
    /// The task is aborted when it is dropped.
    _task: JoinSet<()>,
}

impl FollowedGroups {
    /// Begins to follow, as a task of the present runtime. A watch begins anew after so long.
    pub(super) fn begin(observer: Observer, anew: Duration) -> Self {
        let shared = Arc::new(Shared::new(anew));
        let links = observer.inner.shared.link.subscribe();
        let mut task = JoinSet::new();
        task.spawn(attend(Arc::clone(&shared), links));
        Self {
            observer,
            shared,
            _task: task,
        }
    }

    /// Returns whether the groups are current.
    pub fn connection(&self) -> WatchStatus {
        let known = self.shared.known.borrow();
        if known.is_current {
            return WatchStatus::Current;
        }
        let reason = known.error.as_ref().map(ToString::to_string);
        WatchStatus::Stale {
            since: clock::now().since(known.heard),
            reason: reason.unwrap_or_else(|| NOT_READ.into()),
        }
    }

    /// Waits until the groups were read, and then until each member was seen alive, for so long at
    /// most.
    pub(super) async fn read(&self, within: Duration) -> Result<ObservedGroups, Error> {
        let is_read = self.wait_until(|it| {
            let known = it.shared.known.borrow();
            let error = known.error.as_ref();
            known.groups.is_some() || error.is_some_and(|it| !is_temporary(it))
        });
        let _ = tokio::time::timeout(PATIENCE, is_read).await;
        let are_confirmed = self.wait_until(|it| {
            let known = it.shared.known.borrow();
            let groups = known.groups.as_ref();
            groups.is_none_or(TrackedGroups::is_confirmed)
        });
        let _ = tokio::time::timeout(within, are_confirmed).await;
        self.groups().ok_or_else(|| {
            let error = self.shared.known.borrow().error.clone();
            let error = error.unwrap_or_else(|| StoreError::Unavailable(NOT_READ.into()));
            Error::of_reading(error, PATIENCE)
        })
    }

    /// Returns all groups at the time of this call. `None` until they were read for the first time.
    ///
    /// It takes time in proportion to the number of units. For one of them ask for it by
    /// [`unit`](Self::unit).
    pub fn groups(&self) -> Option<ObservedGroups> {
        let known = self.shared.known.borrow();
        // Read the clock within the lock. The known state must not be younger than the clock.
        Some(known.groups.as_ref()?.observed(clock::now()))
    }

    /// Returns a unit of a group's present generation, and the member that owns it by the map. That
    /// one is `None` if nobody owns it, or an epoch that is over or has no key.
    ///
    /// A unit is known to have an owner if that member is
    /// [`confirmed`](ObservedMember::confirmed). While it [is
    /// changing](super::UnitStanding::Changing) others may act on it still.
    ///
    /// Returns `None` if there is no such unit, or nothing was read yet. It takes the same time for
    /// many units as for a few.
    pub fn unit(&self, group: &str, unit: &str) -> Option<(ObservedUnit, Option<ObservedMember>)> {
        let (group, unit) = (GroupName::new(group).ok()?, UnitName::new(unit).ok()?);
        let known = self.shared.known.borrow();
        known.groups.as_ref()?.unit(&group, &unit, clock::now())
    }

    /// Returns the shard that a key belongs to, and the member that owns it, as
    /// [`unit`](Self::unit) does. All instances and versions find the same shard for the same number
    /// of shards. `None` if the group is not known to have shards.
    pub fn owner_of(
        &self,
        group: &str,
        key: impl AsRef<[u8]>,
    ) -> Option<(ObservedUnit, Option<ObservedMember>)> {
        let group = GroupName::new(group).ok()?;
        let known = self.shared.known.borrow();
        let groups = known.groups.as_ref()?;
        // The number of shards may be another one at the next look.
        let shard = groups.shard_of(&group, key.as_ref())?;
        groups.unit(&group, &shard, clock::now())
    }

    /// Waits until what is known fulfils a condition, which is checked after each message of the
    /// watch. That time has passed is not noticed by itself.
    ///
    /// # Cancel safety
    /// This method is cancel safe. Nothing is lost if the future is dropped.
    pub async fn wait_until(&self, mut fulfilled: impl FnMut(&Self) -> bool) {
        let mut moved = self.shared.known.subscribe();
        while !fulfilled(self) {
            if moved.changed().await.is_err() {
                return;
            }
        }
    }
}

impl fmt::Debug for FollowedGroups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FollowedGroups")
            .field("observer", &self.observer)
            .field("connection", &self.connection())
            .finish_non_exhaustive()
    }
}

/// Whether another watch may show more.
const fn is_temporary(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Unavailable(_) | StoreError::Timeout { .. }
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nats_elect_testing::{NatsServer, eventually};
    use uuid::Uuid;

    use super::FollowedGroups;
    use crate::observer::{ObservedGroup, Observer, WatchStatus};
    use crate::support::bucket::Stranger;
    use nats_elect_core::assignment::{Epoch, MemberRecord};
    use nats_elect_core::name::InstanceId;
    use nats_elect_core::record::Nonce;

    const SOON: Duration = Duration::from_secs(20);
    const MEMBER: Epoch = Epoch::new([7; 16]);

    fn group(followed: &FollowedGroups, name: &str) -> Option<ObservedGroup> {
        followed.groups()?.groups.remove(name)
    }

    /// Whether a member is known that was seen alive.
    fn lives(followed: &FollowedGroups) -> bool {
        let member = |group: &ObservedGroup| group.members.get(&MEMBER.to_string()).cloned();
        let member = group(followed, "a").as_ref().and_then(member);
        member.is_some_and(|it| it.confirmed)
    }

    #[tokio::test]
    async fn what_was_purged_is_gone_after_a_while_and_nothing_is_stale_meanwhile() {
        let server = NatsServer::start().unwrap();
        let (_, store) = Stranger::with_bucket(&server.url()).await;
        store.put("_groups.b.map", "x".into()).await.unwrap();
        let observer = Observer::builder().servers(server.url()).bucket("leaders");
        let observer = observer.start().await.unwrap();
        let followed = FollowedGroups::begin(observer, Duration::from_millis(50));
        let is_current = |it: &FollowedGroups| it.connection() == WatchStatus::Current;
        followed.wait_until(is_current).await;
        assert!(group(&followed, "b").is_some());
        // The last sign of life: from now on it stays confirmed for its lease, whichever watch runs.
        let nonce = Nonce {
            incarnation: Uuid::from_u128(7),
            beat: 1,
        };
        let id = InstanceId::new("node-1").unwrap();
        let record = MemberRecord::new(MEMBER, id, nonce, Duration::from_secs(60)).to_json();
        let key = format!("_groups.a.member.{MEMBER}");
        let heartbeat = eventually(SOON, "a member", async || {
            store.put(&key, record.clone().into()).await.unwrap();
            lives(&followed).then_some(())
        });
        heartbeat.await;
        let purged = store.stream.purge().filter("$KV.leaders._groups.b.>");
        purged.await.unwrap();
        let is_gone = followed.wait_until(|it| {
            assert!(is_current(it) && lives(it), "{it:?}");
            group(it, "b").is_none()
        });
        tokio::time::timeout(SOON, is_gone).await.unwrap();
    }
}
