//! An instance of the control plane, in a process of its own: with metrics of its own.

use std::io::{BufRead, Write};
use std::net::Ipv4Addr;
use std::time::Duration;

use nats_elect::health::HealthServer;
use nats_elect::{
    BoxError, Group, MemberConfig, RoleConfig, RoleManager, StepDown, Storage, Term, handler_fn,
};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::support::child;
use crate::support::dashboard::exporter;
use crate::support::member::waits;

pub const ORDERS: &str = "NATS_ELECT_TEST_INSTANCE";
pub const BUCKET: &str = "leaders";
pub const ROLES: [&str; 3] = ["scheduler", "network", "metrics"];
pub const TTL: Duration = Duration::from_secs(1);
/// The shortest lease that a member may have.
const MEMBER_TTL: Duration = Duration::from_secs(3);

/// What an instance starts with.
#[derive(Debug, Serialize, Deserialize)]
pub struct Orders {
    pub url: String,
    pub id: String,
}

/// Not a test: the instance.
#[test]
#[ignore = "run by other tests in a process of its own"]
fn an_instance() {
    child::run_by(ORDERS, obey);
}

async fn obey(orders: Orders) {
    let metrics = exporter().install_recorder().expect("the only recorder");
    let mut builder = RoleManager::builder()
        .servers(&orders.url)
        .bucket(BUCKET)
        .bucket_auto_create()
        .storage(Storage::Memory)
        .instance_id(&orders.id);
    for role in ROLES {
        builder = builder.role(role, RoleConfig::default().ttl(TTL), handler_fn(lead));
    }
    let units = Group::sharded("partitions", 6, waits());
    let builder = builder
        .member(MemberConfig::default().ttl(MEMBER_TTL))
        .group(units);
    let manager = builder.start().await.expect("start");
    let server = HealthServer::builder().metrics(move || metrics.render());
    let server = server
        .start((Ipv4Addr::LOCALHOST, 0), manager.probe())
        .await;
    let server = server.expect("a server");
    tell(&format!("metrics {}", server.address().port()));
    let (order, mut orders) = mpsc::unbounded_channel();
    // Ends with the parent, which holds the other end.
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let _ = order.send(line);
        }
    });
    while let Some(order) = orders.recv().await {
        let (role, to) = order.split_once(' ').expect("a role and a successor");
        let role = manager.role(role).expect("a role");
        let down = role.step_down(StepDown::to(to)).await;
        tell(&match down {
            Ok(down) => format!("stepped down {:?}", down.handoff),
            Err(error) => format!("leads on: {error}"),
        });
    }
    std::process::exit(0);
}

/// Writes under its fence as long as it leads.
async fn lead(term: Term) -> Result<(), BoxError> {
    let store = term.store();
    let mut tick = tokio::time::interval(Duration::from_millis(100));
    for n in 0_u64.. {
        if term.run_until_cancelled(tick.tick()).await.is_none() {
            break;
        }
        // A refusal ends the term.
        let _ = store.put("progress", n.to_string()).await;
    }
    Ok(())
}

fn tell(line: &str) {
    // In one piece, past the test harness.
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(format!("\n@{line}\n").as_bytes());
    let _ = out.flush();
}
