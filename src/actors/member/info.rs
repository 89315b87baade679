//! What this member tells of itself in its record.

use std::collections::BTreeMap;

use super::MemberState;
use crate::actors::loads;
use crate::clock;
use crate::role::GroupScope;
use nats_elect_core::Moment;
use nats_elect_core::group::{EpochKey, MOST_TOLD, MemberInfo, Support};
use nats_elect_core::name::{GroupName, UnitName};

/// The format of the records of groups that this version understands. Since the second one members
/// tell labels, capacities, loads, and units that fail.
const FORMAT: u32 = 2;

/// Whether most units of a group were not of age, and when that was counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ageing {
    /// The group's generation, and whether this member had joined.
    then: (u32, bool),
    at: Moment,
    waits: bool,
    /// A unit was shown since, or the group's record.
    is_old: bool,
}

impl MemberState {
    /// Has the ages of a group's units counted anew with the next look.
    pub(super) fn count_ages_of(&mut self, group: &GroupName) {
        if let Some(ageing) = self.ageing.get_mut(group) {
            ageing.is_old = true;
        }
    }

    /// Counts the units that are not of age, which takes a look at each of thousands: at once where a
    /// group has another generation or this member joins, else once in a heartbeat, while they age or
    /// others are shown.
    pub(super) fn look_at_ages(&mut self) {
        let now = clock::now();
        for name in self.groups.keys() {
            let present = (self.group.generation(name), self.group.has_joined());
            let last = self.ageing.get(name);
            let holds = last.is_some_and(|it| {
                let is_recent = now < it.at + self.settings.heartbeat;
                it.then == present && (is_recent || !(it.waits || it.is_old))
            });
            if !holds {
                let ageing = Ageing {
                    then: present,
                    at: now,
                    waits: self.group.waits(name),
                    is_old: false,
                };
                self.ageing.insert(name.clone(), ageing);
            }
        }
    }

    /// What its record is to say from now on.
    pub(super) fn info(&self, key: EpochKey, cordoned: bool) -> MemberInfo {
        let groups = self.groups.iter();
        let groups = groups.filter(|(name, _)| self.group.misfit(name).is_none());
        MemberInfo {
            groups: groups
                .map(|(name, scope)| (name.clone(), self.support(scope)))
                .collect(),
            zone: self.instance.meta.get("zone").cloned(),
            labels: self.seat.labels.clone(),
            most_units: self.seat.max_units,
            cordoned,
            ..MemberInfo::new(key)
        }
        .fitted()
    }

    fn support(&self, scope: &GroupScope) -> Support {
        let (load, heavy) = self.load(scope);
        Support {
            format: FORMAT,
            generation: self.group.generation(&scope.name),
            load,
            heavy,
            failing: self.group.failing(&scope.name),
            units: scope.units.names().iter().cloned().collect(),
            waits: self.ageing.get(&scope.name).is_some_and(|it| it.waits),
        }
    }

    /// The load of all units of a group that this member acts on, and of the heaviest. A unit whose
    /// handler told none counts as the mean of the others. 0 if none told any.
    fn load(&self, scope: &GroupScope) -> (u64, BTreeMap<UnitName, u32>) {
        let running = self.running.iter();
        let acting = running.filter(|(unit, it)| unit.group == scope.name && it.lives);
        let loads = acting.map(|(unit, it)| (&unit.unit, it.term.load()));
        let (load, heavy) = loads::told(loads, MOST_TOLD);
        let heavy = heavy.into_iter();
        (
            load,
            heavy.map(|(unit, load)| (unit.clone(), load)).collect(),
        )
    }
}
