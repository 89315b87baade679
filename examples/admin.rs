//! An operator's program asks running instances how they are, and has one step down to another.
//!
//! ```text
//! cargo run --example admin
//! ```
//!
//! It needs `nats-server -js` at `NATS_URL` (by default `nats://127.0.0.1:4222`). It starts the two
//! instances that it asks, and ends by itself. An `AdminClient` needs a NATS connection and nothing
//! else: the instances usually run elsewhere.

use std::time::Duration;

use nats_elect::admin::{AdminClient, AdminError};
use nats_elect::{BoxError, RoleConfig, RoleManager, StepDown, StopOptions, Term, handler_fn};

const ROLE: &str = "network";
/// How long the search for instances may take.
const SEARCH: Duration = Duration::from_secs(2);

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let node_1 = start("node-1").await?;
    let node_2 = start("node-2").await?;

    let url = std::env::var("NATS_URL").unwrap_or_else(|_| "nats://127.0.0.1:4222".into());
    let client = async_nats::connect(url).await?;
    let admin = AdminClient::new(client, "leaders")?;
    hand_over(&admin).await?;
    report(&admin).await?;

    node_1.stop(StopOptions::default()).await?;
    node_2.stop(StopOptions::default()).await?;
    Ok(())
}

/// Prints how each instance is that answers.
async fn report(admin: &AdminClient) -> Result<(), AdminError> {
    for (instance, report) in admin.fleet(SEARCH).await? {
        let id = &instance.instance_id;
        match report {
            Ok(report) => {
                for (role, is) in report.roles {
                    let leads = if is.is_leader { "leads" } else { "follows" };
                    println!("{id} {leads} {role}, well: {:?}", is.healthy);
                }
            }
            Err(error) => println!("{id}: {error}"),
        }
    }
    Ok(())
}

/// Has the leader of the role hand it to the other instance.
async fn hand_over(admin: &AdminClient) -> Result<(), AdminError> {
    let leader = loop {
        match admin.leader(ROLE, SEARCH).await {
            Err(AdminError::NoLeader(_)) => println!("nobody leads {ROLE} yet"),
            found => break found?,
        }
    };
    report(admin).await?;
    let from = &leader.instance.instance_id;
    let to = if from == "node-1" { "node-2" } else { "node-1" };
    // The request names the term that was found. In any other term nothing is done.
    match admin.step_down_leader(&leader, StepDown::to(to)).await {
        Ok(done) => println!("{from} stepped down, {to}: {:?}", done.handoff),
        // Nothing was done, for example because the successor is not well. The leader leads on.
        Err(error @ AdminError::Refused { .. }) => println!("{error}"),
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Starts an instance. Every `RoleManager` answers an `AdminClient`, unless it is told not to.
async fn start(id: &str) -> Result<RoleManager, nats_elect::Error> {
    let lead = |term: Term| async move {
        term.cancelled().await;
        Ok(())
    };
    RoleManager::builder()
        .with_env()
        .bucket("leaders")
        .bucket_auto_create()
        .instance_id(id)
        .role(ROLE, RoleConfig::default(), handler_fn(lead))
        .start()
        .await
}
