//! The handle on one role.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, stream};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::oneshot;

use super::error::Error;
use crate::election::Reply;
use crate::model::event::{Event, Handoff};
use crate::model::status::{LeaderInfo, RoleStatus};
use crate::model::token::FencingToken;
use crate::role::{Request, RoleScope, proof};

/// The longest hold-off: whoever means longer removes the role.
const LONGEST_HOLD_OFF: Duration = Duration::from_secs(24 * 60 * 60);

/// How to step down.
#[derive(Clone, Debug)]
pub struct StepDown {
    to: Option<String>,
    hold_off: Duration,
}

impl StepDown {
    /// Whoever claims the role first may lead next. This instance stands again after its cool-down.
    pub const fn any() -> Self {
        Self {
            to: None,
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

    /// This instance does not stand again before this time is over, at most a day, nor before its cool-down is.
    #[must_use]
    pub fn hold_off(mut self, time: Duration) -> Self {
        self.hold_off = time.min(LONGEST_HOLD_OFF);
        self
    }
}

/// What became of a step-down. In each case this instance leads no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SteppedDown {
    /// Whether the role was freed for others at once. If not, they take over when its lease has run out: NATS was out
    /// of reach, or the handler did not end in time.
    pub released: bool,
    /// What became of it, if the role was freed for a successor: the one that was named, or one of higher priority that asked for the role
    /// meanwhile.
    pub handoff: Option<Handoff>,
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
    /// was paused. It says `false` as soon as the term is being wound down.
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
    /// [`Error::NotLeader`] if this instance does not lead, or its term ended meanwhile; [`Error::Stopped`].
    /// [`Error::SuccessorAbsent`] and [`Error::SuccessorRefused`]: nothing was done, this instance leads on.
    ///
    /// # Cancel safety
    /// The term ends all the same if the future is dropped.
    pub async fn step_down(&self, how: StepDown) -> Result<SteppedDown, Error> {
        let StepDown { to, hold_off } = how;
        let successor = to.clone().unwrap_or_default();
        let (reply, answer) = oneshot::channel();
        (self.scope.ask)(Request::StepDown {
            to,
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

    /// Makes the election's actor panic, to test what becomes of its handler.
    #[cfg(feature = "testing")]
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
