//! The metrics of this process, for Prometheus.

use std::net::{Ipv4Addr, TcpListener};

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder};
use nats_elect::{BoxError, METRICS};

/// Serves them on a loopback port and returns the port.
pub fn serve(port: u16) -> Result<u16, BoxError> {
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
