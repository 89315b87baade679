//! The [`Fleet`] from which a policy plans, as this member sees it.

use std::collections::BTreeMap;

use super::epoch::Epoch;
use super::input::Units;
use super::key::UnitKey;
use super::machine::Group;
use super::member_info::Support;
use super::planner::Planning;
use super::policy::{Fleet, Member, Round, Standing, Unit};
use super::record::{GroupRecord, UnitRecord};
use super::view::{KnownUnit, Unit as SeenUnit};
use crate::moment::Moment;
use crate::name::{GroupName, UnitName};
impl Group {
    /// The fleet for a plan, with the state of the planner.
    pub(super) fn fleet(
        &self,
        group: &GroupName,
        record: &GroupRecord,
        planning: &Planning,
    ) -> Fleet {
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
    pub(super) fn own_fleet(&self, group: &GroupName, record: &GroupRecord) -> Fleet {
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
    pub(super) fn seen_fleet(&self, group: &GroupName, record: &GroupRecord, needs: bool) -> Fleet {
        let mut fleet = Fleet::new(self.now);
        self.add_members(group, needs, &mut fleet);
        // No unit of this generation had an owner yet, and those of the one before had.
        fleet.grows = record.generation > 1;
        let known = self.view.units_in(group);
        for (key, seen) in known.filter(|(key, _)| self.is_present(key, record)) {
            fleet.grows &= seen.newborn;
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

    pub(super) fn is_present(&self, unit: &UnitKey, record: &GroupRecord) -> bool {
        unit.generation == record.generation && self.is_unit(unit, record)
    }

    /// Adds all members that may own units of the group. Those that have not settled, or wait for units
    /// to come of age, count as if they had, if no other one takes units. `needs` leaves them out
    /// otherwise.
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
            known.cap = info.most_units;
            known.standing = if info.cordoned || (self.draining && own == Some(epoch)) {
                Standing::Cordoned
            } else if member.over_at <= self.now {
                Standing::Silent
            } else {
                if self.has_settled(group, epoch) {
                    any_settled = true;
                } else {
                    young.push(epoch);
                }
                if support.waits {
                    Standing::Waiting
                } else {
                    Standing::Active
                }
            };
            fleet.members.insert(epoch, known);
        }
        for epoch in young {
            if !any_settled {
                if let Some(member) = fleet.members.get_mut(&epoch) {
                    (member.since, member.flapped) = (Moment::default(), false);
                    member.standing = Standing::Active;
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
            for unit in self.failing(group) {
                fails(&unit, own);
            }
        }
    }

    pub(super) fn tells_load(&self, group: &GroupName) -> bool {
        let infos = self.view.members().filter_map(|(_, it)| it.info.as_ref());
        let mut supports = infos.filter_map(|it| it.groups.get(group));
        supports.any(|it| it.load > 0)
    }

    /// The weights of units by the loads of their owners. A unit of which its owner tells a load weighs
    /// that; the others each their part of the rest. All together weigh as much as they do without.
    /// Empty if an owner tells no load.
    pub(super) fn weights(&self, group: &GroupName, fleet: &Fleet) -> BTreeMap<UnitName, u32> {
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
}

/// How labels begin that stand for a handler. No label of a member's own begins so.
pub const HANDLER: &str = "handler=";

/// The label of a member that has a handler for this unit.
fn handler(unit: &UnitName) -> String {
    format!("{HANDLER}{unit}")
}
