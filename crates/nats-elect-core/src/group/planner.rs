//! Who plans for a group, and whom the plan is told.
//!
//! No record names the planner. It is the living, settled member that ranks first by the hash of the
//! group's name over the epochs, as each member's own view shows them. It fills a [`Fleet`] from its
//! view, has the policy plan, and tells each move to the one that has to act. That is a hint, and
//! decides nothing: two planners at once cost balance for a moment, and never safety.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::agenda::Subject;
use super::effect::GroupEffect;
use super::epoch::Epoch;
use super::hint::MOST_HINTS;
use super::input::Hint;
use super::key::UnitKey;
use super::machine::Group;
use super::member_info::MOST_TOLD;
use super::policy::{
    Balanced, Explanation, Fleet, Hold, Imbalance, Plan, Policy, PolicySettings, Round, Unfit,
};
use super::record::{GroupRecord, UnitRecord};
use crate::moment::Moment;
use crate::name::{GroupName, UnitName};

/// For how many heartbeats nothing was on its way before loads are weighed anew.
const CALM_BEATS: u32 = 10;

/// The state of a planner.
#[derive(Clone, Debug, Default)]
pub(super) struct Planning {
    pub round: Round,
    /// The moves that were hinted, and are not done.
    pub hinted: BTreeMap<UnitName, Hinted>,
    pub rests_until: Moment,
    /// The weights that follow from the loads that members told. They stay as they are while units
    /// move: loads follow later, and units would move on and on.
    pub weights: BTreeMap<UnitName, u32>,
    pub weigh_at: Moment,
    /// Of the last plan: before its moves, and after them.
    pub imbalance: Option<(Imbalance, Imbalance)>,
}

#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Hinted {
    /// The sequence of the record that the hint is about.
    pub sequence: u64,
    /// The one that has to act.
    pub by: Epoch,
    pub to: Epoch,
    /// Until when it counts as under way. The hint may be lost.
    pub until: Moment,
}

/// A member's own plan, for what it does without hints.
#[derive(Clone, Debug)]
pub(super) struct Advice {
    pub at: Moment,
    /// By unit of this member that leaves: the next owner.
    pub heirs: BTreeMap<UnitName, Epoch>,
    /// The units that the policy leaves without an owner.
    pub withheld: BTreeSet<UnitName>,
}

impl Group {
    /// Plans, if this member is the planner. Returns when to plan again.
    pub(super) fn tend_plan(&mut self, group: &GroupName) -> Option<Moment> {
        let Some(record) = self.planned_record(group) else {
            self.plans.remove(group);
            return None;
        };
        let (own, _) = self.valid_lease()?;
        if self.planner_of(group) != Some(own) {
            self.plans.remove(group);
            return self.next_settled(group);
        }
        let mut planning = self.plans.remove(group).unwrap_or_default();
        let rests_until = planning.rests_until;
        if self.now < rests_until {
            self.plans.insert(group.clone(), planning);
            return Some(rests_until);
        }
        // What happens within so short a time is planned for at once.
        planning.rests_until = self.now + self.settings.heartbeat / 4;
        planning
            .hinted
            .retain(|unit, it| self.is_under_way(group, &record, unit, it));
        if planning.weigh_at <= self.now {
            if self.tells_load(group) {
                let fleet = self.seen_fleet(group, &record, false);
                let weights = self.weights(group, &fleet);
                // An owner that does not tell yet does not make the others' loads forgotten.
                if !weights.is_empty() {
                    planning.weights = weights;
                }
            } else {
                planning.weights.clear();
            }
            planning.weigh_at = self.now + self.settings.heartbeat * CALM_BEATS;
        }
        let fleet = self.fleet(group, &record, &planning);
        let plan = self.policy(group).plan(&fleet);
        planning.round = plan.round;
        planning.imbalance = Some((plan.before, plan.after));
        self.hint(group, &record, &plan, &mut planning);
        if !planning.hinted.is_empty() {
            planning.weigh_at = self.now + self.settings.heartbeat * CALM_BEATS;
        }
        let lost = planning.hinted.values().map(|it| it.until).min();
        let weigh = self.tells_load(group).then_some(planning.weigh_at);
        self.plans.insert(group.clone(), planning);
        [plan.again, lost, weigh].into_iter().flatten().min()
    }

    /// Has a group planned for, if this member is its planner. Otherwise it looks whether it is when
    /// a member changes.
    pub(super) fn plan_again(&mut self, group: &GroupName) {
        if let Some(planning) = self.plans.get(group) {
            let at = self.now.max(planning.rests_until);
            self.agenda.note(Subject::Plan(group.clone()), at);
        }
    }

    /// The next plans do not wait until some time has passed since the last ones.
    pub(super) fn rest_no_more(&mut self) {
        for planning in self.plans.values_mut() {
            planning.rests_until = self.now;
        }
    }

    /// Tells each move to the one that has to act.
    fn hint(
        &mut self,
        group: &GroupName,
        record: &GroupRecord,
        plan: &Plan,
        planning: &mut Planning,
    ) {
        let patience = self.settings.heartbeat * 2;
        let mut told: BTreeMap<Epoch, Vec<Hint>> = BTreeMap::new();
        for it in &plan.moves {
            let unit = key(group, record, &it.unit);
            let Some(sequence) = self.view.unit(&unit).map(|seen| seen.sequence) else {
                continue;
            };
            let (by, end) = match it.from {
                Some(owner) => (owner, self.settings.stop_budget),
                None => (it.to, Duration::ZERO),
            };
            let hinted = Hinted {
                sequence,
                by,
                to: it.to,
                until: self.now + end + patience,
            };
            planning.hinted.insert(it.unit.clone(), hinted);
            told.entry(by).or_default().push(Hint {
                unit,
                sequence,
                to: it.to,
            });
        }
        for (to, hints) in told {
            if self.lease_of(to).is_some() {
                self.take_hints(hints);
                continue;
            }
            for hints in hints.chunks(MOST_HINTS) {
                let hints = hints.to_vec();
                self.out.push(GroupEffect::Hint { to, hints });
            }
        }
    }

    /// Takes hints, of this member's own plan or another's. One about an earlier record than the
    /// known one means nothing, nor does one about another generation than the present one. One about
    /// a later record waits for it.
    pub(super) fn take_hints(&mut self, hints: Vec<Hint>) {
        for Hint { unit, sequence, to } in hints {
            let Some(record) = self.record_of(&unit.group) else {
                continue;
            };
            let known = self.view.unit(&unit).map_or(0, |it| it.sequence);
            let is_present = unit.generation == record.generation;
            if sequence >= known && is_present && self.is_unit(&unit, &record) {
                self.hints.insert(unit.clone(), (sequence, to));
                self.agenda.note(Subject::Unit(unit), self.now);
            }
        }
    }

    /// The member to which the unit should go, by a hint about the record that stands there.
    pub(super) fn hinted(&self, unit: &UnitKey) -> Option<Epoch> {
        let (sequence, to) = self.hints.get(unit).copied()?;
        let stands = self.view.unit(unit)?.sequence == sequence;
        (stands && self.is_candidate(unit, to)).then_some(to)
    }

    /// What a member that leaves writes over a unit of its own: by the same policy, without waiting
    /// for the planner. A plan for all of its units is made once, and used while it can be.
    pub(super) fn parting(&mut self, unit: &UnitKey) -> UnitRecord {
        let planned = self.planned_heir(unit);
        let planned = planned.filter(|heir| self.is_candidate(unit, *heir));
        let heir = planned.or_else(|| self.heir(unit));
        heir.map_or(UnitRecord::Nobody, UnitRecord::Owned)
    }

    /// To whom a unit of this member has to go, by its own plan. Not each of thousands of units is
    /// worth a new one, unless the one that was planned has gone.
    pub(super) fn heir(&mut self, unit: &UnitKey) -> Option<Epoch> {
        let planned = self.planned_heir(unit);
        let has_gone = planned.is_some_and(|heir| !self.is_candidate(unit, heir));
        let recent = self.now - self.settings.heartbeat / 4;
        self.advice(&unit.group, if has_gone { self.now } else { recent })?;
        self.planned_heir(unit)
    }

    fn planned_heir(&self, unit: &UnitKey) -> Option<Epoch> {
        let advice = self.advice.get(&unit.group)?;
        advice.heirs.get(&unit.unit).copied()
    }

    /// Whether the policy leaves a free unit without an owner for now.
    pub(super) fn is_withheld(&mut self, unit: &UnitKey) -> bool {
        let recent = self.now - self.settings.heartbeat;
        let advice = self.advice(&unit.group, recent);
        advice.is_some_and(|it| it.withheld.contains(&unit.unit))
    }

    /// This member's own plan, made then or later.
    fn advice(&mut self, group: &GroupName, from: Moment) -> Option<&Advice> {
        if self.advice.get(group).is_none_or(|it| it.at < from) {
            let record = self.record_of(group)?;
            let own = self.lease.as_ref()?.epoch;
            let fleet = self.own_fleet(group, &record);
            let plan = self.policy(group).plan(&fleet);
            let at_once = plan.moves.into_iter();
            let later = plan.held.into_iter().filter_map(|it| match it.hold {
                Hold::Limit | Hold::Settling(_) => Some(it.planned),
                Hold::Room | Hold::Order => None,
            });
            let own_units = at_once.chain(later).filter(|it| it.from == Some(own));
            let for_now = |why: &Unfit| matches!(why, Unfit::Settling(_));
            let withheld = plan.unplaced.into_iter().filter(|it| !for_now(&it.why));
            let advice = Advice {
                at: self.now,
                heirs: own_units.map(|it| (it.unit, it.to)).collect(),
                withheld: withheld.map(|it| it.unit).collect(),
            };
            self.advice.insert(group.clone(), advice);
        }
        self.advice.get(group)
    }

    /// What the policy would do now with the units of a group, as this member sees them, and why.
    /// `None` if the member does not know the group.
    ///
    /// The planner knows which moves it has hinted, and its rounds of moves. Another member does not.
    /// So it may show moves that are under way or wait for a cool-down, and it shows no moves that
    /// only carry a round through.
    pub fn plan_of(&self, group: &GroupName) -> Option<Plan> {
        let (fleet, policy) = self.plans_from(group)?;
        Some(policy.plan(&fleet))
    }

    /// What [`plan_of`](Self::plan_of) plans from, and the policy that does it, for a caller that
    /// plans elsewhere: with thousands of units a plan takes its time.
    pub fn plans_from(&self, group: &GroupName) -> Option<(Fleet, Arc<dyn Policy>)> {
        Some((self.known_fleet(group)?, self.policy(group)))
    }

    /// Why a unit is where it is, and what [`plan_of`](Self::plan_of) does with it. `None` if there
    /// is no such unit in the group's present generation.
    pub fn explain(&self, unit: &UnitKey) -> Option<Explanation> {
        let fleet = self.known_fleet(&unit.group)?;
        let record = self.record_of(&unit.group)?;
        (unit.generation == record.generation).then_some(())?;
        self.policy(&unit.group).explain(&fleet, &unit.unit)
    }

    fn known_fleet(&self, group: &GroupName) -> Option<Fleet> {
        let record = self.record_of(group)?;
        if let Some(planning) = self.plans.get(group) {
            return Some(self.fleet(group, &record, planning));
        }
        let planning = Planning {
            weights: self.weights(group, &self.seen_fleet(group, &record, false)),
            round: Round::Over { at: None },
            ..Planning::default()
        };
        Some(self.fleet(group, &record, &planning))
    }

    /// The group's record, if its units have owners and this member may plan for them.
    fn planned_record(&self, group: &GroupName) -> Option<GroupRecord> {
        let record = self.record_of(group)?;
        let plans = self.view.caught_up && !self.draining && self.valid_lease().is_some();
        (plans && self.has_begun(group, &record)).then_some(record)
    }

    fn policy(&self, group: &GroupName) -> Arc<dyn Policy> {
        let told = self.settings.placements.get(group);
        told.map_or_else(
            || {
                let settings = PolicySettings::new(self.settings.heartbeat);
                Arc::new(Balanced::new(settings)) as Arc<dyn Policy>
            },
            |placement| Arc::clone(&placement.policy),
        )
    }

    fn is_under_way(
        &self,
        group: &GroupName,
        record: &GroupRecord,
        unit: &UnitName,
        hinted: &Hinted,
    ) -> bool {
        let unit = key(group, record, unit);
        let stands = self.view.unit(&unit).map(|it| it.sequence) == Some(hinted.sequence);
        let acts = !self.view.is_deposed(hinted.by, self.now);
        stands && acts && self.now < hinted.until && self.is_candidate(&unit, hinted.to)
    }

    /// The units of a group that keep failing on this member, for its record: their handlers fail, or
    /// do not end.
    pub fn failing(&self, group: &GroupName) -> BTreeSet<UnitName> {
        let failing = self.failures.of(group, self.now);
        let all = self.blocked(group).chain(failing);
        all.take(MOST_TOLD).cloned().collect()
    }

    /// When the next member has settled.
    fn next_settled(&self, group: &GroupName) -> Option<Moment> {
        let living = self.view.living(group, self.now);
        let settled = living.map(|epoch| self.settled_at(epoch));
        settled.filter(|at| self.now < *at).min()
    }

    /// Since when a member has been well, without a break.
    pub(super) fn well_since(&self, epoch: Epoch) -> Moment {
        let since = self.view.member(epoch).map_or(self.now, |it| it.since);
        let is_own = self.lease.as_ref().is_some_and(|it| it.epoch == epoch);
        // A member may be shown its own claim among what was there before.
        if is_own {
            since.max(self.view.joined)
        } else {
            since
        }
    }

    fn settled_at(&self, epoch: Epoch) -> Moment {
        self.well_since(epoch) + self.settings.heartbeat * 2
    }

    /// Whether units of a new group wait for more members.
    pub(super) fn awaits_members(&self, group: &GroupName, record: &GroupRecord) -> bool {
        let fleet = self.seen_fleet(group, record, false);
        let unplaced = self.policy(group).plan(&fleet).unplaced;
        let mut whys = unplaced.iter().map(|it| &it.why);
        whys.any(|why| matches!(why, Unfit::Starting { .. }))
    }

    /// Whether a member has been well for two heartbeats, and does not wait for units of the group to
    /// come of age.
    pub(super) fn has_settled(&self, group: &GroupName, epoch: Epoch) -> bool {
        let info = self.view.member(epoch).and_then(|it| it.info.as_ref());
        let support = info.and_then(|it| it.groups.get(group));
        let waits = support.is_some_and(|it| it.waits);
        !waits && self.settled_at(epoch) <= self.now
    }

    /// Has all groups planned for.
    pub(super) fn look_at_plans(&mut self) {
        for group in self.settings.groups.keys() {
            self.agenda.note(Subject::Plan(group.clone()), self.now);
        }
    }
}

fn key(group: &GroupName, record: &GroupRecord, unit: &UnitName) -> UnitKey {
    UnitKey {
        group: group.clone(),
        generation: record.generation,
        unit: unit.clone(),
    }
}
