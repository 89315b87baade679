//! A term's handler at work on the caller's runtime.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, Thread};
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::{OnceCell, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use super::deadline::Deadline;
use super::fenced::{Allowance, DataSource, LANES};
use super::handler::{BoxError, ErasedHandler};
use super::polls::Polls;
use super::scope::{Ask, RoleScope};
use super::term::{Term, TermInner};
use crate::clock;
use crate::limits;
use crate::lock::lock;
use crate::metrics::{Labels, Stage};
use crate::model::config::{Overrun, RoleSettings};
use crate::store::DataOwner;
use nats_elect_core::Moment;
use nats_elect_core::name::UnitName;
use nats_elect_core::status::ConnectionStatus;
use nats_elect_core::token::{CorrelationId, FencingToken};
use nats_elect_core::{HandlerEnd, TermId, TermStart};

/// The end of a handler, in two steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandlerReport {
    /// `lead` is over. Tasks that it spawned may still run.
    Ending(TermId, HandlerEnd),
    /// Everything of the term has ended.
    Ended(TermId, HandlerEnd),
}

/// What a term begins with, beside what its election tells.
pub(super) struct TermSetup {
    /// The role's name, as its handler sees it.
    pub name: Arc<str>,
    /// The unit, if it is no role but a unit of a group.
    pub unit: Option<UnitName>,
    /// How many shards the group has, if it is a shard.
    pub shards: Option<u32>,
    pub owner: DataOwner,
    pub settings: Arc<RoleSettings>,
    pub labels: Labels,
    pub connection: watch::Receiver<ConnectionStatus>,
    pub ask: Ask,
    pub data: DataSource,
}

/// A running handler, from the outside.
#[derive(Clone)]
pub(crate) struct RunningTerm {
    pub term: Term,
    ended: CancellationToken,
}

impl RunningTerm {
    /// Starts the handler. `report` is called twice, on any thread, however the handler ends.
    pub fn start(
        scope: &Arc<RoleScope>,
        start: TermStart,
        id: CorrelationId,
        span: Span,
        report: impl Fn(HandlerReport) + Send + Sync + 'static,
    ) -> Self {
        let promoted = clock::now();
        let lease = start.lease;
        let setup = scope.term_setup(DataSource::Link(scope.bucket.subscribe()));
        let (running, leading) = Self::begin(setup, start, id, report);
        if scope.settings.overrun == Overrun::Exit {
            let _ = leading.ending.guard.set(running.guard_process());
        }
        // Set this first, so that the handler finds its own term in the role's status, and so does
        // who waits until this instance leads.
        scope.set_running(running.clone());
        scope.acting.begin(lease);
        scope.status.send_modify(|_| {});
        let (labels, handler) = (scope.labels.clone(), Arc::clone(&scope.handler));
        let running_handler = async move {
            labels.stage(Stage::Start, clock::now().since(promoted));
            run(handler, leading).await;
        };
        scope.runtime.spawn(running_handler.instrument(span));
        running
    }

    /// Begins a term, without a handler yet.
    pub(super) fn begin(
        setup: TermSetup,
        start: TermStart,
        id: CorrelationId,
        report: impl Fn(HandlerReport) + Send + Sync + 'static,
    ) -> (Self, Leading) {
        let ended = CancellationToken::new();
        let ending = Arc::new(Ending {
            term: start.term,
            end: OnceLock::new(),
            ended: ended.clone(),
            guard: OnceLock::new(),
            report: Box::new(report),
        });
        let term = Term(Arc::new(TermInner {
            correlation_id: id,
            lease: Deadline::at(start.lease),
            until: AtomicU64::new(start.lease.as_nanos()),
            lease_changed: watch::Sender::new(()),
            proved: AtomicU64::new(start.proved.as_nanos()),
            cancel: CancellationToken::new(),
            stop_by: OnceLock::new(),
            abort: CancellationToken::new(),
            polls: Polls::default(),
            ending: Arc::downgrade(&ending),
            proof: Mutex::new(None),
            fence: OnceCell::new(),
            lanes: Semaphore::new(LANES as usize),
            allowance: setup.settings.data_limit.map(Allowance::new),
            load: AtomicU32::new(0),
            setup,
            start,
        }));
        let leading = Leading {
            term: term.clone(),
            end: HandlerEnd::Aborted,
            ending,
        };
        (Self { term, ended }, leading)
    }

    pub fn id(&self) -> TermId {
        self.term.0.start.term
    }

    /// Records that a heartbeat sent at `proved` was confirmed. Returns whether the lease could be
    /// extended.
    pub fn extend(&self, lease: Moment, proved: Moment) -> bool {
        self.term
            .0
            .proved
            .fetch_max(proved.as_nanos(), Ordering::AcqRel);
        let extended = self.term.0.lease.move_to(lease);
        if extended {
            self.term
                .0
                .until
                .fetch_max(lease.as_nanos(), Ordering::AcqRel);
            self.term.0.lease_changed.send_replace(());
        }
        extended
    }

    /// Moves the end of the lease, also to an earlier time, unless the lease is over.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn set_lease(&self, lease: Moment) {
        if self.term.0.lease.move_to(lease) {
            self.term.0.until.store(lease.as_nanos(), Ordering::Release);
            self.term.0.lease_changed.send_replace(());
        }
    }

    /// Returns the fencing token, if the term is neither over nor being wound down.
    pub fn in_office(&self) -> Option<FencingToken> {
        let term = &self.term;
        term.in_office().then(|| term.fencing_token())
    }

    /// Records the proof of a heartbeat that is now confirmed.
    pub fn set_proof(&self, proof: String) {
        *lock(&self.term.0.proof) = Some(proof);
    }

    pub fn revoke(&self) {
        self.term.0.lease.revoke();
        self.term.0.lease_changed.send_replace(());
    }

    pub fn cancel(&self) {
        self.term.0.wind_down();
    }

    /// Drops the handler and its tasks at their next await.
    pub fn abort(&self) {
        self.term.0.wind_down();
        self.term.0.abort.cancel();
    }

    /// Returns how much work the handler told that the unit makes.
    pub fn load(&self) -> Option<u32> {
        let load = self.term.0.load.load(Ordering::Relaxed);
        (load > 0).then_some(load)
    }

    /// Returns whether the handler has blocked a thread since that moment.
    pub fn polls_since(&self, moment: Moment) -> bool {
        self.term.0.polls.last_since(moment)
    }

    /// Returns whether the handler still runs, although the lease was over so long ago that an abort
    /// should have ended it.
    pub fn is_overrun(&self, allowance: Duration) -> bool {
        !self.has_ended() && self.term.0.until() + allowance <= clock::now()
    }

    pub fn has_ended(&self) -> bool {
        self.ended.is_cancelled()
    }

    /// Resolves when everything of the term has ended.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Ends the process if the handler outlives its lease. The guard runs on its own thread, so
    /// nothing that the handler does to the runtimes can prevent it.
    fn guard_process(&self) -> Thread {
        let (term, ended) = (self.term.clone(), self.ended.clone());
        let guard = move || {
            while !ended.is_cancelled() {
                // If a lease was revoked early, the handler has until the lease's original end to
                // be aborted.
                let left = term.0.until().since(clock::now());
                if term.is_valid() || !left.is_zero() {
                    thread::park_timeout(left);
                    continue;
                }
                tracing::error!(
                    role = term.role(),
                    "the handler outlived its lease: ending the process"
                );
                std::process::abort();
            }
        };
        thread::Builder::new()
            .name("nats-elect-overrun".into())
            .spawn(guard)
            .map_or_else(
                |error| {
                    let error = limits::in_words(&error);
                    tracing::error!(error, "no thread to guard the lease: ending the process");
                    std::process::abort()
                },
                |handle| handle.thread().clone(),
            )
    }
}

/// Runs `lead` to its end. Every panic of the handler is caught here, including panics in the
/// `Drop` of its future and in the text of its error.
pub(super) async fn run(handler: Arc<dyn ErasedHandler>, mut leading: Leading) {
    let term = leading.term.clone();
    let lead = async {
        let led = term
            .0
            .run_within_lease(async { handler.lead(term.clone()).await });
        match led.await {
            None => HandlerEnd::Aborted,
            Some(Ok(())) => HandlerEnd::Returned,
            Some(Err(error)) => {
                log_failure(&term, &error);
                HandlerEnd::Failed
            }
        }
    };
    leading.end = AssertUnwindSafe(lead)
        .catch_unwind()
        .await
        .unwrap_or_else(|_| {
            tracing::error!("the handler panicked");
            HandlerEnd::Panicked
        });
}

fn log_failure(term: &Term, error: &BoxError) {
    if term.is_cancelled() {
        tracing::info!(%error, "the handler returned an error after its term was cancelled");
    } else if term.unit().is_some() {
        tracing::warn!(
            %error,
            "the handler failed: it begins again after a pause, which doubles with each failure in a row; after three its unit moves, if it can"
        );
    } else {
        tracing::warn!(
            %error,
            "the handler failed: the term ends, and this instance stays out for a cool-down, which doubles with each failure in a row"
        );
    }
}

/// A running `lead`. Its drop reports that `lead` is over, even if the runtime is shut down under
/// it.
pub(super) struct Leading {
    term: Term,
    end: HandlerEnd,
    ending: Arc<Ending>,
}

impl Drop for Leading {
    fn drop(&mut self) {
        let _ = self.ending.end.set(self.end);
        (self.ending.report)(HandlerReport::Ending(self.ending.term, self.end));
        self.term.0.wind_down();
    }
}

/// Held by everything of a term that runs. When the last holder is gone, the term has ended.
pub(super) struct Ending {
    term: TermId,
    end: OnceLock<HandlerEnd>,
    ended: CancellationToken,
    guard: OnceLock<Thread>,
    report: Box<dyn Fn(HandlerReport) + Send + Sync>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let end = self.end.get().copied().unwrap_or(HandlerEnd::Aborted);
        self.ended.cancel();
        if let Some(guard) = self.guard.get() {
            guard.unpark();
        }
        (self.report)(HandlerReport::Ended(self.term, end));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use futures::StreamExt;

    use super::*;
    use crate::model::config::RoleConfig;
    use crate::model::statement::Keyring;
    use crate::role::{BoxError, Instance, RoleHandler};
    use nats_elect_core::application::Application;
    use nats_elect_core::name::{BucketName, InstanceId, RoleName};
    use nats_elect_core::token::LeaseToken;

    /// A handler that works on even when it is cancelled.
    struct Unresponsive(Arc<AtomicU32>);

    impl RoleHandler for Unresponsive {
        async fn lead(&self, term: Term) -> Result<(), BoxError> {
            let spawned = Arc::clone(&self.0);
            term.spawn(async move { work(&spawned).await });
            work(&self.0).await;
            Ok(())
        }
    }

    async fn work(done: &AtomicU32) {
        loop {
            done.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn lead_until(handler: impl RoleHandler, lease: Moment) -> (Arc<RoleScope>, RunningTerm) {
        let instance = Arc::new(Instance {
            id: InstanceId::new("a").unwrap(),
            incarnation: uuid::Uuid::nil(),
            bucket: BucketName::new("leaders").unwrap(),
            application: std::sync::Arc::new(Application::program("test")),
            meta: std::collections::BTreeMap::new(),
        });
        let id = CorrelationId::new(instance.incarnation, 1, 1);
        let scope = RoleScope::new(
            RoleName::new("r").unwrap(),
            RoleConfig::default().settings().unwrap(),
            Arc::new(handler),
            tokio::runtime::Handle::current(),
            Arc::new(|_| {}),
            Keyring::default(),
            instance,
        );
        let start = TermStart {
            term: TermId(1),
            lease_token: LeaseToken::new(uuid::Uuid::nil()),
            fencing_token: FencingToken {
                epoch: 1,
                sequence: 1,
            },
            lease,
            proved: clock::now(),
        };
        let running = RunningTerm::start(&scope, start, id, Span::none(), |_| {});
        (scope, running)
    }

    #[tokio::test]
    async fn nothing_of_a_term_runs_after_its_lease_even_without_an_abort() {
        let done = Arc::new(AtomicU32::new(0));
        let lease = clock::now() + Duration::from_millis(50);
        let (_scope, running) = lead_until(Unresponsive(Arc::clone(&done)), lease);
        tokio::time::sleep(Duration::from_millis(70)).await;
        let at_end = done.load(Ordering::SeqCst);
        assert!(at_end > 0);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(done.load(Ordering::SeqCst), at_end);
        assert!(
            !running.ended.is_cancelled(),
            "how it ended is for the election to say"
        );
        running.abort();
        running.ended().await;
    }

    #[tokio::test]
    async fn lease_changes_report_an_extension_and_a_revocation() {
        let lease = clock::now() + Duration::from_secs(30);
        let (_scope, running) = lead_until(Unresponsive(Arc::default()), lease);
        let mut changes = running.term.lease_changes();
        assert!(changes.next().now_or_never().is_none());
        assert!(running.extend(lease + Duration::from_secs(60), clock::now()));
        changes.next().await;
        assert!(running.term.remaining() > Duration::from_secs(60));
        running.revoke();
        changes.next().await;
        assert_eq!(running.term.remaining(), Duration::ZERO);
        running.abort();
        running.ended().await;
    }

    #[tokio::test]
    async fn a_handler_keeps_running_under_an_extended_lease() {
        let done = Arc::new(AtomicU32::new(0));
        let lease = clock::now() + Duration::from_millis(30);
        let (_scope, running) = lead_until(Unresponsive(Arc::clone(&done)), lease);
        assert!(running.extend(lease + Duration::from_secs(60), clock::now()));
        tokio::time::sleep(Duration::from_millis(50)).await;
        let so_far = done.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(done.load(Ordering::SeqCst) > so_far);
        running.abort();
        running.ended().await;
    }
}
