//! Who works for all roles of an instance: the connection monitor, the watch, the courier, and where they are wished the herald
//! and the admin service. Started, told of the way to the bucket, and started anew in one place.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

use super::admin::{AdminActor, AdminSetup, Desk};
use super::connection::{Connection, StartFailure};
use super::courier::{CourierActor, CourierSetup};
use super::herald::{HeraldActor, HeraldSetup};
use super::messages::{AdminMsg, CourierMsg, HeraldMsg, MonitorMsg, SupervisorMsg, WatchMsg};
use super::monitor::{MonitorActor, MonitorSetup};
use super::watch::{WatchActor, WatchSetup};
use super::{Link, Routes};
use crate::metrics::InstanceLabels;
use crate::model::leader_event::LeaderEvent;
use crate::role::Instance;
use crate::store::{BucketInfo, IfMissing};
use nats_elect_core::name::RoleName;

/// What they need to know.
pub(super) struct StaffSetup {
    pub instance: Arc<Instance>,
    pub labels: InstanceLabels,
    pub connection: Connection,
    pub if_missing: IfMissing,
    pub routes: Routes,
    /// Nothing is published without it.
    pub herald: Option<HeraldSetup>,
    /// Unless the admin service is switched off.
    pub desk: Option<Arc<Desk>>,
}

/// One of them, whichever actor it is at the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Post {
    Monitor,
    Watch,
    Courier,
    Herald,
    Admin,
}

pub(super) struct Staff {
    setup: StaffSetup,
    supervisor: ActorRef<SupervisorMsg>,
    monitor: ActorRef<MonitorMsg>,
    watch: ActorRef<WatchMsg>,
    courier: ActorRef<CourierMsg>,
    herald: Option<ActorRef<HeraldMsg>>,
    admin: Option<ActorRef<AdminMsg>>,
    /// How often each of them has crashed.
    crashes: HashMap<Post, u32>,
}

impl Staff {
    /// Starts all of them. `ready` is told once, when the bucket was opened or can't be.
    pub async fn start(
        setup: StaffSetup,
        supervisor: ActorRef<SupervisorMsg>,
        start_timeout: Duration,
        ready: oneshot::Sender<Result<BucketInfo, StartFailure>>,
    ) -> Result<Self, ActorProcessingErr> {
        let hire = Hire {
            setup: &setup,
            supervisor: &supervisor,
            link: &Link::Down,
        };
        Ok(Self {
            monitor: hire.monitor(start_timeout, Some(ready)).await?,
            watch: hire.watch().await?,
            courier: hire.courier().await?,
            herald: hire.herald().await?,
            admin: hire.admin().await?,
            crashes: HashMap::new(),
            setup,
            supervisor,
        })
    }

    pub fn link_changed(&self, link: &Link) {
        let _ = self.watch.send_message(WatchMsg::LinkChanged(link.clone()));
        let courier = CourierMsg::LinkChanged(link.clone());
        let _ = self.courier.send_message(courier);
        if let Some(herald) = &self.herald {
            let _ = herald.send_message(HeraldMsg::LinkChanged(link.clone()));
        }
        self.tell_admin(AdminMsg::LinkChanged(link.clone()));
    }

    pub fn look_at_bucket(&self) {
        let _ = self.monitor.send_message(MonitorMsg::LookAtBucket);
    }

    pub fn reopen(&self, role: RoleName) {
        let _ = self.monitor.send_message(MonitorMsg::Reopen(role));
    }

    pub fn publish(&self, event: LeaderEvent) {
        if let Some(herald) = &self.herald {
            let _ = herald.send_message(HeraldMsg::Tell(event));
        }
    }

    /// Resolves when everything is published.
    pub fn all_published(&self) -> Option<oneshot::Receiver<()>> {
        let (done, told) = oneshot::channel();
        let herald = self.herald.as_ref()?;
        let _ = herald.send_message(HeraldMsg::Finish(done));
        Some(told)
    }

    pub fn tell_admin(&self, message: AdminMsg) {
        if let Some(admin) = &self.admin {
            let _ = admin.send_message(message);
        }
    }

    pub fn stop(&self) {
        self.watch.stop(None);
        self.courier.stop(None);
        if let Some(herald) = &self.herald {
            herald.stop(None);
        }
        if let Some(admin) = &self.admin {
            admin.stop(None);
        }
        self.monitor.stop(None);
    }

    /// Which of them crashed, and how often it has by now.
    pub fn crashed(&mut self, who: &ActorCell) -> Option<(Post, u32)> {
        let id = who.get_id();
        let post = if id == self.monitor.get_id() {
            Post::Monitor
        } else if id == self.watch.get_id() {
            Post::Watch
        } else if id == self.courier.get_id() {
            Post::Courier
        } else if self.herald.as_ref().is_some_and(|it| it.get_id() == id) {
            Post::Herald
        } else if self.admin.as_ref().is_some_and(|it| it.get_id() == id) {
            Post::Admin
        } else {
            return None;
        };
        let crashes = self.crashes.entry(post).or_default();
        *crashes += 1;
        Some((post, *crashes))
    }

    /// Starts one of them anew.
    pub async fn replace(&mut self, post: Post, link: &Link) -> Result<(), ActorProcessingErr> {
        let hire = Hire {
            setup: &self.setup,
            supervisor: &self.supervisor,
            link,
        };
        match post {
            Post::Monitor => self.monitor = hire.monitor(Duration::MAX, None).await?,
            Post::Watch => self.watch = hire.watch().await?,
            Post::Courier => self.courier = hire.courier().await?,
            Post::Herald => self.herald = hire.herald().await?,
            Post::Admin => self.admin = hire.admin().await?,
        }
        Ok(())
    }
}

/// How each of them is started.
struct Hire<'a> {
    setup: &'a StaffSetup,
    supervisor: &'a ActorRef<SupervisorMsg>,
    link: &'a Link,
}

impl Hire<'_> {
    async fn monitor(
        &self,
        start_timeout: Duration,
        ready: Option<oneshot::Sender<Result<BucketInfo, StartFailure>>>,
    ) -> Result<ActorRef<MonitorMsg>, ActorProcessingErr> {
        let (links, refusals) = (self.supervisor.clone(), self.supervisor.clone());
        let setup = MonitorSetup {
            tell: Box::new(move |link| {
                let _ = links.send_message(SupervisorMsg::LinkChanged(link));
            }),
            connection: self.setup.connection.clone(),
            bucket: self.setup.instance.bucket.clone(),
            if_missing: self.setup.if_missing,
            routes: self.setup.routes.clone(),
            admin: self.setup.desk.as_ref().map(|desk| {
                let tell = move |denied| {
                    let _ = refusals.send_message(SupervisorMsg::AdminDenied(denied));
                };
                (desk.subjects().clone(), Box::new(tell) as _)
            }),
            start_timeout,
            ready,
        };
        self.spawn(MonitorActor, setup).await
    }

    async fn watch(&self) -> Result<ActorRef<WatchMsg>, ActorProcessingErr> {
        let setup = WatchSetup {
            supervisor: self.supervisor.clone(),
            labels: self.setup.labels.clone(),
            routes: self.setup.routes.clone(),
            link: self.link.clone(),
        };
        self.spawn(WatchActor, setup).await
    }

    async fn courier(&self) -> Result<ActorRef<CourierMsg>, ActorProcessingErr> {
        let setup = CourierSetup {
            instance: Arc::clone(&self.setup.instance),
            routes: self.setup.routes.clone(),
            link: self.link.clone(),
        };
        self.spawn(CourierActor, setup).await
    }

    async fn herald(&self) -> Result<Option<ActorRef<HeraldMsg>>, ActorProcessingErr> {
        let Some(setup) = self.setup.herald.clone() else {
            return Ok(None);
        };
        let herald = self.spawn(HeraldActor, (setup, self.link.clone())).await?;
        Ok(Some(herald))
    }

    async fn admin(&self) -> Result<Option<ActorRef<AdminMsg>>, ActorProcessingErr> {
        let Some(desk) = self.setup.desk.clone() else {
            return Ok(None);
        };
        let link = self.link.clone();
        let admin = self.spawn(AdminActor, AdminSetup { desk, link }).await?;
        Ok(Some(admin))
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
