//! One instance of the control plane: what an application does with this crate.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use async_nats::ConnectOptions;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder};
use nats_elect::{EventsConfig, METRICS, RoleConfig, RoleManager, StopOptions};
use tracing_subscriber::EnvFilter;

use crate::Problem;
use crate::args::{Args, LOCAL_NATS, nats_url};
use crate::history::{What, Writer};
use crate::screen;
use crate::signals::{EndRequests, parent_gone};
use crate::work::{Role, Worker};

/// How long handlers and NATS may take at the end.
const STOP_TIMEOUT: Duration = Duration::from_secs(4);

/// Runs until a signal, or until the parent is gone; then stops gracefully.
pub async fn run(id: &str, args: &Args) -> Result<ExitCode, Problem> {
    tracing_subscriber::fmt()
        .with_env_filter(
            EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn")),
        )
        .with_writer(io::stderr)
        .init();
    let mut end = EndRequests::listen()?;
    // Part of a story, or alone?
    let supervised = args.history.is_some();
    let history = Arc::new(Writer::open(id, args.history.as_deref())?);
    let port = serve_metrics(args.metrics_port)?;
    let metrics = format!("http://127.0.0.1:{port}/metrics");
    let url = nats_url().unwrap_or_else(|| LOCAL_NATS.to_owned());

    let mut builder = RoleManager::builder()
        .servers(&url)
        .bucket(&args.bucket)
        .bucket_auto_create()
        .replicas(args.replicas)
        .start_timeout(Duration::from_secs(10))
        // For `nats-elect history`.
        .events(EventsConfig::published().keep(Duration::from_secs(24 * 60 * 60)))
        .instance_id(id);
    if supervised {
        // Other ways to NATS than the one given would lead around the faults of the story.
        builder = builder.connect_options(ConnectOptions::new().ignore_discovered_servers());
    }
    for role in Role::ALL {
        let worker = Worker {
            role,
            history: Arc::clone(&history),
            talks: !supervised,
            sabotage: args.sabotage,
        };
        builder = builder.role(role.name(), RoleConfig::default().ttl(args.ttl), worker);
    }
    let manager = tokio::select! {
        started = builder.start() => started?,
        () = end.next() => return Ok(ExitCode::SUCCESS),
    };

    history.write(What::Started {
        metrics: metrics.clone(),
    });
    if !supervised {
        screen::say(&format!("{id} stands for election; metrics at {metrics}"));
    }
    tokio::select! {
        () = end.next() => {}
        () = parent_gone(), if supervised => {}
    }
    let stopped = manager
        .stop(StopOptions {
            timeout: STOP_TIMEOUT,
            ..StopOptions::default()
        })
        .await;
    history.write(What::Stopped);
    stopped?;
    Ok(ExitCode::SUCCESS)
}

/// Serves this process's metrics on a loopback port and returns the port.
fn serve_metrics(port: u16) -> Result<u16, Problem> {
    let mut attempts = 5;
    loop {
        let port = match port {
            // Somebody may take it before the exporter does: hence the attempts.
            0 => TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
                .local_addr()?
                .port(),
            port => port,
        };
        attempts -= 1;
        let mut exporter = PrometheusBuilder::new().with_http_listener((Ipv4Addr::LOCALHOST, port));
        for metric in METRICS.iter().filter(|metric| !metric.buckets.is_empty()) {
            let name = Matcher::Full(metric.name.to_owned());
            exporter = exporter.set_buckets_for_metric(name, metric.buckets)?;
        }
        match exporter.install() {
            Err(BuildError::FailedToCreateHTTPListener(_)) if attempts > 0 => {}
            outcome => return Ok(outcome.map(|()| port)?),
        }
    }
}
