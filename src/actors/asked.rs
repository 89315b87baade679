//! The requests of one election under way.

use std::collections::VecDeque;
use std::future::Future;
use std::time::Duration;

use tokio::task::AbortHandle;

use super::outcomes::failure_of;
use crate::store::StoreError;
use nats_elect_core::{Failure, MOST_LATE};

/// The requests that were sent last. Some may not have been answered in time.
#[derive(Debug, Default)]
pub(super) struct Asked(VecDeque<AbortHandle>);

impl Asked {
    /// Waits for the turn, asks, and reports the answer. If none comes in time, reports that first.
    /// Then also reports a late answer, as long as a lease may rest on it.
    pub fn ask<T: Send + 'static>(
        &mut self,
        turn: impl Future<Output: Send> + Send + 'static,
        within: Duration,
        subject: String,
        asking: impl Future<Output = T> + Send + 'static,
        unanswered: impl FnOnce(Failure) -> T + Send + 'static,
        tell: impl Fn(T) + Send + Sync + 'static,
    ) {
        // In a box, which goes with the answer: a handle keeps the rest of its task in memory.
        let mut asking = Box::pin(asking);
        let asked = tokio::spawn(async move {
            let turn = turn.await;
            if let Ok(answer) = tokio::time::timeout(within, &mut asking).await {
                tell(answer);
                return;
            }
            drop(turn);
            tell(unanswered(failure_of(&StoreError::Timeout { subject })));
            tell(asking.await);
        });
        self.0.retain(|asked| !asked.is_finished());
        if self.0.len() > MOST_LATE
            && let Some(oldest) = self.0.pop_front()
        {
            oldest.abort();
        }
        self.0.push_back(asked.abort_handle());
    }
}
