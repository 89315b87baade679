//! A place for each unit that has none, or must leave its owner.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::board::{Board, Cost, MUST};
use super::outcome::{Reason, Unplaced};

/// A unit that is nowhere, behind all by which it gets its turn: those without an owner are first, then
/// those that require most labels, and have most wishes; of a kind the heaviest.
type Loose = (bool, Reverse<[usize; 2]>, usize, Reverse<u64>, usize);

impl Board<'_> {
    /// Places all units that have no place, or must leave theirs. Returns those that nobody may have.
    pub fn place_all(&mut self) -> Vec<Unplaced> {
        let loose = self.loosen();
        let mut unplaced = Vec::new();
        for kind in loose.chunk_by(|a, b| a.2 == b.2) {
            let units: Vec<_> = kind.iter().map(|it| it.4).collect();
            let placed = self.place(&units);
            let why = self.nearest(units[units.len() - 1]);
            for unit in units[placed..].iter().copied() {
                self.keep(unit);
                unplaced.push(Unplaced { unit, why });
            }
        }
        unplaced
    }

    /// Takes all units off the board that have no owner, or one that may not have them.
    fn loosen(&mut self) -> Vec<Loose> {
        let fleet = self.fleet;
        let mut units: Vec<_> = (0..self.at.len()).collect();
        units.retain(|it| !fleet.units[*it].in_change);
        let mut loose = Vec::new();
        for unit in units {
            let (it, owner) = (&fleet.units[unit], self.at[unit]);
            if let Some(cause) = owner.map_or(Some(Reason::Unowned), |at| self.refusal(unit, at)) {
                self.lift(unit, cause);
                let wishes = it.zones.len() + it.apart.len() + it.prefers.len();
                let order = (owner.is_some(), Reverse([it.requires.len(), wishes]));
                let weight = Reverse(self.weight[unit]);
                loose.push((order.0, order.1, self.kind[unit], weight, unit));
            }
        }
        loose.sort_unstable();
        loose
    }

    /// Places units of a kind, each where it costs least. Returns how many found a place.
    fn place(&mut self, units: &[usize]) -> usize {
        // A cost that is known may be too low by now, as units come. For a lighter one it may be too high,
        // which costs balance alone.
        let known = |member| Some((Reverse(self.cost(units[0], member)?), member));
        let mut places: BinaryHeap<_> = (0..self.load.len()).filter_map(known).collect();
        for (placed, unit) in units.iter().enumerate() {
            while self.at[*unit].is_none() {
                let Some((Reverse(known), member)) = places.pop() else {
                    // Nobody else who requires the same finds room either.
                    let requires = &self.fleet.units[*unit].requires;
                    if !self.hopeless.contains(requires) && self.make_room(*unit) {
                        break;
                    }
                    self.hopeless.insert(requires);
                    return placed;
                };
                if let Some(cost) = self.cost(*unit, member) {
                    places.push((Reverse(cost), member));
                    if cost <= known {
                        self.put(*unit, member);
                    }
                }
            }
        }
        units.len()
    }

    /// Moves another unit off a full member, to one that has room, and puts this one there.
    fn make_room(&mut self, unit: usize) -> bool {
        for full in 0..self.load.len() {
            // Where there are more than may be, one less makes no room.
            let most = self.fleet.members[full].max_units.map(u64::from);
            if most != Some(self.count[full]) || self.refusal(unit, full) != Some(Reason::Full) {
                continue;
            }
            let mut others: Vec<_> = (0..self.at.len()).collect();
            others.retain(|it| self.at[*it] == Some(full) && !self.fleet.units[*it].in_change);
            others.sort_by_key(|it| (self.rank(*it).0, self.weight[*it]));
            let mut tried = BTreeSet::new();
            others.retain(|it| tried.insert(self.kind[*it]));
            for other in others {
                let here = self.rate(other, full);
                let may = |it: &Cost| (it[..MUST] <= here[..MUST]).then_some(Reason::Room);
                if let Some((to, cause)) = self.best(other, may) {
                    self.shift(other, to, cause);
                    self.put(unit, full);
                    return true;
                }
            }
        }
        false
    }

    /// Why nobody may have a unit.
    fn nearest(&self, unit: usize) -> Reason {
        let refusals = (0..self.load.len()).filter_map(|it| self.refusal(unit, it));
        let spent = self.is_spent().then_some(Reason::Budget);
        refusals.chain(spent).max().unwrap_or(Reason::Nobody)
    }

    /// Leaves a unit with its owner for the want of a better one, unless that one can't have it.
    fn keep(&mut self, unit: usize) {
        let is_over = matches!(self.cause[unit], Some(Reason::Leaves | Reason::Labels));
        if let Some(owner) = self.owner(unit).filter(|_| !is_over || self.is_spent()) {
            self.put(unit, owner);
            self.cause[unit] = None;
        }
    }
}
