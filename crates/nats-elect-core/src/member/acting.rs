//! The handlers of a member: what begins, what ends, and what its record excepts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::effect::Effect;
use super::failures::Failures;
use super::peers::Peers;
use super::unit::UnitId;
use crate::assignment::{Epoch, Map, Unit, UnitSets};
use crate::lease::HandlerEnd;
use crate::moment::Moment;
use crate::mutation::mutated;

/// A handler that runs.
#[derive(Clone, Debug, Hash)]
struct Term {
    epoch: Epoch,
    /// The deadline of a handler that was told to end.
    ending: Option<Moment>,
}

/// The handlers of this process for one group.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Acting {
    terms: BTreeMap<UnitId, Term>,
    /// Handlers that were told to end, and whose deadline is ahead.
    ending: BTreeSet<(Moment, UnitId)>,
    /// Handlers that were told to end, and whose deadline has passed.
    overrun: BTreeSet<UnitId>,
    /// The exceptions of the present epoch: handlers that act by an earlier map.
    behind: BTreeSet<UnitId>,
    /// The places of owned units for which no handler has begun by the followed map.
    begin: BTreeSet<u32>,
    /// What counts of handlers that ended by themselves.
    pub failures: Failures,
}

impl Acting {
    /// Takes a newer map. `None`: one that can't be followed, by which nothing acts. Terms of the
    /// epoch, whose lease lasts until a moment, go on if it owns their units there, too.
    pub fn follow(&mut self, map: Option<&Map>, epoch: Epoch, until: Moment) -> Vec<Effect> {
        let owns = |unit: &UnitId| {
            let owner = map.and_then(|map| map.owner(unit.place_in(map)?));
            owner == Some(epoch)
        };
        let generation = map.map(Map::generation);
        self.failures.follow(generation, owns);
        self.begin = map.map_or_else(BTreeSet::new, |map| map.owned_by(epoch).collect());
        let mut ended = Vec::new();
        for (unit, term) in &self.terms {
            if term.epoch != epoch || self.overrun.contains(unit) {
                continue;
            }
            let owns = owns(unit);
            if !owns || !mutated!(GoesOnWithoutException) {
                self.behind.insert(unit.clone());
            }
            if !owns && !mutated!(KeepsTakenUnits) {
                ended.push(unit.clone());
            } else if let Some(place) = map.and_then(|map| unit.place_in(map))
                && term.ending.is_none()
            {
                self.begin.remove(&place);
            }
        }
        self.cancel(ended, until)
    }

    /// Tells all handlers of an epoch to end, or all of the process.
    pub fn end_all(&mut self, epoch: Option<Epoch>, until: Moment) -> Vec<Effect> {
        // Each was told before.
        if self.ending.len() + self.overrun.len() == self.terms.len() {
            return Vec::new();
        }
        let terms = self.terms.iter();
        let units = terms.filter(|(_, term)| epoch.is_none_or(|it| it == term.epoch));
        let units = units.map(|(unit, _)| unit.clone()).collect();
        self.cancel(units, until)
    }

    fn cancel(&mut self, units: Vec<UnitId>, until: Moment) -> Vec<Effect> {
        let mut effects = Vec::new();
        for unit in units {
            if let Some(term) = self.terms.get_mut(&unit)
                && term.ending.is_none()
            {
                term.ending = Some(until);
                if mutated!(ToldIsNoException) {
                    self.behind.remove(&unit);
                }
                self.ending.insert((until, unit.clone()));
                effects.push(Effect::Cancel { unit, until });
            }
        }
        effects
    }

    /// The epoch is no more: nothing of it begins, and no record tells its exceptions.
    pub fn forget_epoch(&mut self) {
        self.behind.clear();
        self.begin.clear();
        self.failures.forget_epoch();
    }

    /// Lets terms act by the followed map, and begins others, as far as rule 1 allows. Nothing begins
    /// unless the member `may_begin`. If nothing has changed but that the handler of a unit has ended,
    /// that one is `freed`: thousands may end in a row, and none is looked at for each other.
    ///
    /// Returns the units whose terms begin.
    pub fn advance(
        &mut self,
        map: &Map,
        epoch: Epoch,
        peers: &Peers,
        may_begin: bool,
        freed: Option<&UnitId>,
    ) -> Vec<UnitId> {
        let is_clear = |unit: &UnitId, place: u32| {
            map.waits_for(place).all(|(other, number)| {
                other == epoch
                    || mutated!(NobodyWaitedFor)
                    || peers.is_clear(other, unit.generation, unit.unit(), number)
            })
        };
        let terms = &self.terms;
        if freed.is_none() {
            self.behind.retain(|unit| {
                let is_told = terms.get(unit).is_none_or(|it| it.ending.is_some());
                let place = unit.place_in(map).filter(|_| !is_told);
                !place.is_some_and(|place| mutated!(ActsByNewMapEarly) || is_clear(unit, place))
            });
        }
        if !may_begin {
            return Vec::new();
        }
        let (first, last) = (self.terms.first_key_value(), self.terms.last_key_value());
        let mut ends = first.into_iter().chain(last);
        let is_beside = ends.any(|(unit, _)| unit.generation != map.generation());
        if is_beside && !mutated!(BeginsBesideGeneration) {
            return Vec::new();
        }
        // The last one of another generation frees all.
        let (low, high) = freed
            .and_then(|unit| unit.place_in(map))
            .map_or((0, u32::MAX), |place| (place, place));
        let units = self.begin.range(low..=high).filter_map(|place| {
            let unit = UnitId::at(map, *place)?;
            let is_free = !self.terms.contains_key(&unit) || mutated!(BeginsBesideItself);
            let is_free = is_free && !self.failures.rests(&unit);
            let begins = is_free && is_clear(&unit, *place);
            begins.then_some((*place, unit))
        });
        let (places, units): (Vec<_>, Vec<_>) = units.unzip();
        for (place, unit) in places.iter().zip(&units) {
            self.begin.remove(place);
            let term = Term {
                epoch,
                ending: None,
            };
            self.terms.insert(unit.clone(), term);
        }
        units
    }

    /// A handler has ended. Returns whether there was one.
    pub fn ended(
        &mut self,
        now: Moment,
        unit: &UnitId,
        end: HandlerEnd,
        heartbeat: Duration,
    ) -> bool {
        let Some(term) = self.terms.remove(unit) else {
            return false;
        };
        self.behind.remove(unit);
        self.overrun.remove(unit);
        if let Some(until) = term.ending {
            self.ending.remove(&(until, unit.clone()));
            self.failures.ended_as_told(now, unit);
        } else {
            if let (true, Unit::Shard(place)) = (mutated!(BeginsAgain), &unit.unit) {
                self.begin.insert(*place);
                return true;
            }
            let has_failed = matches!(end, HandlerEnd::Failed | HandlerEnd::Panicked);
            self.failures.ended(now, unit, has_failed, heartbeat);
        }
        true
    }

    /// Tells the handler of a unit to end that fails here.
    pub fn give_up(&mut self, now: Moment, unit: UnitId, until: Moment) -> Vec<Effect> {
        let acts = |it: &Term| it.ending.is_none();
        if !self.terms.get(&unit).is_some_and(acts) {
            return Vec::new();
        }
        self.failures.gave_up(now, &unit);
        self.cancel(vec![unit], until)
    }

    /// Takes the passing of deadlines. Returns whether an exception or an ability changed.
    pub fn pass(&mut self, now: Moment) -> bool {
        let mut is_changed = false;
        while let Some((until, _)) = self.ending.first()
            && *until <= now
            && let Some((_, unit)) = self.ending.pop_first()
        {
            self.behind.remove(&unit);
            self.overrun.insert(unit);
            is_changed = true;
        }
        is_changed
    }

    /// Whether no handler of an epoch acts, or none of the process.
    pub fn is_done(&self, epoch: Option<Epoch>) -> bool {
        let mut terms = self
            .terms
            .iter()
            .filter(|(unit, _)| !self.overrun.contains(unit));
        terms.all(|(_, term)| epoch.is_some_and(|it| it != term.epoch))
    }

    /// The next deadline of a handler that was told to end, or the end of a unit's rest.
    pub fn due(&self) -> Option<Moment> {
        let deadline = self.ending.first().map(|(until, _)| *until);
        deadline.into_iter().chain(self.failures.wakes()).min()
    }

    /// How many exceptions there are.
    pub fn exceptions(&self) -> usize {
        self.behind.len()
    }

    pub fn excepts(&self) -> UnitSets {
        sets(self.behind.iter())
    }

    pub fn unable(&self, now: Moment, is_aside: bool) -> UnitSets {
        let units = self.overrun.iter().chain(self.failures.failing(now));
        // Whose handler ended begins by another map, which it can't write.
        let units = units.chain(self.failures.need_map().filter(|_| is_aside));
        sets(units.collect::<BTreeSet<_>>().into_iter())
    }
}

fn sets<'a>(units: impl Iterator<Item = &'a UnitId>) -> UnitSets {
    units.map(|it| (it.generation, it.unit.clone())).collect()
}
