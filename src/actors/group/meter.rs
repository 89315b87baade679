//! The gauges of the group and of the lease.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::GroupState;
use super::units::Running;
use crate::clock;
use crate::metrics::{GroupGauges, GroupLabels, MemberLeases, UnitTermEnd};
use nats_elect_core::Moment;
use nats_elect_core::member::UnitId;
use nats_elect_core::plan::{Fleet, Plan, Standing, USUAL_WEIGHT};

/// How often the gauges are brought up to date.
const EVERY: Duration = Duration::from_secs(1);

/// The gauges, and what they were last counted from.
pub(super) struct Meter {
    leases: Arc<MemberLeases>,
    gauges: GroupGauges,
    next: Moment,
    unowned_since: Option<Moment>,
    /// The units that are this instance's by the map, and since when no handler of theirs has run.
    idle: BTreeMap<UnitId, Moment>,
}

impl Meter {
    pub fn new(leases: Arc<MemberLeases>, labels: &GroupLabels) -> Self {
        labels.register();
        Self {
            leases,
            gauges: GroupGauges::default(),
            next: clock::now(),
            unowned_since: None,
            idle: BTreeMap::new(),
        }
    }

    /// A plan was made. By so much the highest load is above its fair share before it, and after it.
    pub const fn planned(&mut self, before: f64, after: f64) {
        self.gauges.imbalance = before;
        self.gauges.imbalance_planned = after;
    }
}

impl GroupState {
    /// Brings the gauges up to date, if it is time.
    pub(super) fn show_gauges(&mut self) {
        let now = clock::now();
        if now < self.meter.next {
            return;
        }
        self.meter.next = now + EVERY;
        let until = self.member.lease_until().unwrap_or(now);
        let left = until.since(now);
        let (leases, group) = (&self.meter.leases, &self.scope.name);
        leases.lease(group, self.scope.settings.ttl, left);
        let living: BTreeMap<_, _> = self.member.living(now).collect();
        let own = self.member.epoch();
        let mut idle = BTreeMap::new();
        let mut unowned = self.scope.units.count() as usize;
        if let Some(map) = self.member.map() {
            unowned = 0;
            for place in 0..map.units().count() {
                let owner = map.owner(place);
                if owner.is_none_or(|owner| !living.contains_key(&owner)) {
                    unowned += 1;
                } else if owner == own
                    && let Some(unit) = UnitId::at(map, place)
                    && !self.running.get(&unit).is_some_and(Running::acts)
                {
                    let since = self.meter.idle.get(&unit).copied();
                    idle.insert(unit, since.unwrap_or(now));
                }
            }
        }
        let gauges = &mut self.meter.gauges;
        gauges.units = self.running.values().filter(|it| it.acts()).count();
        gauges.unowned = unowned;
        let since = self.meter.unowned_since.filter(|_| unowned > 0);
        self.meter.unowned_since = since.or((unowned > 0).then_some(now));
        gauges.unowned_for = now.since(self.meter.unowned_since.unwrap_or(now));
        gauges.idle_for = now.since(idle.values().min().copied().unwrap_or(now));
        self.meter.idle = idle;
        let takes = living
            .values()
            .filter(|it| !it.leaves && !it.profile.cordoned);
        gauges.members = takes.count();
        gauges.plans = self.member.plans();
        if !gauges.plans {
            (gauges.imbalance, gauges.imbalance_planned) = (0.0, 0.0);
        }
        self.scope.meter.show(gauges);
    }

    /// This instance has left its group.
    pub(super) fn clear_gauges(&self) {
        let (leases, group) = (&self.meter.leases, &self.scope.name);
        leases.lease(group, Duration::ZERO, Duration::ZERO);
        self.scope.meter.show(&GroupGauges::default());
    }

    /// Why a handler ends that the machine wants to end.
    pub(super) fn cause(&self) -> UnitTermEnd {
        if self.stopping.is_some() {
            UnitTermEnd::Drained
        } else if self.member.epoch().is_none() {
            UnitTermEnd::Lost
        } else {
            UnitTermEnd::Given
        }
    }
}

/// By how much the highest load is above its fair share, before a plan and after it.
pub(super) fn excess(fleet: &Fleet, plan: &Plan) -> (f64, f64) {
    let standing = |member: usize| fleet.members.get(member).map(|it| it.standing);
    let counts = |owner: Option<usize>| {
        let standing = owner.and_then(standing);
        standing.is_none_or(|it| it != Standing::Waits)
    };
    let units = fleet.units.iter().filter(|it| counts(it.owner));
    let weight = |it: Option<u32>| u64::from(it.unwrap_or(USUAL_WEIGHT));
    let all: u64 = units.map(|it| weight(it.weight)).sum();
    let takers = fleet.members.iter();
    let takers = takers.filter(|it| it.standing == Standing::Takes).count();
    (
        above(plan.before.most, all, takers),
        above(plan.after.most, all, takers),
    )
}

#[expect(clippy::cast_precision_loss, reason = "a share")]
fn above(most: u64, all: u64, takers: usize) -> f64 {
    if all == 0 {
        return 0.0;
    }
    let share = most as f64 * takers as f64 / all as f64;
    (share - 1.0).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nats_elect_core::plan::{Member, Unit, plan};

    #[test]
    fn the_imbalance_is_that_of_the_members_that_take_units() {
        let owned = |owner| Unit {
            owner: Some(owner),
            ..Unit::default()
        };
        let waits = Member {
            standing: Standing::Waits,
            ..Member::default()
        };
        let fleet = Fleet {
            members: vec![Member::default(), Member::default(), waits],
            units: [0, 0, 0, 0, 2].map(owned).into(),
            ..Fleet::default()
        };
        assert_eq!(excess(&fleet, &plan(&fleet)), (1.0, 0.0));
        let nobody = Fleet::default();
        assert_eq!(excess(&nobody, &plan(&nobody)), (0.0, 0.0));
    }
}
