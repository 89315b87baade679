//! Health and metrics of `exec` and `agent` over HTTP.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::Duration;

use metrics::{Gauge, Unit, describe_gauge, gauge};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use nats_elect::health::HealthServer;
use nats_elect::limits::failed;
use nats_elect::{METRICS, Probe};

use crate::connect::runtime;
use crate::exit::Failure;

/// What sets the address, besides the option. The command does not inherit it: an `exec` below it
/// could not listen there.
pub const VARIABLE: &str = "NATS_ELECT_EXEC_LISTEN";
/// The one metric besides those of the library. An alert of `deploy/prometheus` looks at it.
const COMMAND_DOWN: &str = "election_command_down";
/// How often the recorder tidies up. What is recorded and not scraped would pile up.
const UPKEEP: Duration = Duration::from_secs(5);

/// A socket that listens, and what is recorded since.
pub struct Listener {
    socket: TcpListener,
    metrics: PrometheusHandle,
}

impl Listener {
    /// Listens, and records metrics from now on. The library's are described when a manager starts.
    pub fn bind(address: SocketAddr, option: &str) -> Result<Self, Failure> {
        let failed = |error: String| {
            Failure::failed(format!("can't listen on {address} ({option}): {error}"))
        };
        // No child inherits it: the standard library opens it so.
        let socket = TcpListener::bind(address).map_err(|error| failed(error.to_string()))?;
        socket.set_nonblocking(true)?;
        let metrics = record().map_err(|error| failed(error.to_string()))?;
        describe_gauge!(
            COMMAND_DOWN,
            Unit::Count,
            "1 while this instance leads and its command, which failed, waits to be started again, else 0"
        );
        Ok(Self { socket, metrics })
    }

    /// Answers until this process ends. It does so on a thread of its own: the end of a command may
    /// hold up the first one.
    pub fn answer(self, probe: Probe) -> io::Result<()> {
        let runtime = runtime("health and metrics can't be served")?;
        let Self { socket, metrics } = self;
        let serve = async move {
            let rendered = metrics.clone();
            let socket = tokio::net::TcpListener::from_std(socket)?;
            let server = HealthServer::builder().metrics(move || rendered.render());
            let _server = server.serve(socket, probe)?;
            loop {
                tokio::time::sleep(UPKEEP).await;
                metrics.run_upkeep();
            }
        };
        let run = move || {
            let ended: io::Result<()> = runtime.block_on(serve);
            if let Err(error) = ended {
                tracing::warn!(%error, "health and metrics are not served any more");
            }
        };
        let thread = thread::Builder::new().name("health".into()).spawn(run);
        thread.map_err(failed("no thread to serve health and metrics"))?;
        Ok(())
    }
}

fn record() -> Result<PrometheusHandle, BuildError> {
    let mut exporter = PrometheusBuilder::new();
    for metric in METRICS.iter().filter(|metric| !metric.buckets.is_empty()) {
        let name = Matcher::Full(metric.name.to_owned());
        exporter = exporter.set_buckets_for_metric(name, metric.buckets)?;
    }
    exporter.install_recorder()
}

/// Whether a leader's command waits to be started again, for metrics.
pub struct CommandDown(Gauge);

impl CommandDown {
    /// It is not down yet.
    pub fn new(role: &str, instance: &str, bucket: &str) -> Self {
        let labels = [
            ("role", role.to_owned()),
            ("instance_id", instance.to_owned()),
            ("bucket", bucket.to_owned()),
        ];
        let gauge = gauge!(COMMAND_DOWN, &labels);
        gauge.set(0.0);
        Self(gauge)
    }

    /// From now on, until the guard is dropped.
    pub fn begins(&self) -> Self {
        self.0.set(1.0);
        Self(self.0.clone())
    }
}

impl Drop for CommandDown {
    fn drop(&mut self) {
        self.0.set(0.0);
    }
}
