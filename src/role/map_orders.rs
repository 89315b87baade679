//! Orders about the map of a group that is one.

use tokio::sync::oneshot;

use super::group_requests::{GroupRequest, MoveError, Taker};
use super::group_scope::{GroupScope, UnitOwner};
use nats_elect_core::assignment::Epoch;
use nats_elect_core::member::{Order, Reply};
use nats_elect_core::name::UnitName;

const IN_CHANGE: &str = "too many former owners may still act on it: `nats-elect group explain` shows for whom it waits";
const NO_ANSWER: &str = "this instance knows no map of the group, or has just lost its lease";

impl GroupScope {
    /// Has an order carried out. `None` if the actor ends before that.
    pub async fn order(&self, order: Order) -> Option<Reply> {
        let (reply, answer) = oneshot::channel();
        self.ask(GroupRequest::Order(order, reply));
        answer.await.ok()
    }

    /// Has a unit given to a member, and waits until the map says so.
    pub(super) async fn move_in_map(
        &self,
        unit: &str,
        taker: Taker<'_>,
    ) -> Result<UnitOwner, MoveError> {
        let unknown = || MoveError::UnknownUnit {
            group: self.name.to_string(),
            unit: unit.to_owned(),
        };
        let name = UnitName::new(unit).map_err(|_| unknown())?;
        let instance = || match taker {
            Taker::This => String::new(),
            Taker::Instance(id) => id.to_owned(),
        };
        let to = self.epoch_of(taker).ok_or_else(|| match taker {
            Taker::This => MoveError::NotHere,
            Taker::Instance(_) => MoveError::NotAMember {
                instance: instance(),
            },
        })?;
        if self.read(|board| {
            board
                .units
                .get(&name)
                .is_some_and(|it| it.owner == Some(to))
        }) {
            return Err(MoveError::AlreadyThere {
                unit: unit.to_owned(),
                instance: instance(),
            });
        }
        let not_ready = |why| MoveError::NotReady {
            unit: unit.to_owned(),
            why,
        };
        let after = self.moves_within();
        let ordered = tokio::time::timeout(after, self.order(Order::Move(name.clone(), to)));
        match ordered.await {
            Err(_) => Err(MoveError::TimedOut {
                unit: unit.to_owned(),
                after,
            }),
            Ok(None) => Err(MoveError::NotHere),
            Ok(Some(Reply::Done)) => self
                .read(|board| board.owner(&name))
                .ok_or_else(|| not_ready(NO_ANSWER)),
            Ok(Some(Reply::NoUnit)) => Err(unknown()),
            Ok(Some(Reply::NoMember)) => Err(MoveError::TakesNone {
                instance: instance(),
            }),
            Ok(Some(Reply::InChange)) => Err(not_ready(IN_CHANGE)),
            Ok(Some(_)) => Err(not_ready(NO_ANSWER)),
        }
    }

    fn epoch_of(&self, taker: Taker<'_>) -> Option<Epoch> {
        self.read(|board| match taker {
            Taker::This => board.own,
            Taker::Instance(id) => {
                let mut members = board.members.iter();
                members.find_map(|(epoch, it)| (**it == *id).then_some(*epoch))
            }
        })
    }
}
