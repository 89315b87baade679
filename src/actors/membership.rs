//! This instance as a member of one group, as the supervisor sees it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef};

use super::Link;
use super::group::{GroupActor, GroupSetup};
use super::messages::{GroupMsg, SupervisorMsg};
use crate::clock;
use crate::metrics::MemberLeases;
use crate::model::bequests::Bequests;
use crate::model::config::MemberConfig;
use crate::role::{GroupScope, Instance, RunningTerm};
use nats_elect_core::Moment;
use nats_elect_core::name::GroupName;

/// The groups of an instance.
pub(crate) type Groups = BTreeMap<GroupName, Arc<GroupScope>>;

/// This instance as a member of one group, across restarts of its actor.
pub(super) struct Membership {
    member: MemberConfig,
    pub scope: Arc<GroupScope>,
    leases: Arc<MemberLeases>,
    bequests: Option<Arc<Bequests>>,
    /// `None` while handlers of a crashed actor still run, and after the end.
    actor: Option<ActorRef<GroupMsg>>,
    pub crashes: u32,
    /// The creation time of the bucket to which the last link led.
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
    /// The memberships of an instance, one for each of its groups.
    pub fn all(
        groups: &Groups,
        member: &MemberConfig,
        instance: &Instance,
        bequests: Option<&Arc<Bequests>>,
    ) -> Vec<Self> {
        let (id, bucket) = (&instance.id, &instance.bucket);
        let leases = Arc::new(MemberLeases::new(id.as_str(), bucket.as_str()));
        let each = groups.values().map(|scope| Self {
            member: member.clone(),
            scope: Arc::clone(scope),
            leases: Arc::clone(&leases),
            bequests: bequests.cloned(),
            actor: None,
            crashes: 0,
            bucket: None,
            replaced: None,
            cordoned: false,
            leaving: false,
            has_ended: false,
        });
        each.collect()
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
            bequests.forget_member(&self.scope.name);
        }
        let setup = GroupSetup {
            member: self.member.clone(),
            scope: Arc::clone(&self.scope),
            leases: Arc::clone(&self.leases),
            bequests: self.bequests.clone(),
            replaced: self.replaced,
            cordoned: self.cordoned,
            link,
            generation,
            supervisor: supervisor.clone(),
        };
        let above = supervisor.get_cell();
        let (actor, _) = Actor::spawn_linked(None, GroupActor, setup, above).await?;
        let asked = actor.clone();
        self.scope.asks(Arc::new(move |request| {
            let _ = asked.send_message(GroupMsg::AskGroup(request));
        }));
        self.actor = Some(actor);
        Ok(())
    }

    pub fn is(&self, who: &ActorCell) -> bool {
        let actor = self.actor.as_ref();
        actor.is_some_and(|actor| actor.get_id() == who.get_id())
    }

    pub fn tell(&self, order: GroupMsg) {
        if let Some(actor) = &self.actor {
            let _ = actor.send_message(order);
        }
    }

    /// Notes whether the bucket is another one, although no actor may be there to see it.
    pub fn link_changed(&mut self, link: &Link) {
        if let Link::Up { info, .. } = link {
            let former = self.bucket.replace(info.epoch);
            if former.is_some_and(|former| former != info.epoch) {
                self.replaced = Some(clock::now());
            }
        }
        self.tell(GroupMsg::LinkChanged(link.clone()));
    }

    pub fn cordon(&mut self, cordoned: bool) {
        self.cordoned = cordoned;
        self.tell(GroupMsg::Cordon(cordoned));
    }

    pub fn leave(&mut self, order: GroupMsg) {
        self.leaving = true;
        self.tell(order);
    }

    /// Ends it without waiting for a handler.
    pub fn abandon(&mut self) {
        self.leave(GroupMsg::Abandon);
        // The handlers of a crashed actor were aborted.
        if self.actor.is_none() {
            self.ended();
        }
    }

    pub fn ended(&mut self) {
        self.actor = None;
        self.has_ended = true;
        self.scope.board.send_modify(|board| board.joined = false);
        self.scope.left.cancel();
    }

    /// The actor crashed, and nothing renews its lease. Ends all terms. Returns what still runs.
    pub fn crashed(&mut self) -> Vec<RunningTerm> {
        self.actor = None;
        self.crashes += 1;
        let none = Duration::ZERO;
        self.leases.lease(&self.scope.name, none, none);
        self.scope.end_all()
    }

    /// Returns a unit whose handler still runs although its lease is over.
    pub fn overrun(&self) -> Option<String> {
        let (unit, group) = (self.scope.overrun()?, &self.scope.name);
        Some(format!(
            "unit {:?} of group {:?}",
            unit.as_str(),
            group.as_str()
        ))
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
