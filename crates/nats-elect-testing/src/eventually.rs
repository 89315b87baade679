//! Waiting for a condition.

use std::panic::Location;
use std::time::Duration;

use std::time::Instant;

const PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_POLL: Duration = Duration::from_secs(5);

/// Polls `condition` every few milliseconds until it yields a value, and returns that value.
///
/// It pauses for as long as the last poll took, for 5 to 100 milliseconds: a condition that runs a
/// program has not a processor for itself.
///
/// `what` completes the sentence "… never happened". A poll that is not done after five seconds is
/// dropped, and another one is begun. Otherwise a request that a fault has swallowed may hang for
/// longer than the fault lasts.
///
/// # Panics
///
/// Panics after `timeout`. The message names `what` and the line that waited.
///
/// # Cancel safety
///
/// Dropping the future drops the running condition. Nothing else is held.
///
/// # Examples
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use std::time::Duration;
/// use nats_elect_testing::eventually;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let seen = AtomicU32::new(0);
/// let value = eventually(Duration::from_secs(5), "a third poll", async || {
///     let polls = seen.fetch_add(1, Ordering::Relaxed) + 1;
///     (polls >= 3).then_some(polls)
/// })
/// .await;
/// assert_eq!(value, 3);
/// # });
/// ```
#[track_caller]
pub fn eventually<T, F>(timeout: Duration, what: &str, mut condition: F) -> impl Future<Output = T>
where
    F: AsyncFnMut() -> Option<T>,
{
    let caller = Location::caller();
    async move {
        let deadline = Instant::now() + timeout;
        loop {
            let began = Instant::now();
            let left = deadline.saturating_duration_since(began);
            if let Ok(Some(value)) = tokio::time::timeout(left.min(LONGEST_POLL), condition()).await
            {
                return value;
            }
            assert!(
                Instant::now() < deadline,
                "{what} never happened within {timeout:?} (waited for at {caller})"
            );
            tokio::time::sleep(began.elapsed().clamp(PAUSE, LONGEST_PAUSE)).await;
        }
    }
}
