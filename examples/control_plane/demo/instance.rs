//! One instance, alone or in a story.

use std::io::{self, Read};
use std::process::ExitCode;
use std::sync::Arc;

use async_nats::ConnectOptions;
use nats_elect::BoxError;
use rustix::process::{Signal, getpid, kill_process};

use super::args::{Args, LOCAL_NATS, nats_url};
use super::scribe::Scribe;
use crate::app::{self, Settings, Witness};

/// Runs until a signal, in a story also until the parent is gone. Then stops gracefully.
pub async fn run(id: &str, args: &Args) -> Result<ExitCode, BoxError> {
    let mut connect = ConnectOptions::new();
    let mut witness: Arc<dyn Witness> = Arc::new(());
    if let Some(path) = &args.history {
        // Other ways to NATS than the one given would lead around the faults of the story.
        connect = connect.ignore_discovered_servers();
        witness = Arc::new(Scribe::open(id, path, args.sabotage)?);
        std::thread::spawn(end_with_parent);
    }
    let settings = Settings {
        id: id.to_owned(),
        url: nats_url().unwrap_or_else(|| LOCAL_NATS.to_owned()),
        connect,
        bucket: args.bucket.clone(),
        replicas: args.replicas,
        ttl: args.ttl,
        spread: args.spread,
        metrics_port: args.metrics_port,
    };
    app::run(settings, witness).await?;
    Ok(ExitCode::SUCCESS)
}

/// Asks this process to end (`SIGTERM`) when its standard input does. The parent holds the other
/// end, and is gone then, however it ended.
fn end_with_parent() {
    let mut input = io::stdin().lock();
    while input.read(&mut [0; 64]).is_ok_and(|read| read > 0) {}
    let _ = kill_process(getpid(), Signal::TERM);
}
