//! The state that the handles, the handler and the election of one role share. It outlives a
//! restart of the election's actor.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{broadcast, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tracing::Span;

use super::deadline::Deadline;
use super::fenced::DataSource;
use super::handler::ErasedHandler;
use super::health_check::Check;
use super::instance::Instance;
use super::running::{RunningTerm, TermSetup};
use crate::clock;
use crate::lock::lock;
use crate::model::admin::LastFailure;
use crate::model::config::RoleSettings;
use crate::model::statement::Keyring;
use crate::model::status::RoleStatus;
use crate::repeated::Repeated;
use crate::store::{Bucket, DataOwner};
use nats_elect_core::event::{Event, FailureKind, Outcome};
use nats_elect_core::name::RoleName;
use nats_elect_core::status::{ConnectionStatus, LeaderInfo};
use nats_elect_core::token::{CorrelationId, FencingToken};
use nats_elect_core::{CoreStatus, Intent, Moment, Reply, TermId};

/// The number of events kept for a slow reader.
const EVENT_CAPACITY: usize = 256;

/// A request to a role's election.
#[derive(Debug)]
pub(crate) enum Request {
    Validate {
        term: Option<TermId>,
        reply: oneshot::Sender<Reply>,
    },
    Intend {
        intent: Intent,
        reply: oneshot::Sender<Reply>,
    },
    /// An operator declares that the writer of the message at this revision of the role's key does
    /// not lead any more.
    EndLease {
        revision: u64,
        reply: oneshot::Sender<Reply>,
    },
    /// The server refused a write of this term, because its fence has moved.
    Superseded { term: TermId },
    #[cfg(test)]
    Crash,
}

/// Sends a request to a role's election. If there is no election, the request is dropped, and its
/// reply channel with it.
pub(crate) type Ask = Arc<dyn Fn(Request) + Send + Sync>;

/// One role on this instance.
pub(crate) struct RoleScope {
    pub role: RoleName,
    pub settings: Arc<RoleSettings>,
    pub handler: Arc<dyn ErasedHandler>,
    /// The caller's runtime, where handlers run.
    pub runtime: Handle,
    pub ask: Ask,
    pub keyring: Keyring,
    pub instance: Arc<Instance>,
    /// The span for records about the role outside its terms.
    pub span: Span,
    pub labels: crate::metrics::Labels,
    /// The time until which this instance may call itself leader.
    pub acting: Deadline,
    pub status: watch::Sender<CoreStatus>,
    pub leader: watch::Sender<Option<LeaderInfo>>,
    pub connection: watch::Sender<ConnectionStatus>,
    /// The bucket on the current connection, once there is one.
    pub bucket: watch::Sender<Option<Bucket>>,
    /// Its room is reserved when somebody listens for the first time.
    events: OnceLock<broadcast::Sender<Event>>,
    /// Cancelled when the role is no longer managed.
    pub ended: CancellationToken,
    /// Whether the role is paused, by the last order.
    pub(super) paused: Mutex<bool>,
    running: Mutex<Option<RunningTerm>>,
    notes: Mutex<Notes>,
    /// How long the election stood still before its present step, if that was long enough to miss a
    /// heartbeat. Then most likely the whole process did.
    pub stood_still: Mutex<Option<Duration>>,
    /// Whether the last term ended because the handler returned soon, without being told to.
    pub returned_briefly: AtomicBool,
    /// Whether a claim has failed since a leader was known.
    pub claim_failed: AtomicBool,
    /// The failures that were logged.
    pub logged: Mutex<Repeated>,
    /// The latest health check that remote callers share.
    pub(super) check: Mutex<Option<Check>>,
}

/// Facts about a role that only its events show.
#[derive(Default)]
struct Notes {
    last_failure: Option<(Moment, FailureKind, String)>,
    /// Whether so many requests have failed that they are tried slowly.
    circuit_open: bool,
    /// How long the last confirmed heartbeat of the latest term took.
    heartbeat_took: Option<Duration>,
    /// How often a handler still ran when its lease had ended.
    overruns: u64,
}

impl RoleScope {
    pub fn new(
        role: RoleName,
        settings: RoleSettings,
        handler: Arc<dyn ErasedHandler>,
        runtime: Handle,
        ask: Ask,
        keyring: Keyring,
        instance: Arc<Instance>,
    ) -> Arc<Self> {
        let status = CoreStatus::initial(clock::now());
        let scope = Arc::new(Self {
            span: instance.election_span(&role),
            labels: instance.labels(&role),
            instance,
            role,
            settings: Arc::new(settings),
            handler,
            runtime,
            ask,
            keyring,
            acting: Deadline::over(),
            connection: watch::Sender::new(status.connection),
            status: watch::Sender::new(status),
            leader: watch::Sender::new(None),
            bucket: watch::Sender::new(None),
            events: OnceLock::new(),
            ended: CancellationToken::new(),
            paused: Mutex::default(),
            running: Mutex::new(None),
            notes: Mutex::default(),
            stood_still: Mutex::default(),
            returned_briefly: AtomicBool::new(false),
            claim_failed: AtomicBool::new(false),
            logged: Mutex::default(),
            check: Mutex::new(None),
        });
        let announcing = announce_leaders(Arc::clone(&scope.handler), scope.leader.subscribe());
        let ended = scope.ended.clone();
        scope
            .runtime
            .spawn(async move { ended.run_until_cancelled(announcing).await });
        scope
    }

    /// Returns what a term of the role begins with.
    pub(super) fn term_setup(&self, data: DataSource) -> TermSetup {
        TermSetup {
            name: self.role.as_str().into(),
            unit: None,
            shards: None,
            owner: DataOwner::Role(self.role.clone()),
            settings: Arc::clone(&self.settings),
            labels: self.labels.clone(),
            connection: self.connection.subscribe(),
            ask: Arc::clone(&self.ask),
            data,
        }
    }

    /// Returns whether this instance leads, by the clock at the time of this call.
    pub fn is_leader(&self) -> bool {
        self.acting.is_ahead()
    }

    /// Returns the status at the time of this call.
    pub fn status(&self) -> RoleStatus {
        let now = clock::now();
        let core = self.status.borrow().clone();
        let (heartbeat_took, last_failure) = {
            let notes = lock(&self.notes);
            (notes.heartbeat_took, notes.last_failure.clone())
        };
        let left = |until: Option<Moment>| {
            let left = until?.since(now);
            (!left.is_zero()).then_some(left)
        };
        RoleStatus {
            state: core.state,
            is_leader: self.is_leader(),
            paused: self.is_paused(),
            failing: left(core.failing_until),
            kept: left(core.kept_until),
            leader: core.leader,
            correlation_id: core
                .fencing_token
                .and_then(|token| self.correlation_id(token)),
            fencing_token: core.fencing_token,
            last_heartbeat: core.last_heartbeat.map(|at| now.since(at)),
            heartbeat_took: core.last_heartbeat.and(heartbeat_took),
            last_transition: now.since(core.last_transition),
            revision: core.revision,
            connection: core.connection,
            lease_remaining: core.lease_until.map(|until| until.since(now)),
            overrun: core.overrun,
            last_failure: last_failure.map(|(at, kind, detail)| LastFailure {
                kind: Some(kind),
                detail,
                ago: now.since(at),
            }),
        }
    }

    /// Tells those who listen.
    pub fn tell(&self, event: Event) {
        if let Some(events) = self.events.get() {
            let _ = events.send(event);
        }
    }

    /// Returns a receiver of the events from now on.
    pub fn listen(&self) -> broadcast::Receiver<Event> {
        let events = || broadcast::Sender::new(EVENT_CAPACITY);
        self.events.get_or_init(events).subscribe()
    }

    /// Returns the connected server, or the last one. It is empty before the first connection.
    pub fn server(&self) -> String {
        let bucket = self.bucket.borrow();
        bucket.as_ref().map_or_else(String::new, Bucket::server)
    }

    /// Returns the correlation id of the term with this token.
    fn correlation_id(&self, fencing_token: FencingToken) -> Option<CorrelationId> {
        let running = self.running()?;
        let term = &running.term;
        (term.fencing_token() == fencing_token).then(|| term.correlation_id().clone())
    }

    /// Returns the last failure in words, if so many requests have failed that they are tried
    /// slowly.
    pub fn problem(&self) -> Option<String> {
        let notes = lock(&self.notes);
        let detail = notes.last_failure.as_ref().map(|(.., detail)| detail);
        notes
            .circuit_open
            .then(|| detail.map_or_else(|| "requests to the bucket fail".into(), Clone::clone))
    }

    /// Returns how often a handler still ran when its lease had ended.
    pub fn overruns(&self) -> u64 {
        lock(&self.notes).overruns
    }

    /// Records how the last heartbeat went, and keeps a failure until something succeeds again.
    ///
    /// A successful read of the keys does not clear a failure to write them. A claim does not clear
    /// a failure to write its fence.
    pub fn note(&self, event: &Event) {
        let mut notes = lock(&self.notes);
        match event {
            Event::HandlerOverrun { .. } => notes.overruns += 1,
            Event::Failure { kind, detail, .. } => {
                // The next election begins with a closed circuit.
                notes.circuit_open &= *kind != FailureKind::ActorCrashed;
                notes.last_failure = Some((clock::now(), *kind, detail.clone()));
            }
            Event::CircuitOpened => notes.circuit_open = true,
            Event::CircuitClosed => notes.circuit_open = false,
            Event::TermStarted { .. } => {
                notes.heartbeat_took = None;
                notes.last_failure = None;
            }
            Event::HeartbeatEnded {
                outcome: Outcome::Confirmed,
                took,
            } => {
                notes.heartbeat_took = Some(*took);
                notes.last_failure = None;
            }
            Event::ClaimEnded {
                outcome: Outcome::Conflict,
            }
            | Event::ConnectionChanged(ConnectionStatus::Connected) => notes.last_failure = None,
            _ => {}
        }
    }

    pub fn running(&self) -> Option<RunningTerm> {
        lock(&self.running).clone()
    }

    pub fn set_running(&self, term: RunningTerm) {
        *lock(&self.running) = Some(term);
    }

    /// Drops this reference to the role on the caller's runtime.
    ///
    /// It may be the last reference. Then the handler is dropped, and the application's drop code
    /// must not run on the election thread.
    pub fn give_back(self: Arc<Self>) {
        let Some(last) = Arc::into_inner(self) else {
            return;
        };
        let runtime = last.runtime.clone();
        // A runtime that is shut down drops it at once.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            runtime.spawn_blocking(move || drop(last))
        }));
    }

    /// Ends any term at once, because the election that kept it is gone.
    pub fn revoke(&self) -> Option<RunningTerm> {
        self.acting.revoke();
        let running = self.running();
        if let Some(term) = &running {
            term.revoke();
            term.cancel();
        }
        running
    }
}

/// Passes the latest leader to the handler, one call at a time.
async fn announce_leaders(
    handler: Arc<dyn ErasedHandler>,
    mut leader: watch::Receiver<Option<LeaderInfo>>,
) {
    while leader.changed().await.is_ok() {
        let latest = leader.borrow_and_update().clone();
        let call = tokio::spawn(Arc::clone(&handler).on_leader_change(latest));
        if call.await.is_err_and(|error| error.is_panic()) {
            tracing::error!("on_leader_change panicked");
        }
    }
}
