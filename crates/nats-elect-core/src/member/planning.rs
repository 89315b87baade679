//! What a plan is made from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::machine::Member;
use super::moves::Moves;
use super::unit::UnitId;
use crate::assignment::{Epoch, Map, MemberRecord};
use crate::moment::Moment;
use crate::mutation::mutated;
use crate::plan::{self, Fleet, Plan, Standing, Unit};

/// Of many units one in so many may move in a map though it could stay.
const SHARE: usize = 16;

/// A plan that is asked for.
///
/// The driver makes the [`fleet`](Self::fleet), adds the weights and labels that it knows, plans,
/// and passes the [`owners`](Self::owners).
#[derive(Clone, Debug)]
pub struct PlanRequest {
    /// The map that is to be changed.
    pub base: Arc<Map>,
    /// The members, then those that join.
    pub candidates: Vec<Candidate>,
    /// The places of units that the plan must not move.
    pub in_change: BTreeSet<u32>,
    /// Whether only units without an able owner get another one.
    pub is_repair: bool,
    /// Until when a rolling restart goes on, as members of several versions came or went lately.
    pub rolls_until: Option<Moment>,
    pub(super) moves: Moves,
}

/// An epoch that is not over.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The epoch.
    pub epoch: Epoch,
    /// Whether it takes units and keeps its own.
    pub standing: Standing,
    /// Its record. `None` if something else is under its key.
    pub record: Option<Arc<MemberRecord>>,
}

impl Candidate {
    /// Whether it can run a unit.
    pub(super) fn can_run(&self, unit: &UnitId) -> bool {
        mutated!(GivesToUnable) || self.record.as_ref().is_none_or(|it| can_run(it, unit))
    }
}

/// Whether the member of this record can run a unit.
pub(super) fn can_run(record: &MemberRecord, unit: &UnitId) -> bool {
    let unable = &record.unable;
    !unable.has_other_generation(unit.generation) && !unable.contains(unit.generation, unit.unit())
}

impl Member {
    /// What the next map is planned from.
    pub(super) fn request(
        &self,
        map: &Arc<Map>,
        candidates: Vec<Candidate>,
        is_repair: bool,
    ) -> PlanRequest {
        let moving = map.moving().filter(|place| !self.is_loose(map, *place));
        let in_change = moving.filter(|place| !self.awaited(map, *place).is_empty());
        PlanRequest {
            base: map.clone(),
            in_change: in_change.collect(),
            rolls_until: self.coordinator.rolls_until(self.now, &candidates),
            moves: self.following.moves.0.clone(),
            candidates,
            is_repair,
        }
    }

    /// The epochs that may still act on the unit at a place.
    pub(super) fn awaited(&self, map: &Map, place: u32) -> Vec<Epoch> {
        let Some(unit) = UnitId::at(map, place) else {
            return Vec::new();
        };
        let waits_for = map.waits_for(place);
        let awaited = waits_for.filter(|(epoch, number)| !self.is_clear(*epoch, &unit, *number));
        awaited.map(|(epoch, _)| epoch).collect()
    }

    /// The living members of a map, then the other living epochs.
    pub(super) fn candidates(&self, map: &Map) -> Vec<Candidate> {
        let members = map.members().iter().copied();
        let members = members.filter(|it| !self.peers.is_over(*it));
        let is_new = |it: &Epoch| self.peers.record(*it).is_some() && !map.members().contains(it);
        let all = members.chain(self.peers.living().filter(is_new));
        let is_behind =
            |it| self.peers.is_behind(it, map.sequence()) && !mutated!(GivesToWhoIsBehind);
        let candidates = all.map(|epoch| {
            let record = self.peers.record(epoch).cloned();
            let standing = match &record {
                Some(it) if it.leaves => Standing::Leaves,
                Some(it) if it.waits && !mutated!(WaitingGetsUnits) => Standing::Waits,
                Some(_) if is_behind(epoch) => Standing::Waits,
                Some(_) if self.peers.is_quiet(epoch, self.now) => Standing::Waits,
                Some(it) if it.profile.cordoned => Standing::Cordoned,
                Some(_) => Standing::Takes,
                None => Standing::Waits,
            };
            Candidate {
                epoch,
                standing,
                record,
            }
        });
        candidates.collect()
    }
}

impl PlanRequest {
    /// A request about a map of which no member is known.
    pub fn new(base: Arc<Map>) -> Self {
        Self {
            base,
            candidates: Vec::new(),
            in_change: BTreeSet::new(),
            is_repair: false,
            rolls_until: None,
            moves: Moves::default(),
        }
    }

    /// The fleet for a plan. All units have the usual weight, and the loads that their owners tell.
    pub fn fleet(&self) -> Fleet {
        let epochs = self.candidates.iter().map(|it| it.epoch);
        let places: BTreeMap<_, _> = epochs.zip(0..).collect();
        let members = self.candidates.iter().map(|it| {
            let told = it.record.as_ref().map(|it| it.profile.clone());
            let told = told.unwrap_or_default();
            plan::Member {
                standing: it.standing,
                labels: told.labels,
                zone: told.zone,
                max_units: told.max_units,
                version: told.version,
                failing: BTreeSet::new(),
            }
        });
        let mut fleet = Fleet {
            members: members.collect(),
            rolls: self.rolls_until.is_some(),
            ..Fleet::default()
        };
        let count = self.base.units().count();
        let share = count as usize / SHARE;
        fleet.limits.moves = if self.is_repair {
            0
        } else {
            fleet.limits.moves.max(share)
        };
        for place in 0..count {
            let owner = self.base.owner(place);
            let moved = self.moves.of(place);
            let mut unit = Unit {
                since: moved.since.into(),
                moved: moved.times.into(),
                owner: owner.and_then(|it| places.get(&it).copied()),
                in_change: self.in_change.contains(&place),
                ..Unit::default()
            };
            if let Some(id) = UnitId::at(&self.base, place) {
                for (member, it) in self.candidates.iter().enumerate() {
                    let is_quick = it.record.as_ref().is_none_or(|it| it.unable.is_empty());
                    if !is_quick && !it.can_run(&id) {
                        fleet.members[member].failing.insert(place as usize);
                        unit.owner = unit.owner.filter(|owner| *owner != member);
                    }
                }
            }
            fleet.units.push(unit);
        }
        self.add_loads(&mut fleet);
        fleet
    }

    /// Of the units that make most of an owner's load each has its own, and the others have equal parts
    /// of the rest.
    fn add_loads(&self, fleet: &mut Fleet) {
        for it in &self.candidates {
            let told = it.record.as_ref().map(|it| &it.profile);
            let Some(told) = told.filter(|it| it.load > 0) else {
                continue;
            };
            let owned: Vec<_> = self.base.owned_by(it.epoch).collect();
            let heavy = |place: &u32| {
                let unit = self.base.units().get(*place)?;
                let heavy = Some(&told.heavy).filter(|it| !it.is_empty())?;
                heavy.get(&unit.name()).copied()
            };
            let loads: Vec<_> = owned.iter().map(heavy).collect();
            let sum: u64 = loads.iter().flatten().map(|it| u64::from(*it)).sum();
            let others = loads.iter().filter(|it| it.is_none()).count() as u64;
            let part = told.load.saturating_sub(sum).checked_div(others);
            let part = u32::try_from(part.unwrap_or(0)).unwrap_or(u32::MAX);
            for (place, load) in owned.into_iter().zip(loads) {
                fleet.units[place as usize].load = Some(load.unwrap_or(part));
            }
        }
    }

    /// The next owners by a plan of that fleet.
    pub fn owners(&self, plan: &Plan) -> BTreeMap<u32, Option<Epoch>> {
        let moves = plan.moves.iter().filter_map(|it| {
            let to = it.to.and_then(|to| self.candidates.get(to));
            let unit = u32::try_from(it.unit).ok()?;
            Some((unit, to.map(|it| it.epoch)))
        });
        moves.collect()
    }
}
