//! Orders about the map of a group: moves by hand, and another number of shards.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::group_requests::{GroupRequest, GroupView, Taker};
use super::group_scope::{GroupScope, UnitOwner};
use crate::model::admin::{Problem, ProblemCode};
use crate::model::config::MOST_SHARDS;
use crate::model::unit_explanation::ALL_WAIT;
use nats_elect_core::assignment::{Epoch, Map, Units};
use nats_elect_core::duration::rounded;
use nats_elect_core::member::{Order, Reply};
use nats_elect_core::name::UnitName;
use nats_elect_core::plan::{Reason, Standing};

const IN_CHANGE: &str = "too many former owners may still act on it: `nats-elect group explain` shows for whom it waits";
const NO_ANSWER: &str = "this instance knows no map of the group, or has just lost its lease";

/// This instance is not a member of the group now, or follows no map of it.
pub(crate) fn not_here() -> Problem {
    let why = "this instance is not a member of the group now, or knows no map of it that it can \
               follow: ask another one (`nats-elect group show` lists the members)";
    Problem::new(ProblemCode::NotReady, why)
}

fn takes_none(instance: &str) -> Problem {
    let why =
        format!("{instance:?} takes no units: it is cordoned, stops, or has only just started");
    Problem::new(ProblemCode::TakesNone, why)
}

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
    pub async fn move_unit(&self, unit: &str, taker: Taker<'_>) -> Result<UnitOwner, Problem> {
        let (name, to) = self.judge(unit, taker).await?;
        let after = self.moves_within();
        let moving = async {
            self.order_move(&name, to, taker).await?;
            Ok(self.is_there(&name, to, taker).await)
        };
        let moved = tokio::time::timeout(after, moving).await;
        moved.unwrap_or_else(|_| {
            let why = format!(
                "the move of unit {unit:?} was not seen within {}: an instance may be cut off, or a handler may still run",
                rounded(after)
            );
            Err(Problem::new(ProblemCode::Unfinished, why))
        })
    }

    async fn order_move(
        &self,
        unit: &UnitName,
        to: Epoch,
        taker: Taker<'_>,
    ) -> Result<(), Problem> {
        let why = match self.order(Order::Move(unit.clone(), to)).await {
            None => return Err(not_here()),
            Some(Reply::Done) => return Ok(()),
            Some(Reply::NoUnit) => return Err(self.unknown(unit.as_str())),
            Some(Reply::NoMember) => {
                return Err(takes_none(match taker {
                    Taker::Instance(id) => id,
                    Taker::This => self.instance.id.as_str(),
                }));
            }
            Some(Reply::InChange) => IN_CHANGE,
            Some(Reply::OwnersWait) => ALL_WAIT,
            Some(_) => NO_ANSWER,
        };
        let why = format!(
            "unit {:?} can't have another owner now: {why}",
            unit.as_str()
        );
        Err(Problem::new(ProblemCode::NotReady, why))
    }

    /// Waits until the board shows it.
    async fn is_there(&self, unit: &UnitName, to: Epoch, taker: Taker<'_>) -> UnitOwner {
        let is_own = matches!(taker, Taker::This);
        let mut changed = self.board.subscribe();
        loop {
            let board = changed.borrow_and_update().clone();
            let owner = self
                .owner(&board, unit)
                .filter(|it| it.acts_here || !is_own);
            if let Some(owner) = owner.filter(|_| board.owner(unit) == Some(to)) {
                return owner;
            }
            // The sender is our own.
            let _ = changed.changed().await;
        }
    }

    /// Whether the unit may go there, and would stay. Returns its name, and the epoch.
    async fn judge(&self, unit: &str, taker: Taker<'_>) -> Result<(UnitName, Epoch), Problem> {
        let name = UnitName::new(unit).map_err(|_| self.unknown(unit))?;
        let view = self.view().await.ok_or_else(not_here)?;
        let to = view.taker(taker).ok_or_else(|| match taker {
            Taker::This => not_here(),
            Taker::Instance(id) => {
                let why = format!("{id:?} takes no part in the group, or sends no heartbeats");
                Problem::new(ProblemCode::NotReady, why)
            }
        })?;
        let (epoch, instance) = (to.epoch, view.instance(to.epoch));
        if matches!(to.standing, Standing::Cordoned | Standing::Leaves) {
            return Err(takes_none(&instance));
        }
        let place = view.place_of(&name).ok_or_else(|| self.unknown(unit))?;
        if owner_of(&view, place) == Some(epoch) {
            let why = format!("{instance:?} owns unit {unit:?} already");
            return Err(Problem::new(ProblemCode::AlreadyThere, why));
        }
        let config = Arc::clone(&self.config);
        let _turn = self.planning.acquire().await;
        let judging = tokio::task::spawn_blocking(move || view.takes_back(&config, place, epoch));
        let Some(cause) = judging.await.map_err(|_| not_here())? else {
            return Ok((name, epoch));
        };
        let why = format!(
            "the group's plan would take unit {unit:?} away from {instance:?} again ({cause}): {}",
            remedy(cause)
        );
        Err(Problem::new(ProblemCode::TakenBack, why))
    }

    /// Gives the group another number of shards, and waits until the map says so.
    pub async fn resize(&self, shards: u32) -> Result<(), Problem> {
        let refused = |why| Err(Problem::new(ProblemCode::BadRequest, why));
        if self.has_own_handlers() {
            return refused("the group has named units, and no shards".to_owned());
        }
        if !(1..=MOST_SHARDS).contains(&shards) {
            return refused(format!(
                "a group has 1 to {MOST_SHARDS} shards, and not {shards}"
            ));
        }
        let view = self.view().await.ok_or_else(not_here)?;
        let units = Units::Shards(shards);
        let members = u16::try_from(view.request.candidates.len()).unwrap_or(u16::MAX);
        let most = Map::most_bytes(units.clone(), members);
        let misfit = self.bucket.borrow().as_ref().and_then(|it| it.misfit(most));
        if let Some(misfit) = misfit {
            return refused(format!(
                "a map of {shards} shards {misfit} have fewer shards"
            ));
        }
        let after = self.moves_within();
        let order = self.order(Order::Resize(units));
        match tokio::time::timeout(after, order).await {
            Err(_) => {
                let why = format!(
                    "no map has the new number after {}: this instance may be cut off",
                    rounded(after)
                );
                Err(Problem::new(ProblemCode::Unfinished, why))
            }
            Ok(Some(Reply::Done)) => Ok(()),
            // The group was resized a million times, or the bucket takes smaller messages since a
            // moment ago.
            Ok(Some(Reply::BadUnits)) => refused(
                "the group can't have another number of shards: its members refuse it".to_owned(),
            ),
            Ok(Some(Reply::OwnersWait)) => Err(Problem::new(ProblemCode::NotReady, ALL_WAIT)),
            Ok(_) => Err(not_here()),
        }
    }

    /// How long an order may take: the handler's end, and a lease if it does not end in time.
    pub fn moves_within(&self) -> Duration {
        let settings = &self.settings;
        settings.stop_budget + settings.ttl + settings.heartbeat * 3
    }

    pub fn unknown(&self, unit: &str) -> Problem {
        let why = format!("group {:?} has no unit {unit:?}", self.name.as_str());
        Problem::new(ProblemCode::UnknownUnit, why)
    }
}

fn owner_of(view: &GroupView, place: usize) -> Option<Epoch> {
    view.request.base.owner(u32::try_from(place).ok()?)
}
