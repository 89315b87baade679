//! Reads the groups of a bucket: everything that stands there, and then heartbeats for a while.

use std::time::Duration;

use futures::future::BoxFuture;

use super::observed_groups::ObservedGroups;
use super::tracked_groups::TrackedGroups;
use super::watching::Reach;
use crate::clock;
use crate::error::Error;
use crate::store::{GroupWatch, StoreError};

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(2);
/// For how long a watch is begun again that ends before it has shown everything.
const PATIENCE: Duration = Duration::from_secs(5);
/// The pause before it begins again.
const PAUSE: Duration = Duration::from_millis(100);
/// The most messages that are taken at once.
pub(super) const BATCH: usize = 256;

/// Reads the groups, and watches until each member was seen alive, for so long at most.
pub(super) fn read(
    reach: Reach,
    within: Duration,
) -> BoxFuture<'static, Result<ObservedGroups, Error>> {
    Box::pin(attempts(reach, within))
}

async fn attempts(reach: Reach, within: Duration) -> Result<ObservedGroups, Error> {
    let give_up = clock::now() + PATIENCE;
    loop {
        let error = match attempt(&reach, within).await {
            Ok(seen) => return Ok(seen.observed(clock::now())),
            Err(error) => error,
        };
        let is_over = clock::now() + PAUSE >= give_up;
        match error {
            StoreError::Unavailable(_) | StoreError::Timeout { .. } if !is_over => {
                tracing::debug!(%error, "the watch on groups ended: watching again");
                tokio::time::sleep(PAUSE).await;
            }
            error => return Err(Error::of_reading(error, PATIENCE)),
        }
    }
}

/// Begins a watch. Returns it when it has shown everything that stood there.
pub(super) async fn begin(reach: &Reach) -> Result<(TrackedGroups, GroupWatch), StoreError> {
    let mut seen = TrackedGroups::new(reach.epoch);
    let mut watch = reach.bucket.watch_groups(TIMEOUT).await?;
    while !seen.has_caught_up() {
        let told = watch.next_batch(BATCH).await?;
        seen.take_all(told, clock::now());
    }
    if reach.bucket.epoch(TIMEOUT).await? != reach.epoch {
        return Err(StoreError::another_bucket());
    }
    Ok((seen, watch))
}

async fn attempt(reach: &Reach, within: Duration) -> Result<TrackedGroups, StoreError> {
    let (mut seen, mut watch) = begin(reach).await?;
    let watching = async {
        while !seen.is_confirmed() {
            let told = watch.next_batch(BATCH).await?;
            seen.take_all(told, clock::now());
        }
        Ok(())
    };
    match tokio::time::timeout(within, watching).await {
        Ok(Err(error)) => Err(error),
        Ok(Ok(())) | Err(_) => Ok(seen),
    }
}
