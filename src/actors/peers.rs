//! Peer messaging: takes requests of other instances to the elections that they are for.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use ractor::{Actor, ActorProcessingErr, ActorRef};

use super::latest_task::LatestTask;
use super::messages::{ElectionMsg, PeerMsg};
use super::rate_limit::RateLimit;
use super::{Link, Routes};
use crate::clock;
use crate::role::Instance;
use crate::store::{self, StoreError};
use nats_elect_core::peer::{PeerReply, PeerRequest, Refusal};

/// Before subscribing again after that failed.
const RETRY: Duration = Duration::from_secs(1);

pub(super) struct PeerActor;

pub(super) struct PeerSetup {
    pub instance: Arc<Instance>,
    pub routes: Routes,
    pub link: Link,
}

pub(super) struct PeerState {
    instance: Arc<Instance>,
    routes: Routes,
    bucket: Option<store::Bucket>,
    task: LatestTask,
}

impl Actor for PeerActor {
    type Msg = PeerMsg;
    type State = PeerState;
    type Arguments = PeerSetup;

    async fn pre_start(
        &self,
        myself: ActorRef<PeerMsg>,
        setup: PeerSetup,
    ) -> Result<PeerState, ActorProcessingErr> {
        let mut state = PeerState {
            instance: setup.instance,
            routes: setup.routes,
            bucket: None,
            task: LatestTask::default(),
        };
        state.link_changed(&myself, setup.link);
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<PeerMsg>,
        message: PeerMsg,
        state: &mut PeerState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            PeerMsg::LinkChanged(link) => state.link_changed(&myself, link),
            PeerMsg::Ended { number } if state.task.is(number) => {
                myself.send_after(RETRY, move || PeerMsg::Retry { number });
            }
            PeerMsg::Retry { number } if state.task.is(number) => state.start(&myself),
            PeerMsg::Ended { .. } | PeerMsg::Retry { .. } => {}
        }
        Ok(())
    }
}

impl PeerState {
    fn link_changed(&mut self, myself: &ActorRef<PeerMsg>, link: Link) {
        if let Link::Up { bucket, .. } = link {
            self.bucket = Some(bucket);
            self.start(myself);
        }
    }

    /// Subscribes, anew if need be: the connection may be another one.
    fn start(&mut self, myself: &ActorRef<PeerMsg>) {
        let Some(bucket) = self.bucket.clone() else {
            return;
        };
        let (routes, myself) = (self.routes.clone(), myself.clone());
        let instance = Arc::clone(&self.instance);
        self.task.begin(async move |number| {
            if let Err(error) = deliver(&bucket, &instance, &routes).await {
                tracing::debug!(%error, "no questions of other instances come in");
            }
            let _ = myself.send_message(PeerMsg::Ended { number });
        });
    }
}

async fn deliver(
    bucket: &store::Bucket,
    instance: &Instance,
    routes: &Routes,
) -> Result<(), StoreError> {
    let mut peers = bucket.peers(&instance.id, instance.incarnation).await?;
    let mut gate = RateLimit::new(clock::now());
    while let Some(reply_to) = peers.next().await {
        let store::PeerMessage {
            role,
            question,
            reply,
        } = reply_to;
        if !gate.passes(&role, clock::now()) {
            continue;
        }
        // Two ids may share a subject.
        let addressed = match &question {
            PeerRequest::Ready { to, .. } => to.as_deref() == Some(instance.id.as_str()),
            PeerRequest::Yield {
                incarnation: to, ..
            } => *to == instance.incarnation,
        };
        let asked = ElectionMsg::Asked {
            question,
            reply: reply.clone(),
        };
        if !routes.send(&role, asked) && addressed {
            let why = Refusal::NotStanding;
            bucket.answer(reply, &PeerReply::Refused { why }).await;
        }
    }
    Ok(())
}
