//! Requests about a group to the actor of the member: what would move, and moves by hand.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::oneshot;

use super::group_scope::{GroupScope, UnitOwner};
use crate::model::group_plan::GroupPlan;
use crate::model::unit_explanation::UnitExplanation;
use nats_elect_core::Moment;
use nats_elect_core::duration::rounded;
use nats_elect_core::group::Epoch;
use nats_elect_core::group::policy::{Cause, Fleet, Member, Policy, Round, Standing};
use nats_elect_core::member::{Order, Reply as OrderReply};
use nats_elect_core::name::{GroupName, UnitName};

/// A request to the actor of the member about one group.
pub(crate) enum GroupRequest {
    /// Answer with what a plan is made from. `None` if the group's record is missing or not understood,
    /// or has another kind of units.
    View(oneshot::Sender<Option<GroupView>>),
    /// Have the unit given to this epoch. It may be lost.
    Move { unit: UnitName, to: Epoch },
    /// Change the map of a group that is one.
    Order(Order, oneshot::Sender<OrderReply>),
}

/// A group as a member sees it.
#[cfg_attr(test, derive(Clone))]
pub(crate) struct GroupView {
    pub fleet: Fleet,
    pub policy: Arc<dyn Policy>,
    /// The instance ids of all epochs that are known. Empty where it is not known.
    pub instances: BTreeMap<Epoch, String>,
    /// The member's own epoch, while its lease is valid.
    pub own: Option<Epoch>,
    pub planner: Option<Epoch>,
}

/// The next owner of a unit that is moved by hand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Taker<'a> {
    /// The member with this instance id. Of several the one that came last.
    Instance(&'a str),
    /// The member that is asked.
    This,
}

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
    /// The unit can't have an owner now.
    #[error("unit {unit:?} can't have an owner now: {why}")]
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
    /// The group's policy would take the unit away again. Nothing was done.
    #[error(
        "the group's policy would take unit {unit:?} away from {instance:?} again ({cause}): {}",
        remedy(*.cause)
    )]
    TakenBack {
        /// The unit.
        unit: String,
        /// The instance.
        instance: String,
        /// The reason for which the policy would do so.
        cause: Cause,
    },
    /// The move was not seen in time. It may still come about.
    #[error(
        "the move of unit {unit:?} was not seen within {}: its owner may be cut off, or its handler may still run", rounded(*.after)
    )]
    TimedOut {
        /// The unit.
        unit: String,
        /// How long the caller waited.
        after: Duration,
    },
    /// This instance does not take part in the group any more, or does not know of it yet. The
    /// answer of an instance to an operator's request for a plan is this as well if the group's record
    /// is missing or not understood.
    #[error(
        "this instance is not a member of the group now, or the group's record is missing or not understood"
    )]
    NotHere,
}

/// Why a unit can't have another owner now.
const NO_RECORD: &str = "the group's record is missing or not understood. If `nats-elect group show` \
    says so for longer than five minutes, see the runbook: Write a group's record again";
const NOT_OF_AGE: &str = "somebody wrote over its key, or the group is only being made. \
    `nats-elect group explain` shows what it waits for";

/// What to do about a move that the policy would undo.
fn remedy(cause: Cause) -> &'static str {
    match cause {
        Cause::Room => {
            "the room there is for a unit that no other instance may take: give others what that \
             unit requires, or raise `max_units`"
        }
        Cause::Drain => "the instance is cordoned: resume it",
        Cause::Labels => {
            "the instance lacks a label that the unit requires, or a handler for it: \
             `nats-elect group explain` shows which"
        }
        Cause::Cap => {
            "the instance has as many units as its `max_units`: raise that, or move another unit away"
        }
        Cause::Failing => {
            "it keeps failing there: see the instance's log, and try again in five minutes"
        }
        Cause::Zones => {
            "that zone has as many units of its set as another one, or more: move one of them out first"
        }
        Cause::Apart => "a unit is there from which it should be apart: move that one first",
        Cause::Preference => {
            "another instance has more of the labels that it prefers: change `prefers` or the labels"
        }
        Cause::Balance => {
            "the instance would have more than its share of load: give the unit a weight, or the \
             policy a wider band, or move another unit away first"
        }
        _ => "`nats-elect group explain` shows what speaks against the instance",
    }
}

impl GroupScope {
    /// Returns what the planner wants now, as this member sees it.
    pub async fn plan(&self) -> Option<GroupPlan> {
        let planning = |group: &GroupName, view: &GroupView| {
            let plan = view.policy.plan(&view.fleet);
            GroupPlan::of(group, view, plan)
        };
        self.planned(planning).await
    }

    /// Returns why a unit is where it is, as this member sees it.
    pub async fn explain(&self, unit: &UnitName) -> Option<UnitExplanation> {
        let unit = unit.clone();
        let explaining = move |group: &GroupName, view: &GroupView| {
            let explained = view.policy.explain(&view.fleet, &unit)?;
            Some(UnitExplanation::of(group, view, explained))
        };
        self.planned(explaining).await.flatten()
    }

    /// Plans from the present view, in turn. A plan of thousands of units would hold up heartbeats,
    /// so it has a thread of its own.
    async fn planned<T: Send + 'static>(
        &self,
        plan: impl FnOnce(&GroupName, &GroupView) -> T + Send + 'static,
    ) -> Option<T> {
        let _turn = self.planning.acquire().await;
        let view = self.view().await?;
        let group = self.name.clone();
        let planning = tokio::task::spawn_blocking(move || plan(&group, &view));
        planning.await.ok()
    }

    /// Has a unit given to a member, and waits until its record says so.
    pub async fn move_unit(&self, unit: &str, taker: Taker<'_>) -> Result<UnitOwner, MoveError> {
        if self.read(|board| board.is_one_map) {
            return self.move_in_map(unit, taker).await;
        }
        let unknown = || MoveError::UnknownUnit {
            group: self.name.to_string(),
            unit: unit.to_owned(),
        };
        let name = UnitName::new(unit).map_err(|_| unknown())?;
        let turn = self.planning.acquire().await;
        let Some(view) = self.view().await else {
            let is_joined = self.read(|board| board.joined);
            let not_ready = || MoveError::NotReady {
                unit: unit.into(),
                why: NO_RECORD,
            };
            return Err(if is_joined {
                not_ready()
            } else {
                MoveError::NotHere
            });
        };
        let to = view.taker(taker)?;
        if !view.fleet.units.contains_key(&name) {
            let is_known = self.read(|board| board.units.contains_key(&name));
            let not_ready = || MoveError::NotReady {
                unit: unit.into(),
                why: NOT_OF_AGE,
            };
            return Err(if is_known { not_ready() } else { unknown() });
        }
        let judged = name.clone();
        let judging = tokio::task::spawn_blocking(move || view.judge(&judged, to));
        judging.await.map_err(|_| MoveError::NotHere)??;
        drop(turn);
        let after = self.moves_within();
        let moving = tokio::time::timeout(after, self.moved(&name, to)).await;
        moving.map_err(|_| MoveError::TimedOut {
            unit: unit.into(),
            after,
        })
    }

    /// How long a unit may take to change its owner: the handler's end, and a lease if it does not
    /// end in time.
    pub fn moves_within(&self) -> Duration {
        let settings = &self.settings;
        settings.stop_budget + settings.ttl + settings.heartbeat * 3
    }

    /// Asks for the move until it is done.
    async fn moved(&self, unit: &UnitName, to: Epoch) -> UnitOwner {
        let mut changed = self.changed();
        let mut asking = tokio::time::interval(self.settings.heartbeat);
        let owner = || self.read(|board| board.units.get(unit)?.owner);
        let before = owner();
        loop {
            let there = self.read(|board| {
                let stands = board.units.get(unit)?;
                (stands.owner == Some(to)).then(|| board.owner(unit))?
            });
            if let Some(owner) = there {
                return owner;
            }
            tokio::select! {
                // A hint may be lost, and is about one record alone. Who got the unit by another move
                // meanwhile keeps it.
                _ = asking.tick() => {
                    if owner().is_none_or(|owner| Some(owner) == before) {
                        self.ask(GroupRequest::Move { unit: unit.clone(), to });
                    }
                }
                // The sender is our own.
                _ = changed.changed() => {}
            }
        }
    }

    async fn view(&self) -> Option<GroupView> {
        let (reply, answer) = oneshot::channel();
        self.ask(GroupRequest::View(reply));
        answer.await.ok().flatten()
    }
}

impl GroupView {
    /// The id of an instance. Two members have the same one while the lease of an instance that was
    /// restarted lasts: then the one that is not meant by it has its epoch as well.
    pub fn instance(&self, epoch: Epoch) -> String {
        let known = self.instances.get(&epoch).filter(|id| !id.is_empty());
        let Some(id) = known else {
            return epoch.to_string();
        };
        let has_it = |it: Epoch| self.instances.get(&it) == Some(id);
        let mut others = self.fleet.members.keys().filter(|it| **it != epoch);
        let is_meant = || self.meant(has_it).is_some_and(|(meant, _)| meant == epoch);
        if others.any(|it| has_it(*it)) && !is_meant() {
            format!("{id} (epoch {epoch})")
        } else {
            id.clone()
        }
    }

    /// Of these members the one that came last. The one before may look well until its lease is over.
    fn meant(&self, is_it: impl Fn(Epoch) -> bool) -> Option<(Epoch, &Member)> {
        let members = self.fleet.members.iter();
        members
            .map(|(epoch, it)| (*epoch, it))
            .filter(|(epoch, it)| is_it(*epoch) && it.standing != Standing::Silent)
            .max_by_key(|(_, it)| it.since)
    }

    /// Whether this member plans for the group.
    pub fn is_planners(&self) -> bool {
        self.planner.is_some() && self.planner == self.own
    }

    /// Returns the epoch that is to own the unit.
    fn taker(&self, taker: Taker<'_>) -> Result<Epoch, MoveError> {
        let is_it = |epoch: Epoch| match taker {
            Taker::This => self.own == Some(epoch),
            Taker::Instance(id) => self.instances.get(&epoch).is_some_and(|it| it == id),
        };
        let instance = || match taker {
            Taker::This => self.own.map_or_else(String::new, |own| self.instance(own)),
            Taker::Instance(id) => id.to_owned(),
        };
        match self.meant(is_it) {
            None if matches!(taker, Taker::This) => Err(MoveError::NotHere),
            None => Err(MoveError::NotAMember {
                instance: instance(),
            }),
            Some((_, it)) if it.standing != Standing::Active => Err(MoveError::TakesNone {
                instance: instance(),
            }),
            Some((epoch, _)) => Ok(epoch),
        }
    }

    /// Whether the unit may go there, and would stay.
    fn judge(mut self, unit: &UnitName, to: Epoch) -> Result<(), MoveError> {
        let instance = self.instance(to);
        let Some(known) = self.fleet.units.get_mut(unit) else {
            return Ok(());
        };
        if known.owner == Some(to) {
            return Err(MoveError::AlreadyThere {
                unit: unit.to_string(),
                instance,
            });
        }
        known.owner = Some(to);
        known.moved = Some(Moment::from_nanos(u64::MAX));
        self.fleet.under_way.remove(unit);
        // As of the next round.
        self.fleet.round = Round::Over { at: None };
        let plan = self.policy.plan(&self.fleet);
        let held = plan.held.into_iter().map(|it| it.planned);
        let leads_back = plan
            .moves
            .into_iter()
            .chain(held)
            .find(|it| it.unit == *unit);
        match leads_back {
            None => Ok(()),
            Some(it) => Err(MoveError::TakenBack {
                unit: unit.to_string(),
                instance,
                cause: it.cause,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use nats_elect_core::group::policy::{Balanced, PolicySettings, Unit};

    use super::*;

    fn epoch(letter: char) -> Epoch {
        let text = format!("{}A", letter.to_string().repeat(21));
        Epoch::parse(&text).expect("an epoch")
    }

    fn view<const N: usize>(members: [(char, &str); N]) -> GroupView {
        let now = Moment::from_nanos(1);
        let mut fleet = Fleet::new(now);
        for (letter, _) in members {
            fleet.members.insert(epoch(letter), Member::new(now));
        }
        let instances = members.map(|(letter, id)| (epoch(letter), id.to_owned()));
        let settings = PolicySettings::new(Duration::from_secs(1));
        GroupView {
            fleet,
            policy: Arc::new(Balanced::new(settings)),
            instances: BTreeMap::from(instances),
            own: None,
            planner: None,
        }
    }

    #[test]
    fn the_advice_of_a_refused_move_fits_the_reason() {
        let refused = |view: GroupView| {
            let unit = UnitName::new("1").expect("a name");
            let judged = view.judge(&unit, epoch('C'));
            judged.expect_err("a refusal").to_string()
        };
        let mut even = view([('B', "a"), ('C', "b")]);
        for (unit, owner) in [("1", 'B'), ("2", 'C')] {
            let unit = UnitName::new(unit).expect("a name");
            let owned = Unit::default().owner(epoch(owner));
            even.fleet.units.insert(unit, owned);
        }
        let mut labelled = even.clone();
        let mut full = even.clone();
        let text = refused(even);
        assert!(
            text.contains("(balance): ") && text.contains("weight"),
            "{text}"
        );

        let unit = labelled.fleet.units.get_mut("1").expect("it");
        unit.requires = ["gpu".to_owned()].into();
        let member = labelled.fleet.members.get_mut(&epoch('B'));
        member.expect("it").labels = ["gpu".to_owned()].into();
        let text = refused(labelled);
        assert!(
            text.contains("(labels): ") && text.contains("lacks a label"),
            "{text}"
        );
        assert!(!text.contains("weight"), "{text}");

        full.fleet.members.get_mut(&epoch('C')).expect("it").cap = Some(1);
        let text = refused(full);
        assert!(
            text.contains("(cap): ") && text.contains("`max_units`"),
            "{text}"
        );
    }

    #[test]
    fn two_members_of_one_id_are_told_apart() {
        let mut view = view([('B', "a"), ('C', "b"), ('D', "a")]);
        let with_epoch = |letter| format!("a (epoch {})", epoch(letter));
        let come = |view: &mut GroupView, letter| {
            let now = view.fleet.now + Duration::from_secs(1);
            view.fleet.members.insert(epoch(letter), Member::new(now));
        };
        assert_eq!(view.instance(epoch('C')), "b");
        // The id means the one that came last.
        come(&mut view, 'B');
        assert_eq!(view.instance(epoch('B')), "a");
        assert_eq!(view.instance(epoch('D')), with_epoch('D'));
        let taker = view.taker(Taker::Instance("a"));
        assert_eq!(taker.expect("a member"), epoch('B'));
        let stand = |view: &mut GroupView, letter, standing| {
            let member = view.fleet.members.get_mut(&epoch(letter));
            member.expect("a member").standing = standing;
        };
        // It has not joined yet, and the one before it died a moment ago.
        stand(&mut view, 'B', Standing::Cordoned);
        assert_eq!(view.instance(epoch('B')), "a");
        let refused = view.taker(Taker::Instance("a")).expect_err("a refusal");
        assert!(matches!(refused, MoveError::TakesNone { .. }), "{refused}");
        let silence = |view: &mut GroupView, letter| stand(view, letter, Standing::Silent);
        silence(&mut view, 'B');
        assert_eq!(view.instance(epoch('B')), with_epoch('B'));
        assert_eq!(view.instance(epoch('D')), "a");
        silence(&mut view, 'D');
        assert_eq!(view.instance(epoch('D')), with_epoch('D'));
        // Its lease was ended.
        view.fleet.members.remove(&epoch('B'));
        assert_eq!(view.instance(epoch('D')), "a");
        assert_eq!(view.instance(epoch('B')), with_epoch('B'));
    }
}
