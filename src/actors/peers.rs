//! Peer messaging: passes peer requests to the elections that they are for.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;

use super::Routes;
use super::linked::{Linked, Reached, subscription_ended};
use super::messages::ElectionMsg;
use super::rate_limit::RateLimit;
use crate::clock;
use crate::role::Instance;
use crate::store::StoreError;
use nats_elect_core::peer::{PeerReply, PeerRequest, Refusal};

pub(super) struct Peers {
    pub instance: Arc<Instance>,
    pub routes: Routes,
}

impl Linked for Peers {
    const ENDS_WITH_LINK: bool = false;

    async fn run(self: Arc<Self>, reached: Reached) -> Result<(), StoreError> {
        let bucket = &reached.bucket;
        let mut peers = bucket
            .peers(&self.instance.id, self.instance.incarnation)
            .await?;
        reached.caught_up();
        let mut gate = RateLimit::new(clock::now());
        while let Some(asked) = peers.next().await {
            let role = asked.role;
            if !gate.passes(&role, clock::now()) {
                continue;
            }
            // Two ids may share a subject.
            let addressed = match &asked.question {
                PeerRequest::Ready { to, .. } => to.as_deref() == Some(self.instance.id.as_str()),
                PeerRequest::Yield {
                    incarnation: to, ..
                } => *to == self.instance.incarnation,
            };
            let reply = asked.reply.clone();
            let message = ElectionMsg::Asked(asked.question, asked.reply);
            if !self.routes.send(&role, message) && addressed {
                let why = Refusal::NotStanding;
                let refused = PeerReply::Refused { why };
                bucket.reply(reply, refused.to_json()).await;
            }
        }
        Ok(())
    }

    fn ended(&self, error: Option<&StoreError>, _wait: Duration) -> Duration {
        subscription_ended("no requests of other instances come in", error)
    }
}
