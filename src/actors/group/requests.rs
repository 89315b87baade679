//! The requests of a member to the bucket, and its plans.

use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;

use super::GroupState;
use super::meter::excess;
use crate::actors::messages::GroupMsg;
use crate::actors::outcomes::{failure_of, outcome_of};
use crate::role::fleet;
use nats_elect_core::OpId;
use nats_elect_core::assignment::Key;
use nats_elect_core::member::{Input, Over, PlanRequest};
use nats_elect_core::plan::plan;

fn tell(myself: &ActorRef<GroupMsg>, input: Input) {
    // The actor may have gone.
    let _ = myself.send_message(GroupMsg::Answered(input.into()));
}

impl GroupState {
    /// Sends a claim or a heartbeat. A lease may rest on a late answer.
    pub(super) fn beat(
        &mut self,
        myself: &ActorRef<GroupMsg>,
        op: OpId,
        within: Duration,
        key: Key,
        over: Over,
        value: Vec<u8>,
    ) {
        let Some((bucket, _)) = self.link.up() else {
            return;
        };
        let (subject, patience) = (key.to_string(), self.scope.settings.ttl);
        let writing = async move {
            outcome_of(
                bucket
                    .write_assignment(&key, over, value, None, patience)
                    .await,
            )
        };
        let myself = myself.clone();
        self.asked.ask(
            std::future::ready(()),
            within,
            subject,
            writing,
            nats_elect_core::WriteOutcome::Failed,
            move |outcome| tell(&myself, Input::BeatEnded { op, outcome }),
        );
    }

    /// Reads the map last: whoever is shown a heartbeat has then been shown a map that is as new.
    pub(super) fn look(
        &mut self,
        myself: &ActorRef<GroupMsg>,
        op: OpId,
        within: Duration,
        own: Key,
    ) {
        let Some((bucket, created)) = self.link.up() else {
            return;
        };
        let (subject, patience) = (own.to_string(), self.scope.settings.ttl);
        let map = Key::Map(self.scope.name.clone());
        let reading = async move {
            let look = bucket.look(&own, &map, created, patience);
            look.await.map_err(|error| failure_of(&error))
        };
        let myself = myself.clone();
        self.asked.ask(
            std::future::ready(()),
            within,
            subject,
            reading,
            Err,
            move |found| tell(&myself, Input::Looked { op, found }),
        );
    }

    pub(super) fn write(
        &self,
        myself: &ActorRef<GroupMsg>,
        op: OpId,
        key: Key,
        over: Over,
        value: Vec<u8>,
        ttl: Option<Duration>,
    ) {
        let Some((bucket, _)) = self.link.up() else {
            return;
        };
        let (myself, within) = (myself.clone(), self.scope.settings.request_timeout);
        tokio::spawn(async move {
            let outcome = outcome_of(
                bucket
                    .write_assignment(&key, over, value, ttl, within)
                    .await,
            );
            tell(&myself, Input::Written { op, outcome });
        });
    }

    pub(super) fn read(&self, myself: &ActorRef<GroupMsg>, key: Key) {
        let Some((bucket, created)) = self.link.up() else {
            return;
        };
        // Two round trips, on a slow network too.
        let (myself, within) = (myself.clone(), self.scope.settings.ttl / 4);
        tokio::spawn(async move {
            let input = match bucket.read_assignment(&key, created, within).await {
                Ok(Some((sequence, value))) => Input::Shown {
                    key,
                    sequence,
                    value,
                },
                Ok(None) => Input::Missing(key),
                Err(error) => {
                    tracing::debug!(%key, %error, "a key of a group was not read");
                    return;
                }
            };
            let _ = myself.send_message(GroupMsg::Read(created, input.into()));
        });
    }

    pub(super) fn collect(&self, myself: &ActorRef<GroupMsg>, op: OpId, since: u64) {
        let Some((bucket, created)) = self.link.up() else {
            return;
        };
        let (myself, group) = (myself.clone(), self.scope.name.clone());
        let within = self.scope.settings.ttl;
        tokio::spawn(async move {
            let read = bucket.read_members(&group, created, since, within).await;
            let found = read.inspect_err(
                |error| tracing::debug!(%error, "the members of a group were not read"),
            );
            tell(
                &myself,
                Input::Collected {
                    op,
                    found: found.ok(),
                },
            );
        });
    }

    /// Makes a plan beside the elections' thread.
    pub(super) fn plan(&mut self, myself: &ActorRef<GroupMsg>, request: PlanRequest) {
        let (myself, config) = (myself.clone(), Arc::clone(&self.scope.config));
        self.planner.begin(async move |_| {
            let planning = tokio::task::spawn_blocking(move || {
                let fleet = fleet(&request, &config);
                let plan = plan(&fleet);
                let owners = request.owners(&plan);
                let base = request.base.sequence();
                let planned = Input::Planned { base, owners };
                GroupMsg::Planned(planned.into(), excess(&fleet, &plan))
            });
            if let Ok(planned) = planning.await {
                let _ = myself.send_message(planned);
            }
        });
    }
}
