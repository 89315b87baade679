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
use super::linked::{Linked, subscription_ended};
use super::rate_limit::RateLimit;
use crate::clock;
use crate::store::{self, StoreError};

impl Linked for AdminHandler {
    async fn run(self: Arc<Self>, bucket: store::Bucket) -> Result<(), StoreError> {
        let mut calls = bucket
            .calls(
                self.subjects(),
                self.has_groups(),
                self.instance.incarnation,
            )
            .await?;
        let mut gate = RateLimit::new(clock::now());
        while let Some(message) = calls.next().await {
            if !gate.passes(&message.asked, clock::now()) {
                continue;
            }
            let call = message.read(self.subjects(), &bucket);
            let Some(call) = call.filter(|call| !self.refuses_inbox(&call.reply)) else {
                continue;
            };
            let (bucket, handler) = (bucket.clone(), Arc::clone(&self));
            // The answer may take as long as a handler takes to wind down. It goes on when this
            // subscription ends.
            tokio::spawn(async move { handler.serve(&bucket, call).await });
        }
        Ok(())
    }

    fn link_changed(&self, link: &Link, _: bool) -> Duration {
        self.note_trouble(link);
        Duration::ZERO
    }

    fn ended(&self, error: Option<&StoreError>) -> Duration {
        subscription_ended("the admin service does not hear anything", error)
    }
}
