//! The watch on all groups of a bucket. It is restarted whenever it ends, and another one takes its
//! place now and then.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::watch;

use super::tracked_groups::TrackedGroups;
use super::watching::Reach;
use crate::actors::WatchBackoff;
use crate::clock;
use crate::lock::lock;
use crate::store::{AssignmentWatch, OUT_OF_REACH, StoreError};
use nats_elect_core::Moment;
use nats_elect_core::assignment::Key;
use nats_elect_core::duration::rounded;

/// After how long a watch begins anew. No watch shows that a key was removed: only the next one does,
/// by what it lacks.
pub(super) const WATCH_ANEW: Duration = Duration::from_secs(300);
/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The most messages that are taken at once.
const BATCH: usize = 256;

/// What the task and those who ask share.
pub(super) struct Shared {
    known: Mutex<Known>,
    /// Waiting callers watch it.
    pub moved: watch::Sender<()>,
}

pub(super) struct Known {
    /// What the last watch has shown that has caught up.
    pub groups: Option<TrackedGroups>,
    /// Whether that watch goes on.
    pub is_current: bool,
    /// Why the last watch ended.
    pub error: Option<StoreError>,
    pub heard: Moment,
}

impl Shared {
    pub fn new() -> Self {
        Self {
            known: Mutex::new(Known {
                groups: None,
                is_current: false,
                error: None,
                heard: clock::now(),
            }),
            moved: watch::Sender::new(()),
        }
    }

    pub fn known(&self) -> MutexGuard<'_, Known> {
        lock(&self.known)
    }

    fn update(&self, change: impl FnOnce(&mut Known)) {
        change(&mut self.known());
        self.moved.send_replace(());
    }

    /// A watch has caught up. What it has shown takes the place of what is known.
    fn show(&self, mut groups: TrackedGroups) {
        self.update(|known| {
            if let Some(before) = &known.groups {
                groups.follows(before);
            }
            known.groups = Some(groups);
            known.is_current = true;
            known.heard = clock::now();
        });
    }

    fn watch_ended(&self, error: StoreError) {
        self.update(|known| {
            known.is_current = false;
            known.error = Some(error);
            if let Some(groups) = &mut known.groups {
                groups.watch_ended();
            }
        });
    }
}

/// Follows the groups of the bucket that is in reach, for ever.
pub(super) async fn run(
    mut reach: watch::Receiver<Option<Reach>>,
    shared: Arc<Shared>,
    anew: Duration,
) {
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
            if shared.known().is_current {
                backoff.caught_up();
            }
            backoff.connection_lost();
        }
        let wait = backoff.ended(clock::now());
        tracing::debug!(%ended, wait = %rounded(wait), "the watch on groups ended: watching again");
        shared.watch_ended(ended);
        tokio::time::sleep(wait).await;
    }
}

/// Watches until a watch ends, and takes what it shows. Now and then another watch takes its place.
async fn follow(reach: &Reach, shared: &Shared, anew: Duration) -> Result<Infallible, StoreError> {
    loop {
        let (groups, mut watch) = begin(reach).await?;
        shared.show(groups);
        let mut is_old = pin!(tokio::time::sleep(anew));
        loop {
            let told = tokio::select! {
                told = watch.next_batch(BATCH) => told?,
                () = &mut is_old => break,
            };
            let now = clock::now();
            shared.update(|known| {
                known.heard = now;
                if let Some(groups) = &mut known.groups {
                    groups.take_all(told, now);
                }
            });
        }
    }
}

/// Begins a watch. Returns it when it has shown everything that stood there.
async fn begin(reach: &Reach) -> Result<(TrackedGroups, AssignmentWatch), StoreError> {
    let mut groups = TrackedGroups::new(reach.epoch);
    let watch = reach
        .bucket
        .watch_assignment(Key::ALL, reach.epoch, TIMEOUT);
    let mut watch = watch.await?;
    while !groups.has_caught_up() {
        let told = watch.next_batch(BATCH).await?;
        groups.take_all(told, clock::now());
    }
    Ok((groups, watch))
}
