//! The courier: brings questions of other instances to the elections that they are for.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use ractor::{Actor, ActorProcessingErr, ActorRef};

use super::floodgate::Floodgate;
use super::latest::Latest;
use super::messages::{CourierMsg, ElectionMsg};
use super::{Link, Routes};
use crate::clock;
use crate::role::Instance;
use crate::store::{self, StoreError};
use nats_elect_core::letter::{Answer, Question, Refusal};

/// Before subscribing again after that failed.
const RETRY: Duration = Duration::from_secs(1);

pub(super) struct CourierActor;

pub(super) struct CourierSetup {
    pub instance: Arc<Instance>,
    pub routes: Routes,
    pub link: Link,
}

pub(super) struct CourierState {
    instance: Arc<Instance>,
    routes: Routes,
    bucket: Option<store::Bucket>,
    task: Latest,
}

impl Actor for CourierActor {
    type Msg = CourierMsg;
    type State = CourierState;
    type Arguments = CourierSetup;

    async fn pre_start(
        &self,
        myself: ActorRef<CourierMsg>,
        setup: CourierSetup,
    ) -> Result<CourierState, ActorProcessingErr> {
        let mut state = CourierState {
            instance: setup.instance,
            routes: setup.routes,
            bucket: None,
            task: Latest::default(),
        };
        state.link_changed(&myself, setup.link);
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<CourierMsg>,
        message: CourierMsg,
        state: &mut CourierState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            CourierMsg::LinkChanged(link) => state.link_changed(&myself, link),
            CourierMsg::Ended { number } if state.task.is(number) => {
                myself.send_after(RETRY, move || CourierMsg::Retry { number });
            }
            CourierMsg::Retry { number } if state.task.is(number) => state.start(&myself),
            CourierMsg::Ended { .. } | CourierMsg::Retry { .. } => {}
        }
        Ok(())
    }
}

impl CourierState {
    fn link_changed(&mut self, myself: &ActorRef<CourierMsg>, link: Link) {
        if let Link::Up { bucket, .. } = link {
            self.bucket = Some(bucket);
            self.start(myself);
        }
    }

    /// Subscribes, anew if need be: the connection may be another one.
    fn start(&mut self, myself: &ActorRef<CourierMsg>) {
        let Some(bucket) = self.bucket.clone() else {
            return;
        };
        let (routes, myself) = (self.routes.clone(), myself.clone());
        let instance = Arc::clone(&self.instance);
        self.task.begin(async move |number| {
            if let Err(error) = deliver(&bucket, &instance, &routes).await {
                tracing::debug!(%error, "no questions of other instances come in");
            }
            let _ = myself.send_message(CourierMsg::Ended { number });
        });
    }
}

async fn deliver(
    bucket: &store::Bucket,
    instance: &Instance,
    routes: &Routes,
) -> Result<(), StoreError> {
    let mut letters = bucket.letters(&instance.id, instance.incarnation).await?;
    let mut gate = Floodgate::new(clock::now());
    while let Some(letter) = letters.next().await {
        let store::Letter {
            role,
            question,
            reply,
        } = letter;
        if !gate.passes(&role, clock::now()) {
            continue;
        }
        // Two ids may share a subject.
        let addressed = match &question {
            Question::Ready { to, .. } => to.as_deref() == Some(instance.id.as_str()),
            Question::Yield {
                incarnation: to, ..
            } => *to == instance.incarnation,
        };
        let asked = ElectionMsg::Asked {
            question,
            reply: reply.clone(),
        };
        if !routes.send(&role, asked) && addressed {
            let why = Refusal::NotStanding;
            bucket.answer(reply, &Answer::Refused { why }).await;
        }
    }
    Ok(())
}
