//! Single roles by the thousand on two instances: each restart ends with all of them led.

use std::time::Duration;

use nats_elect::{RoleConfig, RoleManager, RoleState, StopOptions, Term, handler_fn};
use nats_elect_testing::{NatsServer, eventually};

use crate::MACHINE;
use crate::support::BUCKET;

/// How many roles there are to be, for a longer look than every build can have.
const MORE: &str = "NATS_ELECT_ROLES";
const USUAL: usize = 1000;
/// For all of them, on a machine with much else to do.
const SOON: Duration = Duration::from_secs(180);

async fn join(url: &str, id: &str, roles: usize) -> RoleManager {
    let builder = RoleManager::builder()
        .servers(url)
        .bucket(BUCKET)
        .bucket_auto_create()
        .instance_id(id);
    let lead = || {
        handler_fn(|term: Term| async move {
            term.cancelled().await;
            Ok(())
        })
    };
    let all = 0..roles;
    let builder = all.fold(builder, |builder, n| {
        builder.role(format!("role-{n}"), RoleConfig::default(), lead())
    });
    builder.start().await.expect("start")
}

fn count(manager: &RoleManager, state: RoleState) -> usize {
    let all = manager.status().into_values();
    all.filter(|status| status.state == state).count()
}

/// Waits until the first of these leads all roles, and the others follow.
async fn settled(what: &str, leader: &RoleManager, follower: &RoleManager, roles: usize) {
    eventually(SOON, what, async || {
        let led = count(leader, RoleState::Leader);
        let follow = count(follower, RoleState::Follower);
        (led == roles && follow == roles).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_roles_are_led_again_after_each_restart() {
    let _machine = MACHINE.lock().await;
    let roles = std::env::var(MORE).map_or(USUAL, |it| it.parse().expect("a number"));
    let mut server = NatsServer::start().expect("start");
    let a = join(&server.url(), "a", roles).await;
    eventually(SOON, "all roles led", async || {
        (count(&a, RoleState::Leader) == roles).then_some(())
    })
    .await;
    let b = join(&server.url(), "b", roles).await;
    settled("a follower", &a, &b, roles).await;

    server.kill();
    server.restart().expect("restart");
    eventually(
        SOON,
        "all roles led after the server's restart",
        async || {
            let led = [&a, &b].map(|it| count(it, RoleState::Leader));
            let follow = [&a, &b].map(|it| count(it, RoleState::Follower));
            (led.iter().sum::<usize>() == roles && follow.iter().sum::<usize>() == roles)
                .then_some(())
        },
    )
    .await;

    // Which of them leads what is chance from now on: one of them leads all once the other has gone.
    b.stop(StopOptions::default()).await.expect("a stop");
    let b = join(&server.url(), "b", roles).await;
    settled("all roles led after the follower's restart", &a, &b, roles).await;

    a.stop(StopOptions::default()).await.expect("a stop");
    let a = join(&server.url(), "a", roles).await;
    settled("all roles led after the leader's restart", &b, &a, roles).await;
}
