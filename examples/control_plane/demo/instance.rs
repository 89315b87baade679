//! One instance, alone or in a story.

use std::process::ExitCode;
use std::sync::Arc;

use async_nats::ConnectOptions;
use nats_elect::BoxError;

use super::args::Args;
use super::scribe::Scribe;
use crate::app::{self, Settings, Witness};

/// Runs until a signal, in a story also until the parent is gone. Then stops gracefully.
pub async fn run(id: &str, args: &Args) -> Result<ExitCode, BoxError> {
    let mut connect = ConnectOptions::new();
    let mut witness: Arc<dyn Witness> = Arc::new(());
    if let Some(path) = &args.journal {
        // Other ways to NATS than the one given would lead around the faults of the story.
        connect = connect.ignore_discovered_servers();
        witness = Arc::new(Scribe::create(path)?);
        drill::end_with_parent();
    }
    let url = std::env::var("NATS_URL").ok().filter(|url| !url.is_empty());
    let settings = Settings {
        id: id.to_owned(),
        url: url.unwrap_or_else(|| "nats://127.0.0.1:4222".to_owned()),
        connect,
        ttl: args.ttl,
        metrics_port: args.metrics_port,
    };
    app::run(settings, witness).await?;
    Ok(ExitCode::SUCCESS)
}
