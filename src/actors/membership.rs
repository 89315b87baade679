//! The member's actor, as the supervisor sees it.

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef};

use super::Link;
use super::group::{GroupActor, GroupSetup};
use super::member::{Groups, MemberActor, MemberSetup};
use super::messages::{GroupMsg, MemberMsg, MemberOrder, SupervisorMsg};
use crate::clock;
use crate::metrics::MemberLabels;
use crate::model::bequests::Bequests;
use crate::model::config::{RoleSettings, Seat};
use crate::role::{Instance, RunningTerm};
use nats_elect_core::Moment;
use nats_elect_core::name::{GroupName, UnitName};

/// What an instance that has groups begins with.
#[derive(Clone)]
pub(crate) struct MembershipSetup {
    /// The settings of its lease.
    pub settings: RoleSettings,
    pub seat: Seat,
    pub groups: Arc<Groups>,
    /// Whether each group is one map, which an actor of its own follows.
    pub by_one_map: bool,
}

impl MembershipSetup {
    /// What each actor begins with.
    pub fn for_each_actor(self) -> Vec<Self> {
        if !self.by_one_map {
            return vec![self];
        }
        let groups = self.groups.iter();
        let each = groups.map(|(name, scope)| Self {
            groups: Arc::new([(name.clone(), Arc::clone(scope))].into()),
            ..self.clone()
        });
        each.collect()
    }
}

/// An actor of this instance as a member.
enum MemberRef {
    OfAll(ActorRef<MemberMsg>),
    OfOne(ActorRef<GroupMsg>),
}

/// This instance as a member of groups, across restarts of its actor.
pub(super) struct Membership {
    setup: MembershipSetup,
    instance: Arc<Instance>,
    bequests: Option<Arc<Bequests>>,
    /// `None` while handlers of a crashed actor still run, and after the end.
    actor: Option<MemberRef>,
    pub crashes: u32,
    /// The epoch of the bucket that the last link led to.
    bucket: Option<u64>,
    /// When that was first seen to be another bucket than the one before.
    replaced: Option<Moment>,
    cordoned: bool,
    /// Whether the actor was told to end.
    leaving: bool,
    /// Whether nothing of it runs any more.
    pub has_ended: bool,
}

impl Membership {
    pub const fn new(
        setup: MembershipSetup,
        instance: Arc<Instance>,
        bequests: Option<Arc<Bequests>>,
    ) -> Self {
        Self {
            setup,
            instance,
            bequests,
            actor: None,
            crashes: 0,
            bucket: None,
            replaced: None,
            cordoned: false,
            leaving: false,
            has_ended: false,
        }
    }

    /// Starts the actor, unless it is no longer wanted.
    pub async fn start(
        &mut self,
        generation: u64,
        link: Link,
        supervisor: &ActorRef<SupervisorMsg>,
    ) -> Result<(), ActorProcessingErr> {
        if self.leaving {
            self.ended();
            return Ok(());
        }
        if let Some(bequests) = &self.bequests {
            bequests.forget_member();
        }
        let above = supervisor.get_cell();
        if self.setup.by_one_map {
            return self.start_by_one_map(generation, link, supervisor).await;
        }
        let setup = MemberSetup {
            instance: Arc::clone(&self.instance),
            bequests: self.bequests.clone(),
            settings: self.setup.settings.clone(),
            seat: self.setup.seat.clone(),
            groups: Arc::clone(&self.setup.groups),
            bucket: self.bucket,
            replaced: self.replaced,
            cordoned: self.cordoned,
            link,
            generation,
            supervisor: supervisor.clone(),
        };
        let (actor, _) = Actor::spawn_linked(None, MemberActor, setup, above).await?;
        for (name, scope) in &*self.setup.groups {
            let (asked, name) = (actor.clone(), name.clone());
            scope.asks(Arc::new(move |request| {
                let _ = asked.send_message(MemberMsg::AskGroup(name.clone(), request));
            }));
        }
        self.actor = Some(MemberRef::OfAll(actor));
        Ok(())
    }

    async fn start_by_one_map(
        &mut self,
        generation: u64,
        link: Link,
        supervisor: &ActorRef<SupervisorMsg>,
    ) -> Result<(), ActorProcessingErr> {
        for scope in self.setup.groups.values() {
            let setup = GroupSetup {
                instance: Arc::clone(&self.instance),
                settings: self.setup.settings.clone(),
                seat: self.setup.seat.clone(),
                scope: Arc::clone(scope),
                cordoned: self.cordoned,
                link: link.clone(),
                generation,
                supervisor: supervisor.clone(),
            };
            let above = supervisor.get_cell();
            let (actor, _) = Actor::spawn_linked(None, GroupActor, setup, above).await?;
            let asked = actor.clone();
            scope.asks(Arc::new(move |request| {
                let _ = asked.send_message(GroupMsg::AskGroup(request));
            }));
            self.actor = Some(MemberRef::OfOne(actor));
        }
        Ok(())
    }

    pub fn is(&self, who: &ActorCell) -> bool {
        let actor = self.actor.as_ref().map(|actor| match actor {
            MemberRef::OfAll(actor) => actor.get_id(),
            MemberRef::OfOne(actor) => actor.get_id(),
        });
        actor == Some(who.get_id())
    }

    pub fn tell(&self, order: MemberOrder) {
        let _ = match &self.actor {
            Some(MemberRef::OfAll(actor)) => actor.send_message(MemberMsg::Ordered(order)).is_ok(),
            Some(MemberRef::OfOne(actor)) => actor.send_message(GroupMsg::Ordered(order)).is_ok(),
            None => false,
        };
    }

    /// Notes whether the bucket is another one, although no actor may be there to see it.
    pub fn link_changed(&mut self, link: &Link) {
        if let Link::Up { info, .. } = link {
            let former = self.bucket.replace(info.epoch);
            if former.is_some_and(|former| former != info.epoch) {
                self.replaced = Some(clock::now());
            }
        }
        self.tell(MemberOrder::LinkChanged(link.clone()));
    }

    pub fn cordon(&mut self, cordoned: bool) {
        self.cordoned = cordoned;
        self.tell(MemberOrder::Cordon(cordoned));
    }

    pub fn leave(&mut self, order: MemberOrder) {
        self.leaving = true;
        self.tell(order);
    }

    /// Ends it without waiting for a handler.
    pub fn abandon(&mut self) {
        self.leave(MemberOrder::Abandon);
        // The handlers of a crashed actor were aborted.
        if self.actor.is_none() {
            self.ended();
        }
    }

    pub fn ended(&mut self) {
        self.actor = None;
        self.has_ended = true;
        for scope in self.setup.groups.values() {
            scope.set_joined(false);
            scope.left.cancel();
        }
    }

    /// The actor crashed, and nothing renews its lease. Ends all terms. Returns what still runs.
    pub fn crashed(&mut self) -> Vec<RunningTerm> {
        self.actor = None;
        self.crashes += 1;
        let (id, bucket) = (&self.instance.id, &self.instance.bucket);
        MemberLabels::new(id.as_str(), bucket.as_str()).lease(Duration::ZERO, Duration::ZERO);
        let scopes = self.setup.groups.values();
        let ended = scopes.flat_map(|scope| {
            scope.set_joined(false);
            scope.end_all()
        });
        ended.collect()
    }

    /// Returns a group and a unit whose handler still runs although its lease is over.
    pub fn overrun(&self) -> Option<(GroupName, UnitName)> {
        let mut groups = self.setup.groups.iter();
        groups.find_map(|(name, scope)| Some((name.clone(), scope.overrun()?)))
    }

    pub fn names(&self) -> impl Iterator<Item = String> {
        self.setup.groups.keys().map(ToString::to_string)
    }
}

impl Drop for Membership {
    /// After a crash of the supervisor nothing renews the lease, so no handler may go on.
    fn drop(&mut self) {
        if !self.has_ended {
            self.crashed();
            self.ended();
        }
    }
}

/// Waits until all of these have ended, and for this long.
pub(super) async fn all_ended(running: Vec<RunningTerm>, pause: Duration) {
    for term in running {
        term.ended().await;
    }
    tokio::time::sleep(pause).await;
}
