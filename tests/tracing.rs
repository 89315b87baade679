//! Spans: one trace per term. In a process of its own, for a subscriber is the process's.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nats_elect::{BoxError, RoleConfig, RoleManager, StepDown, StopOptions, Term, handler_fn};
use nats_elect_testing::{NatsServer, eventually};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

/// A span that was opened: its name, those that it is in, and its fields.
#[derive(Clone, Debug, Default)]
struct Opened {
    name: &'static str,
    within: Vec<&'static str>,
    root: BTreeMap<&'static str, String>,
    fields: BTreeMap<&'static str, String>,
    closed: bool,
}

#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<(Id, Opened)>>>);

struct Fields<'a>(&'a mut BTreeMap<&'static str, String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Recorder {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut opened = Opened {
            name: attributes.metadata().name(),
            ..Opened::default()
        };
        attributes.record(&mut Fields(&mut opened.fields));
        let mut spans = self.0.lock().unwrap();
        let scope = context.span(id).expect("it is new").scope();
        let ancestors: Vec<_> = scope.skip(1).map(|span| (span.name(), span.id())).collect();
        opened.within = ancestors.iter().map(|(name, _)| *name).collect();
        let root = ancestors.last().map(|(_, id)| id.clone());
        let find = |id: &Id| spans.iter().rfind(|(other, _)| other == id);
        opened.root = root
            .and_then(|root| find(&root).map(|(_, root)| root.fields.clone()))
            .unwrap_or_default();
        spans.push((id.clone(), opened));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        let mut spans = self.0.lock().unwrap();
        if let Some((_, opened)) = spans.iter_mut().rfind(|(other, _)| other == id) {
            values.record(&mut Fields(&mut opened.fields));
        }
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        let mut spans = self.0.lock().unwrap();
        if let Some((_, opened)) = spans.iter_mut().rfind(|(other, _)| *other == id) {
            opened.closed = true;
        }
    }
}

impl Recorder {
    fn named(&self, name: &str) -> Vec<Opened> {
        let spans = self.0.lock().unwrap();
        spans
            .iter()
            .filter(|(_, opened)| opened.name == name)
            .map(|(_, opened)| opened.clone())
            .collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_term_is_one_trace_from_its_claim_to_its_handlers_end() {
    let recorder = Recorder::default();
    tracing_subscriber::registry()
        .with(
            recorder
                .clone()
                .with_filter(tracing_subscriber::EnvFilter::new(
                    "nats_elect=debug,tracing=info",
                )),
        )
        .init();
    let server = NatsServer::start().expect("a server");
    let (told, mut terms) = tokio::sync::mpsc::unbounded_channel();
    // No request is given up because the server is slow, and the next term begins soon.
    let config = RoleConfig::default()
        .heartbeat_interval(Duration::from_secs(5))
        .cooldown(Duration::from_millis(100));
    let manager = RoleManager::builder()
        .servers(server.url())
        .bucket_auto_create()
        .instance_id("node-1")
        .role(
            "scheduler",
            config,
            handler_fn(move |term: Term| {
                let told = told.clone();
                async move {
                    tracing::info_span!("working").in_scope(|| {
                        let _ = told.send(term.clone());
                    });
                    term.cancelled().await;
                    Ok::<_, BoxError>(())
                }
            }),
        )
        .start()
        .await
        .expect("started");
    let scheduler = manager.role("scheduler").expect("a role");
    let first = terms.recv().await.expect("a term");
    let id = first.correlation_id().as_str();
    assert_eq!(
        scheduler
            .status()
            .correlation_id
            .as_ref()
            .map(nats_elect::CorrelationId::as_str),
        Some(id)
    );
    scheduler.validate().await.expect("a heartbeat");
    scheduler.step_down(StepDown::any()).await.expect("it led");
    let second = terms.recv().await.expect("another term");
    assert_ne!(second.correlation_id(), first.correlation_id());
    manager.stop(StopOptions::default()).await.expect("stopped");

    let all_closed = || recorder.named("term").iter().all(|term| term.closed);
    eventually(
        Duration::from_secs(10),
        "the spans of both terms are closed",
        async || all_closed().then_some(()),
    )
    .await;
    let traces = recorder.named("term");
    let trace = traces
        .iter()
        .find(|term| term.fields["correlation_id"] == id)
        .expect("the first term's span");
    assert!(trace.within.is_empty(), "a trace is a term's: {trace:?}");
    assert_eq!(trace.fields["role"], "scheduler");
    assert_eq!(trace.fields["instance_id"], "node-1");
    assert_eq!(
        trace.fields["fencing_token"],
        first.fencing_token().to_string()
    );
    for name in ["claim", "fence", "renew", "handoff", "working"] {
        let span = recorder
            .named(name)
            .into_iter()
            .find(|span| span.root.get("correlation_id").is_some_and(|it| it == id));
        let span = span.unwrap_or_else(|| panic!("no span {name:?} in the term's trace"));
        assert!(span.closed, "{span:?}");
    }
    let claims = recorder.named("claim");
    assert_eq!(claims[0].fields["outcome"], "confirmed");
    let handoffs = recorder.named("handoff");
    assert_eq!(handoffs[0].fields["cause"], "stepped_down");
    assert_eq!(handoffs[0].fields["released"], "true");
    assert_eq!(handoffs[1].fields["cause"], "stopped");
}
