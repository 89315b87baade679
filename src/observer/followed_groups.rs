//! Groups as they change: one watch on them that is restarted whenever it ends.

use std::convert::Infallible;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
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
use crate::store::{GroupWatch, OUT_OF_REACH, StoreError};
use nats_elect_core::Moment;
use nats_elect_core::duration::rounded;
use nats_elect_core::name::{GroupName, UnitName};

/// After how long a watch begins anew, as those of members do. No watch shows a purge: only the next
/// one does, by what it lacks.
pub(super) const WATCH_ANEW: Duration = Duration::from_secs(300);

/// The groups of a bucket, followed as they change. See
/// [`Observer::follow_groups`](super::Observer::follow_groups).
///
/// It tells what it was shown, and nothing of it is a proof. Only the owner of a unit knows whether
/// it may act. While the watch is interrupted everything is as it was last seen, and no member is
/// [`confirmed`](ObservedMember::confirmed).
///
/// No watch shows that a key was purged. So another one takes the place of the watch every five
/// minutes, and what was purged is gone then. Nothing is interrupted by that.
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
    /// Begins to follow, as a task of the present runtime. A watch begins anew after so long.
    pub(super) fn begin(observer: Observer, anew: Duration) -> Self {
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

    fn has_shown_no_more_than(&self, groups: &TrackedGroups) -> bool {
        let known = self.known();
        let before = known.groups.as_ref();
        before.is_none_or(|before| groups.is_beyond(before))
    }

    /// Returns whether a watch has caught up, and goes on.
    fn is_current(&self) -> bool {
        self.known().stale.is_none()
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
        let following = AssertUnwindSafe(follow(&here, &shared, anew)).catch_unwind();
        let ended = tokio::select! {
            biased;
            changed = reach.changed() => match changed {
                Ok(()) => StoreError::Unavailable(OUT_OF_REACH.into()),
                Err(_) => return,
            },
            ended = following => match ended {
                Ok(Err(error)) => error,
                Err(_) => StoreError::Unavailable("the watch has crashed".into()),
            },
        };
        if ended.cuts_off() {
            if shared.is_current() {
                backoff.caught_up();
            }
            backoff.connection_lost();
        }
        let wait = backoff.ended(clock::now());
        tracing::debug!(%ended, wait = %rounded(wait), "the watch on groups ended: watching again");
        shared.watch_ended(ended.to_string());
        tokio::time::sleep(wait).await;
    }
}

/// Watches until the watch ends, and takes what it shows. Now and then another watch takes its place.
async fn follow(reach: &Reach, shared: &Shared, anew: Duration) -> Result<Infallible, StoreError> {
    let (groups, mut watch) = begin(reach).await?;
    shared.update(|known| {
        known.groups = Some(groups);
        known.stale = None;
        known.heard = clock::now();
    });
    loop {
        let mut next = pin!(next(reach, shared, anew));
        watch = loop {
            let told = tokio::select! {
                told = watch.next_batch(BATCH) => told?,
                next = &mut next => break next,
            };
            let now = clock::now();
            shared.update(|known| {
                known.heard = now;
                if let Some(groups) = &mut known.groups {
                    groups.take_all(told, now);
                }
            });
        };
    }
}

/// Begins another watch after so long, beside the present one. It is returned when what it has shown
/// has taken the place of what is known.
async fn next(reach: &Reach, shared: &Shared, anew: Duration) -> GroupWatch {
    loop {
        tokio::time::sleep(anew).await;
        match replace(reach, shared).await {
            Ok(watch) => return watch,
            // The present one goes on, or ends by itself.
            Err(error) => tracing::debug!(%error, "the watch on groups could not begin anew"),
        }
    }
}

async fn replace(reach: &Reach, shared: &Shared) -> Result<GroupWatch, StoreError> {
    let (mut groups, mut watch) = begin(reach).await?;
    // Its server may be behind that of the present one.
    while !shared.has_shown_no_more_than(&groups) {
        let told = watch.next_batch(BATCH).await?;
        groups.take_all(told, clock::now());
    }
    shared.update(|known| {
        if let Some(before) = &known.groups {
            groups.follows(before);
        }
        known.groups = Some(groups);
    });
    Ok(watch)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use async_nats::jetstream::{self, kv};
    use nats_elect_testing::{NatsServer, eventually};

    use super::FollowedGroups;
    use crate::observer::{Observer, WatchStatus};

    const SOON: Duration = Duration::from_secs(20);
    const MEMBER: &str = "BBBBBBBBBBBBBBBBBBBBBA";

    /// Whether a member is known that was seen alive.
    fn lives(followed: &FollowedGroups) -> bool {
        let all = followed.groups();
        all.is_some_and(|it| it.members.get(MEMBER).is_some_and(|it| it.confirmed))
    }

    #[tokio::test]
    async fn what_was_purged_is_gone_after_a_while_and_nothing_is_stale_meanwhile() {
        let server = NatsServer::start().unwrap();
        let client = async_nats::connect(server.url()).await.unwrap();
        let context = jetstream::new(client);
        let config = kv::Config {
            bucket: "leaders".into(),
            ..kv::Config::default()
        };
        let store = context.create_key_value(config).await.unwrap();
        let group = r#"{"v":1,"kind":"sharded","n":2,"gen":1}"#;
        store.put("_group.g.a", group.into()).await.unwrap();
        for unit in ["a.1.0", "a.1.1", "b.1.0"] {
            let key = format!("_group.u.{unit}");
            store.put(key, r#"{"v":1}"#.into()).await.unwrap();
        }
        let observer = Observer::builder().servers(server.url()).bucket("leaders");
        let observer = observer.start().await.unwrap();
        let followed = FollowedGroups::begin(observer, Duration::from_millis(50));
        let is_current = |it: &FollowedGroups| it.connection() == WatchStatus::Current;
        followed.wait_until(is_current).await;
        // The last sign of life: from now on it stays confirmed for its lease, whichever watch runs.
        let member = format!("_group.m.{MEMBER}");
        let heartbeat = eventually(SOON, "a member", async || {
            store.put(&member, "{}".into()).await.unwrap();
            lives(&followed).then_some(())
        });
        heartbeat.await;
        let purged = store.stream.purge().filter("$KV.leaders._group.u.b.>");
        purged.await.unwrap();
        let is_gone = followed.wait_until(|it| {
            assert!(is_current(it) && lives(it), "{it:?}");
            it.unit("b", "0").is_none()
        });
        tokio::time::timeout(SOON, is_gone).await.unwrap();
        // A group that was made anew, and is smaller.
        let group = r#"{"v":1,"kind":"sharded","n":1,"gen":1}"#;
        let purged = store.stream.purge().filter("$KV.leaders._group.*.a.>");
        purged.await.unwrap();
        store.put("_group.g.a", group.into()).await.unwrap();
        store
            .put("_group.u.a.1.0", r#"{"v":1}"#.into())
            .await
            .unwrap();
        let is_small = followed.wait_until(|it| {
            assert!(is_current(it) && lives(it), "{it:?}");
            it.groups().is_some_and(|all| {
                let group = &all.groups["a"];
                group.units.len() == 1 && group.surplus.is_empty()
            })
        });
        tokio::time::timeout(SOON, is_small).await.unwrap();
    }
}
