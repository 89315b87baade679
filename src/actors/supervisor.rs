//! The supervisor. It owns one election per role and the children that work for all roles, and
//! restarts those that crash.

mod crashes;
mod stopping;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use futures::future::join_all;
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::oneshot;

use self::stopping::Stopping;
use super::admin::AdminHandler;
use super::announce::announce;
use super::children::Children;
use super::connection::Connection;
use super::election::{ElectionActor, ElectionSetup};
use super::membership::{Groups, Membership};
use super::messages::{ElectionMsg, GroupMsg, MonitorMsg, SupervisorMsg};
use super::monitor::{MonitorSetup, Ready};
use super::peers::Peers;
use super::publisher::Publisher;
use super::watch::Watch;
use super::{Link, Routes};
use crate::clock;
use crate::metrics::InstanceLabels;
use crate::model::bequests::Bequests;
use crate::model::config::{ManagerConfig, RoleSettings};
use crate::role::{Instance, Order, RoleRegistry, RoleScope, SteppedDown};
use crate::store::IfMissing;
use nats_elect_core::event::Event;
use nats_elect_core::name::RoleName;
use nats_elect_core::{Candidate, Input, Intent, RequestId};

/// The beats of one generation. The next generation begins above them.
const BEATS_PER_GENERATION: u64 = 1 << 40;

/// The setup of the supervisor.
pub(crate) struct Supervise {
    pub instance: Arc<Instance>,
    pub connection: Connection,
    pub config: ManagerConfig,
    pub routes: Routes,
    pub registry: RoleRegistry,
    /// Where elections note their terms for a companion process, if there is one.
    pub bequests: Option<Arc<Bequests>>,
    pub groups: Arc<Groups>,
    pub ready: Ready,
}

pub(super) struct SupervisorActor;

pub(super) struct SupervisorState {
    instance: Arc<Instance>,
    routes: Routes,
    registry: RoleRegistry,
    children: Children,
    publisher: Option<Arc<Publisher>>,
    roles: HashMap<RoleName, Role>,
    memberships: Vec<Membership>,
    generations: u64,
    bequests: Option<Arc<Bequests>>,
    stopping: Option<Stopping>,
    /// Whether roles begin paused.
    paused: bool,
}

struct Role {
    scope: Arc<RoleScope>,
    /// `None` while a crashed election's handler still runs.
    actor: Option<ActorRef<ElectionMsg>>,
    crashes: u32,
    leaving: bool,
    waiting: Vec<oneshot::Sender<()>>,
}

impl Actor for SupervisorActor {
    type Msg = SupervisorMsg;
    type State = SupervisorState;
    type Arguments = Supervise;

    async fn pre_start(
        &self,
        myself: ActorRef<SupervisorMsg>,
        setup: Supervise,
    ) -> Result<SupervisorState, ActorProcessingErr> {
        let (instance, bequests, routes) = (setup.instance, setup.bequests, setup.routes);
        let config = setup.config;
        let labels = InstanceLabels::new(instance.id.as_str(), instance.bucket.as_str());
        labels.register();
        let admin = config.admin.enabled.then(|| {
            AdminHandler::new(
                Arc::clone(&instance),
                &config.admin.subject_prefix,
                setup.registry.clone(),
                Arc::clone(&setup.groups),
                myself.clone(),
                bequests.clone(),
            )
        });
        let publisher = config
            .events
            .publish
            .then(|| Publisher::new(config.clone()));
        let if_missing = if config.bucket_auto_create {
            IfMissing::Create {
                replicas: config.replicas,
                storage: config.storage,
            }
        } else {
            IfMissing::Fail
        };
        let links = myself.clone();
        let bucket = instance.bucket.clone();
        let tell = move |link| {
            let _ = links.send_message(SupervisorMsg::LinkChanged(link));
        };
        let connection = setup.connection;
        let timeout = config.start_timeout;
        let monitor = MonitorSetup {
            span: instance.span(),
            if_missing,
            routes: routes.clone(),
            admin: admin.clone(),
            ..MonitorSetup::without_elections(connection, bucket, timeout, tell)
        };
        let mut children = Children::start(monitor, setup.ready, myself.get_cell()).await?;
        children.attend(Arc::new(Watch {
            supervisor: myself,
            labels,
            routes: routes.clone(),
            ends: Mutex::default(),
        }));
        children.attend(Arc::new(Peers {
            instance: Arc::clone(&instance),
            routes: routes.clone(),
        }));
        if let Some(publisher) = &publisher {
            children.attend(Arc::clone(publisher));
        }
        if let Some(admin) = admin {
            children.attend(admin);
        }
        let groups = &setup.groups;
        let member = &config.member;
        Ok(SupervisorState {
            memberships: Membership::all(groups, member, &instance, bequests.as_ref()),
            children,
            publisher,
            instance,
            routes,
            registry: setup.registry,
            roles: HashMap::new(),
            generations: 0,
            bequests,
            stopping: None,
            paused: false,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<SupervisorMsg>,
        message: SupervisorMsg,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            SupervisorMsg::LinkChanged(link) => state.link_changed(link),
            SupervisorMsg::AddRole { scope, reply } => {
                let added = state.add_role(&myself, scope).await?;
                let _ = reply.send(added);
            }
            SupervisorMsg::RemoveRole {
                role,
                release,
                reply,
            } => state.remove_role(&role, release, reply),
            SupervisorMsg::Order { order, reply } => state.order(order, reply),
            SupervisorMsg::LookAtBucket => state.children.ask(MonitorMsg::LookAtBucket),
            SupervisorMsg::Reopen(role) => state.children.ask(MonitorMsg::Reopen(role)),
            SupervisorMsg::Ping(reply) => {
                let _ = reply.send(state.overrun());
            }
            #[cfg(test)]
            SupervisorMsg::CrashAdmin => state.children.crash_admin(),
            #[cfg(test)]
            SupervisorMsg::CrashMember => {
                for member in &state.memberships {
                    member.tell(GroupMsg::Crash);
                }
            }
            SupervisorMsg::RestartRole { role } => state.restart_role(&myself, &role).await?,
            SupervisorMsg::JoinGroups => {
                for member in 0..state.memberships.len() {
                    state.start_member(&myself, member).await?;
                }
            }
            SupervisorMsg::RestartMember(member) => {
                state.start_member(&myself, member).await?;
                state.end_if_empty(&myself);
            }
            SupervisorMsg::ReplaceMonitor => {
                state.children.replace_monitor(myself.get_cell()).await?;
            }
            SupervisorMsg::Stop {
                release,
                timeout,
                reply,
            } => {
                myself.send_after(timeout, || SupervisorMsg::StopTimedOut);
                let stopping = state.stopping.get_or_insert_default();
                let until = clock::now() + timeout;
                stopping.until = Some(stopping.until.map_or(until, |it| it.min(until)));
                stopping.waiting.push(reply);
                state.leave_all(|scope| Intent::Stop {
                    release: release.unwrap_or(scope.settings.delete_on_stop),
                });
                let release = release.unwrap_or(true);
                for member in &mut state.memberships {
                    member.leave(GroupMsg::Stop { release });
                }
                state.end_if_empty(&myself);
            }
            SupervisorMsg::StopTimedOut => {
                state.stop_timed_out();
                state.abandon(&myself);
            }
            SupervisorMsg::Abandon => state.abandon(&myself),
            SupervisorMsg::End => state.end(&myself),
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<SupervisorMsg>,
        event: SupervisionEvent,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorFailed(who, error) => {
                state.actor_crashed(&myself, &who, &error.to_string());
            }
            SupervisionEvent::ActorTerminated(who, its_state, _) => {
                // The crashed election's share of the role must be dropped before ours.
                drop(its_state);
                let mut members = state.memberships.iter_mut();
                if let Some(member) = members.find(|it| it.is(&who)) {
                    member.ended();
                    state.end_if_empty(&myself);
                } else if let Some(role) = state.role_of(&who) {
                    state.role_left(&myself, &role);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl SupervisorState {
    fn link_changed(&mut self, link: Link) {
        for election in self.routes.all() {
            let _ = election.send_message(ElectionMsg::LinkChanged(link.clone()));
        }
        for member in &mut self.memberships {
            member.link_changed(&link);
        }
        self.children.link.send_replace(link);
    }

    async fn start_member(
        &mut self,
        myself: &ActorRef<SupervisorMsg>,
        member: usize,
    ) -> Result<(), ActorProcessingErr> {
        self.generations += 1;
        let link = self.children.link.borrow().clone();
        let member = &mut self.memberships[member];
        member.start(self.generations, link, myself).await
    }

    /// Adds a role. Returns whether it could be added: there must be no role of this name, and no
    /// stop in progress.
    async fn add_role(
        &mut self,
        myself: &ActorRef<SupervisorMsg>,
        scope: Arc<RoleScope>,
    ) -> Result<bool, ActorProcessingErr> {
        if self.stopping.is_some() || self.roles.contains_key(&scope.role) {
            scope.give_back();
            return Ok(false);
        }
        scope.labels.register(&scope.settings);
        if self.paused {
            drop(scope.order(Order::Pause));
        }
        self.registry.enter(Arc::clone(&scope));
        let actor = self.start_election(myself, &scope).await?;
        let role = Role {
            actor: Some(actor),
            crashes: 0,
            leaving: false,
            waiting: Vec::new(),
            scope,
        };
        self.roles.insert(role.scope.role.clone(), role);
        Ok(true)
    }

    async fn start_election(
        &mut self,
        myself: &ActorRef<SupervisorMsg>,
        scope: &Arc<RoleScope>,
    ) -> Result<ActorRef<ElectionMsg>, ActorProcessingErr> {
        let paused = scope.is_paused();
        // No election has reported the orders that came while there was no election.
        if scope.status.borrow().paused != paused {
            scope.status.send_modify(|status| status.paused = paused);
            announce(
                scope,
                if paused {
                    Event::Paused
                } else {
                    Event::Resumed
                },
            );
        }
        let candidate = Candidate {
            instance_id: self.instance.id.as_str().to_owned(),
            incarnation: self.instance.incarnation,
            first_beat: self.generations * BEATS_PER_GENERATION,
            paused,
            settings: RoleSettings::clone(&scope.settings),
        };
        self.generations += 1;
        let setup = ElectionSetup {
            generation: self.generations,
            scope: Arc::clone(scope),
            candidate,
            link: self.children.link.borrow().clone(),
            supervisor: myself.clone(),
            publisher: self.publisher.clone(),
            bequests: self.bequests.clone(),
        };
        let (actor, _) = Actor::spawn_linked(None, ElectionActor, setup, myself.get_cell()).await?;
        let grace = scope.settings.grace;
        self.routes.set(scope.role.clone(), actor.clone(), grace);
        scope.repeat_order();
        Ok(actor)
    }

    /// Names what has a handler that still runs although its lease is over. A role may be in the
    /// course of removal.
    fn overrun(&self) -> Option<String> {
        let mut scopes = self.roles.values().map(|role| &role.scope);
        let role = scopes.find(|scope| scope.status.borrow().overrun);
        role.map(|scope| format!("role {:?}", scope.role.as_str()))
            .or_else(|| self.memberships.iter().find_map(Membership::overrun))
    }

    fn remove_role(&mut self, role: &RoleName, release: bool, reply: oneshot::Sender<()>) {
        // There is no such role. Dropping the reply reports that.
        let Some(role) = self.roles.get_mut(role) else {
            return;
        };
        role.waiting.push(reply);
        role.leave(Intent::Stop { release });
    }

    fn order(&mut self, order: Order, reply: oneshot::Sender<BTreeMap<String, SteppedDown>>) {
        self.paused = order != Order::Resume;
        if matches!(order, Order::Cordon | Order::Resume) {
            let members = self.memberships.iter_mut();
            members.for_each(|member| member.cordon(order == Order::Cordon));
        }
        let followed = self.roles.values().map(|role| {
            let (name, followed) = (role.scope.role.to_string(), role.scope.order(order));
            async move { followed.await.ok().flatten().map(|ended| (name, ended)) }
        });
        let followed = join_all(followed.collect::<Vec<_>>());
        tokio::spawn(async move {
            let _ = reply.send(followed.await.into_iter().flatten().collect());
        });
    }

    fn role_of(&self, who: &ActorCell) -> Option<RoleName> {
        let is_it = |role: &&Role| {
            role.actor
                .as_ref()
                .is_some_and(|actor| actor.get_id() == who.get_id())
        };
        self.roles
            .values()
            .find(is_it)
            .map(|role| role.scope.role.clone())
    }

    fn role_left(&mut self, myself: &ActorRef<SupervisorMsg>, role: &RoleName) {
        self.routes.remove(role);
        if let Some(role) = self.roles.remove(role) {
            role.scope.ended.cancel();
            role.scope.give_back();
            for waiting in role.waiting {
                let _ = waiting.send(());
            }
        }
        self.end_if_empty(myself);
    }
}

impl Drop for SupervisorState {
    /// An orderly end leaves no roles. After a crash nothing renews the leases, so no handler may
    /// go on.
    fn drop(&mut self) {
        for (_, role) in self.roles.drain() {
            if let Some(running) = role.scope.revoke() {
                running.abort();
            }
            role.scope.ended.cancel();
            role.scope.give_back();
        }
    }
}

impl Role {
    fn leave(&mut self, intent: Intent) {
        self.leaving = true;
        if let Some(actor) = &self.actor {
            let intent = Input::Intend(RequestId::NOBODY, intent);
            let _ = actor.send_message(ElectionMsg::Input(intent));
        }
    }
}
