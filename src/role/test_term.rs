//! A term that a test holds, for unit tests of handlers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Handle;
use uuid::Uuid;

use super::fenced::{DataSource, TestStore};
use super::handler::{BoxError, RoleHandler, handler_fn};
use super::instance::Instance;
use super::running::{Leading, RunningTerm};
use super::scope::{Ask, Request, RoleScope};
use super::term::{Term, TermError};
use crate::clock;
use crate::lock::lock;
use crate::model::config::{RoleConfig, RoleSettings};
use crate::model::statement::Keyring;
use nats_elect_core::application::Application;
use nats_elect_core::event::FailureKind;
use nats_elect_core::name::{BucketName, InstanceId, RoleName};
use nats_elect_core::status::ConnectionStatus;
use nats_elect_core::token::{CorrelationId, FencingToken, LeaseToken};
use nats_elect_core::{Failure, Reply, TermId, TermStart};

/// The lease of a new term. No test takes that long.
const LEASE: Duration = Duration::from_secs(86_400);

/// A [`Term`] for a handler, and the test's control over it.
///
/// The handler gets the real thing: its calls go through the code that it runs in production. The
/// test takes the place of the election and of the server, see [`TestStore`].
///
/// A new term leads, is connected, and has a lease of a day that no heartbeat moves. The test
/// decides the rest: when the term is [wound down](Self::cancel), [lost](Self::lose) or
/// [aborted](Self::abort), and how the [lease](Self::set_lease), the
/// [connection](Self::set_connection), [proofs](Self::set_proof) and
/// [writes](TestStore::fail_next) go.
///
/// Dropping it aborts the term.
#[must_use = "dropping it aborts the term"]
pub struct TestTerm {
    scope: Arc<RoleScope>,
    running: RunningTerm,
    leading: Mutex<Option<Leading>>,
    election: Arc<Election>,
}

/// Answers the term in place of an election.
struct Election {
    /// Taken at the end of the test, because the term holds this too.
    running: Mutex<Option<RunningTerm>>,
    store: TestStore,
    proof: Mutex<Result<(), TermError>>,
}

impl TestTerm {
    /// Begins a term of this role, with the defaults of [`RoleConfig`].
    ///
    /// # Panics
    /// Panics if the role's name breaks a rule, or outside a tokio runtime.
    pub fn new(role: &str) -> Self {
        Self::with(role, &RoleConfig::default())
    }

    /// Begins a term of this role, with this configuration. The term follows
    /// `validate_on_critical_ops` and `data_limit`.
    ///
    /// # Panics
    /// Panics if the role's name or its configuration breaks a rule, or outside a tokio runtime.
    pub fn with(role: &str, config: &RoleConfig) -> Self {
        let role = RoleName::new(role).unwrap_or_else(|error| panic!("{error}"));
        let settings = config.settings();
        let settings = settings.unwrap_or_else(|error| panic!("{error}"));
        let (epoch, sequence) = (1, 1);
        let token = FencingToken { epoch, sequence };
        Self::begin(role, settings, token, TestStore::of(token))
    }

    fn begin(
        role: RoleName,
        settings: RoleSettings,
        fencing_token: FencingToken,
        store: TestStore,
    ) -> Self {
        let instance = Arc::new(Instance {
            id: InstanceId::new("test").expect("a valid name"),
            incarnation: Uuid::from_u128(rand::random()),
            bucket: BucketName::new("test").expect("a valid name"),
            application: std::sync::Arc::new(Application::program("test")),
            meta: BTreeMap::new(),
        });
        let id = CorrelationId::new(instance.incarnation, 1, 1);
        let election = Arc::new(Election {
            running: Mutex::new(None),
            store: store.clone(),
            proof: Mutex::new(Ok(())),
        });
        let asked = Arc::clone(&election);
        let ask: Ask = Arc::new(move |request| asked.answer(request));
        let idle = handler_fn(|_| async { Ok(()) }).boxed();
        let now = clock::now();
        let scope = RoleScope::new(
            role,
            settings,
            idle.0,
            Handle::current(),
            ask,
            Keyring::default(),
            instance,
        );
        scope.connection.send_replace(ConnectionStatus::Connected);
        let start = TermStart {
            term: TermId(1),
            lease_token: LeaseToken::new(Uuid::from_u128(rand::random())),
            fencing_token,
            lease: now + LEASE,
            proved: now,
        };
        let (running, leading) = RunningTerm::begin(
            scope.term_setup(DataSource::Memory(store)),
            start,
            id,
            |_| {},
        );
        *lock(&election.running) = Some(running.clone());
        Self {
            scope,
            running,
            leading: Mutex::new(Some(leading)),
            election,
        }
    }

    /// Returns the term. All clones are the same term.
    pub fn term(&self) -> Term {
        self.running.term.clone()
    }

    /// Returns the keys and values behind [`Term::store`].
    pub fn store(&self) -> &TestStore {
        &self.election.store
    }

    /// Runs [`lead`](RoleHandler::lead) of this handler in the term, as an instance does, and waits
    /// for what it [spawned](Term::spawn). Returns `None` if the term was [aborted](Self::abort).
    ///
    /// When `lead` returns, the term is cancelled. A spawned task that goes on then keeps this
    /// method waiting until [`abort`](Self::abort). A panic of the handler is passed on.
    ///
    /// # Cancel safety
    /// If the future is dropped, the handler is dropped, and the term is cancelled.
    ///
    /// # Panics
    /// Panics at the second call. A term is led once, see [`next`](Self::next).
    pub async fn lead(&self, handler: &impl RoleHandler) -> Option<Result<(), BoxError>> {
        let leading = lock(&self.leading).take();
        let leading = leading.expect("a term is led once: begin the next one");
        let term = self.term();
        let led = term.0.run_within_lease(handler.lead(term.clone())).await;
        drop(leading);
        self.running.ended().await;
        led
    }

    /// Winds the term down: [`Term::cancelled`] resolves, and the lease still lasts. An instance
    /// does so when it stops, steps down, or fails its health checks.
    pub fn cancel(&self) {
        self.running.cancel();
    }

    /// Takes the role from the handler: the lease is over, and the term is cancelled. So it is when
    /// another instance leads. The handler still runs, as it does until an instance aborts it.
    pub fn lose(&self) {
        self.running.revoke();
        self.running.cancel();
    }

    /// Aborts the term: the lease is over, and the handler and what it spawned are dropped at their
    /// next await. An instance does so when the stop budget is used up.
    pub fn abort(&self) {
        self.running.revoke();
        self.running.abort();
    }

    /// Sets the time until the lease ends, and notifies [`Term::lease_changes`]. At the end of that
    /// time the term is aborted, unless the lease has been set again. A lease that is over stays
    /// over.
    ///
    /// A lease counts on the machine's clock, also where tokio's clock is paused.
    ///
    /// # Panics
    /// Panics outside a tokio runtime.
    pub fn set_lease(&self, left: Duration) {
        self.running.set_lease(clock::now() + left);
        let running = self.running.clone();
        tokio::spawn(async move {
            while running.term.is_valid() {
                tokio::time::sleep(running.term.remaining()).await;
            }
            running.abort();
        });
    }

    /// Sets [`Term::connection`].
    ///
    /// Unless it is `Connected`, the server can't be reached:
    ///
    /// - Proofs end with [`TermError::Unproven`].
    /// - Reads of the store end with [`FencedError::Unavailable`](crate::FencedError::Unavailable).
    /// - Writes wait for the connection, and end with the same error at their
    ///   [`timeout`](crate::FencedStore::timeout).
    pub fn set_connection(&self, connection: ConnectionStatus) {
        let is_connected = connection == ConnectionStatus::Connected;
        self.election.store.set_reached(is_connected);
        self.scope.connection.send_replace(connection);
    }

    /// Sets how each proof of the lease ends from now on. Default: with `Ok`.
    ///
    /// The last proof counts as old, so that [`Term::authorize`] asks for another one. With
    /// [`TermError::NotLeader`] the term is [lost](Self::lose) too, once it is asked.
    pub fn set_proof(&self, outcome: Result<(), TermError>) {
        *lock(&self.election.proof) = outcome;
        self.running.term.0.proved.store(0, Ordering::Release);
    }

    /// Moves the role's fence, as the term of another instance does. The handler's next write ends
    /// with [`FencedError::Superseded`](crate::FencedError::Superseded), and the term is
    /// [lost](Self::lose) with it.
    pub fn supersede(&self) {
        self.election.store.move_fence();
    }

    /// Begins the role's next term, with a higher fencing token and the same data. The writes of
    /// this term end like those of a [superseded](Self::supersede) one.
    pub fn next(&self) -> Self {
        let store = self.election.store.clone();
        let token = store.move_fence();
        let settings = RoleSettings::clone(&self.scope.settings);
        Self::begin(self.scope.role.clone(), settings, token, store)
    }
}

impl Election {
    fn answer(&self, request: Request) {
        match request {
            Request::Validate { reply, .. } => {
                if let Some(answer) = self.prove() {
                    let _ = reply.send(answer);
                }
            }
            Request::Superseded { .. } => self.lose(),
            // A term makes no other requests.
            _ => {}
        }
    }

    /// Proves the lease, as the test decided. Nothing is the answer of a role that is stopped.
    fn prove(&self) -> Option<Reply> {
        let running = lock(&self.running).clone()?;
        let unproven = |detail| {
            let kind = FailureKind::Timeout;
            Some(Reply::Unproven(Failure { kind, detail }))
        };
        if self.store.reached().is_none() {
            return unproven("not connected".to_owned());
        }
        match lock(&self.proof).clone() {
            Ok(()) => {
                let proved = clock::now().as_nanos();
                running.term.0.proved.store(proved, Ordering::Release);
                Some(Reply::Proved(running.term.fencing_token()))
            }
            Err(TermError::Unproven { reason }) => unproven(reason),
            Err(TermError::NotLeader) => {
                self.lose();
                Some(Reply::NotLeader)
            }
            Err(TermError::Stopped) => None,
        }
    }

    fn lose(&self) {
        if let Some(running) = &*lock(&self.running) {
            running.revoke();
            running.cancel();
        }
    }
}

impl Drop for TestTerm {
    fn drop(&mut self) {
        self.abort();
        lock(&self.election.running).take();
    }
}

impl fmt::Debug for TestTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestTerm")
            .field("term", &self.running.term)
            .field("store", &self.election.store)
            .finish_non_exhaustive()
    }
}
