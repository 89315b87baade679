//! The watch on all groups of a bucket. It is restarted whenever it ends, and another one takes its
//! place now and then.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::tracked_groups::TrackedGroups;
use crate::actors::{Link, Linked, Reached};
use crate::clock;
use crate::store::{AssignmentWatch, Bucket, OUT_OF_REACH, StoreError};
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
    /// Waiting callers watch it.
    pub known: watch::Sender<Known>,
    /// After how long a watch begins anew.
    anew: Duration,
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
    pub fn new(anew: Duration) -> Self {
        Self {
            anew,
            known: watch::Sender::new(Known {
                groups: None,
                is_current: false,
                error: None,
                heard: clock::now(),
            }),
        }
    }

    /// A watch has caught up. What it has shown takes the place of what is known.
    fn show(&self, mut groups: TrackedGroups) {
        self.known.send_modify(|known| {
            if let Some(before) = &known.groups {
                groups.follows(before);
            }
            known.groups = Some(groups);
            known.is_current = true;
            known.heard = clock::now();
        });
    }

    fn watch_ended(&self, error: StoreError) {
        self.known.send_modify(|known| {
            known.is_current = false;
            known.error = Some(error);
            if let Some(groups) = &mut known.groups {
                groups.watch_ended();
            }
        });
    }
}

impl Linked for Shared {
    /// Watches until a watch ends, and takes what it shows. Now and then another watch takes its
    /// place.
    async fn run(self: Arc<Self>, reached: Reached) -> Result<(), StoreError> {
        let bucket = &reached.bucket;
        loop {
            let (groups, mut watch) = begin(bucket, reached.epoch).await?;
            self.show(groups);
            reached.caught_up();
            let mut is_old = pin!(tokio::time::sleep(self.anew));
            loop {
                let told = tokio::select! {
                    told = watch.next_batch(BATCH) => told?,
                    () = &mut is_old => break,
                };
                let now = clock::now();
                self.known.send_modify(|known| {
                    known.heard = now;
                    if let Some(groups) = &mut known.groups {
                        groups.take_all(told, now);
                    }
                });
            }
        }
    }

    fn link_changed(&self, link: &Link) {
        if link.up().is_none() || self.known.borrow().is_current {
            self.watch_ended(StoreError::Unavailable(OUT_OF_REACH.into()));
        }
    }

    fn ended(&self, error: Option<&StoreError>, wait: Duration) -> Duration {
        if let Some(ended) = error {
            tracing::debug!(%ended, wait = %rounded(wait), "the watch on groups ended: watching again");
            self.watch_ended(ended.clone());
        }
        wait
    }
}

/// Begins a watch. Returns it when it has shown everything that stood there.
async fn begin(
    bucket: &Bucket,
    epoch: u64,
) -> Result<(TrackedGroups, AssignmentWatch), StoreError> {
    let mut groups = TrackedGroups::new(epoch);
    let mut watch = bucket.watch_assignment(Key::ALL, epoch, TIMEOUT).await?;
    while !groups.has_caught_up() {
        let told = watch.next_batch(BATCH).await?;
        groups.take_all(told, clock::now());
    }
    Ok((groups, watch))
}
