//! The parts that work for all roles of an instance: the connection monitor, and the tasks that begin
//! with a link. This module starts them, reports the link to them, and restarts the monitor.

use std::sync::Arc;

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::Instrument;

use super::Link;
use super::linked::{Linked, attend};
use super::messages::MonitorMsg;
use super::monitor::{MonitorActor, MonitorSetup, Ready};
use crate::clock;

pub(super) struct Children {
    setup: MonitorSetup,
    pub link: watch::Sender<Link>,
    monitor: ActorRef<MonitorMsg>,
    /// The number of crashes of the monitor.
    crashes: u32,
    tasks: JoinSet<()>,
}

impl Children {
    /// Starts the monitor. `ready` receives one message: that the bucket was opened, or that it
    /// cannot be.
    pub async fn start(
        setup: MonitorSetup,
        ready: Ready,
        supervisor: ActorCell,
    ) -> Result<Self, ActorProcessingErr> {
        let monitor = (setup.clone(), Some(ready));
        let (monitor, _) = Actor::spawn_linked(None, MonitorActor, monitor, supervisor).await?;
        let since = clock::now();
        Ok(Self {
            setup,
            link: watch::Sender::new(Link::Down { since }),
            monitor,
            crashes: 0,
            tasks: JoinSet::new(),
        })
    }

    /// Has this work done while there is a link.
    pub fn attend(&mut self, work: Arc<impl Linked>) {
        let links = self.link.subscribe();
        let attending = attend(work, links).instrument(self.setup.span.clone());
        self.tasks.spawn(attending);
    }

    pub fn ask(&self, message: MonitorMsg) {
        let _ = self.monitor.send_message(message);
    }

    #[cfg(test)]
    pub fn crash_admin(&self) {
        if let Some(admin) = &self.setup.admin {
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
    pub async fn replace_monitor(
        &mut self,
        supervisor: ActorCell,
    ) -> Result<(), ActorProcessingErr> {
        let lost_at = match &*self.link.borrow() {
            Link::Down { since } => *since,
            _ => clock::now(),
        };
        let monitor = MonitorSetup {
            lost_at: Some(lost_at),
            ..self.setup.clone()
        };
        (self.monitor, _) =
            Actor::spawn_linked(None, MonitorActor, (monitor, None), supervisor).await?;
        Ok(())
    }
}
