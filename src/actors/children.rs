//! The actors that work for all roles of an instance: the connection monitor, the watch, peer
//! messaging, and, where they are configured, the event publisher and the admin service. This
//! module starts them, reports the link to them, and restarts them.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

use super::admin::AdminHandler;
use super::connection::{Connection, StartFailure};
use super::linked::{Linked, LinkedActor};
use super::messages::{LinkedMsg, MonitorMsg, SupervisorMsg};
use super::monitor::{MonitorActor, MonitorSetup, Opened};
use super::peers::Peers;
use super::publisher::Publisher;
use super::watch::Watch;
use super::{Link, Routes};
use crate::clock;
use crate::metrics::InstanceLabels;
use crate::model::leader_event::LeaderEvent;
use crate::role::Instance;
use crate::store::IfMissing;
use nats_elect_core::name::RoleName;

/// The data that the children need.
pub(super) struct ChildrenSetup {
    pub instance: Arc<Instance>,
    pub labels: InstanceLabels,
    pub connection: Connection,
    pub if_missing: IfMissing,
    pub routes: Routes,
    /// Without it nothing is published.
    pub publisher: Option<Arc<Publisher>>,
    /// Present unless the admin service is switched off.
    pub admin_handler: Option<Arc<AdminHandler>>,
}

/// One of the children, regardless of which actor it is at the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Child {
    Monitor,
    Watch,
    Peers,
    Publisher,
    Admin,
}

pub(super) struct Children {
    setup: ChildrenSetup,
    supervisor: ActorRef<SupervisorMsg>,
    monitor: ActorRef<MonitorMsg>,
    watch: ActorRef<LinkedMsg>,
    peers: ActorRef<LinkedMsg>,
    publisher: Option<ActorRef<LinkedMsg>>,
    admin: Option<ActorRef<LinkedMsg>>,
    /// The number of crashes of each child.
    crashes: HashMap<Child, u32>,
}

impl Children {
    /// Starts all children. `ready` receives one message: that the bucket was opened, or that it
    /// cannot be.
    pub async fn start(
        setup: ChildrenSetup,
        supervisor: ActorRef<SupervisorMsg>,
        start_timeout: Duration,
        ready: oneshot::Sender<Result<Opened, StartFailure>>,
    ) -> Result<Self, ActorProcessingErr> {
        let spawner = Spawner {
            setup: &setup,
            supervisor: &supervisor,
            link: &Link::Down {
                since: clock::now(),
            },
        };
        Ok(Self {
            monitor: spawner.monitor(start_timeout, Some(ready)).await?,
            watch: spawner.watch().await?,
            peers: spawner.peers().await?,
            publisher: spawner.publisher().await?,
            admin: spawner.admin().await?,
            crashes: HashMap::new(),
            setup,
            supervisor,
        })
    }

    pub fn link_changed(&self, link: &Link) {
        for child in self.linked() {
            let _ = child.send_message(LinkedMsg::LinkChanged(link.clone()));
        }
    }

    pub fn look_at_bucket(&self) {
        let _ = self.monitor.send_message(MonitorMsg::LookAtBucket);
    }

    pub fn reopen(&self, role: RoleName) {
        let _ = self.monitor.send_message(MonitorMsg::Reopen(role));
    }

    pub fn publish(&self, event: LeaderEvent) {
        if let Some(publisher) = &self.setup.publisher {
            publisher.tell(event);
        }
    }

    /// Returns a future that waits until everything is published.
    pub fn all_published(&self) -> Option<impl Future<Output = ()> + Send + use<>> {
        let publisher = self.setup.publisher.as_ref();
        publisher.map(|publisher| publisher.all_published())
    }

    /// Returns the children that work on the bucket while there is a link to it.
    fn linked(&self) -> impl Iterator<Item = &ActorRef<LinkedMsg>> {
        let always = [&self.watch, &self.peers].into_iter();
        always.chain(&self.publisher).chain(&self.admin)
    }

    #[cfg(test)]
    pub fn crash_admin(&self) {
        if let Some(admin) = &self.admin {
            let _ = admin.send_message(LinkedMsg::Crash);
        }
    }

    pub fn stop(&self) {
        for child in self.linked() {
            child.stop(None);
        }
        self.monitor.stop(None);
    }

    /// Returns the child that crashed, and its number of crashes including this one.
    pub fn crashed(&mut self, who: &ActorCell) -> Option<(Child, u32)> {
        let id = who.get_id();
        let child = if id == self.monitor.get_id() {
            Child::Monitor
        } else if id == self.watch.get_id() {
            Child::Watch
        } else if id == self.peers.get_id() {
            Child::Peers
        } else if self.publisher.as_ref().is_some_and(|it| it.get_id() == id) {
            Child::Publisher
        } else if self.admin.as_ref().is_some_and(|it| it.get_id() == id) {
            Child::Admin
        } else {
            return None;
        };
        let crashes = self.crashes.entry(child).or_default();
        *crashes += 1;
        Some((child, *crashes))
    }

    /// Restarts a child.
    pub async fn replace(&mut self, child: Child, link: &Link) -> Result<(), ActorProcessingErr> {
        let spawner = Spawner {
            setup: &self.setup,
            supervisor: &self.supervisor,
            link,
        };
        match child {
            Child::Monitor => self.monitor = spawner.monitor(Duration::MAX, None).await?,
            Child::Watch => self.watch = spawner.watch().await?,
            Child::Peers => self.peers = spawner.peers().await?,
            Child::Publisher => self.publisher = spawner.publisher().await?,
            Child::Admin => self.admin = spawner.admin().await?,
        }
        Ok(())
    }
}

/// The way to start each child.
struct Spawner<'a> {
    setup: &'a ChildrenSetup,
    supervisor: &'a ActorRef<SupervisorMsg>,
    link: &'a Link,
}

impl Spawner<'_> {
    async fn monitor(
        &self,
        start_timeout: Duration,
        ready: Option<oneshot::Sender<Result<Opened, StartFailure>>>,
    ) -> Result<ActorRef<MonitorMsg>, ActorProcessingErr> {
        let links = self.supervisor.clone();
        let setup = MonitorSetup {
            span: self.setup.instance.span(),
            tell: Box::new(move |link| {
                let _ = links.send_message(SupervisorMsg::LinkChanged(link));
            }),
            connection: self.setup.connection.clone(),
            bucket: self.setup.instance.bucket.clone(),
            if_missing: self.setup.if_missing,
            routes: self.setup.routes.clone(),
            admin: self.setup.admin_handler.clone(),
            start_timeout,
            // One that takes the place of another counts on, or from now on.
            lost_at: ready.is_none().then(|| match self.link {
                Link::Down { since } => *since,
                _ => clock::now(),
            }),
            ready,
        };
        self.spawn(MonitorActor, setup).await
    }

    async fn watch(&self) -> Result<ActorRef<LinkedMsg>, ActorProcessingErr> {
        let ChildrenSetup { labels, routes, .. } = self.setup;
        let work = Watch::new(self.supervisor.clone(), labels.clone(), routes.clone());
        self.linked(work).await
    }

    async fn peers(&self) -> Result<ActorRef<LinkedMsg>, ActorProcessingErr> {
        let work = Arc::new(Peers {
            instance: Arc::clone(&self.setup.instance),
            routes: self.setup.routes.clone(),
        });
        self.linked(work).await
    }

    async fn publisher(&self) -> Result<Option<ActorRef<LinkedMsg>>, ActorProcessingErr> {
        let Some(publisher) = self.setup.publisher.clone() else {
            return Ok(None);
        };
        self.linked(publisher).await.map(Some)
    }

    async fn admin(&self) -> Result<Option<ActorRef<LinkedMsg>>, ActorProcessingErr> {
        let Some(handler) = self.setup.admin_handler.clone() else {
            return Ok(None);
        };
        self.linked(handler).await.map(Some)
    }

    async fn linked<W: Linked>(
        &self,
        work: Arc<W>,
    ) -> Result<ActorRef<LinkedMsg>, ActorProcessingErr> {
        let span = self.setup.instance.span();
        self.spawn(LinkedActor::<W>::new(), (work, self.link.clone(), span))
            .await
    }

    async fn spawn<A: Actor>(
        &self,
        actor: A,
        arguments: A::Arguments,
    ) -> Result<ActorRef<A::Msg>, ActorProcessingErr> {
        let above = self.supervisor.get_cell();
        let (spawned, _) = Actor::spawn_linked(None, actor, arguments, above).await?;
        Ok(spawned)
    }
}
