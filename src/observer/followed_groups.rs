//! Groups as they change: one watch on them that is restarted whenever it ends.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::groups::{BATCH, begin};
use super::observed_groups::{ObservedGroups, ObservedMember, ObservedUnit};
use super::tracked_groups::TrackedGroups;
use super::watching::Reach;
use super::{Observer, WatchStatus};
use crate::actors::WatchBackoff;
use crate::clock;
use crate::lock::lock;
use crate::store::StoreError;
use nats_elect_core::Moment;
use nats_elect_core::duration::rounded;
use nats_elect_core::name::{GroupName, UnitName};

/// How long one watch is read. No watch shows that a key was purged, and the next one does.
pub(super) const WATCH_ANEW: Duration = Duration::from_secs(300);

/// The groups of a bucket, followed as they change. See
/// [`Observer::follow_groups`](super::Observer::follow_groups).
///
/// It tells what it was shown, and nothing of it is a proof. Only the owner of a unit knows whether
/// it may act. While the watch is interrupted everything is as it was last seen, and no member is
/// [`confirmed`](ObservedMember::confirmed).
#[must_use = "dropping it ends the watch"]
pub struct FollowedGroups {
    /// The connection lasts as long as it does.
    observer: Observer,
    shared: Arc<Shared>,
    /// The task is aborted when it is dropped.
    _task: JoinSet<()>,
}

struct Shared {
    known: Mutex<Known>,
    /// Waiting callers watch it.
    moved: watch::Sender<()>,
}

struct Known {
    /// What the last watch has shown that has caught up.
    groups: Option<TrackedGroups>,
    /// Why no watch is running that has shown everything, in words.
    stale: Option<String>,
    heard: Moment,
}

impl FollowedGroups {
    /// Begins to follow, as a task of the present runtime.
    pub(crate) fn begin(observer: Observer, anew: Duration) -> Self {
        let shared = Arc::new(Shared {
            known: Mutex::new(Known {
                groups: None,
                stale: Some("the groups were not read yet".into()),
                heard: clock::now(),
            }),
            moved: watch::Sender::new(()),
        });
        let reach = observer.inner.shared.reach.subscribe();
        let mut task = JoinSet::new();
        task.spawn(run(reach, Arc::clone(&shared), anew));
        Self {
            observer,
            shared,
            _task: task,
        }
    }

    /// Returns whether the groups are current.
    pub fn connection(&self) -> WatchStatus {
        let known = self.shared.known();
        match &known.stale {
            None => WatchStatus::Current,
            Some(reason) => WatchStatus::Stale {
                since: clock::now().since(known.heard),
                reason: reason.clone(),
            },
        }
    }

    /// Returns all groups at the time of this call. `None` until they were read for the first time.
    ///
    /// It takes time in proportion to the number of units. For one of them ask for it by
    /// [`unit`](Self::unit).
    pub fn groups(&self) -> Option<ObservedGroups> {
        let known = self.shared.known();
        // Read the clock within the lock. The known state must not be younger than the clock.
        Some(known.groups.as_ref()?.observed(clock::now()))
    }

    /// Returns a unit of a group's present generation, and the member that its record names. That
    /// one is `None` if the record names nobody, or a member whose record is missing or whose lease
    /// was ended.
    ///
    /// A unit is known to have an owner if that member is
    /// [`confirmed`](ObservedMember::confirmed).
    ///
    /// Returns `None` if there is no such unit, or nothing was read yet. It takes the same time for
    /// many units as for a few.
    pub fn unit(&self, group: &str, unit: &str) -> Option<(ObservedUnit, Option<ObservedMember>)> {
        let (group, unit) = (GroupName::new(group).ok()?, UnitName::new(unit).ok()?);
        let known = self.shared.known();
        known.groups.as_ref()?.unit(&group, &unit, clock::now())
    }

    /// Returns the shard that a key belongs to, and the member that its record names, as
    /// [`unit`](Self::unit) does. All instances and versions find the same shard for the same number
    /// of shards. `None` if the group is not known to have shards.
    pub fn owner_of(
        &self,
        group: &str,
        key: impl AsRef<[u8]>,
    ) -> Option<(ObservedUnit, Option<ObservedMember>)> {
        let group = GroupName::new(group).ok()?;
        let known = self.shared.known();
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
        let mut moved = self.shared.moved.subscribe();
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

impl Shared {
    fn known(&self) -> MutexGuard<'_, Known> {
        lock(&self.known)
    }

    fn update(&self, change: impl FnOnce(&mut Known)) {
        change(&mut self.known());
        self.moved.send_replace(());
    }

    fn watch_ended(&self, reason: String) {
        self.update(|known| {
            known.stale = Some(reason);
            if let Some(groups) = &mut known.groups {
                groups.watch_ended();
            }
        });
    }
}

/// Follows the groups of the bucket that is in reach, for ever.
async fn run(mut reach: watch::Receiver<Option<Reach>>, shared: Arc<Shared>, anew: Duration) {
    let mut backoff = WatchBackoff::new(clock::now());
    loop {
        let Some(here) = reach.borrow_and_update().clone() else {
            if reach.changed().await.is_err() {
                return;
            }
            tokio::time::sleep(backoff.reconnected().unwrap_or_default()).await;
            continue;
        };
        backoff.begun(clock::now());
        let following = async {
            loop {
                if let Err(error) = follow(&here, &shared, anew).await {
                    return error;
                }
            }
        };
        let following = AssertUnwindSafe(following).catch_unwind();
        let ended = tokio::select! {
            biased;
            changed = reach.changed() => match changed {
                Ok(()) => StoreError::Unavailable("the bucket is out of reach".into()),
                Err(_) => return,
            },
            ended = following => ended.unwrap_or_else(|_| {
                StoreError::Unavailable("the watch has crashed".into())
            }),
        };
        if matches!(ended, StoreError::Unavailable(_)) {
            backoff.connection_lost(clock::now());
        }
        let wait = backoff.ended(clock::now());
        tracing::debug!(%ended, wait = %rounded(wait), "the watch on groups ended: watching again");
        shared.watch_ended(ended.to_string());
        tokio::time::sleep(wait).await;
    }
}

/// Watches for so long, and takes what the watch shows. No watch shows that a key was purged, so the
/// next one has to.
async fn follow(reach: &Reach, shared: &Shared, anew: Duration) -> Result<(), StoreError> {
    let (mut groups, mut watch) = begin(reach).await?;
    shared.update(|known| {
        known.heard = clock::now();
        // It is not stale if this watch follows another one that was read until now.
        if known.stale.take().is_none()
            && let Some(before) = &known.groups
        {
            groups.goes_on_from(before, known.heard);
        }
        known.groups = Some(groups);
    });
    let reading = async {
        loop {
            let told = watch.next_batch(BATCH).await?;
            let now = clock::now();
            shared.update(|known| {
                known.heard = now;
                if let Some(groups) = &mut known.groups {
                    groups.take_all(told, now);
                }
            });
        }
    };
    tokio::time::timeout(anew, reading).await.unwrap_or(Ok(()))
}
