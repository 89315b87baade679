//! One instance of the service.

use std::io::{self, Read};
use std::sync::Arc;

use nats_elect::{BoxError, Group, GroupHandle, MemberConfig, RoleManager};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tracing_subscriber::EnvFilter;

use crate::args::Args;
use crate::clock::Moment;
use crate::counter::Counter;
use crate::journal::{Event, Journal, Line};

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
    let orphaned = parent_ends();

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
        journal.write(Line {
            at: Moment::now(),
            event: Event::Joined,
        });
    });
    let end = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = orphaned => {}
        }
    };
    manager.run_until(end).await?;
    Ok(())
}

/// Resolves when standard input ends. The parent holds the other end, and is gone then.
fn parent_ends() -> oneshot::Receiver<()> {
    let (ended, end) = oneshot::channel();
    std::thread::spawn(move || {
        let mut input = io::stdin().lock();
        while input.read(&mut [0; 64]).is_ok_and(|read| read > 0) {}
        let _ = ended.send(());
    });
    end
}
