//! Several jobs, each with a handler and an owner of its own. They are spread over the instances, and
//! some move when an instance joins or leaves.
//!
//! ```text
//! cargo run --example spread -- a
//! cargo run --example spread -- b      # a second instance, and a third
//! ```
//!
//! It needs `nats-server -js` at `NATS_URL` (by default `nats://127.0.0.1:4222`). Ctrl-C gives the
//! jobs of an instance to the others.

use std::time::Duration;

use futures::StreamExt;
use nats_elect::{BoxError, Group, GroupEvent, RoleHandler, RoleManager, handler_fn};
use tokio::signal::ctrl_c;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    tracing_subscriber::fmt()
        .with_env_filter("info,async_nats=off") // nats-elect itself tells of the connection
        .with_writer(std::io::stderr)
        .init();
    let id = std::env::args().nth(1).ok_or("give the instance a name")?;
    // All that an instance owns costs one lease.
    let control = Group::spread("control")
        .unit("scheduler", job("assigning jobs"))
        .unit("network", job("allocating addresses"))
        .unit("metrics", job("adding up counts"));
    let manager = RoleManager::builder()
        .with_env()
        .bucket("spread")
        .bucket_auto_create()
        .instance_id(id)
        .group(control)
        .start()
        .await?;

    let mut events = manager.group("control")?.events();
    tokio::spawn(async move {
        while let Some(event) = events.next().await {
            if let GroupEvent::OwnerChanged { unit, owner } = event {
                let owner = owner.map_or("nobody".into(), |owner| owner.instance_id);
                println!("{unit} belongs to {owner}");
            }
        }
    });
    manager.run_until(ctrl_c()).await?;
    Ok(())
}

/// A handler that does one thing every second while its term lasts.
fn job(what: &'static str) -> impl RoleHandler {
    handler_fn(move |term| async move {
        let second = Duration::from_secs(1);
        while term
            .run_until_cancelled(tokio::time::sleep(second))
            .await
            .is_some()
        {
            println!("{what}, with token {}", term.fencing_token());
        }
        Ok(())
    })
}
