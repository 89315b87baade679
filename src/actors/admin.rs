//! The admin service: hears what this instance is asked by those who operate it, and has it answered.

mod desk;
mod errands;
mod ration;
mod refusals;
mod tallies;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use ractor::{Actor, ActorProcessingErr, ActorRef};

pub(super) use self::desk::Desk;
use super::Link;
use super::floodgate::Floodgate;
use super::latest::Latest;
use super::messages::AdminMsg;
use crate::clock;
use crate::store::{self, Denied, StoreError};

/// Before subscribing again after that failed.
const RETRY: Duration = Duration::from_secs(1);
/// What the server refuses comes in swarms, one for each subject: they are told together.
const SWARM: Duration = Duration::from_millis(500);

pub(super) struct AdminActor;

pub(super) struct AdminSetup {
    pub desk: Arc<Desk>,
    pub link: Link,
}

pub(super) struct AdminState {
    desk: Arc<Desk>,
    bucket: Option<store::Bucket>,
    task: Latest,
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
            desk: setup.desk,
            bucket: None,
            task: Latest::default(),
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
        self.desk.note_trouble(&link);
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
        let (desk, myself) = (Arc::clone(&self.desk), myself.clone());
        self.task.begin(async move |number| {
            if let Err(error) = serve(&bucket, &desk).await {
                tracing::debug!(%error, "the admin service does not hear anything");
            }
            let _ = myself.send_message(AdminMsg::Ended { number });
        });
    }

    /// Elections do without all of this: it is told, once, and that is all.
    fn denied(&mut self, myself: &ActorRef<AdminMsg>, denied: &Denied) {
        if denied.publish && self.desk.inbox_refused(&denied.subject) {
            return;
        }
        // Subjects of answers end in random parts.
        let subject = self.desk.told_as(denied);
        if !self.told.contains(&subject) && self.refused.insert(subject) && self.refused.len() == 1
        {
            myself.send_after(SWARM, || AdminMsg::TellDenied);
        }
    }

    fn tell_denied(&mut self) {
        let subjects: Vec<_> = self.refused.iter().map(String::as_str).collect();
        tracing::warn!(
            instance_id = %self.desk.instance.id,
            "this NATS user may not {}: what is asked there is not answered; grant it, or switch `admin` off",
            subjects.join(", ")
        );
        self.told.append(&mut self.refused);
    }
}

async fn serve(bucket: &store::Bucket, desk: &Arc<Desk>) -> Result<(), StoreError> {
    let mut calls = bucket
        .calls(desk.subjects(), desk.instance.incarnation)
        .await?;
    let mut gate = Floodgate::new(clock::now());
    while let Some(letter) = calls.next().await {
        if !gate.passes(&letter.asked, clock::now()) {
            continue;
        }
        let call = letter.read(desk.subjects(), bucket);
        let Some(call) = call.filter(|call| !desk.refuses_inbox(&call.reply)) else {
            continue;
        };
        let (bucket, desk) = (bucket.clone(), Arc::clone(desk));
        // It may take as long as a handler takes to wind down, and goes on when this subscription ends.
        tokio::spawn(async move { desk.serve(&bucket, call).await });
    }
    Ok(())
}
