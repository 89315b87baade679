//! The work behind an observer: one watch, which the skeleton of tasks with a link begins again
//! whenever it ends, and a look at the key of each role whose lease has passed.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ractor::ActorRef;
use tokio::sync::{broadcast, watch};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::observed::Change;
use super::tracked_role::Now;
use super::tracked_roles::TrackedRoles;
use crate::actors::{Link, Linked, MonitorMsg, Reached};
use crate::clock;
use crate::lock::lock;
use crate::store::{Bucket, Delivery, StoreError, Written};
use nats_elect_core::duration::rounded;
use nats_elect_core::name::RoleName;
use nats_elect_core::record::Snapshot;

/// How late the end of a lease may be noticed.
const TICK: Duration = Duration::from_millis(50);
/// How long the start of a watch may take, and a look at a key.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The number of looks under way at once. After an outage all leases may have passed.
const LOOKS: usize = 32;
/// The reason to give up a watch that has sent everything it has, if that is less than the stream's
/// leader had. Another watch may be on a server that has more.
const LAGS: &str = "the watch is on a server that lags behind the stream's leader";
/// The reason to give up a watch that has gone silent.
const SILENT: &str = "nothing is heard from the watch any more";
/// The number of changes that a slow reader may be behind.
const CHANGES: usize = 1024;

/// The state that the observer's handles and its tasks share.
pub(super) struct Shared {
    tracked_roles: Mutex<TrackedRoles>,
    pub changes: broadcast::Sender<Change>,
    /// Counts the inputs that were seen. Waiting callers watch it.
    pub moved: watch::Sender<u64>,
    pub ended: CancellationToken,
    /// The bucket, while it is in reach.
    pub link: watch::Sender<Link>,
}

impl Shared {
    pub fn new(tracked_roles: TrackedRoles) -> Self {
        Self {
            tracked_roles: Mutex::new(tracked_roles),
            changes: broadcast::Sender::new(CHANGES),
            moved: watch::Sender::new(0),
            ended: CancellationToken::new(),
            link: watch::Sender::new(Link::Down {
                since: clock::now(),
            }),
        }
    }

    pub fn tracked_roles(&self) -> MutexGuard<'_, TrackedRoles> {
        lock(&self.tracked_roles)
    }

    /// Changes the known state, reports the changes, and wakes waiting callers.
    fn update(&self, change: impl FnOnce(&mut TrackedRoles)) {
        self.apply(change);
        self.moved.send_modify(|moved| *moved += 1);
    }

    /// Does the same with what was seen in the watch of this number, unless it is over: its task may
    /// go on for a moment.
    fn update_in(&self, watch: u64, change: impl FnOnce(&mut TrackedRoles)) {
        self.update(|tracked_roles| {
            if tracked_roles.watch() == watch {
                change(tracked_roles);
            }
        });
    }

    /// Changes the known state, and reports the changes.
    fn apply<R>(&self, change: impl FnOnce(&mut TrackedRoles) -> R) -> R {
        let mut tracked_roles = self.tracked_roles();
        let result = change(&mut tracked_roles);
        for change in tracked_roles.take_changes() {
            log(&change);
            // Without a reader the change need not be delivered.
            let _ = self.changes.send(change);
        }
        result
    }
}

fn log(change: &Change) {
    match change {
        Change::Role(change) => tracing::debug!(
            role = change.role,
            leader = change.to.as_ref().map(|leader| &leader.instance_id),
            standing = %change.standing,
            cause = %change.cause,
            "role changed"
        ),
        Change::Stale { reason } => tracing::warn!(reason, "the observer sees nothing just now"),
        Change::Current | Change::Lagged { .. } => tracing::debug!(?change, "observer"),
    }
}

/// The work of the task that watches.
pub(super) struct Watching {
    pub shared: Arc<Shared>,
    pub monitor: ActorRef<MonitorMsg>,
}

impl Watching {
    fn stop(&self, reason: String) {
        self.shared
            .update(|tracked_roles| tracked_roles.watch_ended(reason));
    }
}

impl Linked for Watching {
    async fn run(self: Arc<Self>, reached: Reached) -> Result<(), StoreError> {
        let bucket = &reached.bucket;
        let number = self.shared.apply(TrackedRoles::watch_begins);
        let (mut watch, answered) = bucket.survey(reached.epoch, TIMEOUT).await?;
        if let Some(answered) = answered {
            self.shared.update_in(number, |tracked_roles| {
                tracked_roles.server_says(answered, now());
            });
        }
        loop {
            if watch.has_caught_up() && reached.caught_up() {
                self.shared
                    .update_in(number, |tracked_roles| tracked_roles.caught_up(now()));
            }
            let shown = watch.next().await.map_err(|error| match error {
                StoreError::Timeout { .. } => StoreError::Unavailable(SILENT.into()),
                error => error,
            })?;
            if shown == Delivery::Idle && !reached.has_caught_up() {
                return Err(StoreError::Unavailable(LAGS.into()));
            }
            let (received, written) = (now(), watch.written());
            self.shared.update_in(number, |tracked_roles| match shown {
                Delivery::Entry(role, entry) => tracked_roles.role(&role, entry, written, received),
                Delivery::Fence(role, fence) => {
                    tracked_roles.fence(&role, fence, written, received);
                }
                Delivery::Nothing | Delivery::Idle => tracked_roles.heard(received.clock),
            });
        }
    }

    fn link_changed(&self, link: &Link) {
        let since = clock::now();
        self.shared.link.send_replace(Link::Down { since });
        match link {
            Link::Down { .. } => self.stop("not connected to NATS".into()),
            Link::Unusable(failure) => self.stop(failure.detail.clone()),
            Link::Up { info, .. } => {
                self.stop("the watch has not begun yet".into());
                let (epoch, max_age) = (info.epoch, info.max_age);
                self.shared
                    .update(|tracked_roles| tracked_roles.bucket_is(epoch, max_age, now()));
                self.shared.link.send_replace(link.clone());
            }
        }
    }

    fn ended(&self, error: Option<&StoreError>, wait: Duration) -> Duration {
        let reason = error.map_or_else(String::new, ToString::to_string);
        tracing::debug!(reason, wait = %rounded(wait), "the watch ended: watching again");
        self.stop(reason);
        // A watch ends with its bucket. Nothing else may report that another bucket took its name.
        let _ = self.monitor.send_message(MonitorMsg::LookAtBucket);
        wait
    }
}

/// Lets time pass, and looks at the keys of roles whose leases have passed, until the monitor ends.
pub(super) async fn tick(shared: Arc<Shared>, monitor: ActorRef<MonitorMsg>) {
    let mut looks = JoinSet::new();
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            _ = monitor.wait(None) => break,
            Some(looked) = looks.join_next() => {
                if let Ok((number, role, found)) = looked {
                    shared.update_in(number, |tracked_roles| {
                        tracked_roles.looked(&role, found, now());
                    });
                }
            }
            _ = ticks.tick() => {
                let room = LOOKS.saturating_sub(looks.len());
                // No caller waits for changes that time alone can bring.
                let (number, due) = shared
                    .apply(|tracked_roles| (tracked_roles.watch(), tracked_roles.tick(room, now())));
                let up = shared.link.borrow().up();
                let due = due.into_iter().filter_map(|role| Some((role, up.clone()?)));
                for (role, (bucket, epoch)) in due {
                    let monitor = monitor.clone();
                    looks.spawn(async move {
                        let found = look(&bucket, epoch, &role).await;
                        if let Err(error) = &found {
                            tracing::warn!(%role, %error, "its lease has passed or the watch did not show its keys, and they can't be read");
                            let _ = monitor.send_message(MonitorMsg::LookAtBucket);
                        }
                        (number, role, found.ok())
                    });
                }
            }
        }
    }
    if shared.ended.is_cancelled() {
        return;
    }
    // Only a crash of the monitor leads here.
    let reason = "the connection's monitor has ended: start a new observer".to_owned();
    shared.update(|tracked_roles| tracked_roles.watch_ended(reason));
    shared.ended.cancel();
}

fn now() -> Now {
    Now {
        clock: clock::now(),
        wall: clock::wall(),
    }
}

/// Reads the stream leader's entries under a role's keys.
async fn look(
    bucket: &Bucket,
    epoch: u64,
    role: &RoleName,
) -> Result<(Snapshot, Written), StoreError> {
    let found = bucket.dated_snapshot(role, TIMEOUT).await?;
    if found.0.epoch == Some(epoch) {
        Ok(found)
    } else {
        Err(StoreError::another_bucket())
    }
}
