//! One leader at a time, on a real server.
use std::time::Duration;

use nats_elect::testing::{NatsServer, eventually};
use nats_elect::{RoleConfig, RoleManager, StopOptions, Term, handler_fn};

async fn instance(url: &str, id: &str) -> RoleManager {
    RoleManager::builder()
        .servers(url)
        .bucket("leaders")
        .bucket_auto_create()
        .instance_id(id)
        .role(
            "scheduler",
            RoleConfig::default().ttl(Duration::from_secs(1)),
            handler_fn(|term: Term| async move {
                term.cancelled().await;
                Ok(())
            }),
        )
        .start()
        .await
        .unwrap()
}

#[tokio::test]
async fn single_leader_among_three() {
    let _ = tracing_subscriber::fmt()
        .with_env_filter("nats_elect=debug")
        .try_init();
    let server = NatsServer::start().unwrap();
    let mut managers = Vec::new();
    for id in ["a", "b", "c"] {
        managers.push(instance(&server.url(), id).await);
    }
    eventually(Duration::from_secs(5), "one leads", async || {
        let leaders = managers
            .iter()
            .filter(|m| m.role("scheduler").unwrap().is_leader())
            .count();
        assert!(leaders <= 1);
        (leaders == 1).then_some(())
    })
    .await;
    let at = managers
        .iter()
        .position(|m| m.role("scheduler").unwrap().is_leader())
        .unwrap();
    managers
        .remove(at)
        .stop(StopOptions::default())
        .await
        .unwrap();
    eventually(Duration::from_secs(5), "another leads", async || {
        managers
            .iter()
            .any(|m| m.role("scheduler").unwrap().is_leader())
            .then_some(())
    })
    .await;
}
