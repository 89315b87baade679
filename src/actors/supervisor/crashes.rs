//! What follows when an actor has crashed: the end of its term, and its restart.

use std::sync::Arc;
use std::time::Duration;

use ractor::{ActorCell, ActorProcessingErr, ActorRef};

use super::{Role, SupervisorState};
use crate::actors::announce::announce;
use crate::actors::linked::RESTART;
use crate::actors::messages::SupervisorMsg;
use crate::clock;
use crate::role::{RoleScope, RunningTerm};
use nats_elect_core::event::{EndCause, Event, FailureKind};
use nats_elect_core::name::RoleName;
use nats_elect_core::status::RoleState;

impl SupervisorState {
    pub(super) fn actor_crashed(
        &mut self,
        myself: &ActorRef<SupervisorMsg>,
        who: &ActorCell,
        error: &str,
    ) {
        let span = self.instance.span();
        span.in_scope(|| tracing::error!(error, "an actor crashed"));
        if let Some(number) = self.memberships.iter().position(|it| it.is(who)) {
            let member = &mut self.memberships[number];
            let running = member.crashed();
            let (myself, wait) = (myself.clone(), RESTART.after(member.crashes));
            tokio::spawn(async move {
                for term in running {
                    term.ended().await;
                }
                tokio::time::sleep(wait).await;
                let _ = myself.send_message(SupervisorMsg::RestartMember(number));
            });
        } else if let Some(role) = self.role_of(who) {
            self.election_crashed(myself, &role, error);
        } else if let Some(crashes) = self.children.crashed(who) {
            myself.send_after(RESTART.after(crashes), || SupervisorMsg::ReplaceMonitor);
        }
    }

    /// Ends the term of a crashed election, because nothing renews the lease any more. Contests the
    /// role again when its handler has ended.
    fn election_crashed(&mut self, myself: &ActorRef<SupervisorMsg>, name: &RoleName, error: &str) {
        self.routes.remove(name);
        let Some(role) = self.roles.get_mut(name) else {
            return;
        };
        role.actor = None;
        role.crashes += 1;
        let running = role.scope.revoke();
        let state = role.scope.status.borrow().state;
        let fencing_token = role.scope.status.borrow().fencing_token;
        let detail = format!("the election's actor crashed: {error}");
        announce(
            &role.scope,
            Event::Failure {
                request: None,
                kind: FailureKind::ActorCrashed,
                detail,
            },
        );
        if let (RoleState::Leader, Some(fencing_token)) = (state, fencing_token) {
            role.pass(RoleState::Draining);
            announce(
                &role.scope,
                Event::TermEnding {
                    fencing_token,
                    cause: EndCause::Crashed,
                },
            );
            announce(&role.scope, Event::LeaderChanged(None));
        }
        let wait = RESTART.after(role.crashes);
        let (scope, myself, name) = (Arc::clone(&role.scope), myself.clone(), name.clone());
        tokio::spawn(async move {
            if let Some(running) = running {
                end_handler(&scope, &running).await;
            }
            scope.give_back();
            tokio::time::sleep(wait).await;
            let _ = myself.send_message(SupervisorMsg::RestartRole { role: name });
        });
    }

    pub(super) async fn restart_role(
        &mut self,
        myself: &ActorRef<SupervisorMsg>,
        name: &RoleName,
    ) -> Result<(), ActorProcessingErr> {
        let Some(role) = self.roles.get_mut(name).filter(|role| role.actor.is_none()) else {
            return Ok(());
        };
        if role.scope.status.borrow().state != RoleState::Init {
            role.pass(RoleState::Stopped);
        }
        if role.leaving {
            self.role_left(myself, name);
            return Ok(());
        }
        let scope = Arc::clone(&role.scope);
        let actor = self.start_election(myself, &scope).await?;
        if let Some(role) = self.roles.get_mut(name) {
            role.actor = Some(actor);
        }
        Ok(())
    }
}

impl Role {
    /// Continues the role's state in place of a crashed election.
    fn pass(&self, to: RoleState) {
        let from = self.scope.status.borrow().state;
        self.scope.status.send_modify(|status| {
            status.state = to;
            status.leader = None;
            status.fencing_token = None;
            status.last_heartbeat = None;
            status.lease_until = None;
            status.overrun = false;
            status.last_transition = clock::now();
        });
        self.scope.labels.lease_remaining(Duration::ZERO);
        announce(&self.scope, Event::StateChanged { from, to });
    }
}

/// Ends the handler. The lease is revoked already, so the handler has only the time that an abort
/// takes.
async fn end_handler(scope: &RoleScope, running: &RunningTerm) {
    let allowance = scope.settings.abort_allowance();
    let ends = || tokio::time::timeout(allowance, running.ended());
    if ends().await.is_ok() {
        return;
    }
    running.abort();
    if ends().await.is_ok() {
        return;
    }
    scope.status.send_modify(|status| status.overrun = true);
    let fencing_token = running.term.fencing_token();
    announce(scope, Event::HandlerOverrun { fencing_token });
    running.ended().await;
}
