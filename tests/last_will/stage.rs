//! Servers, and a candidate that leads next.

use std::time::Duration;

use nats_elect::{ManagerConfig, RoleConfig, RoleManager, Storage, Term, handler_fn};
use nats_elect_testing::{NatsServer, eventually};
use tokio::sync::mpsc;

use crate::clock::Stamp;
use crate::victim::{Birth, Victim};

pub const SOON: Duration = Duration::from_secs(60);

/// `S` is what serves: one server, or a cluster.
pub struct Stage<S = NatsServer> {
    pub config: ManagerConfig,
    pub folder: tempfile::TempDir,
    pub server: S,
    candidate: RoleManager,
}

/// A candidate for a role, and when its handler started.
pub struct Next(mpsc::UnboundedReceiver<Stamp>);

impl Stage {
    pub async fn set() -> Self {
        let server = NatsServer::start().expect("a server");
        let config = ManagerConfig::default().servers(server.url());
        Self::with(server, config).await
    }

    /// On this server, with a configuration that knows how to connect to it.
    pub async fn with(server: NatsServer, config: ManagerConfig) -> Self {
        let config = config.bucket_auto_create().storage(Storage::Memory);
        Self::of(server, config).await
    }
}

impl<S> Stage<S> {
    /// The configuration says all that is to know of the bucket as well.
    pub async fn of(server: S, config: ManagerConfig) -> Self {
        let candidate = RoleManager::builder()
            .config(config.clone().instance_id("candidate"))
            .start()
            .await
            .expect("a candidate");
        Self {
            config,
            folder: tempfile::tempdir().expect("a folder"),
            server,
            candidate,
        }
    }

    /// Has the candidate stand for a role that somebody leads, and waits until it knows that.
    pub async fn next(&self, role: &str, ttl: Duration) -> Next {
        let (tell, started) = mpsc::unbounded_channel();
        let handler = handler_fn(move |term: Term| {
            let tell = tell.clone();
            async move {
                let _ = tell.send(Stamp::now());
                term.cancelled().await;
                Ok(())
            }
        });
        let config = RoleConfig::default().ttl(ttl);
        let role = self.candidate.add_role(role, config, handler).await;
        let role = role.expect("a role");
        eventually(SOON, "a leader", async || role.leader()).await;
        Next(started)
    }

    /// Whether the candidate leads a role.
    pub fn leads(&self, role: &str) -> bool {
        self.candidate.role(role).is_ok_and(|it| it.is_leader())
    }

    /// Starts a process that leads a role.
    pub async fn victim(&self, birth: Birth, role: &str, ttl: Duration) -> Victim {
        Victim::born(birth, &self.config, role, ttl, self.folder.path()).await
    }

    /// Leaves a role, so that the next one has the machine for itself.
    pub async fn leave(&self, role: &str) {
        self.candidate.remove_role(role).await.expect("its end");
    }
}

impl Next {
    /// When its handler started.
    pub async fn started(&mut self) -> Stamp {
        let started = tokio::time::timeout(SOON, self.0.recv()).await;
        started.expect("a term in time").expect("a term")
    }

    pub fn has_started(&mut self) -> bool {
        self.0.try_recv().is_ok()
    }
}
