//! The gauges of the groups and of the lease.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::MemberState;
use crate::clock;
use crate::metrics::{GroupGauges, GroupLabels, MemberLabels};
use crate::role::{GroupScope, Instance};
use nats_elect_core::Moment;
use nats_elect_core::group::policy::Imbalance;
use nats_elect_core::group::{Epoch, Group, MemberState as Life, ShownUnit, UnitState, Units};
use nats_elect_core::name::{GroupName, UnitName};

/// How often the gauges are brought up to date.
const EVERY: Duration = Duration::from_secs(1);

/// The gauges, and what they were last counted from.
pub(super) struct Meter {
    lease: MemberLabels,
    groups: BTreeMap<GroupName, Metered>,
    next: Moment,
    /// The members whose heartbeats were shown when units were last counted.
    living: BTreeSet<Epoch>,
    /// Whether a unit or a group's record may have changed since.
    dirty: bool,
}

struct Metered {
    labels: GroupLabels,
    gauges: GroupGauges,
    unowned_since: Option<Moment>,
    /// The units that are this instance's by their records, and since when no handler of theirs has run.
    idle: BTreeMap<UnitName, Moment>,
}

impl Meter {
    pub fn new(instance: &Instance, groups: &super::Groups) -> Self {
        let (id, bucket) = (instance.id.as_str(), instance.bucket.as_str());
        let metered = |(name, scope): (&GroupName, &Arc<GroupScope>)| {
            let metered = Metered {
                labels: scope.meter.clone(),
                gauges: GroupGauges::default(),
                unowned_since: None,
                idle: BTreeMap::new(),
            };
            metered.labels.register();
            (name.clone(), metered)
        };
        Self {
            lease: MemberLabels::new(id, bucket),
            groups: groups.iter().map(metered).collect(),
            next: clock::now(),
            living: BTreeSet::new(),
            dirty: true,
        }
    }

    /// Units are to be counted again.
    pub const fn unit_changed(&mut self) {
        self.dirty = true;
    }

    /// This instance has left its groups.
    pub fn clear(&self) {
        self.lease.lease(Duration::ZERO, Duration::ZERO);
        for metered in self.groups.values() {
            metered.labels.show(&GroupGauges::default());
        }
    }
}

impl MemberState {
    /// Brings the gauges up to date, if it is time. Units are counted only if something changed: a
    /// group may have thousands.
    pub(super) fn show_gauges(&mut self) {
        let now = clock::now();
        if now < self.meter.next {
            return;
        }
        self.meter.next = now + EVERY;
        let until = self.group.lease_until().unwrap_or(now);
        let remaining = until.since(now);
        self.meter.lease.lease(self.settings.ttl, remaining);
        let alive = self.group.members().filter(|it| it.state == Life::Living);
        let living: BTreeSet<Epoch> = alive.map(|it| it.epoch).collect();
        let count = std::mem::take(&mut self.meter.dirty) || living != self.meter.living;
        let own = self.group.own_epoch();
        for (name, metered) in &mut self.meter.groups {
            let Some(scope) = self.groups.get(name) else {
                continue;
            };
            let gauges = &mut metered.gauges;
            if count {
                let here = self.running.iter();
                let acting = here.filter(|(unit, it)| unit.group == *name && it.lives);
                gauges.units = acting.count();
                let mut with_owner = 0;
                let mut idle = BTreeMap::new();
                let (all, units) = units_with_owners(&self.group, scope, &living);
                for unit in units {
                    with_owner += 1;
                    let running = self.running.get(unit.key);
                    if unit.owner == own && running.is_none_or(|it| !it.lives) {
                        let since = metered.idle.get(&unit.key.unit).copied();
                        idle.insert(unit.key.unit.clone(), since.unwrap_or(now));
                    }
                }
                gauges.unowned = all.saturating_sub(with_owner);
                metered.idle = idle;
            }
            let idle_since = metered.idle.values().min().copied();
            gauges.idle_for = now.since(idle_since.unwrap_or(now));
            if gauges.unowned == 0 {
                metered.unowned_since = None;
            } else {
                metered.unowned_since.get_or_insert(now);
            }
            let since = metered.unowned_since.unwrap_or(now);
            gauges.unowned_for = now.since(since);
            let takes = |it: &nats_elect_core::group::ShownMember<'_>| {
                let info = it.info.filter(|_| it.state == Life::Living);
                info.is_some_and(|info| !info.cordoned && info.groups.contains_key(name))
            };
            gauges.members = self.group.members().filter(takes).count();
            gauges.plans = own.is_some() && self.group.planner_of(name) == own;
            let planned = self.group.planned_imbalance(name);
            (gauges.imbalance, gauges.imbalance_planned) = planned
                .filter(|_| gauges.plans)
                .map_or((0.0, 0.0), |(before, after)| (above(before), above(after)));
            metered.labels.show(gauges);
        }
        self.meter.living = living;
    }
}

/// How many units the group's present generation has, and those of them that have a living owner.
fn units_with_owners<'a>(
    group: &'a Group,
    scope: &'a GroupScope,
    living: &'a BTreeSet<Epoch>,
) -> (usize, impl Iterator<Item = ShownUnit<'a>>) {
    let (shards, generation) = scope.read(|board| (board.shards, board.generation));
    let (all, own_names): (usize, Option<BTreeSet<_>>) = match &scope.units {
        Units::Shards(configured) => {
            let shards = shards.unwrap_or(*configured);
            (usize::try_from(shards).unwrap_or(usize::MAX), None)
        }
        Units::Named(names) => (names.len(), Some(names.iter().collect())),
    };
    let is_unit = move |unit: &UnitName| match &own_names {
        Some(names) => names.contains(unit),
        None => unit
            .as_shard()
            .is_some_and(|it| usize::try_from(it).is_ok_and(|it| it < all)),
    };
    let owned = group.owners(&scope.name).filter(move |unit| {
        unit.key.generation == generation
            && unit.state == UnitState::Owned
            && unit.owner.is_some_and(|owner| living.contains(&owner))
            && is_unit(&unit.key.unit)
    });
    (all, owned)
}

/// By how much the highest load is above its fair share.
#[expect(clippy::cast_precision_loss, reason = "thousandths of a share")]
fn above(imbalance: Imbalance) -> f64 {
    imbalance.most.saturating_sub(1000) as f64 / 1000.0
}
