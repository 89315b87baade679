//! A term's handler at work on the caller's runtime.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use futures::FutureExt;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use super::deadline::Deadline;
use super::scope::RoleScope;
use super::term::{Term, TermInner};
use crate::clock::Moment;
use crate::election::{HandlerEnd, TermId, TermStart};
use crate::model::config::Overrun;

/// What becomes of a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandlerReport {
    /// `lead` is over; tasks that it spawned may still run.
    Ending(TermId, HandlerEnd),
    /// Everything of the term has ended.
    Ended(TermId, HandlerEnd),
}

/// A running handler, from the outside.
#[derive(Clone)]
pub(crate) struct RunningTerm {
    term: Term,
    ended: CancellationToken,
}

impl RunningTerm {
    /// Starts the handler. `report` is called twice, on any thread, whatever becomes of it.
    pub fn start(
        scope: &Arc<RoleScope>,
        start: &TermStart,
        report: impl Fn(HandlerReport) + Send + 'static,
    ) -> Self {
        let term = Term(Arc::new(TermInner {
            id: start.term,
            role: scope.role.as_str().into(),
            lease_token: start.lease_token,
            fencing_token: start.fencing_token,
            lease: Deadline::at(start.lease),
            proved: AtomicU64::new(start.proved.as_nanos()),
            cancel: CancellationToken::new(),
            abort: CancellationToken::new(),
            tasks: TaskTracker::new(),
            connection: scope.connection.subscribe(),
            ask: Arc::clone(&scope.ask),
            validation_interval: scope.settings.validation_interval,
            validate_always: scope.settings.validate_on_critical_ops,
        }));
        let running = Self {
            term: term.clone(),
            ended: CancellationToken::new(),
        };
        let guard = (scope.settings.overrun == Overrun::Exit)
            .then(|| running.guard_process(scope.settings.abort_allowance()));
        let span =
            tracing::info_span!(parent: &scope.span, "term", fencing_token = %term.fencing_token());
        let reporter = Reporter {
            term: start.term,
            end: None,
            ended: running.ended.clone(),
            guard,
            report,
        };
        scope
            .runtime
            .spawn(run(scope.handler.clone(), term, reporter).instrument(span));
        running
    }

    pub fn id(&self) -> TermId {
        self.term.0.id
    }

    /// A heartbeat sent at `proved` was confirmed. Returns whether the lease could be extended.
    pub fn extend(&self, lease: Moment, proved: Moment) -> bool {
        self.term
            .0
            .proved
            .fetch_max(proved.as_nanos(), Ordering::AcqRel);
        self.term.0.lease.move_to(lease)
    }

    pub fn revoke(&self) {
        self.term.0.lease.revoke();
    }

    pub fn cancel(&self) {
        self.term.0.cancel.cancel();
    }

    /// Drops the handler and its tasks at their next await.
    pub fn abort(&self) {
        self.term.0.cancel.cancel();
        self.term.0.abort.cancel();
    }

    pub fn remaining(&self) -> Duration {
        self.term.remaining()
    }

    /// Resolves when everything of the term has ended.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Ends the process from a thread of its own if the handler outlives its lease: nothing that the handler does to
    /// the runtimes can keep this from happening.
    fn guard_process(&self, allowance: Duration) -> Thread {
        let (term, ended) = (self.term.clone(), self.ended.clone());
        let guard = move || {
            while !ended.is_cancelled() {
                if term.is_valid() {
                    thread::park_timeout(term.remaining());
                    continue;
                }
                // A lease that runs out has had its handler aborted before: the drift margin is not for waiting. One
                // that was revoked early has not.
                if !term.0.abort.is_cancelled() {
                    thread::park_timeout(allowance);
                }
                if !ended.is_cancelled() {
                    tracing::error!(
                        role = term.role(),
                        "the handler outlived its lease: ending the process"
                    );
                    std::process::abort();
                }
            }
        };
        thread::Builder::new()
            .name("nats-elect-overrun".into())
            .spawn(guard)
            .map_or_else(
                |error| {
                    tracing::error!(%error, "no thread to guard the lease: ending the process");
                    std::process::abort()
                },
                |handle| handle.thread().clone(),
            )
    }
}

async fn run<R: Fn(HandlerReport)>(
    handler: Arc<dyn super::handler::ErasedHandler>,
    term: Term,
    mut reporter: Reporter<R>,
) {
    let lead = AssertUnwindSafe(async { handler.lead(term.clone()).await }).catch_unwind();
    let end = match term.0.abort.run_until_cancelled(lead).await {
        None => HandlerEnd::Aborted,
        Some(Ok(Ok(()))) => HandlerEnd::Returned,
        Some(Ok(Err(error))) => {
            tracing::warn!(error = %error, "the handler failed");
            HandlerEnd::Failed
        }
        Some(Err(_)) => {
            tracing::error!("the handler panicked");
            HandlerEnd::Panicked
        }
    };
    reporter.ending(end);
    term.0.cancel.cancel();
    term.0.tasks.close();
    term.0.tasks.wait().await;
}

/// Reports the end of a handler, also when its runtime is shut down under it.
struct Reporter<R: Fn(HandlerReport)> {
    term: TermId,
    end: Option<HandlerEnd>,
    ended: CancellationToken,
    guard: Option<Thread>,
    report: R,
}

impl<R: Fn(HandlerReport)> Reporter<R> {
    fn ending(&mut self, end: HandlerEnd) {
        self.end = Some(end);
        (self.report)(HandlerReport::Ending(self.term, end));
    }
}

impl<R: Fn(HandlerReport)> Drop for Reporter<R> {
    fn drop(&mut self) {
        if self.end.is_none() {
            self.ending(HandlerEnd::Aborted);
        }
        self.ended.cancel();
        if let Some(guard) = &self.guard {
            guard.unpark();
        }
        (self.report)(HandlerReport::Ended(
            self.term,
            self.end.unwrap_or(HandlerEnd::Aborted),
        ));
    }
}
