//! One instance of the service.

use std::io;
use std::sync::Arc;

use drill::journal::{Event, Journal};
use nats_elect::{BoxError, Group, GroupHandle, MemberConfig, RoleManager};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::args::Args;
use crate::counter::Counter;

/// The bucket in which the instances meet.
pub const BUCKET: &str = "sharded";
/// The group whose shards they share.
pub const GROUP: &str = "partitions";

/// Owns shards until `SIGTERM` arrives. Then gives them to others, and ends.
pub async fn run(id: &str, args: &Args) -> Result<(), BoxError> {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn,async_nats=off"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .init();
    let mut terminate = signal(SignalKind::terminate())?;
    drill::end_with_parent();

    let path = args.journal.as_deref().ok_or("no --journal")?;
    let journal = Arc::new(Journal::create(path)?);
    let counter = Counter {
        pace: args.pace,
        journal: Arc::clone(&journal),
    };
    let manager = RoleManager::builder()
        .with_env() // NATS_URL
        .bucket(BUCKET)
        .bucket_auto_create()
        .instance_id(id)
        .member(MemberConfig::default().ttl(args.ttl))
        .group(Group::sharded(GROUP, args.shards, counter))
        .start()
        .await?;
    let group = manager.group(GROUP)?;
    tokio::spawn(async move {
        group.wait_until(GroupHandle::has_joined).await;
        journal.write(Event::Joined);
    });
    manager.run_until(terminate.recv()).await?;
    Ok(())
}
