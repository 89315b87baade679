//! Orders about the map of a group: moves by hand, and another number of shards.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::oneshot;

use super::group_requests::{GroupRequest, GroupView, Taker};
use super::group_scope::{GroupScope, UnitOwner};
use crate::model::config::MOST_SHARDS;
use crate::model::unit_explanation::ALL_WAIT;
use nats_elect_core::assignment::{Epoch, Map, Units};
use nats_elect_core::duration::rounded;
use nats_elect_core::member::{Order, Reply};
use nats_elect_core::name::UnitName;
use nats_elect_core::plan::{Reason, Standing};

/// The reason why a unit was not moved.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MoveError {
    /// The group has no unit of this name.
    #[error("group {group:?} has no unit {unit:?}")]
    UnknownUnit {
        /// The group.
        group: String,
        /// The unit.
        unit: String,
    },
    /// The unit can't have another owner now.
    #[error("unit {unit:?} can't have another owner now: {why}")]
    NotReady {
        /// The unit.
        unit: String,
        /// The reason, and what to do about it, in words.
        why: &'static str,
    },
    /// No living instance of this id takes part in the group.
    #[error("{instance:?} takes no part in the group, or sends no heartbeats")]
    NotAMember {
        /// The instance.
        instance: String,
    },
    /// The instance takes no units: it is cordoned, stops, or has not joined yet.
    #[error("{instance:?} takes no units: it is cordoned, stops, or has only just started")]
    TakesNone {
        /// The instance.
        instance: String,
    },
    /// The instance owns the unit already.
    #[error("{instance:?} owns unit {unit:?} already")]
    AlreadyThere {
        /// The unit.
        unit: String,
        /// The instance.
        instance: String,
    },
    /// The group's plan would take the unit away again. Nothing was done.
    #[error(
        "the group's plan would take unit {unit:?} away from {instance:?} again ({cause}): {}",
        remedy(*.cause)
    )]
    TakenBack {
        /// The unit.
        unit: String,
        /// The instance.
        instance: String,
        /// The reason for which the plan would do so.
        cause: Reason,
    },
    /// The move was not seen in time. It may still come about.
    #[error(
        "the move of unit {unit:?} was not seen within {}: an instance may be cut off, or a handler may still run", rounded(*.after)
    )]
    TimedOut {
        /// The unit.
        unit: String,
        /// How long the caller waited.
        after: Duration,
    },
    /// This instance is not a member of the group now, or follows no map of it.
    #[error(
        "this instance is not a member of the group now, or knows no map of it that it can follow: \
         ask another one (`nats-elect group show` lists the members)"
    )]
    NotHere,
}

/// The reason why a group did not get another number of shards.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ResizeError {
    /// The group has named units.
    #[error("the group has named units, and no shards")]
    NotSharded,
    /// A group has 1 to 65,536 shards.
    #[error("a group has 1 to {MOST_SHARDS} shards, and not {0}")]
    Shards(u32),
    /// A map with so many shards may need a message that is larger than the bucket takes.
    #[error(
        "a map of {shards} shards may need a message of {size} bytes, and the bucket takes {most} \
         (`max_payload` of the server, `max_msg_size` of the bucket): raise that, or have fewer shards"
    )]
    TooLarge {
        /// The number of shards.
        shards: u32,
        /// The size of the message in bytes.
        size: usize,
        /// The largest message that the bucket takes, in bytes.
        most: usize,
    },
    /// The group was resized a million times, or the bucket takes smaller messages since a moment ago.
    #[error("the group can't have another number of shards: its members refuse it")]
    Refused,
    /// No unit may get an owner in this bucket yet. Nothing was done.
    #[error("{ALL_WAIT}")]
    OwnersWait,
    /// The new number was not seen in time. It may still come about.
    #[error("no map has the new number after {}: this instance may be cut off", rounded(*.after))]
    TimedOut {
        /// How long the caller waited.
        after: Duration,
    },
    /// This instance is not a member of the group now, or follows no map of it.
    #[error(
        "this instance is not a member of the group now, or knows no map of it that it can follow: \
         ask another one (`nats-elect group show` lists the members)"
    )]
    NotHere,
}

const IN_CHANGE: &str = "too many former owners may still act on it: `nats-elect group explain` shows for whom it waits";
const NO_ANSWER: &str = "this instance knows no map of the group, or has just lost its lease";

/// What to do about a move that a plan would undo.
const fn remedy(cause: Reason) -> &'static str {
    match cause {
        Reason::Room => {
            "the room there is for a unit that no other instance may take: give others what that \
             unit requires, or raise `max_units`"
        }
        Reason::Cordoned => "the instance is cordoned: resume it",
        Reason::Labels => {
            "the instance lacks a label that the unit requires: `nats-elect group explain` shows which"
        }
        Reason::Full => {
            "the instance has as many units as its `max_units`: raise that, or move another unit away"
        }
        Reason::Failing => {
            "it keeps failing there: see the instance's log, and try again in five minutes"
        }
        Reason::Zones => {
            "that zone has as many units of its set as another one, or more: move one of them out first"
        }
        Reason::Apart => "a unit is there from which it should be apart: move that one first",
        Reason::Preference => {
            "another instance has more of the labels that it prefers: change `prefers` or the labels"
        }
        Reason::Balance => {
            "the instance would have more than its share of load: give the unit a weight, or move \
             another unit away first"
        }
        _ => "`nats-elect group explain` shows what speaks against the instance",
    }
}

impl GroupScope {
    /// Has an order carried out. `None` if the actor ends before that.
    async fn order(&self, order: Order) -> Option<Reply> {
        let (reply, answer) = oneshot::channel();
        self.ask(GroupRequest::Order(order, reply));
        answer.await.ok()
    }

    /// Has a unit given to a member, and waits until the map says so; if it is this one, until its
    /// handler may act.
    pub async fn move_unit(&self, unit: &str, taker: Taker<'_>) -> Result<UnitOwner, MoveError> {
        let (name, to) = self.judge(unit, taker).await?;
        let after = self.moves_within();
        let moving = async {
            self.order_move(&name, to, taker).await?;
            Ok(self.is_there(&name, to, taker).await)
        };
        let moved = tokio::time::timeout(after, moving).await;
        moved.unwrap_or_else(|_| {
            Err(MoveError::TimedOut {
                unit: unit.to_owned(),
                after,
            })
        })
    }

    async fn order_move(
        &self,
        unit: &UnitName,
        to: Epoch,
        taker: Taker<'_>,
    ) -> Result<(), MoveError> {
        let not_ready = |why| MoveError::NotReady {
            unit: unit.to_string(),
            why,
        };
        match self.order(Order::Move(unit.clone(), to)).await {
            None => Err(MoveError::NotHere),
            Some(Reply::Done) => Ok(()),
            Some(Reply::NoUnit) => Err(self.unknown(unit.as_str())),
            Some(Reply::NoMember) => Err(MoveError::TakesNone {
                instance: match taker {
                    Taker::Instance(id) => id.to_owned(),
                    Taker::This => self.instance.to_string(),
                },
            }),
            Some(Reply::InChange) => Err(not_ready(IN_CHANGE)),
            Some(Reply::OwnersWait) => Err(not_ready(ALL_WAIT)),
            Some(_) => Err(not_ready(NO_ANSWER)),
        }
    }

    /// Waits until the board shows it.
    async fn is_there(&self, unit: &UnitName, to: Epoch, taker: Taker<'_>) -> UnitOwner {
        let is_own = matches!(taker, Taker::This);
        let mut changed = self.changed();
        loop {
            changed.mark_unchanged();
            let owner = self.read(|board| {
                let is_there = board.units.get(unit)?.owner == Some(to);
                is_there.then(|| board.owner(unit))?
            });
            if let Some(owner) = owner.filter(|it| it.acts_here || !is_own) {
                return owner;
            }
            // The sender is our own.
            let _ = changed.changed().await;
        }
    }

    /// Whether the unit may go there, and would stay. Returns its name, and the epoch.
    async fn judge(&self, unit: &str, taker: Taker<'_>) -> Result<(UnitName, Epoch), MoveError> {
        let name = UnitName::new(unit).map_err(|_| self.unknown(unit))?;
        let view = self.view().await.ok_or(MoveError::NotHere)?;
        let to = view.taker(taker).ok_or_else(|| match taker {
            Taker::This => MoveError::NotHere,
            Taker::Instance(id) => MoveError::NotAMember {
                instance: id.to_owned(),
            },
        })?;
        let (epoch, instance) = (to.epoch, view.instance(to.epoch));
        if matches!(to.standing, Standing::Cordoned | Standing::Leaves) {
            return Err(MoveError::TakesNone { instance });
        }
        let place = view.place_of(&name).ok_or_else(|| self.unknown(unit))?;
        let unit = unit.to_owned();
        if owner_of(&view, place) == Some(epoch) {
            return Err(MoveError::AlreadyThere { unit, instance });
        }
        let config = Arc::clone(&self.config);
        let _turn = self.planning.acquire().await;
        let judging = tokio::task::spawn_blocking(move || view.takes_back(&config, place, epoch));
        match judging.await.map_err(|_| MoveError::NotHere)? {
            None => Ok((name, epoch)),
            Some(cause) => Err(MoveError::TakenBack {
                unit,
                instance,
                cause,
            }),
        }
    }

    /// Gives the group another number of shards, and waits until the map says so.
    pub async fn resize(&self, shards: u32) -> Result<(), ResizeError> {
        if self.has_own_handlers() {
            return Err(ResizeError::NotSharded);
        }
        if !(1..=MOST_SHARDS).contains(&shards) {
            return Err(ResizeError::Shards(shards));
        }
        let view = self.view().await.ok_or(ResizeError::NotHere)?;
        let units = Units::Shards(shards);
        let members = u16::try_from(view.request.candidates.len()).unwrap_or(u16::MAX);
        let most = Map::most_bytes(units.clone(), members);
        let misfit = self.bucket.borrow().as_ref().and_then(|it| it.misfit(most));
        if let Some((size, most)) = misfit {
            return Err(ResizeError::TooLarge { shards, size, most });
        }
        let after = self.moves_within();
        let order = self.order(Order::Resize(units));
        match tokio::time::timeout(after, order).await {
            Err(_) => Err(ResizeError::TimedOut { after }),
            Ok(Some(Reply::Done)) => Ok(()),
            Ok(Some(Reply::BadUnits)) => Err(ResizeError::Refused),
            Ok(Some(Reply::OwnersWait)) => Err(ResizeError::OwnersWait),
            Ok(_) => Err(ResizeError::NotHere),
        }
    }

    /// How long an order may take: the handler's end, and a lease if it does not end in time.
    pub fn moves_within(&self) -> Duration {
        let settings = &self.settings;
        settings.stop_budget + settings.ttl + settings.heartbeat * 3
    }

    fn unknown(&self, unit: &str) -> MoveError {
        MoveError::UnknownUnit {
            group: self.name.to_string(),
            unit: unit.to_owned(),
        }
    }
}

fn owner_of(view: &GroupView, place: usize) -> Option<Epoch> {
    view.request.base.owner(u32::try_from(place).ok()?)
}
