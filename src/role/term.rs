//! A term, as its handler sees it.

use std::fmt;
use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::Poll;
use std::time::Duration;

use futures::stream::{self, Stream};
use thiserror::Error;
use tokio::sync::{OnceCell, Semaphore, oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::deadline::Deadline;
use super::fenced::{Allowance, FencedStore};
use super::polls::Polls;
use super::running::{Ending, TermSetup};
use super::scope::Request;
use crate::clock;
use nats_elect_core::Moment;
use nats_elect_core::name::UnitName;
use nats_elect_core::plan::MOST_WEIGHT;
use nats_elect_core::status::ConnectionStatus;
use nats_elect_core::token::{CorrelationId, FencingToken, LeaseToken};
use nats_elect_core::{Reply, TermStart};

/// The reason why leadership could not be proved or given up.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TermError {
    /// The term is over, or the instance does not lead. Stop acting as leader.
    #[error("this instance does not lead the role (any more): stop acting as its leader")]
    NotLeader,
    /// No proof could be obtained just now. The lease may still be valid. Do not do the critical
    /// operation, and ask again.
    #[error(
        "leadership could not be proved just now ({reason}): do nothing critical, and ask again"
    )]
    Unproven {
        /// The cause of the failure.
        reason: String,
    },
    /// The role has been stopped.
    #[error("the role is stopped on this instance: add it again, or start a new manager")]
    Stopped,
}

impl TermError {
    /// Returns whether asking again may help.
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Unproven { .. })
    }
}

/// One unbroken leadership of this instance over a role.
///
/// A `Term` is cheap to clone. All clones are the same term.
///
/// A term ends once. An old `Term` never becomes valid again, even when its instance is elected
/// anew.
#[derive(Clone)]
pub struct Term(pub(super) Arc<TermInner>);

pub(super) struct TermInner {
    pub setup: TermSetup,
    pub start: TermStart,
    pub correlation_id: CorrelationId,
    pub lease: Deadline,
    /// The end of the lease. It is kept after the lease was revoked.
    pub until: AtomicU64,
    /// Notified when the lease is extended or revoked.
    pub lease_changed: watch::Sender<()>,
    /// The time at which the last confirmed compare-and-set was sent.
    pub proved: AtomicU64,
    pub cancel: CancellationToken,
    /// When the handler is aborted if it has not ended. It is set when the term is cancelled.
    pub stop_by: OnceLock<Moment>,
    pub abort: CancellationToken,
    /// The polls of everything of the term that runs. They show whether it blocks a thread.
    pub polls: Polls,
    /// Held by everything of the term that runs.
    pub ending: Weak<Ending>,
    /// The proof of the last confirmed heartbeat, if this instance signs.
    pub proof: Mutex<Option<String>>,
    /// The sequence of the unit's fence, once this term has raised it.
    pub fence: OnceCell<u64>,
    /// Fenced writes of the term under way.
    pub lanes: Semaphore,
    /// The allowance of data, if there is a limit.
    pub allowance: Option<Allowance>,
    /// The work that the unit makes, as its handler told last. 0: it told nothing.
    pub load: AtomicU32,
}

impl TermInner {
    pub fn until(&self) -> Moment {
        Moment::from_nanos(self.until.load(Ordering::Acquire))
    }

    /// Asks the handler to end.
    pub fn wind_down(&self) {
        self.stop_by.get_or_init(|| {
            let settings = &self.setup.settings;
            let stop_by = clock::now() + settings.stop_budget;
            stop_by.min(self.until() - settings.abort_allowance())
        });
        self.cancel.cancel();
    }

    /// Resolves when a request must be given up so that the handler can end by itself: when half of
    /// the time is over that is left from the cancellation, or from this call if it comes later.
    ///
    /// It never resolves once the handler has been aborted.
    pub async fn must_end(&self) {
        self.cancel.cancelled().await;
        let left = self.stop_by.get().map(|by| by.since(clock::now()));
        match left.filter(|left| !left.is_zero()) {
            Some(left) => tokio::time::sleep(left / 2).await,
            None => std::future::pending().await,
        }
    }

    /// Runs `future` until it ends or the term is aborted.
    ///
    /// After the end of the lease the future is not polled any more, however late the abort comes.
    /// The process may have been paused.
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
            // The election decides why the term ended.
            self.abort.cancelled().await;
        }
        output
    }
}

impl Term {
    /// Returns the role's name. For a unit of a group it is `<group>/<unit>`.
    pub fn role(&self) -> &str {
        &self.0.setup.name
    }

    /// Returns the name of the unit within its group. It is `None` for a role.
    pub fn unit(&self) -> Option<&str> {
        self.0.setup.unit.as_ref().map(UnitName::as_str)
    }

    /// Returns the number of the shard, from 0 on. It is `None` for anything but a unit of a
    /// sharded group.
    pub fn shard(&self) -> Option<u32> {
        self.0.setup.unit.as_ref()?.as_shard()
    }

    /// Tells how much work this unit makes now, in a measure that is the same for all units of its
    /// group: requests a second, say. From 1 to 1,000,000; 0 counts as 1.
    ///
    /// The unit then weighs that much when its group is balanced, instead of what the settings say.
    /// It counts as soon as each instance that owns units has told of one. Units of which nothing
    /// was told count as the mean of the others. Only the 32 heaviest units of each instance are
    /// told one by one, and the rest as a sum. The load rides on the next heartbeat, so call this
    /// as often as you like. It has no effect for a role.
    pub fn report_load(&self, load: u32) {
        self.0
            .load
            .store(load.clamp(1, MOST_WEIGHT), Ordering::Relaxed);
    }

    /// Returns how many shards the group has in the generation of this term. It is `None` for anything
    /// but a unit of a sharded group.
    ///
    /// It does not change while the term lasts. [`shard_of`](crate::shard_of)
    /// with this number tells whether a key belongs to this shard. Do not ask the
    /// [`GroupHandle`](crate::GroupHandle) for that: when the group gets another number of shards, it
    /// tells the new one before the old terms have ended.
    pub fn shards(&self) -> Option<u32> {
        self.0.setup.shards
    }

    /// Returns the ordered number of this term. The systems that the handler writes to compare it.
    pub fn fencing_token(&self) -> FencingToken {
        self.0.start.fencing_token
    }

    /// Returns the name of this term in logs, spans and published events, here and in the status of
    /// its role. It is not a secret.
    pub fn correlation_id(&self) -> &CorrelationId {
        &self.0.correlation_id
    }

    /// Returns the secret of this term. Do not log it.
    pub fn lease_token(&self) -> LeaseToken {
        self.0.start.lease_token
    }

    /// Returns whether the lease still lasts, by the clock at the time of this call.
    ///
    /// It may stay `true` for a while after [`cancelled`](Self::cancelled) resolves, so that you
    /// can finish under the lease. Once it has been `false` it stays `false`. The call costs one
    /// clock reading and waits for nothing.
    ///
    /// The clock goes on while the process is stopped and while the machine sleeps. It may stand
    /// still while a hypervisor pauses a virtual machine. If something must not be written late,
    /// use [`store`](Self::store), or a [`fencing_token`](Self::fencing_token) that is compared.
    pub fn is_valid(&self) -> bool {
        self.0.lease.is_ahead()
    }

    /// Returns the time until the lease ends unless it is renewed. It is zero once the lease is
    /// over.
    pub fn remaining(&self) -> Duration {
        self.0.lease.remaining()
    }

    /// Notifies of each change of the lease. Use it in a handler that must pass the end of the
    /// lease on, for instance to another process.
    ///
    /// To express the end as a point in time, read a clock *before* [`remaining`](Self::remaining)
    /// and add the two. If you read them in the other order, a pause of this process between them
    /// would make the end later than it is.
    ///
    /// Several changes in a row count as one. The end of a lease that runs out is not a change: only
    /// the clock shows it. Once the term is forgotten nothing comes any more.
    pub fn lease_changes(&self) -> impl Stream<Item = ()> + Send + Unpin + use<> {
        let changes = self.0.lease_changed.subscribe();
        Box::pin(stream::unfold(changes, |mut changes| async move {
            if changes.changed().await.is_err() {
                pending::<()>().await;
            }
            Some(((), changes))
        }))
    }

    /// Resolves when the term is being wound down. Finish your work and return then.
    ///
    /// # Cancel safety
    /// This method is cancel safe. Nothing is lost if the future is dropped.
    pub async fn cancelled(&self) {
        self.0.cancel.cancelled().await;
    }

    /// Returns whether the term is being wound down.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancel.is_cancelled()
    }

    /// Runs `future` until it ends or the term is wound down. When the term is wound down, the
    /// future is dropped and `None` is returned.
    pub async fn run_until_cancelled<F: Future>(&self, future: F) -> Option<F::Output> {
        self.0.cancel.run_until_cancelled(future).await
    }

    /// Runs `future` as a task of this term, on the current runtime.
    ///
    /// The role is not free for others before the task has ended. The task is dropped at its next
    /// await when the term's handler would be aborted. Its result is `None` then. If the term has
    /// ended, the future is not run at all.
    ///
    /// # Panics
    /// Panics if called outside a tokio runtime.
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

    /// Returns the proof that goes with the last confirmed heartbeat: the text that the
    /// [signer](crate::RoleManagerBuilder::signer) made.
    ///
    /// Give it to anyone who should know that this instance leads. Ask for a new one each time.
    ///
    /// The result is `None` if there is no signer, or if the term is being wound down or over.
    /// It is also `None` for the round trip between promotion and the first heartbeat.
    ///
    /// The proof is valid until the end of the lease at most. It may outlive the term, if the term
    /// ends earlier.
    pub fn proof(&self) -> Option<String> {
        if !self.in_office() {
            return None;
        }
        crate::lock::lock(&self.0.proof).clone()
    }

    /// Whether the term is neither over nor being wound down.
    pub(super) fn in_office(&self) -> bool {
        self.is_valid() && !self.is_cancelled()
    }

    /// Returns how far this role can rely on NATS now. While it is `Suspended`, hold back work that
    /// can wait.
    pub fn connection(&self) -> ConnectionStatus {
        *self.0.setup.connection.borrow()
    }

    /// Returns the keys and values of this role, in the bucket of the election. The server refuses
    /// writes to them once a newer term exists.
    pub fn store(&self) -> FencedStore {
        FencedStore::new(self.clone())
    }

    /// Proves the lease by a compare-and-set that is sent after this call, and returns the fencing
    /// token.
    ///
    /// # Errors
    /// Returns [`TermError::NotLeader`] if this term is over. Returns [`TermError::Unproven`] if
    /// there was no answer in time.
    ///
    /// # Cancel safety
    /// The renewal goes on if the future is dropped. Nothing else is lost.
    pub async fn validate(&self) -> Result<FencingToken, TermError> {
        if !self.in_office() {
            return Err(TermError::NotLeader);
        }
        let (reply, answer) = oneshot::channel();
        (self.0.setup.ask)(Request::Validate {
            term: Some(self.0.start.term),
            reply,
        });
        proof(answer).await
    }

    /// Authorizes a critical operation, and returns the fencing token to do it with. Call this
    /// before each critical operation.
    ///
    /// The role's configuration decides when it validates. With `validate_on_critical_ops` it
    /// always does. Otherwise it does only when the last proof is older than a third of the ttl.
    ///
    /// # Errors
    /// The same as [`validate`](Self::validate).
    ///
    /// # Cancel safety
    /// The same as [`validate`](Self::validate).
    pub async fn authorize(&self) -> Result<FencingToken, TermError> {
        if !self.in_office() {
            return Err(TermError::NotLeader);
        }
        let proved = Moment::from_nanos(self.0.proved.load(Ordering::Acquire));
        let settings = &self.0.setup.settings;
        if settings.validate_on_critical_ops
            || clock::now().since(proved) > settings.validation_interval
        {
            return self.validate().await;
        }
        Ok(self.fencing_token())
    }
}

impl fmt::Debug for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Term")
            .field("role", &self.role())
            .field("fencing_token", &self.fencing_token())
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
