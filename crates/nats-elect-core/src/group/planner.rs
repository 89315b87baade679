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
use super::input::{Hint, Units};
use super::key::UnitKey;
use super::machine::Group;
use super::member_info::Support;
use super::policy::{
    Balanced, Explanation, Fleet, Hold, Imbalance, Member, Plan, Policy, PolicySettings, Round,
    Standing, Unfit, Unit,
};
use super::record::{GroupRecord, UnitRecord};
use super::view::{KnownUnit, Unit as SeenUnit};
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

    pub(super) fn tells_load(&self, group: &GroupName) -> bool {
        let infos = self.view.members().filter_map(|(_, it)| it.info.as_ref());
        let mut supports = infos.filter_map(|it| it.groups.get(group));
        supports.any(|it| it.load > 0)
    }

    /// What units weigh by the loads of their owners. A unit of which its owner tells a load weighs
    /// that; the others each their part of the rest. All together weigh as much as they do without.
    /// Empty if an owner tells no load.
    fn weights(&self, group: &GroupName, fleet: &Fleet) -> BTreeMap<UnitName, u32> {
        /// The units of one owner.
        #[derive(Default)]
        struct Share {
            /// The weights of those of which it tells no load of their own.
            others: u128,
            /// The loads of the rest.
            told: u128,
        }
        let told = |owner: Epoch| {
            let info = self.view.member(owner)?.info.as_ref()?;
            info.groups.get(group).filter(|it| it.load > 0)
        };
        let own = |support: &Support, unit: &UnitName| support.heavy.get(unit).copied();
        let (mut shares, mut weights) = (BTreeMap::<Epoch, Share>::new(), 0_u128);
        for (name, unit) in &fleet.units {
            let Some(owner) = unit.owner else { continue };
            let weight = u128::from(unit.weight.max(1));
            let share = shares.entry(owner).or_default();
            weights += weight;
            match told(owner).and_then(|it| own(it, name)) {
                Some(load) => share.told += u128::from(load),
                None => share.others += weight,
            }
        }
        let load = |(owner, share): (&Epoch, &Share)| {
            let load = u128::from(told(*owner)?.load).max(share.told);
            Some(if share.others > 0 { load } else { share.told })
        };
        let loads: Option<u128> = shares.iter().map(load).sum();
        let Some(loads) = loads.filter(|loads| *loads > 0) else {
            return BTreeMap::new();
        };
        let weighed = |(name, unit): (&UnitName, &Unit)| {
            let owner = unit.owner?;
            let (share, told) = (&shares[&owner], told(owner)?);
            let weight = if let Some(load) = own(told, name) {
                u128::from(load) * weights / loads
            } else {
                let rest = u128::from(told.load).saturating_sub(share.told);
                let part = u128::from(unit.weight.max(1)) * rest * weights;
                part / (share.others * loads)
            };
            Some((name.clone(), u32::try_from(weight).unwrap_or(u32::MAX)))
        };
        fleet.units.iter().filter_map(weighed).collect()
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
    /// known one means nothing. One about a later one waits for it.
    pub(super) fn take_hints(&mut self, hints: Vec<Hint>) {
        for Hint { unit, sequence, to } in hints {
            let Some(record) = self.record_of(&unit.group) else {
                continue;
            };
            let known = self.view.unit(&unit).map_or(0, |it| it.sequence);
            if sequence >= known && self.is_unit(&unit, &record) {
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

    /// What a policy plans from, with the state of a planner.
    fn fleet(&self, group: &GroupName, record: &GroupRecord, planning: &Planning) -> Fleet {
        let mut fleet = self.seen_fleet(group, record, false);
        for (unit, known) in &mut fleet.units {
            if let Some(hinted) = planning.hinted.get(unit) {
                fleet.under_way.insert(unit.clone(), hinted.to);
            }
            if let Some(weight) = planning.weights.get(unit) {
                known.weight = *weight;
            }
        }
        fleet.round = planning.round;
        fleet
    }

    /// The same for this member's own needs: nothing moves only to make things better.
    fn own_fleet(&self, group: &GroupName, record: &GroupRecord) -> Fleet {
        let mut fleet = self.seen_fleet(group, record, true);
        for (unit, weight) in self.weights(group, &fleet) {
            if let Some(unit) = fleet.units.get_mut(&unit) {
                unit.weight = weight;
            }
        }
        fleet.round = Round::Over { at: Some(self.now) };
        fleet
    }

    /// Members and units, as this member sees them, and its own units that are on their way.
    fn seen_fleet(&self, group: &GroupName, record: &GroupRecord, needs: bool) -> Fleet {
        let mut fleet = Fleet::new(self.now);
        self.add_members(group, needs, &mut fleet);
        let known = self.view.units_in(group);
        for (key, seen) in known.filter(|(key, _)| self.is_present(key, record)) {
            self.add_unit(key, *seen, record.making, &mut fleet);
        }
        self.add_failures(group, &mut fleet);
        for (key, tenure) in &self.tenures {
            let counts = key.group == *group && self.is_present(key, record);
            if let Some(heir) = tenure.heir().filter(|_| counts)
                && fleet.units.contains_key(&key.unit)
            {
                fleet.under_way.insert(key.unit.clone(), heir);
            }
        }
        fleet
    }

    fn is_present(&self, unit: &UnitKey, record: &GroupRecord) -> bool {
        unit.generation == record.generation && self.is_unit(unit, record)
    }

    /// Adds all members that may own units of the group. Those that have not settled count as if
    /// they had, if no other one takes units. `needs` leaves them out otherwise.
    fn add_members(&self, group: &GroupName, needs: bool, fleet: &mut Fleet) {
        let own = self.lease.as_ref().map(|it| it.epoch);
        let mut young = Vec::new();
        let mut any_settled = false;
        for (epoch, member) in self.view.members() {
            let Some(info) = member.info.as_ref().filter(|_| !member.is_deposed()) else {
                continue;
            };
            let Some(support) = info.groups.get(group) else {
                continue;
            };
            let mut known = Member::new(self.well_since(epoch)).flapped(member.flapped);
            known.zone.clone_from(&info.zone);
            let told = info.labels.iter().filter(|it| !it.starts_with(HANDLER));
            known.labels = told.cloned().collect();
            known.labels.extend(self.handlers(group, support));
            known.capacity = info.capacity.unwrap_or(known.capacity);
            known.cap = info.most_units;
            known.standing = if info.cordoned || (self.draining && own == Some(epoch)) {
                Standing::Cordoned
            } else if member.over_at <= self.now {
                Standing::Silent
            } else {
                if self.has_settled(epoch) {
                    any_settled = true;
                } else {
                    young.push(epoch);
                }
                Standing::Active
            };
            fleet.members.insert(epoch, known);
        }
        for epoch in young {
            if !any_settled {
                if let Some(member) = fleet.members.get_mut(&epoch) {
                    (member.since, member.flapped) = (Moment::default(), false);
                }
            } else if needs {
                fleet.members.remove(&epoch);
            }
        }
    }

    /// Adds a unit that has an owner, or could have one now. Those of a new group count all, whatever
    /// a stranger has written: otherwise the group could stay new for ever.
    fn add_unit(&self, unit: &UnitKey, seen: SeenUnit, is_new: bool, fleet: &mut Fleet) {
        let record = match seen.known {
            _ if is_new => UnitRecord::Nobody,
            KnownUnit::Record(record) => record,
            KnownUnit::Opaque | KnownUnit::Missing => return,
        };
        let is_free = match record {
            UnitRecord::Closed => return,
            UnitRecord::Nobody => true,
            UnitRecord::Owned(owner) => self.view.is_deposed(owner, self.now),
        };
        if is_free && !is_new && self.now < seen.quiet_until {
            return;
        }
        let placement = self.settings.placements.get(&unit.group);
        let told = placement.and_then(|it| it.units.get(&unit.unit));
        let mut known = told.cloned().unwrap_or_else(Unit::default);
        if matches!(self.settings.groups.get(&unit.group), Some(Units::Named(_))) {
            known.requires.insert(handler(&unit.unit));
        }
        known.owner = record.owner();
        // The order of writes is that of moves, and the same for all planners.
        known.moved = Some(Moment::from_nanos(seen.sequence));
        if let Some(owner) = known.owner.filter(|_| !is_free) {
            // Nobody else may have it yet, although its owner takes none.
            let silent = || Member::new(self.now).standing(Standing::Silent);
            fleet.members.entry(owner).or_insert_with(silent);
        }
        fleet.units.insert(unit.unit.clone(), known);
    }

    /// The handlers that a member has for named units of a group, as labels.
    fn handlers(&self, group: &GroupName, support: &Support) -> Vec<String> {
        let Some(Units::Named(names)) = self.settings.groups.get(group) else {
            return Vec::new();
        };
        let has = names.iter().filter(|name| support.has_handler(name));
        has.map(handler).collect()
    }

    /// Adds on which members units keep failing, as these members tell.
    fn add_failures(&self, group: &GroupName, fleet: &mut Fleet) {
        let mut fails = |unit: &UnitName, epoch| {
            if let Some(unit) = fleet.units.get_mut(unit) {
                unit.failing_on.insert(epoch);
            }
        };
        for (epoch, member) in self.view.members() {
            let support = member.info.as_ref().and_then(|it| it.groups.get(group));
            let failing = support.into_iter().flat_map(|it| &it.failing);
            failing.for_each(|unit| fails(unit, epoch));
        }
        if let Some(own) = self.lease.as_ref().map(|it| it.epoch) {
            let failing = self.failures.of(group, self.now);
            failing.for_each(|unit| fails(unit, own));
        }
    }

    /// The units of a group that keep failing on this member, for its record.
    pub fn failing(&self, group: &GroupName) -> BTreeSet<UnitName> {
        self.failures.of(group, self.now).cloned().collect()
    }

    /// When the next member has settled.
    fn next_settled(&self, group: &GroupName) -> Option<Moment> {
        let living = self.view.living(group, self.now);
        let settled = living.map(|epoch| self.settled_at(epoch));
        settled.filter(|at| self.now < *at).min()
    }

    /// Since when a member has been well, without a break.
    fn well_since(&self, epoch: Epoch) -> Moment {
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

    /// Whether a member has been well for two heartbeats.
    pub(super) fn has_settled(&self, epoch: Epoch) -> bool {
        self.settled_at(epoch) <= self.now
    }

    /// Has all groups planned for.
    pub(super) fn look_at_plans(&mut self) {
        for group in self.settings.groups.keys() {
            self.agenda.note(Subject::Plan(group.clone()), self.now);
        }
    }
}

/// How labels begin that stand for a handler. No label of a member's own begins so.
pub const HANDLER: &str = "handler=";

/// The label of a member that has a handler for this unit.
fn handler(unit: &UnitName) -> String {
    format!("{HANDLER}{unit}")
}

fn key(group: &GroupName, record: &GroupRecord, unit: &UnitName) -> UnitKey {
    UnitKey {
        group: group.clone(),
        generation: record.generation,
        unit: unit.clone(),
    }
}
