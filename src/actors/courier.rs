//! The courier: brings questions of other instances to the elections that they are for.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::task::JoinHandle;

use super::floodgate::Floodgate;
use super::messages::{CourierMsg, ElectionMsg};
use super::{Link, Routes};
use crate::clock;
use crate::model::letter::{Answer, Question, Refusal};
use crate::role::Instance;
use crate::store::{self, StoreError};

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
    number: u64,
    task: Option<JoinHandle<()>>,
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
            number: 0,
            task: None,
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
            CourierMsg::Ended { number } if number == state.number => {
                myself.send_after(RETRY, move || CourierMsg::Retry { number });
            }
            CourierMsg::Retry { number } if number == state.number => state.start(&myself),
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
        self.stop();
        let (number, routes, myself) = (self.number, self.routes.clone(), myself.clone());
        let instance = Arc::clone(&self.instance);
        self.task = Some(tokio::spawn(async move {
            if let Err(error) = deliver(&bucket, &instance, &routes).await {
                tracing::debug!(%error, "no questions of other instances come in");
            }
            let _ = myself.send_message(CourierMsg::Ended { number });
        }));
    }

    fn stop(&mut self) {
        self.number += 1;
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}

impl Drop for CourierState {
    fn drop(&mut self) {
        self.stop();
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
            Question::Ready { to } => to.as_deref() == Some(instance.id.as_str()),
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
