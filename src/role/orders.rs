//! Orders of an operator to a role on this instance: whether it takes part in elections for new
//! terms.
//!
//! An order is kept with the role, which outlives a crash of its election. A new election begins as
//! the last order says. Orders are passed to the election in the order in which they were kept,
//! even if several callers give orders at the same time.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::scope::{Request, RoleScope};
use super::term::TermError;
use crate::error::Error;
use crate::lock::lock;
use crate::model::admin::{LONGEST_HOLD_OFF, known};
use nats_elect_core::handoff::Handoff;
use nats_elect_core::token::FencingToken;
use nats_elect_core::{Intent, Reply};

/// Whether an instance takes part in elections for new terms of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Take no new terms until resumed. A term that the instance has goes on.
    Pause,
    /// Take part in all elections again.
    Resume,
    /// Take no new terms. A term that the instance has ends, and the role is freed.
    Cordon,
}

impl From<Order> for Intent {
    fn from(order: Order) -> Self {
        match order {
            Order::Pause => Self::Pause,
            Order::Resume => Self::Resume,
            Order::Cordon => Self::Cordon,
        }
    }
}

/// The result of a term that was ended on purpose. In each case this instance does not lead any
/// more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SteppedDown {
    /// Whether the role was freed for others at once.
    ///
    /// If not, others take over when the lease has run out. Either NATS was out of reach, or the
    /// handler did not end in time.
    #[serde(default)]
    pub released: bool,
    /// The result of the handoff, if the role was freed for a successor.
    ///
    /// The successor is the instance that was named, one that was found ready, or one of higher
    /// priority that asked for the role meanwhile.
    #[serde(default, deserialize_with = "known")]
    pub handoff: Option<Handoff>,
}

/// How to step down.
#[derive(Clone, Debug)]
pub struct StepDown {
    pub(crate) to: Option<String>,
    pub(crate) expected: Option<FencingToken>,
    pub(crate) hold_off: Duration,
}

impl StepDown {
    /// The longest time for which an instance can be kept out of the election.
    pub const MAX_HOLD_OFF: Duration = LONGEST_HOLD_OFF;

    /// Any instance may lead next. The first one to claim the role wins. This instance takes part
    /// in the election again after its cool-down.
    pub const fn any() -> Self {
        Self {
            to: None,
            expected: None,
            hold_off: Duration::ZERO,
        }
    }

    /// The instance of this id is to lead next.
    ///
    /// It is asked first whether it is there, reaches the bucket, and passes its health check. The
    /// handler is wound down only if it confirms this. Then the role is freed in its name. The
    /// other instances leave it a heartbeat of time to claim the role before they do.
    ///
    /// The answer comes with the successor's claim. The successor leads, and its handler starts,
    /// once its fence record is confirmed too. That takes it about one more round trip. To go on
    /// from there, wait on the successor for
    /// [`wait_until_leading`](crate::RoleHandle::wait_until_leading).
    pub fn to(successor: impl Into<String>) -> Self {
        Self {
            to: Some(successor.into()),
            ..Self::any()
        }
    }

    /// Restricts the request to the term of this fencing token. If this instance is in another term
    /// by now, nothing is done, and the answer is [`Error::UnexpectedTerm`].
    #[must_use]
    pub const fn expecting(mut self, term: FencingToken) -> Self {
        self.expected = Some(term);
        self
    }

    /// Keeps this instance out of the election until this time is over, and at least until its
    /// cool-down is over. A longer time than [`MAX_HOLD_OFF`](Self::MAX_HOLD_OFF), a day, counts as
    /// a day.
    #[must_use]
    pub fn hold_off(mut self, time: Duration) -> Self {
        self.hold_off = time.min(Self::MAX_HOLD_OFF);
        self
    }
}

impl RoleScope {
    /// Returns whether this instance takes part in no election for a new term of the role.
    pub fn is_paused(&self) -> bool {
        *lock(&self.paused)
    }

    /// Gives an order at once. The future resolves when the election follows the order. For a
    /// cordon it resolves when the existing term has ended, with the result of that term.
    pub fn order(
        &self,
        order: Order,
    ) -> impl Future<Output = Result<Option<SteppedDown>, TermError>> + Send + use<> {
        let led = self
            .running()
            .filter(|term| order == Order::Cordon && !term.has_ended());
        let answer = {
            let mut paused = lock(&self.paused);
            *paused = order != Order::Resume;
            let (reply, answer) = oneshot::channel();
            let intent = order.into();
            (self.ask)(Request::Intend { intent, reply });
            answer
        };
        let ended = self.ended.clone();
        async move {
            match answer.await {
                Ok(Reply::SteppedDown { released, handoff }) => {
                    Ok(Some(SteppedDown { released, handoff }))
                }
                Ok(_) => Ok(None),
                Err(_) if ended.is_cancelled() => Err(TermError::Stopped),
                // The election crashed, and its term with it, if it had one. The next election
                // finds the order.
                Err(_) => match led {
                    Some(term) => {
                        term.ended().await;
                        Ok(Some(SteppedDown {
                            released: false,
                            handoff: None,
                        }))
                    }
                    None => Ok(None),
                },
            }
        }
    }

    /// Ends the term: this one, if one is expected, and in the name of this successor, if there is
    /// to be one. Waits for both.
    pub async fn step_down(&self, how: StepDown) -> Result<SteppedDown, Error> {
        let (successor, expected) = (how.to.clone().unwrap_or_default(), how.expected);
        let (reply, answer) = oneshot::channel();
        let intent = Intent::StepDown {
            to: how.to,
            expected,
            hold_off: how.hold_off,
        };
        (self.ask)(Request::Intend { intent, reply });
        match answer.await {
            Ok(Reply::SteppedDown { released, handoff }) => Ok(SteppedDown { released, handoff }),
            Ok(Reply::SuccessorAbsent) => Err(Error::SuccessorAbsent { successor }),
            Ok(Reply::SuccessorRefused(reason)) => {
                Err(Error::SuccessorRefused { successor, reason })
            }
            Ok(_) => Err(self.not_in_term(expected)),
            Err(_) => Err(Error::Stopped),
        }
    }

    /// Returns why a request to the leader of a term was refused.
    fn not_in_term(&self, expected: Option<FencingToken>) -> Error {
        let current = self.status.borrow().fencing_token;
        match current.filter(|_| self.is_leader()) {
            Some(fencing_token) if expected.is_some_and(|term| term != fencing_token) => {
                Error::UnexpectedTerm { fencing_token }
            }
            _ => Error::NotLeader,
        }
    }

    /// Passes the order to an election that has just begun, because the order may have changed
    /// since the start of that election was decided.
    pub fn repeat_order(&self) {
        let order = if self.is_paused() {
            Order::Pause
        } else {
            Order::Resume
        };
        drop(self.order(order));
    }
}
