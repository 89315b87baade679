//! Work on the bucket while there is a link to it. It begins with the link, and begins again after a
//! pause when it ends.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::OptionFuture;
use tokio::sync::watch;

use super::Link;
use super::watch_backoff::WatchBackoff;
use crate::backoff::Backoff;
use crate::clock;
use crate::store::{Bucket, StoreError};
use nats_elect_core::duration::rounded;

/// The pause before a subscription is made again.
const RETRY: Duration = Duration::from_secs(1);
/// The pause after a crash.
pub(super) const RESTART: Backoff =
    Backoff::new(Duration::from_millis(100), Duration::from_secs(10));

/// The bucket that is in reach.
pub(crate) struct Reached {
    pub bucket: Bucket,
    /// Its creation time.
    pub epoch: u64,
    caught_up: Arc<AtomicBool>,
}

impl Reached {
    /// Notes that the work receives what it asked for: the connection bears it. Returns whether that
    /// is new.
    pub fn caught_up(&self) -> bool {
        !self.caught_up.swap(true, Ordering::Relaxed)
    }

    /// Whether the work receives what it asked for.
    pub fn has_caught_up(&self) -> bool {
        self.caught_up.load(Ordering::Relaxed)
    }
}

/// Work on the bucket.
pub(crate) trait Linked: Send + Sync + 'static {
    /// Whether the work ends with its link. It may continue where the client resumes it by itself.
    const ENDS_WITH_LINK: bool = true;

    /// Works until the work cannot go on.
    fn run(
        self: Arc<Self>,
        reached: Reached,
    ) -> impl Future<Output = Result<(), StoreError>> + Send + 'static;

    /// Takes a change of the link, whether or not the work is in progress.
    fn link_changed(&self, _link: &Link) {}

    /// Takes the end of the work, and the pause that is due. Returns the pause before it begins
    /// again.
    fn ended(&self, error: Option<&StoreError>, wait: Duration) -> Duration;
}

/// Has the work done while there is a link, until nobody tells of links any more. Work that panics
/// begins again after a pause.
pub(crate) async fn attend<W: Linked>(work: Arc<W>, mut links: watch::Receiver<Link>) {
    let mut crashes = 0;
    loop {
        links.mark_changed();
        let attending = AssertUnwindSafe(follow(&work, &mut links)).catch_unwind();
        if attending.await.is_ok() {
            return;
        }
        crashes += 1;
        tracing::error!("a task on the bucket crashed");
        tokio::time::sleep(RESTART.after(crashes)).await;
    }
}

async fn follow<W: Linked>(work: &Arc<W>, links: &mut watch::Receiver<Link>) {
    let mut backoff = WatchBackoff::new(clock::now());
    let (mut known, mut starting, mut under_way) = (None, None, None);
    loop {
        tokio::select! {
            biased;
            changed = links.changed() => {
                if changed.is_err() {
                    return;
                }
                let link = links.borrow_and_update().clone();
                let up = link.up();
                if up.is_some() || W::ENDS_WITH_LINK {
                    (starting, under_way) = (None, None);
                    backoff.connection_lost();
                }
                work.link_changed(&link);
                if up.is_some() {
                    let rest = backoff.reconnected();
                    if let Some(wait) = rest.map(rounded) {
                        tracing::warn!(
                            %wait,
                            "the connection was lost before each of the last watches had caught up: doing without a watch for a while; \
                             NATS ends connections soon after they begin, or a message in the bucket has headers that the client can't read"
                        );
                    }
                    known = up;
                    starting = Some(Box::pin(tokio::time::sleep(rest.unwrap_or_default())));
                }
            }
            Some(ended) = OptionFuture::from(under_way.as_mut()) => {
                under_way = None;
                let ended: Result<(), StoreError> = ended;
                let wait = work.ended(ended.err().as_ref(), backoff.ended(clock::now()));
                starting = Some(Box::pin(tokio::time::sleep(wait)));
            }
            Some(()) = OptionFuture::from(starting.as_mut()) => {
                starting = None;
                if let Some((bucket, epoch)) = known.clone() {
                    let caught_up = backoff.begun(clock::now());
                    let reached = Reached {
                        bucket,
                        epoch,
                        caught_up,
                    };
                    under_way = Some(Box::pin(Arc::clone(work).run(reached)));
                }
            }
        }
    }
}

/// Logs the end of a subscription. Returns the pause before it is made again.
pub(super) fn subscription_ended(what: &str, error: Option<&StoreError>) -> Duration {
    if let Some(error) = error {
        tracing::debug!(%error, "{what}");
    }
    RETRY
}
