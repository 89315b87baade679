//! The work behind an observer: one watch that is restarted whenever it ends, and a look at the key
//! of each role whose lease has passed.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use ractor::ActorRef;
use tokio::sync::{broadcast, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::observed::Change;
use super::tracked_role::Now;
use super::tracked_roles::TrackedRoles;
use crate::actors::{Link, MonitorMsg, WatchBackoff};
use crate::clock;
use crate::lock::lock;
use crate::store::{Bucket, Delivery, StoreError, Survey, Written};
use nats_elect_core::Moment;
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
    pub reach: watch::Sender<Option<Reach>>,
}

impl Shared {
    pub fn new(tracked_roles: TrackedRoles) -> Self {
        Self {
            tracked_roles: Mutex::new(tracked_roles),
            changes: broadcast::Sender::new(CHANGES),
            moved: watch::Sender::new(0),
            ended: CancellationToken::new(),
            reach: watch::Sender::new(None),
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

/// How a watch ended.
struct Ended {
    /// The reason, in words.
    reason: String,
    /// The connection may have been lost with the watch.
    cut_off: bool,
}

impl Ended {
    /// The watch goes on, but is of no use.
    fn given_up(reason: &str) -> Self {
        Self {
            reason: reason.to_owned(),
            cut_off: false,
        }
    }
}

impl From<StoreError> for Ended {
    fn from(error: StoreError) -> Self {
        Self {
            reason: error.to_string(),
            cut_off: error.cuts_off(),
        }
    }
}

/// The bucket that is in reach.
#[derive(Clone)]
pub(super) struct Reach {
    pub bucket: Bucket,
    pub epoch: u64,
}

pub(super) struct Watching {
    shared: Arc<Shared>,
    monitor: ActorRef<MonitorMsg>,
    watch_backoff: WatchBackoff,
    /// The watch that is running. Dropping it ends it.
    running: Option<BoxFuture<'static, Ended>>,
    /// When to begin the next watch.
    begin_at: Option<Moment>,
    looks: JoinSet<(RoleName, Option<(Snapshot, Written)>)>,
}

impl Watching {
    pub fn new(shared: Arc<Shared>, monitor: ActorRef<MonitorMsg>) -> Self {
        Self {
            shared,
            monitor,
            watch_backoff: WatchBackoff::new(clock::now()),
            running: None,
            begin_at: None,
            looks: JoinSet::new(),
        }
    }

    /// Runs until the monitor ends.
    pub async fn run(mut self, mut links: mpsc::UnboundedReceiver<Link>) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                link = links.recv() => match link {
                    Some(link) => self.link_changed(link),
                    None => break,
                },
                Some(looked) = self.looks.join_next() => {
                    if let Ok((role, found)) = looked {
                        self.shared.update(|tracked_roles| tracked_roles.looked(&role, found, now()));
                    }
                }
                ended = end_of(&mut self.running) => self.watch_ended(ended),
                _ = ticks.tick() => self.tick(),
            }
        }
        if self.shared.ended.is_cancelled() {
            return;
        }
        // Only a crash of the monitor leads here.
        let reason = "the connection's monitor has ended: start a new observer".to_owned();
        self.shared
            .update(|tracked_roles| tracked_roles.watch_ended(reason));
        self.shared.ended.cancel();
    }

    fn link_changed(&mut self, link: Link) {
        if self.running.take().is_some() {
            self.connection_lost();
        }
        self.begin_at = None;
        self.shared.reach.send_replace(None);
        match link {
            Link::Down { .. } => self.stop("not connected to NATS".into()),
            Link::Unusable(failure) => self.stop(failure.detail),
            Link::Up { bucket, info } => {
                self.stop("the watch has not begun yet".into());
                let (epoch, max_age) = (info.epoch, info.max_age);
                self.shared
                    .update(|tracked_roles| tracked_roles.bucket_is(epoch, max_age, now()));
                self.shared
                    .reach
                    .send_replace(Some(Reach { bucket, epoch }));
                let rest = self.watch_backoff.reconnected();
                self.begin_at = Some(clock::now() + rest.unwrap_or_default());
            }
        }
    }

    /// The connection is lost, together with the watch.
    fn connection_lost(&mut self) {
        if self
            .shared
            .apply(|tracked_roles| tracked_roles.is_current())
        {
            self.watch_backoff.caught_up();
        }
        self.watch_backoff.connection_lost();
    }

    fn stop(&mut self, reason: String) {
        self.looks = JoinSet::new();
        self.shared
            .update(|tracked_roles| tracked_roles.watch_ended(reason));
    }

    fn tick(&mut self) {
        if self.begin_at.is_some_and(|at| clock::now() >= at) {
            self.begin();
        }
        let room = LOOKS.saturating_sub(self.looks.len());
        // No caller waits for changes that time alone can bring.
        let due = self
            .shared
            .apply(|tracked_roles| tracked_roles.tick(room, now()));
        let Some(reach) = self.reach() else {
            return;
        };
        for role in due {
            let (reach, monitor) = (reach.clone(), self.monitor.clone());
            self.looks.spawn(async move {
                let found = look(&reach, &role).await;
                if let Err(error) = &found {
                    tracing::warn!(%role, %error, "its lease has passed or the watch did not show its keys, and they can't be read");
                    let _ = monitor.send_message(MonitorMsg::LookAtBucket);
                }
                (role, found.ok())
            });
        }
    }

    fn reach(&self) -> Option<Reach> {
        self.shared.reach.borrow().clone()
    }

    fn begin(&mut self) {
        self.begin_at = None;
        let Some(reach) = self.reach() else {
            return;
        };
        self.watch_backoff.begun(clock::now());
        self.shared.update(TrackedRoles::watch_begins);
        let shared = Arc::clone(&self.shared);
        let following = async move {
            let Err(ended) = follow(&reach, &shared).await;
            ended
        };
        let following = AssertUnwindSafe(following).catch_unwind().map(|ended| {
            let crashed = |_| StoreError::Unavailable("the watch has crashed".into()).into();
            ended.unwrap_or_else(crashed)
        });
        self.running = Some(following.boxed());
    }

    fn watch_ended(&mut self, ended: Ended) {
        self.running = None;
        if ended.cut_off {
            self.connection_lost();
        }
        let wait = self.watch_backoff.ended(clock::now());
        tracing::debug!(ended.reason, wait = %rounded(wait), "the watch ended: watching again");
        self.begin_at = Some(clock::now() + wait);
        self.stop(ended.reason);
        // A watch ends with its bucket. Nothing else may report that another bucket took its name.
        let _ = self.monitor.send_message(MonitorMsg::LookAtBucket);
    }
}

fn now() -> Now {
    Now {
        clock: clock::now(),
        wall: clock::wall(),
    }
}

/// Runs the watch to its end. If no watch is running, it never resolves.
async fn end_of(running: &mut Option<BoxFuture<'static, Ended>>) -> Ended {
    match running {
        Some(running) => running.await,
        None => std::future::pending().await,
    }
}

/// Reads the stream leader's entries under a role's keys.
async fn look(reach: &Reach, role: &RoleName) -> Result<(Snapshot, Written), StoreError> {
    let found = reach.bucket.dated_snapshot(role, TIMEOUT).await?;
    if found.0.epoch == Some(reach.epoch) {
        Ok(found)
    } else {
        Err(another_bucket())
    }
}

pub(super) fn another_bucket() -> StoreError {
    StoreError::Unavailable("the bucket is another one than before".into())
}

/// Watches until the watch ends, and takes what it shows.
async fn follow(reach: &Reach, shared: &Shared) -> Result<Infallible, Ended> {
    let Survey {
        mut watch,
        epoch,
        answered,
    } = reach.bucket.survey(TIMEOUT).await?;
    if epoch != reach.epoch {
        return Err(another_bucket().into());
    }
    if let Some(answered) = answered {
        shared.update(|tracked_roles| tracked_roles.server_says(answered, now()));
    }
    let mut caught_up = false;
    loop {
        if !caught_up && watch.has_caught_up() {
            caught_up = true;
            let received = now();
            shared.update(|tracked_roles| tracked_roles.caught_up(received));
        }
        let shown = watch.next().await.map_err(|error| match error {
            StoreError::Timeout { .. } => {
                Ended::given_up("nothing is heard from the watch any more")
            }
            error => error.into(),
        })?;
        let received = now();
        if shown == Delivery::Idle && !caught_up {
            return Err(Ended::given_up(LAGS));
        }
        let written = watch.written();
        shared.update(|tracked_roles| match shown {
            Delivery::Entry(role, entry) => tracked_roles.role(&role, entry, written, received),
            Delivery::Fence(role, fence) => tracked_roles.fence(&role, fence, written, received),
            Delivery::Nothing | Delivery::Idle | Delivery::Waiting(_) => {
                tracked_roles.heard(received.clock);
            }
        });
    }
}
