//! The end of an instance: its roles and groups are left, and the last events published.

use std::time::Duration;

use ractor::ActorRef;
use tokio::sync::oneshot;

use super::SupervisorState;
use crate::actors::membership::Membership;
use crate::actors::messages::SupervisorMsg;
use crate::clock;
use crate::role::RoleScope;
use nats_elect_core::{Intent, Moment};

/// The maximum time that a stop waits for the last events to be published.
const LAST_NEWS: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct Stopping {
    /// Whether every role is left.
    finishing: bool,
    /// The moment when the callers that wait for the end give up.
    pub until: Option<Moment>,
    pub waiting: Vec<oneshot::Sender<Result<(), Vec<String>>>>,
}

impl SupervisorState {
    pub(super) fn leave_all(&mut self, intent: impl Fn(&RoleScope) -> Intent) {
        for role in self.roles.values_mut() {
            let intent = intent(&role.scope);
            role.leave(intent);
        }
    }

    /// Tells the callers that wait for the end which roles are not left.
    pub(super) fn stop_timed_out(&mut self) {
        let mut left: Vec<String> = self.roles.keys().map(ToString::to_string).collect();
        left.sort_unstable();
        let members = self.memberships.iter().filter(|it| !it.has_ended);
        left.extend(members.map(|it| it.scope.name.to_string()));
        let stopping = self.stopping.get_or_insert_default();
        for waiting in stopping.waiting.drain(..) {
            let _ = waiting.send(Err(left.clone()));
        }
    }

    pub(super) fn abandon(&mut self, myself: &ActorRef<SupervisorMsg>) {
        self.stopping.get_or_insert_default();
        self.leave_all(|_| Intent::Abandon);
        self.memberships.iter_mut().for_each(Membership::abandon);
        self.end_if_empty(myself);
    }

    pub(super) fn end_if_empty(&mut self, myself: &ActorRef<SupervisorMsg>) {
        let Some(stopping) = &mut self.stopping else {
            return;
        };
        let mut members = self.memberships.iter();
        let is_empty = self.roles.is_empty() && members.all(|it| it.has_ended);
        if is_empty && !std::mem::replace(&mut stopping.finishing, true) {
            self.finish(myself);
        }
    }

    /// Waits for the last events to be published, but not beyond the deadline of the stop. The
    /// roles have been freed already.
    fn finish(&self, myself: &ActorRef<SupervisorMsg>) {
        let Some(publisher) = &self.publisher else {
            let _ = myself.send_message(SupervisorMsg::End);
            return;
        };
        let told = publisher.all_published();
        let until = self.stopping.as_ref().and_then(|stopping| stopping.until);
        let left = until.map(|until| until.since(clock::now()) / 2);
        let wait = LAST_NEWS.min(left.unwrap_or(LAST_NEWS));
        let myself = myself.clone();
        tokio::spawn(async move {
            let _ = tokio::time::timeout(wait, told).await;
            let _ = myself.send_message(SupervisorMsg::End);
        });
    }

    pub(super) fn end(&mut self, myself: &ActorRef<SupervisorMsg>) {
        let Some(stopping) = &mut self.stopping else {
            return;
        };
        for waiting in stopping.waiting.drain(..) {
            let _ = waiting.send(Ok(()));
        }
        self.children.stop();
        myself.stop(None);
    }
}
