//! Moves that only make a plan better: each by itself, so that any number of them is right.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::board::{Board, Cost, EXCESS, LACKING, MUST, REASONS, Rank, WISHES};
use super::fleet::Standing;
use super::outcome::Reason;

/// The units of a member that may move, by kind and weight: of units that are alike the first one does.
type Held = BTreeMap<(usize, u64), BTreeSet<Rank>>;

/// How far two members' loads may be from the mean, in percent of it, before units move between them if
/// loads are told and differ. Weights do not change by themselves, so for them it only means that within
/// it no unit moves for balance that is lighter than the mean one.
const BAND: u64 = 10;

impl Board<'_> {
    /// Moves units away from where they keep failing. Then makes the plan better by at most as many moves as are allowed.
    pub fn improve(&mut self) {
        let (mut all, mut left) = (usize::MAX, self.fleet.limits.moves);
        self.mend(MUST, &mut all);
        if !self.holds() {
            self.mend(WISHES, &mut left);
            self.balance(&mut left);
        }
    }

    fn may_move(&self, unit: usize, parts: usize) -> bool {
        let may = |at: usize| parts == MUST || self.fleet.members[at].standing == Standing::Takes;
        self.at[unit].is_some_and(may) && !self.fleet.units[unit].in_change
    }

    /// Moves a unit. It counts if it could have stayed with its owner.
    fn better(&mut self, unit: usize, to: usize, cause: Reason, left: &mut usize) {
        *left -= usize::from(self.rank(unit).0);
        self.shift(unit, to, cause);
    }

    /// Moves units to where so many first parts of the cost are less, or else to where more labels are
    /// that they prefer.
    fn mend(&mut self, parts: usize, left: &mut usize) {
        let mut units: Vec<_> = (0..self.at.len()).collect();
        units.retain(|it| self.may_move(*it, parts));
        units.sort_by_cached_key(|it| (self.kind[*it], self.weight[*it], self.rank(*it)));
        // The kind and the cost of a unit for which nothing was better. Nothing is for one of that kind
        // that is not lighter and has no greater cost.
        let mut stuck: Option<(usize, Cost)> = None;
        for unit in units {
            let Some(at) = self.at[unit].filter(|_| *left > 0) else {
                return;
            };
            let (kind, here) = (self.kind[unit], self.rate(unit, at));
            let is_within =
                |cost: Cost| here[..parts] <= cost[..parts] && here[LACKING] <= cost[LACKING];
            if is_within([0; 7]) || stuck.is_some_and(|it| it.0 == kind && is_within(it.1)) {
                continue;
            }
            let best = self.best(unit, |there| gain(&here, there, parts));
            stuck = best.is_none().then_some((kind, here));
            if let Some((to, cause)) = best {
                self.better(unit, to, cause, left);
            }
        }
    }

    /// Moves units from members with more load to those with less.
    fn balance(&mut self, left: &mut usize) {
        let is_told = self.fleet.units.iter().any(|it| it.load.is_some());
        let is_noise = is_told && self.weight.iter().any(|it| *it != self.usual);
        let least = if is_noise { u64::MAX } else { self.usual };
        let mut held = vec![Held::new(); self.load.len()];
        for unit in (0..self.at.len()).filter(|it| self.may_move(*it, WISHES)) {
            self.hold(unit, &mut held);
        }
        let mut stuck = vec![false; self.load.len()];
        while *left > 0 {
            let givers = self.takers().filter(|it| !stuck[*it]);
            let Some(from) = givers.max_by_key(|it| (self.load[*it], Reverse(*it))) else {
                return;
            };
            let Some((unit, to)) = self.pick(from, &held[from], least) else {
                stuck[from] = true;
                continue;
            };
            if let Some(alike) = held[from].get_mut(&(self.kind[unit], self.weight[unit])) {
                alike.remove(&self.rank(unit));
            }
            self.better(unit, to, Reason::Balance, left);
            self.hold(unit, &mut held);
        }
    }

    fn hold(&self, unit: usize, held: &mut [Held]) {
        if let Some(at) = self.at[unit] {
            let alike = held[at].entry((self.kind[unit], self.weight[unit]));
            alike.or_default().insert(self.rank(unit));
        }
    }

    /// The unit that a member gives of these, and to whom: to the one with the least load that may have
    /// one. Within the band only units of at least this weight move.
    fn pick(&self, from: usize, held: &Held, least: u64) -> Option<(usize, usize)> {
        let band = self.mean.saturating_mul(BAND) / 100;
        let takers = self.takers().filter(|it| self.load[*it] < self.load[from]);
        let mut takers: Vec<_> = takers.collect();
        takers.sort_by_key(|it| (self.load[*it], Reverse(*it)));
        takers.into_iter().find_map(|to| {
            let gap = self.load[from] - self.load[to];
            let is_within =
                self.load[from] <= self.mean + band && self.load[to] + band >= self.mean;
            let least = if is_within { least } else { 0 };
            let units = held.iter().filter_map(|((_, weight), alike)| {
                // A smaller gap is not worth a move.
                let is_worth = *weight >= least && weight + weight.min(&self.usual) <= gap;
                let rank = alike.first().filter(|_| is_worth)?;
                Some(((2 * weight).abs_diff(gap), rank))
            });
            let may = |(_, rank): &(u64, &Rank)| self.harms_nothing(rank.3, from, to);
            Some((units.filter(may).min()?.1.3, to))
        })
    }

    /// Whether a move for balance costs the unit no wish, and a preference only beyond the fair share.
    fn harms_nothing(&self, unit: usize, from: usize, to: usize) -> bool {
        let here = self.rate(unit, from);
        let is_too_much = self.load[from] > self.fair;
        self.cost(unit, to).is_some_and(|there| {
            there[..WISHES] <= here[..WISHES]
                && (there[LACKING] <= here[LACKING] || (is_too_much && there[EXCESS] == 0))
        })
    }
}

/// Why the second place is better than the first, whatever the load.
fn gain(here: &Cost, there: &Cost, parts: usize) -> Option<Reason> {
    let differs = (0..parts).find(|part| here[*part] != there[*part]);
    if let Some(part) = differs {
        return (there[part] < here[part]).then_some(REASONS[part]);
    }
    let prefers = parts > MUST && there[LACKING] < here[LACKING] && there[EXCESS] == 0;
    prefers.then_some(Reason::Preference)
}
