//! The metrics of this process, for Prometheus, and its health.

use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use nats_elect::health::HealthServer;
use nats_elect::{BoxError, METRICS, RoleManager};
use tokio::net::TcpListener;

/// Time between two rounds of housekeeping.
const UPKEEP: Duration = Duration::from_secs(5);

/// Records the metrics of this process from now on.
pub fn record() -> Result<PrometheusHandle, BoxError> {
    let mut exporter = PrometheusBuilder::new();
    for metric in METRICS.iter().filter(|metric| !metric.buckets.is_empty()) {
        let name = Matcher::Full(metric.name.to_owned());
        exporter = exporter.set_buckets_for_metric(name, metric.buckets)?;
    }
    let metrics = exporter.install_recorder()?;
    let handle = metrics.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(UPKEEP).await;
            handle.run_upkeep(); // Or histograms grow while nobody scrapes.
        }
    });
    Ok(metrics)
}

/// Serves `/metrics`, `/livez`, `/readyz` and `/leaderz/{role}` on this socket.
pub fn serve(
    metrics: PrometheusHandle,
    manager: &RoleManager,
    socket: TcpListener,
) -> Result<HealthServer, BoxError> {
    let server = HealthServer::builder().metrics(move || metrics.render());
    Ok(server.serve(socket, manager.probe())?)
}
