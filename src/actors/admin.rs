//! The admin service: hears what this instance is asked by those who operate it, and has it answered.

mod commands;
mod counters;
mod handler;
mod ration;
mod refusals;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use ractor::{Actor, ActorProcessingErr, ActorRef};

pub(super) use self::handler::AdminHandler;
use super::Link;
use super::latest_task::LatestTask;
use super::messages::AdminMsg;
use super::rate_limit::RateLimit;
use crate::clock;
use crate::store::{self, Denied, StoreError};

/// Before subscribing again after that failed.
const RETRY: Duration = Duration::from_secs(1);
/// What the server refuses comes in swarms, one for each subject: they are told together.
const SWARM: Duration = Duration::from_millis(500);

pub(super) struct AdminActor;

pub(super) struct AdminSetup {
    pub admin_handler: Arc<AdminHandler>,
    pub link: Link,
}

pub(super) struct AdminState {
    admin_handler: Arc<AdminHandler>,
    bucket: Option<store::Bucket>,
    task: LatestTask,
    /// What the server refused, and nobody was told yet.
    refused: BTreeSet<String>,
    /// What was told already.
    told: BTreeSet<String>,
}

impl Actor for AdminActor {
    type Msg = AdminMsg;
    type State = AdminState;
    type Arguments = AdminSetup;

    async fn pre_start(
        &self,
        myself: ActorRef<AdminMsg>,
        setup: AdminSetup,
    ) -> Result<AdminState, ActorProcessingErr> {
        let mut state = AdminState {
            admin_handler: setup.admin_handler,
            bucket: None,
            task: LatestTask::default(),
            refused: BTreeSet::new(),
            told: BTreeSet::new(),
        };
        state.link_changed(&myself, setup.link);
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<AdminMsg>,
        message: AdminMsg,
        state: &mut AdminState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            AdminMsg::LinkChanged(link) => state.link_changed(&myself, link),
            AdminMsg::Denied(denied) => state.denied(&myself, &denied),
            AdminMsg::TellDenied => state.tell_denied(),
            #[cfg(test)]
            AdminMsg::Crash => panic!("crashed on request"),
            AdminMsg::Ended { number } if state.task.is(number) => {
                myself.send_after(RETRY, move || AdminMsg::Retry { number });
            }
            AdminMsg::Retry { number } if state.task.is(number) => state.start(&myself),
            AdminMsg::Ended { .. } | AdminMsg::Retry { .. } => {}
        }
        Ok(())
    }
}

impl AdminState {
    fn link_changed(&mut self, myself: &ActorRef<AdminMsg>, link: Link) {
        self.admin_handler.note_trouble(&link);
        if let Link::Up { bucket, .. } = link {
            self.bucket = Some(bucket);
            self.start(myself);
        }
    }

    /// Subscribes, anew if need be: the connection may be another one.
    fn start(&mut self, myself: &ActorRef<AdminMsg>) {
        let Some(bucket) = self.bucket.clone() else {
            return;
        };
        let (admin_handler, myself) = (Arc::clone(&self.admin_handler), myself.clone());
        self.task.begin(async move |number| {
            if let Err(error) = serve(&bucket, &admin_handler).await {
                tracing::debug!(%error, "the admin service does not hear anything");
            }
            let _ = myself.send_message(AdminMsg::Ended { number });
        });
    }

    /// Elections do without all of this: it is told, once, and that is all.
    fn denied(&mut self, myself: &ActorRef<AdminMsg>, denied: &Denied) {
        if denied.publish && self.admin_handler.inbox_refused(&denied.subject) {
            return;
        }
        // Subjects of answers end in random parts.
        let subject = self.admin_handler.told_as(denied);
        if !self.told.contains(&subject) && self.refused.insert(subject) && self.refused.len() == 1
        {
            myself.send_after(SWARM, || AdminMsg::TellDenied);
        }
    }

    fn tell_denied(&mut self) {
        let subjects: Vec<_> = self.refused.iter().map(String::as_str).collect();
        tracing::warn!(
            instance_id = %self.admin_handler.instance.id,
            "this NATS user may not {}: what is asked there is not answered; grant it, or switch `admin` off",
            subjects.join(", ")
        );
        self.told.append(&mut self.refused);
    }
}

async fn serve(
    bucket: &store::Bucket,
    admin_handler: &Arc<AdminHandler>,
) -> Result<(), StoreError> {
    let mut calls = bucket
        .calls(admin_handler.subjects(), admin_handler.instance.incarnation)
        .await?;
    let mut gate = RateLimit::new(clock::now());
    while let Some(reply_to) = calls.next().await {
        if !gate.passes(&reply_to.asked, clock::now()) {
            continue;
        }
        let call = reply_to.read(admin_handler.subjects(), bucket);
        let Some(call) = call.filter(|call| !admin_handler.refuses_inbox(&call.reply)) else {
            continue;
        };
        let (bucket, admin_handler) = (bucket.clone(), Arc::clone(admin_handler));
        // It may take as long as a handler takes to wind down, and goes on when this subscription ends.
        tokio::spawn(async move { admin_handler.serve(&bucket, call).await });
    }
    Ok(())
}
