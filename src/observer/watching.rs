//! The work behind an observer: one watch, begun again whenever it ends, and a look at the key of each role whose lease has passed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ractor::ActorRef;
use tokio::sync::{broadcast, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::observed::Change;
use super::tracked_roles::{Now, TrackedRoles};
use crate::actors::{Link, MonitorMsg, WatchBackoff};
use crate::clock;
use crate::store::{Bucket, Delivery, StoreError};
use nats_elect_core::Moment;
use nats_elect_core::name::RoleName;
use nats_elect_core::record::{Entry, FenceEntry, Snapshot};

/// How late an end of a lease may be noticed.
const TICK: Duration = Duration::from_millis(50);
/// How long a watch may take to begin, and a look at a key.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Looks under way at once: after an outage all leases may have passed.
const LOOKS: usize = 32;
/// Messages between the watch and who digests them; then the watch waits, and the server with it.
const BACKLOG: usize = 1024;
/// Why a watch is given up that has sent what it has, and that is less than the stream's leader had: another one may be on a
/// server that has more.
const LAGS: &str = "the watch is on a server that lags behind the stream's leader";
/// Changes that a slow reader may be behind.
const CHANGES: usize = 1024;

/// What the observer's handles and its tasks share.
pub(super) struct Shared {
    tracked_roles: Mutex<TrackedRoles>,
    pub changes: broadcast::Sender<Change>,
    /// Counts what was seen, for those who wait.
    pub moved: watch::Sender<u64>,
    pub ended: CancellationToken,
}

impl Shared {
    pub fn new(tracked_roles: TrackedRoles) -> Self {
        Self {
            tracked_roles: Mutex::new(tracked_roles),
            changes: broadcast::Sender::new(CHANGES),
            moved: watch::Sender::new(0),
            ended: CancellationToken::new(),
        }
    }

    pub fn tracked_roles(&self) -> MutexGuard<'_, TrackedRoles> {
        self.tracked_roles
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is known, and tells of it and those who wait.
    fn update(&self, change: impl FnOnce(&mut TrackedRoles)) {
        self.apply(change);
        self.moved.send_modify(|moved| *moved += 1);
    }

    /// Changes what is known, and tells of it.
    fn apply<R>(&self, change: impl FnOnce(&mut TrackedRoles) -> R) -> R {
        let mut tracked_roles = self.tracked_roles();
        let result = change(&mut tracked_roles);
        for change in tracked_roles.take_changes() {
            log(&change);
            // Without a reader nobody needs to know.
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

/// What a watch delivers, and when it was received.
enum Seen {
    Role(RoleName, Entry, Moment),
    Fence(RoleName, FenceEntry, Moment),
    Nothing(Moment),
    CaughtUp(Moment),
    Ended(Ended),
}

/// How a watch ended.
struct Ended {
    /// In words.
    reason: String,
    /// The connection may have been lost with it.
    cut_off: bool,
}

impl Ended {
    /// It goes on, but is of no use.
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
            cut_off: matches!(error, StoreError::Unavailable(_)),
        }
    }
}

/// The bucket that is in reach.
#[derive(Clone)]
struct Reach {
    bucket: Bucket,
    epoch: u64,
}

/// A watch on its way. Dropping it ends it.
struct Running {
    seen: mpsc::Receiver<Seen>,
    _task: JoinSet<()>,
}

pub(super) struct Watching {
    shared: Arc<Shared>,
    monitor: ActorRef<MonitorMsg>,
    watch_backoff: WatchBackoff,
    reach: Option<Reach>,
    running: Option<Running>,
    /// When to begin the next watch.
    begin_at: Option<Moment>,
    looks: JoinSet<(RoleName, Option<Snapshot>)>,
}

impl Watching {
    pub fn new(shared: Arc<Shared>, monitor: ActorRef<MonitorMsg>) -> Self {
        Self {
            shared,
            monitor,
            watch_backoff: WatchBackoff::new(clock::now()),
            reach: None,
            running: None,
            begin_at: None,
            looks: JoinSet::new(),
        }
    }

    /// Goes on until the monitor ends.
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
                seen = next(&mut self.running) => self.saw(seen),
                _ = ticks.tick() => self.tick(),
            }
        }
        if self.shared.ended.is_cancelled() {
            return;
        }
        // Only a crash of the monitor comes to this.
        let reason = "the connection's monitor has ended: start a new observer".to_owned();
        self.shared
            .update(|tracked_roles| tracked_roles.watch_ended(reason));
        self.shared.ended.cancel();
    }

    fn link_changed(&mut self, link: Link) {
        if self.running.take().is_some() {
            self.watch_backoff.connection_lost(clock::now());
        }
        self.begin_at = None;
        self.reach = None;
        match link {
            Link::Down => self.stop("not connected to NATS".into()),
            Link::Unusable(failure) => self.stop(failure.detail),
            Link::Up { bucket, info } => {
                self.stop("the watch has not begun yet".into());
                let (epoch, max_age) = (info.epoch, info.max_age);
                self.shared
                    .update(|tracked_roles| tracked_roles.bucket_is(epoch, max_age, now()));
                self.reach = Some(Reach { bucket, epoch });
                let rest = self.watch_backoff.reconnected();
                self.begin_at = Some(clock::now() + rest.unwrap_or_default());
            }
        }
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
        // Nobody waits for what time alone can bring.
        let due = self
            .shared
            .apply(|tracked_roles| tracked_roles.tick(room, now()));
        let Some(reach) = &self.reach else {
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

    fn begin(&mut self) {
        self.begin_at = None;
        let Some(reach) = self.reach.clone() else {
            return;
        };
        self.watch_backoff.begun(clock::now());
        self.shared.update(TrackedRoles::watch_begins);
        let (tell, seen) = mpsc::channel(BACKLOG);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let Err(error) = follow(&reach, &tell).await else {
                return;
            };
            let _ = tell.send(Seen::Ended(error)).await;
        });
        self.running = Some(Running { seen, _task: task });
    }

    fn saw(&mut self, seen: Option<Seen>) {
        let wall = clock::wall();
        let at = |clock| Now { clock, wall };
        self.shared.update(|tracked_roles| match &seen {
            Some(Seen::Role(role, entry, received)) => {
                tracked_roles.role(role, entry.clone(), at(*received));
            }
            Some(Seen::Fence(role, fence, received)) => {
                tracked_roles.fence(role, *fence, at(*received));
            }
            Some(Seen::Nothing(received)) => tracked_roles.heard(*received),
            Some(Seen::CaughtUp(received)) => tracked_roles.caught_up(at(*received)),
            Some(Seen::Ended(_)) | None => {}
        });
        let ended = match seen {
            Some(Seen::Ended(ended)) => ended,
            None => StoreError::Unavailable("the watch has crashed".into()).into(),
            _ => return,
        };
        self.running = None;
        if ended.cut_off {
            self.watch_backoff.connection_lost(clock::now());
        }
        let wait = self.watch_backoff.ended(clock::now());
        tracing::debug!(ended.reason, ?wait, "the watch ended: watching anew");
        self.begin_at = Some(clock::now() + wait);
        self.stop(ended.reason);
        // A watch ends with its bucket, and nothing else need tell that another one took its name.
        let _ = self.monitor.send_message(MonitorMsg::LookAtBucket);
    }
}

fn now() -> Now {
    Now {
        clock: clock::now(),
        wall: clock::wall(),
    }
}

/// Nothing comes where no watch is running.
async fn next(running: &mut Option<Running>) -> Option<Seen> {
    match running {
        Some(running) => running.seen.recv().await,
        None => std::future::pending().await,
    }
}

/// What the stream leader has under a role's keys.
async fn look(reach: &Reach, role: &RoleName) -> Result<Snapshot, StoreError> {
    let found = reach.bucket.snapshot(role, TIMEOUT).await?;
    if found.epoch == Some(reach.epoch) {
        Ok(found)
    } else {
        Err(another_bucket())
    }
}

fn another_bucket() -> StoreError {
    StoreError::Unavailable("the bucket is another one than before".into())
}

/// Watches until the watch ends. Nobody listens any more: that is no error.
async fn follow(reach: &Reach, tell: &mpsc::Sender<Seen>) -> Result<(), Ended> {
    let (mut watch, epoch) = reach.bucket.survey(TIMEOUT).await?;
    if epoch != reach.epoch {
        return Err(another_bucket().into());
    }
    let mut caught_up = false;
    loop {
        if !caught_up && watch.has_caught_up() {
            caught_up = true;
            if tell.send(Seen::CaughtUp(clock::now())).await.is_err() {
                return Ok(());
            }
        }
        let told = watch.next().await.map_err(|error| match error {
            StoreError::Timeout { .. } => {
                Ended::given_up("nothing is heard from the watch any more")
            }
            error => error.into(),
        })?;
        let received = clock::now();
        let seen = match told {
            Delivery::Entry(role, entry) => Seen::Role(role, entry, received),
            Delivery::Fence(role, fence) => Seen::Fence(role, fence, received),
            Delivery::Idle if !caught_up => return Err(Ended::given_up(LAGS)),
            Delivery::Nothing | Delivery::Idle | Delivery::Waiting(_) => Seen::Nothing(received),
        };
        if tell.send(seen).await.is_err() {
            return Ok(());
        }
    }
}
