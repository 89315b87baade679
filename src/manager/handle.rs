//! The handle on one role.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, stream};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::oneshot;

use crate::error::Error;
use crate::model::admin::LONGEST_HOLD_OFF;
use crate::model::status::RoleStatus;
use crate::role::{Order, Request, RoleScope, SteppedDown, proof};
use nats_elect_core::Reply;
use nats_elect_core::event::Event;
use nats_elect_core::status::LeaderInfo;
use nats_elect_core::token::FencingToken;

/// How to step down.
#[derive(Clone, Debug)]
pub struct StepDown {
    pub(crate) to: Option<String>,
    pub(crate) expected: Option<FencingToken>,
    pub(crate) hold_off: Duration,
}

impl StepDown {
    /// Whoever claims the role first may lead next. This instance stands again after its cool-down.
    pub const fn any() -> Self {
        Self {
            to: None,
            expected: None,
            hold_off: Duration::ZERO,
        }
    }

    /// The instance of this id is to lead next.
    ///
    /// It is asked first whether it is there, reaches the bucket, and is well. Only if it says so is the handler wound down; then
    /// the role is freed in its name. The other instances leave it a heartbeat to claim the role before they do.
    pub fn to(successor: impl Into<String>) -> Self {
        Self {
            to: Some(successor.into()),
            ..Self::any()
        }
    }

    /// Only the term of this fencing token is meant: if this instance is in another one by now, nothing is done, and
    /// the answer is [`Error::NotLeader`].
    #[must_use]
    pub const fn expecting(mut self, term: FencingToken) -> Self {
        self.expected = Some(term);
        self
    }

    /// This instance does not stand again before this time is over, at most a day, nor before its cool-down is.
    #[must_use]
    pub fn hold_off(mut self, time: Duration) -> Self {
        self.hold_off = time.min(LONGEST_HOLD_OFF);
        self
    }
}

/// One role on this instance. Cheap to clone.
#[derive(Clone)]
pub struct RoleHandle {
    scope: Arc<RoleScope>,
}

impl RoleHandle {
    pub(super) const fn new(scope: Arc<RoleScope>) -> Self {
        Self { scope }
    }

    /// The role's name.
    pub fn name(&self) -> &str {
        self.scope.role.as_str()
    }

    /// Whether this instance leads, by the clock at the time of this call.
    ///
    /// It asks nobody and waits for nothing, and never says `true` after the lease has ended, also in a process that
    /// was paused or on a machine that slept. It says `false` as soon as the term is being wound down.
    ///
    /// A virtual machine that its hypervisor paused may have a clock that stood still: there it may say `true` until the next
    /// heartbeat is refused. The README says what to do about that.
    pub fn is_leader(&self) -> bool {
        self.scope.is_leader()
    }

    /// Who leads, as far as this instance knows.
    pub fn leader(&self) -> Option<LeaderInfo> {
        self.scope.status.borrow().leader.clone()
    }

    /// The status at the time of this call.
    pub fn status(&self) -> RoleStatus {
        self.scope.status()
    }

    /// What happens from now on. A reader that is too slow is told how much it missed, by [`Event::Lagged`]. The stream
    /// ends with the role.
    ///
    /// # Cancel safety
    /// Nothing is lost by dropping a `next` that waits.
    pub fn events(&self) -> impl Stream<Item = Event> + Send + Unpin + use<> {
        let events = self.scope.events.subscribe();
        let ended = self.scope.ended.clone();
        Box::pin(stream::unfold(
            (events, ended),
            |(mut events, ended)| async move {
                let event = tokio::select! {
                    biased;
                    event = events.recv() => event,
                    () = ended.cancelled() => return None,
                };
                match event {
                    Ok(event) => Some((event, (events, ended))),
                    Err(RecvError::Lagged(missed)) => {
                        Some((Event::Lagged { missed }, (events, ended)))
                    }
                    Err(RecvError::Closed) => None,
                }
            },
        ))
    }

    /// Waits until somebody is known to lead, this instance or another.
    ///
    /// # Errors
    /// [`Error::Stopped`] if the role is stopped meanwhile.
    ///
    /// # Cancel safety
    /// Nothing is lost by dropping the future.
    pub async fn wait_for_leader(&self) -> Result<LeaderInfo, Error> {
        let mut leader = self.scope.leader.subscribe();
        let ended = self.scope.ended.clone();
        let known = async {
            let found = leader.wait_for(Option::is_some).await.ok()?;
            found.clone()
        };
        ended
            .run_until_cancelled(known)
            .await
            .flatten()
            .ok_or(Error::Stopped)
    }

    /// Proves leadership by a compare-and-set that is sent after this call, and returns the fencing token.
    ///
    /// # Errors
    /// [`Error::NotLeader`]; [`Error::Unproven`] if there was no answer in time; [`Error::Stopped`].
    ///
    /// # Cancel safety
    /// The renewal goes on if the future is dropped; nothing else is lost.
    pub async fn validate(&self) -> Result<FencingToken, Error> {
        let (reply, answer) = oneshot::channel();
        (self.scope.ask)(Request::Validate { term: None, reply });
        Ok(proof(answer).await?)
    }

    /// Ends this instance's term: its handler is wound down, then the role is freed. Waits for both, and with
    /// [`StepDown::to`] also until the successor has claimed the role, or a heartbeat and a request timeout have passed.
    ///
    /// # Errors
    /// [`Error::NotLeader`] if this instance does not lead, is not in the term that was [expected](StepDown::expecting), or
    /// its term ended meanwhile; [`Error::Stopped`]. [`Error::SuccessorAbsent`] and [`Error::SuccessorRefused`]: nothing was done, this instance leads on.
    ///
    /// # Cancel safety
    /// The term ends all the same if the future is dropped.
    pub async fn step_down(&self, how: StepDown) -> Result<SteppedDown, Error> {
        let StepDown {
            to,
            expected,
            hold_off,
        } = how;
        let successor = to.clone().unwrap_or_default();
        let (reply, answer) = oneshot::channel();
        (self.scope.ask)(Request::StepDown {
            to,
            expected,
            hold_off,
            reply,
        });
        match answer.await {
            Ok(Reply::SteppedDown { released, handoff }) => Ok(SteppedDown { released, handoff }),
            Ok(Reply::SuccessorAbsent) => Err(Error::SuccessorAbsent { successor }),
            Ok(Reply::SuccessorRefused(reason)) => {
                Err(Error::SuccessorRefused { successor, reason })
            }
            Ok(_) => Err(Error::NotLeader),
            Err(_) => Err(Error::Stopped),
        }
    }

    /// This instance stands for no new term of the role from now on, until [`resume`](Self::resume). A term that it has goes
    /// on, and if that ends, it stays out. Meanwhile it watches: status and events tell who leads.
    ///
    /// It is kept in this process alone, where it outlives a crash of the election: a process that starts again stands again. Of
    /// several calls, also of those of the manager, the last one counts. Pausing what is paused changes nothing.
    ///
    /// When this returns, no claim is sent any more. One that was under way is given back if it is won.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    ///
    /// # Cancel safety
    /// Once polled, the role is paused all the same if the future is dropped.
    pub async fn pause(&self) -> Result<(), Error> {
        self.scope.order(Order::Pause).await?;
        Ok(())
    }

    /// This instance stands for the role again, at once, or after its cool-down if one runs. Resuming what is not paused changes nothing.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    ///
    /// # Cancel safety
    /// Once polled, the role is resumed all the same if the future is dropped.
    pub async fn resume(&self) -> Result<(), Error> {
        self.scope.order(Order::Resume).await?;
        Ok(())
    }

    /// [Pauses](Self::pause), and ends the term that this instance has: for maintenance. The handler is wound down, then the
    /// role is freed whatever `delete_on_stop` says, in the name of another instance that is ready to take it, if one
    /// answers.
    ///
    /// Waits until the term has ended and, if there is an heir, until it has claimed the role, or a heartbeat and a request timeout have
    /// passed; returns what became of it, or nothing if this instance did not lead. While NATS is out of reach, the role can't be
    /// freed before it is back, and others take over when the lease has run out, at the latest.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    ///
    /// # Cancel safety
    /// Once polled, the role is cordoned all the same if the future is dropped.
    pub async fn cordon(&self) -> Result<Option<SteppedDown>, Error> {
        Ok(self.scope.order(Order::Cordon).await?)
    }

    /// Makes the election's actor panic, to test what becomes of its handler.
    #[cfg(test)]
    #[doc(hidden)]
    pub fn crash_election(&self) {
        (self.scope.ask)(Request::Crash);
    }
}

impl fmt::Debug for RoleHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoleHandle")
            .field("role", &self.scope.role)
            .field("status", &self.status())
            .finish()
    }
}
