//! The admin service: receives the requests of this instance's operators, and has them answered.

mod commands;
mod counters;
mod handler;
mod ration;
mod refusals;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;

pub(super) use self::handler::AdminHandler;
use super::Link;
use super::linked::{Linked, Reached, subscription_ended};
use super::rate_limit::RateLimit;
use crate::clock;
use crate::store::StoreError;

impl Linked for AdminHandler {
    const ENDS_WITH_LINK: bool = false;

    async fn run(self: Arc<Self>, reached: Reached) -> Result<(), StoreError> {
        let bucket = &reached.bucket;
        let calls = bucket
            .calls(
                self.subjects(),
                self.has_groups(),
                self.instance.incarnation,
            )
            .await?;
        reached.caught_up();
        #[cfg(test)]
        let calls = futures::stream::select(calls, self.crashes());
        let mut calls = calls;
        let mut gate = RateLimit::new(clock::now());
        while let Some(call) = calls.next().await {
            if !gate.passes(&call.asked, clock::now()) || self.refuses_inbox(&call.reply) {
                continue;
            }
            let (bucket, handler) = (bucket.clone(), Arc::clone(&self));
            // The answer may take as long as a handler takes to wind down. It goes on when this
            // subscription ends.
            tokio::spawn(async move { handler.serve(&bucket, call).await });
        }
        Ok(())
    }

    fn link_changed(&self, link: &Link) {
        self.note_trouble(link);
    }

    fn ended(&self, error: Option<&StoreError>, _wait: Duration) -> Duration {
        subscription_ended("the admin service does not hear anything", error)
    }
}
