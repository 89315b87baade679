//! Requests about a group to the actor of its member: what would move, and why.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::fleet::fleet;
use super::group_scope::GroupScope;
use crate::model::config::GroupConfig;
use crate::model::unit_explanation::UnitExplanation;
use nats_elect_core::assignment::Epoch;
use nats_elect_core::member::{Candidate, Order, PlanRequest, Reply};
use nats_elect_core::name::{GroupName, UnitName};
use nats_elect_core::plan::{Fleet, Reason, explain, plan};

/// A request to the actor of the member.
pub(crate) enum GroupRequest {
    /// Answer with what a plan is made from. `None` if this instance is no member, or follows no map.
    View(oneshot::Sender<Option<GroupView>>),
    /// Change the map.
    Order(Order, oneshot::Sender<Reply>),
}

/// A group as a member sees it.
#[derive(Clone)]
pub(crate) struct GroupView {
    pub request: PlanRequest,
    /// Whom each unit waits for whose former owners may still act, by its place.
    pub awaited: BTreeMap<u32, Vec<Epoch>>,
    pub own: Epoch,
    pub coordinator: Option<Epoch>,
    /// Whether no unit may get its first owner in this bucket yet.
    pub owners_wait: bool,
}

/// The instance that is to own a unit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Taker<'a> {
    /// The member with this instance id. Of several the one that joined last.
    Instance(&'a str),
    /// The member that is asked.
    This,
}

impl GroupScope {
    /// Returns the units that a plan would move, that nobody may own, or whose former owners may still
    /// act, as this member sees them.
    pub async fn plan(&self) -> Option<Vec<UnitExplanation>> {
        self.planned(|view, config, group| {
            let fleet = fleet(&view.request, config);
            let plan = plan(&fleet);
            let moves = plan.moves.iter().map(|it| it.unit);
            let unplaced = plan.unplaced.iter().map(|it| it.unit);
            let changing = view.awaited.keys().map(|it| *it as usize);
            let mut units: Vec<_> = moves.chain(unplaced).chain(changing).collect();
            units.sort_unstable();
            units.dedup();
            let told = units.into_iter();
            let told = told.filter_map(|it| UnitExplanation::planned(group, view, &plan, it));
            told.collect()
        })
        .await
    }

    /// Returns why a unit is where it is, as this member sees it.
    pub async fn explain(&self, unit: &UnitName) -> Option<UnitExplanation> {
        let unit = unit.clone();
        let explaining = move |view: &GroupView, config: &GroupConfig, group: &GroupName| {
            let place = view.place_of(&unit)?;
            let explained = explain(&fleet(&view.request, config), place)?;
            UnitExplanation::explained(group, view, explained, place)
        };
        self.planned(explaining).await.flatten()
    }

    /// Plans from the present view, in turn. A plan of thousands of units would hold up heartbeats,
    /// so it has a thread of its own.
    pub(super) async fn planned<T: Send + 'static>(
        &self,
        plan: impl FnOnce(&GroupView, &GroupConfig, &GroupName) -> T + Send + 'static,
    ) -> Option<T> {
        let _turn = self.planning.acquire().await;
        let view = self.view().await?;
        let (group, config) = (self.name.clone(), Arc::clone(&self.config));
        let planning = tokio::task::spawn_blocking(move || plan(&view, &config, &group));
        planning.await.ok()
    }

    pub(super) async fn view(&self) -> Option<GroupView> {
        let (reply, answer) = oneshot::channel();
        self.ask(GroupRequest::View(reply));
        answer.await.ok().flatten()
    }
}

impl GroupView {
    /// The instance id of a member, or else its epoch. Two members have the same id while the lease of
    /// an instance that was restarted lasts: then the one that joined before has its epoch as well.
    pub fn instance(&self, epoch: Epoch) -> String {
        let Some(id) = self.id_of(epoch) else {
            return epoch.to_string();
        };
        match self.member(id) {
            Some(it) if it.epoch != epoch => format!("{id} (epoch {epoch})"),
            _ => id.to_owned(),
        }
    }

    fn id_of(&self, epoch: Epoch) -> Option<&str> {
        let mut candidates = self.request.candidates.iter();
        candidates.find(|it| it.epoch == epoch).and_then(id)
    }

    /// The member with this instance id that joined last.
    fn member(&self, instance: &str) -> Option<&Candidate> {
        let mut candidates = self.request.candidates.iter().rev();
        candidates.find(|it| id(it) == Some(instance))
    }

    /// The member that is meant.
    pub fn taker(&self, taker: Taker<'_>) -> Option<&Candidate> {
        let mut candidates = self.request.candidates.iter();
        match taker {
            Taker::Instance(id) => self.member(id),
            Taker::This => candidates.find(|it| it.epoch == self.own),
        }
    }

    /// The place of a unit.
    pub fn place_of(&self, unit: &UnitName) -> Option<usize> {
        let place = self.request.base.units().place_of(unit)?;
        usize::try_from(place).ok()
    }

    /// Why a plan would take the unit away again, once it is there.
    pub fn takes_back(&self, config: &GroupConfig, place: usize, to: Epoch) -> Option<Reason> {
        let mut fleet: Fleet = fleet(&self.request, config);
        let mut candidates = self.request.candidates.iter();
        let unit = fleet.units.get_mut(place)?;
        unit.owner = candidates.position(|it| it.epoch == to);
        unit.in_change = false;
        unit.moved += 1;
        let moves = plan(&fleet).moves;
        moves.iter().find(|it| it.unit == place).map(|it| it.cause)
    }
}

fn id(candidate: &Candidate) -> Option<&str> {
    candidate.record.as_ref().map(|it| it.id.as_str())
}
