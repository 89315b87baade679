//! Single roles by the thousand on two instances: each restart ends with all of them led.

use std::time::Duration;

use nats_elect::{RoleConfig, RoleHandle, RoleManager, RoleState, StopOptions};
use nats_elect_testing::{NatsServer, eventually};

use crate::MACHINE;
use crate::support::BUCKET;
use crate::support::member::waits;

/// How many roles there are to be, for a longer look than every build can have.
const MORE: &str = "NATS_ELECT_ROLES";
const USUAL: usize = 1000;
/// For all of them, on a machine with much else to do.
const SOON: Duration = Duration::from_secs(180);

/// An instance, and its roles.
struct Instance {
    manager: RoleManager,
    roles: Vec<RoleHandle>,
}

impl Instance {
    async fn join(url: &str, id: &str, roles: usize) -> Self {
        let builder = RoleManager::builder()
            .servers(url)
            .bucket(BUCKET)
            .bucket_auto_create()
            .instance_id(id);
        let name = |n: usize| format!("role-{n}");
        let builder = (0..roles).fold(builder, |builder, n| {
            builder.role(name(n), RoleConfig::default(), waits())
        });
        let manager = builder.start().await.expect("start");
        let roles = (0..roles).map(|n| manager.role(&name(n)).expect("a role"));
        let roles = roles.collect();
        Self { manager, roles }
    }

    async fn stop(self) {
        let stopped = self.manager.stop(StopOptions::default()).await;
        stopped.expect("a stop");
    }
}

/// Waits until one of these leads each role, and the other one follows. Which of them does is chance:
/// an instance that has just joined may claim what one that stopped has left.
async fn settled(what: &str, instances: [&Instance; 2]) {
    eventually(SOON, what, async || {
        // The first that is not decides, so that asking again and again costs the elections little.
        let mut both = instances[0].roles.iter().zip(&instances[1].roles);
        let led = both.all(|roles| {
            let states = [roles.0, roles.1].map(|role| role.status().state);
            states.contains(&RoleState::Leader) && states.contains(&RoleState::Follower)
        });
        led.then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_roles_are_led_again_after_each_restart() {
    let _machine = MACHINE.lock().await;
    let roles = std::env::var(MORE).map_or(USUAL, |it| it.parse().expect("a number"));
    let mut server = NatsServer::start().expect("start");
    let a = Instance::join(&server.url(), "a", roles).await;
    eventually(SOON, "all roles led", async || {
        a.roles.iter().all(RoleHandle::is_leader).then_some(())
    })
    .await;
    let b = Instance::join(&server.url(), "b", roles).await;
    settled("all led beside an instance that joined", [&a, &b]).await;
    let kept = a.roles.iter().all(RoleHandle::is_leader);
    assert!(kept, "an instance that joins costs no lease");

    server.kill();
    server.restart().expect("restart");
    settled("all led after the server's restart", [&a, &b]).await;

    b.stop().await;
    let b = Instance::join(&server.url(), "b", roles).await;
    settled("all led after b's restart", [&a, &b]).await;

    a.stop().await;
    let a = Instance::join(&server.url(), "a", roles).await;
    settled("all led after a's restart", [&a, &b]).await;
}
