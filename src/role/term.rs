//! A term, as its handler sees it.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Poll;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::deadline::Deadline;
use super::fenced::{Access, FencedStore};
use super::lease_changes::LeaseChanges;
use super::polls::Polls;
use super::running::Ending;
use super::scope::{Ask, Request};
use crate::clock;
use nats_elect_core::Moment;
use nats_elect_core::status::ConnectionStatus;
use nats_elect_core::token::{CorrelationId, FencingToken, LeaseToken};
use nats_elect_core::{Reply, TermId};

/// Why leadership could not be proved or given up.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TermError {
    /// The term is over, or the instance does not lead: stop acting as leader.
    #[error("this instance does not lead the role (any more): stop acting as its leader")]
    NotLeader,
    /// No proof could be had just now; the lease may still be valid. Do not do the critical thing; ask again.
    #[error(
        "leadership could not be proved just now ({reason}): do nothing critical, and ask again"
    )]
    Unproven {
        /// What went wrong.
        reason: String,
    },
    /// The role has been stopped.
    #[error("the role is stopped on this instance: add it again, or start a new manager")]
    Stopped,
}

impl TermError {
    /// Whether asking again may help.
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Unproven { .. })
    }
}

/// One unbroken leadership of this instance over a role. Cheap to clone; all clones are the same term.
///
/// A term ends once: an old `Term` never becomes valid again, also when its instance is elected anew.
#[derive(Clone)]
pub struct Term(pub(super) Arc<TermInner>);

pub(super) struct TermInner {
    pub id: TermId,
    pub correlation_id: CorrelationId,
    pub role: Arc<str>,
    pub lease_token: Mutex<LeaseToken>,
    pub fencing_token: FencingToken,
    pub lease: Deadline,
    /// The end of the lease, also after it was revoked.
    pub until: AtomicU64,
    /// Told when the lease is extended or revoked.
    pub lease_changed: watch::Sender<()>,
    /// When the last confirmed compare-and-set was sent.
    pub proved: AtomicU64,
    pub cancel: CancellationToken,
    pub abort: CancellationToken,
    /// Whatever of the term runs: does it block a thread?
    pub polls: Polls,
    /// Held by whatever of the term runs.
    pub ending: Weak<Ending>,
    pub connection: watch::Receiver<ConnectionStatus>,
    pub ask: Ask,
    pub validation_interval: Duration,
    pub validate_always: bool,
    /// The proof of the last confirmed heartbeat, if this instance signs.
    pub proof: Mutex<Option<String>>,
    pub access: Arc<Access>,
}

impl TermInner {
    pub fn until(&self) -> Moment {
        Moment::from_nanos(self.until.load(Ordering::Acquire))
    }

    pub fn lease_token(&self) -> MutexGuard<'_, LeaseToken> {
        self.lease_token
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `future` until it ends or the term is aborted. After the end of the lease it is not polled any more, however
    /// late the abort comes: the process may have been paused.
    pub async fn run_within_lease<F: Future>(&self, future: F) -> Option<F::Output> {
        let within = async {
            let mut future = pin!(self.polls.watch(future));
            poll_fn(|context| {
                if !self.lease.is_ahead() && clock::now() >= self.until() {
                    return Poll::Ready(None);
                }
                future.as_mut().poll(context).map(Some)
            })
            .await
        };
        let output = self.abort.run_until_cancelled(within).await?;
        if output.is_none() {
            // Why the term ended is for its election to say.
            self.abort.cancelled().await;
        }
        output
    }
}

impl Term {
    /// The role's name.
    pub fn role(&self) -> &str {
        &self.0.role
    }

    /// The ordered number of this term, to be compared by the systems that the handler writes to.
    pub fn fencing_token(&self) -> FencingToken {
        self.0.fencing_token
    }

    /// What this term is called in logs, spans and published events, here and in the status of its role. No secret.
    pub fn correlation_id(&self) -> &CorrelationId {
        &self.0.correlation_id
    }

    /// The secret of this term as it is now. Do not log it, and do not keep it: with `fencing.rotation_interval` it changes.
    pub fn lease_token(&self) -> LeaseToken {
        *self.0.lease_token()
    }

    /// Whether the lease still lasts, by the clock at the time of this call.
    ///
    /// It may stay `true` for a while after [`cancelled`](Self::cancelled) resolves: there is a lease to finish under.
    /// Once it has been `false` it stays so. Costs one clock reading; waits for nothing.
    ///
    /// The clock goes on while the process is stopped and while the machine sleeps, but may stand still while a hypervisor
    /// pauses a virtual machine: what must not be written late needs [`store`](Self::store), or a
    /// [`fencing_token`](Self::fencing_token) that is compared.
    pub fn is_valid(&self) -> bool {
        self.0.lease.is_ahead()
    }

    /// Time until the lease ends unless it is renewed; zero once it is over.
    pub fn remaining(&self) -> Duration {
        self.0.lease.remaining()
    }

    /// Tells of each change of the lease, for a handler that must pass its end on, for instance to another process.
    ///
    /// To name the end as a point in time, read a clock *before* [`remaining`](Self::remaining) and add the two: read in the other
    /// order, a pause of this process between them would make it later than it is.
    pub fn lease_changes(&self) -> LeaseChanges {
        LeaseChanges::new(self.0.lease_changed.subscribe())
    }

    /// Resolves when the term is being wound down: finish and return.
    ///
    /// # Cancel safety
    /// Nothing is lost by dropping the future.
    pub async fn cancelled(&self) {
        self.0.cancel.cancelled().await;
    }

    /// Whether the term is being wound down.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancel.is_cancelled()
    }

    /// Runs `future` until it ends or the term is wound down; then it is dropped and `None` returned.
    pub async fn run_until_cancelled<F: Future>(&self, future: F) -> Option<F::Output> {
        self.0.cancel.run_until_cancelled(future).await
    }

    /// Runs `future` as a task of this term, on the current runtime.
    ///
    /// The role is not free for others before it has ended. It is dropped at its next await when the term's handler
    /// would be aborted; the task's result is `None` then. If the term has ended, it is not run at all.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<Option<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let (term, ending) = (self.clone(), self.0.ending.upgrade());
        tokio::spawn(async move {
            // Dropped after the future.
            let _running = ending?;
            term.0.run_within_lease(future).await
        })
    }

    /// The proof that goes with the last confirmed heartbeat: hand it to whoever should know that this instance leads, and
    /// ask for it anew each time. Nothing if no signing key is set, if the term is being wound down or over, and for the
    /// round trip between promotion and the first heartbeat.
    ///
    /// It is valid until the end of the lease at most. It may outlive the term, if that ends earlier.
    #[cfg(feature = "signing")]
    pub fn proof(&self) -> Option<crate::LeaderProof> {
        if !self.is_valid() || self.is_cancelled() {
            return None;
        }
        let proof = self.0.proof.lock().unwrap_or_else(PoisonError::into_inner);
        proof.as_ref()?.parse().ok()
    }

    /// What of NATS this role can rely on now. `Suspended` is the time to hold back what can wait.
    pub fn connection(&self) -> ConnectionStatus {
        *self.0.connection.borrow()
    }

    /// Keys and values of this role, in the bucket of the election, whose writes the server refuses once a newer term exists.
    pub fn store(&self) -> FencedStore {
        FencedStore::new(self.clone())
    }

    /// Proves the lease by a compare-and-set that is sent after this call, and returns the fencing token.
    ///
    /// # Errors
    /// [`TermError::NotLeader`] if this term is over; [`TermError::Unproven`] if there was no answer in time.
    ///
    /// # Cancel safety
    /// The renewal goes on if the future is dropped; nothing else is lost.
    pub async fn validate(&self) -> Result<FencingToken, TermError> {
        if !self.is_valid() || self.is_cancelled() {
            return Err(TermError::NotLeader);
        }
        let (reply, answer) = oneshot::channel();
        (self.0.ask)(Request::Validate {
            term: Some(self.0.id),
            reply,
        });
        proof(answer).await
    }

    /// Call this before a critical operation: it returns the fencing token to do it with.
    ///
    /// By the role's configuration it validates always (`fencing.validate_on_critical_ops`), or only when the last
    /// proof is older than `fencing.validation_interval`.
    ///
    /// # Errors
    /// As [`validate`](Self::validate).
    ///
    /// # Cancel safety
    /// As [`validate`](Self::validate).
    pub async fn authorize(&self) -> Result<FencingToken, TermError> {
        if !self.is_valid() || self.is_cancelled() {
            return Err(TermError::NotLeader);
        }
        let proved = Moment::from_nanos(self.0.proved.load(Ordering::Acquire));
        if self.0.validate_always || clock::now().since(proved) > self.0.validation_interval {
            return self.validate().await;
        }
        Ok(self.0.fencing_token)
    }
}

impl fmt::Debug for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Term")
            .field("role", &self.0.role)
            .field("fencing_token", &self.0.fencing_token)
            .field("cancelled", &self.is_cancelled())
            .finish_non_exhaustive()
    }
}

/// Waits for the answer to a validation.
pub(crate) async fn proof(answer: oneshot::Receiver<Reply>) -> Result<FencingToken, TermError> {
    match answer.await {
        Ok(Reply::Proved(token)) => Ok(token),
        Ok(Reply::Unproven(failure)) => Err(TermError::Unproven {
            reason: failure.detail,
        }),
        Ok(_) => Err(TermError::NotLeader),
        Err(_) => Err(TermError::Stopped),
    }
}
