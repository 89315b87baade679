//! What an operator asks of a role on this instance: whether it stands for new terms.
//!
//! The order is kept with the role, which outlives a crash of its election: a new one begins as the last order says. It is
//! told to the election in the order in which it was kept, whoever gives orders at the same time.

use std::sync::{Mutex, PoisonError};

use tokio::sync::oneshot;

use super::scope::{Request, RoleScope};
use super::term::TermError;
use nats_elect_core::Reply;
use nats_elect_core::handoff::Handoff;

/// Whether an instance stands for new terms of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// For none, until it is resumed; a term that it has goes on.
    Pause,
    /// For all again.
    Resume,
    /// For none; a term that it has ends, and the role is freed.
    Cordon,
}

/// What became of a term that was ended on purpose. In each case this instance leads no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SteppedDown {
    /// Whether the role was freed for others at once. If not, they take over when its lease has run out: NATS was out
    /// of reach, or the handler did not end in time.
    pub released: bool,
    /// What became of it, if the role was freed for a successor: the one that was named, one that was found ready, or one of
    /// higher priority that asked for the role meanwhile.
    pub handoff: Option<Handoff>,
}

/// Whether a role is paused, by the last order.
#[derive(Debug, Default)]
pub(super) struct Orders(Mutex<bool>);

impl RoleScope {
    /// Whether this instance stands for no new term of the role.
    pub fn is_paused(&self) -> bool {
        *self.orders.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives an order, at once; resolves when the election follows it, and for a cordon when the term that there was has
    /// ended: then with what became of it.
    pub fn order(
        &self,
        order: Order,
    ) -> impl Future<Output = Result<Option<SteppedDown>, TermError>> + Send + use<> {
        let led = self
            .running()
            .filter(|term| order == Order::Cordon && !term.has_ended());
        let answer = {
            let paused = self.orders.0.lock();
            let mut paused = paused.unwrap_or_else(PoisonError::into_inner);
            *paused = order != Order::Resume;
            let (reply, answer) = oneshot::channel();
            (self.ask)(Request::Order { order, reply });
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
                // The election crashed, and with it its term, if there was one. The next one finds the order.
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

    /// Tells an election that has just begun what was ordered since its beginning was decided.
    pub fn repeat_order(&self) {
        let order = if self.is_paused() {
            Order::Pause
        } else {
            Order::Resume
        };
        drop(self.order(order));
    }
}
