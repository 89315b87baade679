//! What works for all roles of an instance: the connection monitor, the watch, peer messaging, and,
//! where they are configured, the event publisher and the admin service. This module starts them,
//! reports the link to them, and restarts the monitor.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tracing::Instrument;

use super::admin::AdminHandler;
use super::connection::Connection;
use super::linked::{Linked, attend};
use super::messages::{MonitorMsg, SupervisorMsg};
use super::monitor::{MonitorActor, MonitorSetup, Opened};
use super::peers::Peers;
use super::publisher::Publisher;
use super::watch::Watch;
use super::{Link, Routes};
use crate::clock;
use crate::error::Error;
use crate::metrics::InstanceLabels;
use crate::role::Instance;
use crate::store::IfMissing;

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

pub(super) struct Children {
    setup: ChildrenSetup,
    supervisor: ActorRef<SupervisorMsg>,
    pub link: watch::Sender<Link>,
    monitor: ActorRef<MonitorMsg>,
    /// The number of crashes of the monitor.
    crashes: u32,
    tasks: JoinSet<()>,
}

impl Children {
    /// Starts all children. `ready` receives one message: that the bucket was opened, or that it
    /// cannot be.
    pub async fn start(
        setup: ChildrenSetup,
        supervisor: ActorRef<SupervisorMsg>,
        start_timeout: Duration,
        ready: oneshot::Sender<Result<Opened, Error>>,
    ) -> Result<Self, ActorProcessingErr> {
        let monitor = setup.monitor(&supervisor);
        let monitor = MonitorSetup {
            start_timeout,
            ready: Some(ready),
            ..monitor
        };
        let (monitor, _) =
            Actor::spawn_linked(None, MonitorActor, monitor, supervisor.get_cell()).await?;
        let since = clock::now();
        let mut children = Self {
            link: watch::Sender::new(Link::Down { since }),
            monitor,
            crashes: 0,
            tasks: JoinSet::new(),
            setup,
            supervisor,
        };
        let watch = Watch {
            supervisor: children.supervisor.clone(),
            labels: children.setup.labels.clone(),
            routes: children.setup.routes.clone(),
            ends: Mutex::default(),
        };
        let peers = Peers {
            instance: Arc::clone(&children.setup.instance),
            routes: children.setup.routes.clone(),
        };
        children.attend(Arc::new(watch));
        children.attend(Arc::new(peers));
        if let Some(publisher) = children.setup.publisher.clone() {
            children.attend(publisher);
        }
        if let Some(admin_handler) = children.setup.admin_handler.clone() {
            children.attend(admin_handler);
        }
        Ok(children)
    }

    fn attend(&mut self, work: Arc<impl Linked>) {
        let span = self.setup.instance.span();
        let links = self.link.subscribe();
        self.tasks.spawn(attend(work, links).instrument(span));
    }

    pub fn ask(&self, message: MonitorMsg) {
        let _ = self.monitor.send_message(message);
    }

    #[cfg(test)]
    pub fn crash_admin(&self) {
        if let Some(admin) = &self.setup.admin_handler {
            admin.crash.notify_one();
        }
    }

    pub fn stop(&mut self) {
        self.tasks.abort_all();
        self.monitor.stop(None);
    }

    /// Returns the number of crashes of the monitor including this one, if it crashed.
    pub fn crashed(&mut self, who: &ActorCell) -> Option<u32> {
        if who.get_id() != self.monitor.get_id() {
            return None;
        }
        self.crashes += 1;
        Some(self.crashes)
    }

    /// Starts another monitor. It counts on from the loss of the link, or from now on.
    pub async fn replace_monitor(&mut self) -> Result<(), ActorProcessingErr> {
        let lost_at = match &*self.link.borrow() {
            Link::Down { since } => *since,
            _ => clock::now(),
        };
        let monitor = MonitorSetup {
            lost_at: Some(lost_at),
            ..self.setup.monitor(&self.supervisor)
        };
        let above = self.supervisor.get_cell();
        (self.monitor, _) = Actor::spawn_linked(None, MonitorActor, monitor, above).await?;
        Ok(())
    }
}

impl ChildrenSetup {
    fn monitor(&self, supervisor: &ActorRef<SupervisorMsg>) -> MonitorSetup {
        let links = supervisor.clone();
        let tell = move |link| {
            let _ = links.send_message(SupervisorMsg::LinkChanged(link));
        };
        let (connection, bucket) = (self.connection.clone(), self.instance.bucket.clone());
        MonitorSetup {
            span: self.instance.span(),
            if_missing: self.if_missing,
            routes: self.routes.clone(),
            admin: self.admin_handler.clone(),
            ..MonitorSetup::without_elections(connection, bucket, Duration::MAX, tell)
        }
    }
}
