//! Terms as OpenTelemetry traces:
//! `cargo run -p nats-elect-example-opentelemetry --example opentelemetry`.
//!
//! A private nats-server is started, a role is led, proved and handed back, and its spans are
//! printed as they end. Each term is a trace of its own: `term` at its root, in it `claim`,
//! `fence`, `renew`, `handoff`, and whatever the handler does.
//!
//! In a service, replace the exporter by that of `opentelemetry-otlp`, and the simple processor by
//! a batch processor: the simple one exports on the thread that ends a span, and the election
//! thread has leases to keep.

use std::time::Duration;

use nats_elect::{BoxError, RoleConfig, RoleManager, StepDown, StopOptions, Term, handler_fn};
use nats_elect_testing::NatsServer;
use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::{Instrument, info_span};
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(opentelemetry_stdout::SpanExporter::default())
        .build();
    // `debug` shows every heartbeat; `info` is what one would keep.
    let filter = EnvFilter::new("off,nats_elect=debug,opentelemetry=info");
    let traces = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("control-plane"))
        .with_filter(filter);
    tracing_subscriber::registry().with(traces).init();

    let server = NatsServer::start()?;
    let manager = RoleManager::builder()
        .servers(server.url())
        .bucket_auto_create()
        .role("scheduler", RoleConfig::default(), handler_fn(schedule))
        .start()
        .await?;
    let scheduler = manager.role("scheduler")?;
    while !scheduler.is_leader() {
        scheduler.wait_for_leader().await?;
    }
    scheduler.validate().await?;
    scheduler
        .step_down(StepDown::any().hold_off(Duration::from_secs(60)))
        .await?;
    manager.stop(StopOptions::default()).await?;
    provider.shutdown()?;
    Ok(())
}

/// What a handler does is in its term's trace.
async fn schedule(term: Term) -> Result<(), BoxError> {
    let plan = async { tracing::info!("planned") };
    plan.instrument(info_span!("plan", jobs = 3)).await;
    term.cancelled().await;
    Ok(())
}
