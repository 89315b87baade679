//! Instances of two roles, and two of them where one leads both.

use crate::fleet::{SOON, comes_true, manager, obedient};
use nats_elect::admin::AdminClient;
use nats_elect::{AdminConfig, RoleConfig, RoleManager, RoleManagerBuilder};
use nats_elect_testing::{NatsServer, eventually};

/// An instance that stands for `scheduler` and `metrics`.
pub fn builder(urls: impl Into<String>, id: &str) -> RoleManagerBuilder {
    manager(urls, id)
        .role("scheduler", RoleConfig::default(), obedient())
        .role("metrics", RoleConfig::default(), obedient())
}

pub async fn started(builder: RoleManagerBuilder) -> RoleManager {
    builder.start().await.expect("start")
}

/// Waits until that instance leads the role.
pub async fn leads(manager: &RoleManager, role: &str) {
    let handle = manager.role(role).expect("a role");
    comes_true("leadership", async || handle.is_leader()).await;
}

/// Waits until that instance knows whom it follows.
pub async fn follows(manager: &RoleManager, role: &str, leader: &str) {
    let handle = manager.role(role).expect("a role");
    eventually(SOON, "a leader to follow", async || {
        handle
            .leader()
            .filter(|it| it.instance_id == leader)
            .map(drop)
    })
    .await;
}

/// Waits until so many instances answer: that they have started does not say so.
pub async fn answer(server: &NatsServer, count: usize) {
    let client = async_nats::connect(server.url()).await.expect("connect");
    let admin = AdminClient::new(client, "leaders").expect("a name");
    eventually(SOON, "answers", async || {
        let found = admin.instances(SOON).await.ok()?;
        (found.len() == count).then_some(())
    })
    .await;
}

/// Two instances; `node-1` leads both roles, `node-2` follows.
pub struct Fleet {
    pub server: NatsServer,
    pub first: RoleManager,
    pub second: RoleManager,
}

impl Fleet {
    pub async fn new() -> Self {
        Self::with(AdminConfig::default()).await
    }

    /// The first one has these settings of the admin service.
    pub async fn with(admin: AdminConfig) -> Self {
        let server = NatsServer::start().expect("a server");
        let admin_is_on = admin.enabled;
        let first = started(builder(server.url(), "node-1").admin(admin)).await;
        leads(&first, "scheduler").await;
        leads(&first, "metrics").await;
        let second = started(builder(server.url(), "node-2")).await;
        for role in ["scheduler", "metrics"] {
            follows(&second, role, "node-1").await;
        }
        answer(&server, if admin_is_on { 2 } else { 1 }).await;
        Self {
            server,
            first,
            second,
        }
    }
}
