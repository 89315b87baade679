//! One instance of the control plane: an application's use of this crate.

mod metrics;
mod role;
mod signals;
mod witness;
mod worker;

use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use async_nats::ConnectOptions;
use nats_elect::health::HealthServer;
use nats_elect::{BoxError, EventsConfig, RoleConfig, RoleManager, StopOptions};
use tracing_subscriber::EnvFilter;

pub use role::Role;
pub use signals::EndRequests;
pub use witness::Witness;
use worker::Worker;

/// The Key-Value bucket in which the instances meet.
const BUCKET: &str = "control-plane";
/// How long handlers and NATS may take at the end.
const STOP_TIMEOUT: Duration = Duration::from_secs(4);

/// The settings of one instance.
pub struct Settings {
    /// Its name, which no other instance may have.
    pub id: String,
    /// The NATS servers.
    pub url: String,
    /// Further options of the connection to NATS.
    pub connect: ConnectOptions,
    /// How long a lease lasts without renewal.
    pub ttl: Duration,
    /// The port of `/metrics` and of health checks; 0 takes a free one.
    pub metrics_port: u16,
}

/// Stands for every role until a signal arrives. Then stops gracefully.
pub async fn run(settings: Settings, witness: Arc<dyn Witness>) -> Result<(), BoxError> {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn,async_nats=off"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .init();
    let mut end = EndRequests::listen()?;
    let metrics = metrics::record()?;

    let mut builder = RoleManager::builder()
        .servers(&settings.url)
        .connect_options(settings.connect)
        .bucket(BUCKET)
        .bucket_auto_create()
        .start_timeout(Duration::from_secs(10))
        // For `nats-elect history`.
        .events(EventsConfig::default().keep(Duration::from_secs(24 * 60 * 60)))
        .instance_id(&settings.id);
    for role in Role::ALL {
        let config = RoleConfig::default().ttl(settings.ttl);
        let witness = Arc::clone(&witness);
        builder = builder.role(role.name(), config, Worker { role, witness });
    }
    // Before the manager starts, on a loopback port; 0 takes a free one.
    let socket = HealthServer::bind((Ipv4Addr::LOCALHOST, settings.metrics_port)).await?;
    let manager = tokio::select! {
        started = builder.start() => started?,
        () = end.next() => return Ok(()),
    };
    // It answers until it is dropped.
    let server = metrics::serve(metrics, &manager, socket)?;
    let metrics = format!("http://{}/metrics", server.address());
    let id = &settings.id;
    tell(&format!("{id} stands for election; metrics at {metrics}"));
    end.next().await;
    let stop = StopOptions::default().timeout(STOP_TIMEOUT);
    manager.stop(stop).await?;
    Ok(())
}

/// Writes one line to standard output. An instance goes on leading if nobody reads it.
fn tell(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}
