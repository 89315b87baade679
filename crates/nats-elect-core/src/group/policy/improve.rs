//! Moves that make a plan better, one after the other, until none does.
//!
//! Each move makes the first of these less that it changes: units on members where they keep failing,
//! pairs of a set in one zone, pairs of units that should be apart, load outside the bounds, labels
//! that are preferred and lacking, and the sum of squared loads. So moves come to an end, and a plan
//! that was carried out has none left.

use std::cmp::{Ordering, Reverse};
use std::ops::Bound;

use super::board::{Board, Rank};
use super::plan::Cause;
use crate::moment::Moment;

/// Which units a pass may move.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Among {
    /// Those that must move anyway.
    Loose,
    /// All.
    All,
}

impl Board<'_> {
    /// Makes the plan better until no single move does. Also evens out the loads if it is told to, or
    /// if one is out of the band.
    pub fn improve(&mut self, among: Among, mut balance: bool) {
        loop {
            let mended = self.mend(among);
            let preferred = self.prefer(among);
            balance |= self.is_out_of_band();
            let balanced = balance && self.balance(among);
            if !(mended || preferred || balanced) {
                return;
            }
        }
    }

    /// Moves units away from members on which they keep failing, if there is a better one.
    pub fn relieve(&mut self) {
        for piece in 0..self.pieces.len() {
            if self.may_move(piece, Among::All) && self.is_failing(piece) {
                self.mend_one(piece);
            }
        }
    }

    /// Whether this move alone makes things better.
    pub fn is_better(&self, piece: usize, to: usize) -> bool {
        let Some(from) = self.pieces[piece].at else {
            return true;
        };
        let weight = self.pieces[piece].weight;
        let before = self.excess_of_both(from, to, 0);
        let unmet = self.unmet(piece, to).cmp(&self.unmet(piece, from));
        let excess = self.excess_of_both(from, to, weight).cmp(&before);
        let missed = self.missed(piece, to).cmp(&self.missed(piece, from));
        match unmet.then(excess).then(missed) {
            Ordering::Less => true,
            Ordering::Equal => self
                .lightens(from, to)
                .is_some_and(|(_, most)| weight <= most),
            Ordering::Greater => false,
        }
    }

    fn is_failing(&self, piece: usize) -> bool {
        let at = self.pieces[piece].at;
        at.is_some_and(|at| self.unmet(piece, at).failing)
    }

    fn may_move(&self, piece: usize, among: Among) -> bool {
        let it = &self.pieces[piece];
        !it.fixed && (it.loose || among == Among::All)
    }

    /// Moves units to where more of their wishes are met.
    fn mend(&mut self, among: Among) -> bool {
        let mut any = false;
        for piece in 0..self.pieces.len() {
            let wishes = self.pieces[piece].has_wishes();
            any |= wishes && self.may_move(piece, among) && self.mend_one(piece);
        }
        any
    }

    fn mend_one(&mut self, piece: usize) -> bool {
        let (Some(at), Some(to)) = (self.pieces[piece].at, self.best_seat(piece)) else {
            return false;
        };
        let (now, then) = (self.unmet(piece, at), self.unmet(piece, to));
        if then >= now {
            return false;
        }
        let cause = if now.failing && !then.failing {
            Cause::Failing
        } else if then.zone_mates < now.zone_mates {
            Cause::Zones
        } else {
            Cause::Apart
        };
        self.shift(piece, to, cause);
        true
    }

    /// Moves units to where more of the labels are that they prefer, if the load stays as much
    /// within its bounds as it is.
    fn prefer(&mut self, among: Among) -> bool {
        let mut any = false;
        for piece in 0..self.pieces.len() {
            let it = &self.pieces[piece];
            if it.unit.prefers.is_empty() || !self.may_move(piece, among) {
                continue;
            }
            let (Some(at), weight) = (it.at, it.weight) else {
                continue;
            };
            let (missed, unmet) = (self.missed(piece, at), self.unmet(piece, at));
            if missed == 0 {
                continue;
            }
            let better = |to: &usize| {
                *to != at
                    && self.has_room(*to)
                    && self.may_take(piece, *to)
                    && self.missed(piece, *to) < missed
                    && self.unmet(piece, *to) <= unmet
                    && self.excess_of_both(at, *to, weight) <= self.excess_of_both(at, *to, 0)
            };
            let to = (0..self.seats.len())
                .filter(better)
                .min_by_key(|to| (self.missed(piece, *to), self.seats[*to].load, *to));
            if let Some(to) = to {
                self.shift(piece, to, Cause::Preference);
                any = true;
            }
        }
        any
    }

    /// Moves units from members with more load to those with less.
    fn balance(&mut self, among: Among) -> bool {
        let total: u64 = self.pieces.iter().map(|piece| piece.weight).sum();
        let average = total / (self.pieces.len() as u64).max(1);
        let least = average.saturating_mul(u64::from(self.settings.stickiness)) / 100;
        let mut any = false;
        // Members that can give nothing as things are.
        let mut stuck = vec![false; self.seats.len()];
        let mut moved_since = false;
        loop {
            let giver = self
                .open_seats()
                .filter(|seat| !stuck[*seat])
                .max_by_key(|seat| (self.seats[*seat].load, self.newest(*seat), Reverse(*seat)));
            let Some(from) = giver else {
                if !moved_since {
                    return any;
                }
                moved_since = false;
                stuck.fill(false);
                continue;
            };
            match self.next_move(from, among, least) {
                Some((piece, to)) => {
                    self.shift(piece, to, Cause::Balance);
                    any = true;
                    // Those that are stuck may have somewhere to go now.
                    moved_since |= stuck.contains(&true);
                }
                None => stuck[from] = true,
            }
        }
    }

    /// When the unit moved that this member would give first.
    fn newest(&self, seat: usize) -> Option<(bool, Moment)> {
        let (_, loose, moved, _) = self.seats[seat].units.first()?;
        Some((loose.0, moved.0))
    }

    /// The best unit that this member can give, and to whom: to the one with the least load that
    /// may take it.
    fn next_move(&self, from: usize, among: Among, least: u64) -> Option<(usize, usize)> {
        let own = self.seats[from].load;
        let key = |seat: &usize| {
            let since = self.seats[*seat].member.since;
            (self.seats[*seat].load, Reverse(since), *seat)
        };
        let able = |seat: &usize| self.seats[*seat].load < own && self.has_room(*seat);
        // Nearly always the first one will do.
        let first = self.open_seats().filter(able).min_by_key(key)?;
        if let Some(piece) = self.pick(from, first, among, least) {
            return Some((piece, first));
        }
        let mut takers: Vec<_> = self.open_seats().filter(able).collect();
        takers.sort_unstable_by_key(key);
        let mut rest = takers.into_iter().filter(|seat| *seat != first);
        rest.find_map(|to| Some((self.pick(from, to, among, least)?, to)))
    }

    /// The weights that make the sum of squared loads less when they move between these two: the one
    /// that does so best, and the greatest.
    fn lightens(&self, from: usize, to: usize) -> Option<(u64, u64)> {
        let (giver, taker) = (&self.seats[from], &self.seats[to]);
        // A move of w makes the sum of squared loads less if w < l1 − l2, and best at half of that.
        let gap = giver.load.checked_sub(taker.load)?;
        let (ideal, most) = (gap / 2, gap.checked_sub(1)?);
        Some((ideal, most))
    }

    /// The unit whose move between these two evens them out best.
    fn pick(&self, from: usize, to: usize, among: Among, least: u64) -> Option<usize> {
        let giver = &self.seats[from];
        let (ideal, most) = self.lightens(from, to)?;
        let before = self.excess_of_both(from, to, 0);
        let suits = |rank: &&Rank| {
            let (weight, piece) = (rank.0.0, rank.3);
            if !self.may_move(piece, among) || !self.may_take(piece, to) {
                return false;
            }
            let after = self.excess_of_both(from, to, weight);
            let worth = if after == before {
                weight >= least && self.missed(piece, to) <= self.missed(piece, from)
            } else {
                after < before
            };
            worth && self.unmet(piece, to) <= self.unmet(piece, from)
        };
        let split = first_of(ideal);
        let light = giver.units.range(split..).find(suits);
        let heavy = || {
            let heavier = (Bound::Unbounded, Bound::Excluded(split));
            let heavier = giver.units.range(heavier).rev();
            let any = heavier.take_while(|rank| rank.0.0 <= most).find(suits)?;
            giver.units.range(first_of(any.0.0)..=*any).find(suits)
        };
        light.or_else(heavy).map(|rank| rank.3)
    }
}

/// What all units of this weight come after.
fn first_of(weight: u64) -> Rank {
    let latest = Moment::from_nanos(u64::MAX);
    (Reverse(weight), Reverse(true), Reverse(latest), 0)
}
