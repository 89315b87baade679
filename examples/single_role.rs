//! One role, led by one of however many processes run this: `cargo run --example single_role` in
//! two terminals.

use nats_elect::{RoleConfig, RoleManager, Term, handler_fn};

#[tokio::main]
async fn main() -> Result<(), nats_elect::BoxError> {
    tracing_subscriber::fmt()
        .with_env_filter("info,async_nats=off") // nats-elect itself tells of the connection
        .with_writer(std::io::stderr)
        .init();
    let url = std::env::var("NATS_URL").unwrap_or_else(|_| "nats://127.0.0.1:4222".into());
    let work = handler_fn(|term: Term| async move {
        println!("leading, with fencing token {}", term.fencing_token());
        term.cancelled().await; // work until then
        println!("no longer leading");
        Ok(())
    });
    let manager = RoleManager::builder()
        .servers(&url)
        .bucket("leaders")
        .bucket_auto_create()
        .start_timeout(std::time::Duration::from_secs(3))
        .role("scheduler", RoleConfig::default(), work)
        .start();
    let manager = manager.await.unwrap_or_else(|error| {
        eprintln!("{error}\nis a NATS server with JetStream at {url}? try `nats-server -js`, or set NATS_URL");
        std::process::exit(1);
    });
    println!(
        "{} stands for election; Ctrl-C stops it",
        manager.instance_id()
    );
    manager.run_until(tokio::signal::ctrl_c()).await?;
    Ok(())
}
