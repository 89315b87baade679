//! The board: who owns what in the plan so far, and what each change would cost.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::fleet::{Fleet, MOST_WEIGHT, Member, Standing, Unit};
use super::plan::{Cause, Imbalance};
use super::settings::PolicySettings;
use crate::group::Epoch;
use crate::moment::Moment;
use crate::name::UnitName;

/// A unit on the board.
pub(super) struct Piece<'a> {
    pub id: &'a UnitName,
    pub unit: &'a Unit,
    pub weight: u64,
    /// Its living owner.
    pub owner: Option<usize>,
    /// Its owner in the plan.
    pub at: Option<usize>,
    /// It may not be moved: a move of it is under way, its owner is silent or waits, or nobody
    /// may take it.
    pub fixed: bool,
    /// It must move anyway, so that another place for it costs no move.
    pub loose: bool,
    /// Why it leaves its owner.
    pub cause: Option<Cause>,
    /// The number of its last change in the plan, to carry them out in their order.
    pub step: usize,
    /// Its set of required labels.
    demand: usize,
    /// Its set of units that are spread over zones.
    spread: Option<usize>,
    apart: Vec<usize>,
    failing: Vec<usize>,
}

impl Piece<'_> {
    /// Whether it has wishes that are stronger than the balance.
    pub fn has_wishes(&self) -> bool {
        self.spread.is_some() || !self.apart.is_empty() || !self.failing.is_empty()
    }
}

/// A member on the board.
pub(super) struct Seat<'a> {
    pub id: Epoch,
    pub member: &'a Member,
    pub cap: usize,
    pub settled_at: Moment,
    /// It takes units with a living owner: now, or when it has settled.
    pub open: bool,
    /// It takes units now.
    pub ready: bool,
    pub load: u64,
    /// Those with little to lose by a move first: see [`Rank`].
    pub units: BTreeSet<Rank>,
    zone: usize,
    /// The bounds that a round aims at.
    low: u64,
    high: u64,
}

/// The order of a member's units: the heaviest first, for it takes fewer moves; then those that must
/// move anyway; then those that moved last, for they are not settled in yet.
pub(super) type Rank = (Reverse<u64>, Reverse<bool>, Reverse<Moment>, usize);

/// The wishes of a unit that a place does not meet, the strongest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Unmet {
    /// It keeps failing there.
    pub failing: bool,
    /// How many others of its set are in that zone.
    pub zone_mates: usize,
    /// How many units that it should be apart from are there.
    pub beside: usize,
}

impl Unmet {
    pub const NONE: Self = Self {
        failing: false,
        zone_mates: 0,
        beside: 0,
    };
}

pub(super) struct Board<'a> {
    pub pieces: Vec<Piece<'a>>,
    pub seats: Vec<Seat<'a>>,
    /// By set of required labels: which members have them all.
    fit: Vec<Vec<bool>>,
    /// By set of units and by zone: how many of them are there.
    in_zone: Vec<Vec<usize>>,
    /// The number of changes, and the first one of a unit that need not move.
    pub steps: usize,
    pub first_step: Option<(usize, usize, Cause)>,
    /// Kinds of units for which there is no room left.
    pub hopeless: Vec<(usize, bool)>,
    pub settings: &'a PolicySettings,
}

impl<'a> Board<'a> {
    /// The board with all units where they are, or will be when the moves under way have ended.
    pub fn new(fleet: &'a Fleet, settings: &'a PolicySettings) -> Self {
        let mut zones = BTreeMap::new();
        let seats: Vec<_> = fleet
            .members
            .iter()
            .map(|(id, member)| {
                let settled_at = member.since + settings.settle_for(member.flapped);
                let active = member.standing == Standing::Active;
                let ready = active && settled_at <= fleet.now;
                let next_zone = zones.len();
                Seat {
                    id: *id,
                    member,
                    cap: member.cap.map_or(usize::MAX, |cap| cap as usize),
                    settled_at,
                    open: ready || (active && !member.flapped),
                    ready,
                    load: 0,
                    units: BTreeSet::new(),
                    zone: *zones.entry(&member.zone).or_insert(next_zone),
                    low: 0,
                    high: u64::MAX,
                }
            })
            .collect();
        let members: BTreeMap<_, _> = fleet.members.keys().zip(0..).collect();
        let names: BTreeMap<_, _> = fleet.units.keys().zip(0..).collect();
        let mut demands = BTreeMap::new();
        let mut spreads = BTreeMap::new();
        let mut pieces: Vec<_> = fleet
            .units
            .iter()
            .map(|(id, unit)| {
                let next_demand = demands.len();
                let next_spread = spreads.len();
                let apart = unit.apart_from.iter().filter(|other| *other != id);
                Piece {
                    id,
                    unit,
                    weight: u64::from(unit.weight.clamp(1, MOST_WEIGHT)),
                    owner: unit
                        .owner
                        .as_ref()
                        .and_then(|owner| members.get(owner).copied()),
                    at: None,
                    fixed: false,
                    loose: false,
                    cause: None,
                    step: 0,
                    demand: *demands.entry(&unit.requires).or_insert(next_demand),
                    spread: unit
                        .spread
                        .as_ref()
                        .map(|set| *spreads.entry(set).or_insert(next_spread)),
                    apart: apart.filter_map(|id| names.get(id).copied()).collect(),
                    failing: unit
                        .failing_on
                        .iter()
                        .filter_map(|id| members.get(id).copied())
                        .collect(),
                }
            })
            .collect();
        for piece in 0..pieces.len() {
            for other in pieces[piece].apart.clone() {
                if !pieces[other].apart.contains(&piece) {
                    pieces[other].apart.push(piece);
                }
            }
        }
        let mut fit = vec![Vec::new(); demands.len()];
        for (labels, demand) in demands {
            fit[demand] = seats
                .iter()
                .map(|seat| labels.is_subset(&seat.member.labels))
                .collect();
        }
        let in_zone = vec![vec![0; zones.len()]; spreads.len()];
        let mut board = Self {
            pieces,
            seats,
            fit,
            in_zone,
            steps: 0,
            first_step: None,
            hopeless: Vec::new(),
            settings,
        };
        for piece in 0..board.pieces.len() {
            let to = fleet.under_way.get(board.pieces[piece].id);
            let to = to.and_then(|to| members.get(to).copied());
            let to = to.filter(|to| board.seats[*to].member.standing == Standing::Active);
            board.pieces[piece].fixed = to.is_some() && to != board.pieces[piece].owner;
            if let Some(seat) = to.or(board.pieces[piece].owner) {
                board.put(piece, seat);
            }
        }
        board
    }

    fn rank(&self, piece: usize) -> Rank {
        let it = &self.pieces[piece];
        let moved = it.unit.moved.unwrap_or(Moment::from_nanos(0));
        (Reverse(it.weight), Reverse(it.loose), Reverse(moved), piece)
    }

    /// Puts a unit there that is nowhere.
    pub fn put(&mut self, piece: usize, seat: usize) {
        let rank = self.rank(piece);
        self.seats[seat].units.insert(rank);
        self.seats[seat].load += self.pieces[piece].weight;
        if let Some(set) = self.pieces[piece].spread {
            self.in_zone[set][self.seats[seat].zone] += 1;
        }
        self.pieces[piece].at = Some(seat);
    }

    /// Takes a unit off the board.
    pub fn lift(&mut self, piece: usize) {
        if let Some(seat) = self.pieces[piece].at.take() {
            let rank = self.rank(piece);
            self.seats[seat].units.remove(&rank);
            self.seats[seat].load -= self.pieces[piece].weight;
            if let Some(set) = self.pieces[piece].spread {
                self.in_zone[set][self.seats[seat].zone] -= 1;
            }
        }
    }

    /// Moves a unit there. The first reason for which it leaves its owner remains.
    pub fn shift(&mut self, piece: usize, seat: usize, cause: Cause) {
        self.lift(piece);
        self.put(piece, seat);
        self.steps += 1;
        if !self.pieces[piece].loose {
            self.first_step.get_or_insert((piece, seat, cause));
        }
        self.pieces[piece].step = self.steps;
        self.pieces[piece].cause.get_or_insert(cause);
    }

    /// Takes a unit off the board for this reason: it must move.
    pub fn loosen(&mut self, piece: usize, cause: Cause) {
        self.lift(piece);
        self.pieces[piece].loose = true;
        self.pieces[piece].cause = Some(cause);
    }

    /// Those that must move have their final places.
    pub fn fix_loose(&mut self) {
        for piece in &mut self.pieces {
            piece.fixed |= piece.loose;
        }
    }

    /// Whether the member has the labels that the unit requires.
    pub fn has_labels(&self, piece: usize, seat: usize) -> bool {
        self.fit[self.pieces[piece].demand][seat]
    }

    /// Units of a kind may be taken by the same members.
    pub fn kind(&self, piece: usize) -> (usize, bool) {
        let it = &self.pieces[piece];
        (it.demand, it.owner.is_some())
    }

    /// Whether the member may take the unit when it has room.
    pub fn may_take(&self, piece: usize, seat: usize) -> bool {
        let takes = &self.seats[seat];
        let open = if self.pieces[piece].owner.is_some() {
            takes.open
        } else {
            takes.ready
        };
        open && self.has_labels(piece, seat)
    }

    pub fn has_room(&self, seat: usize) -> bool {
        self.seats[seat].units.len() < self.seats[seat].cap
    }

    /// The number of members that may take the unit.
    pub fn choice(&self, piece: usize) -> usize {
        (0..self.seats.len())
            .filter(|seat| self.may_take(piece, *seat))
            .count()
    }

    /// The wishes that this place would not meet.
    pub fn unmet(&self, piece: usize, seat: usize) -> Unmet {
        let it = &self.pieces[piece];
        if !it.has_wishes() {
            return Unmet::NONE;
        }
        let zone = self.seats[seat].zone;
        let zone_mates = it.spread.map_or(0, |set| {
            let own = it.at.is_some_and(|at| self.seats[at].zone == zone);
            self.in_zone[set][zone] - usize::from(own)
        });
        Unmet {
            failing: it.failing.contains(&seat),
            zone_mates,
            beside: self.beside(piece, seat).count(),
        }
    }

    /// The units there that this one should be apart from.
    pub fn beside(&self, piece: usize, seat: usize) -> impl Iterator<Item = usize> {
        let others = self.pieces[piece].apart.iter().copied();
        others.filter(move |other| self.pieces[*other].at == Some(seat))
    }

    /// How many of the labels that the unit prefers the member lacks.
    pub fn missed(&self, piece: usize, seat: usize) -> usize {
        let prefers = &self.pieces[piece].unit.prefers;
        if prefers.is_empty() {
            return 0;
        }
        prefers.difference(&self.seats[seat].member.labels).count()
    }

    pub fn open_seats(&self) -> impl Iterator<Item = usize> {
        (0..self.seats.len()).filter(|seat| self.seats[*seat].open)
    }

    /// The load of all members that take units, and their number.
    fn totals(&self) -> (u64, u64) {
        let open = self.seats.iter().filter(|seat| seat.open);
        open.fold((0, 0), |(load, count), seat| (load + seat.load, count + 1))
    }

    /// Sets the bounds that a round aims at: half of the band. They are for the load of these
    /// members and so much more.
    pub fn set_bounds(&mut self, more: u64) {
        let (load, count) = self.totals();
        let load = u128::from(load + more);
        let band = u128::from(self.settings.band.min(100));
        for seat in self.seats.iter_mut().filter(|seat| seat.open) {
            let part = |percent: u128| load * percent / (u128::from(count) * 200);
            seat.high = u64::try_from(part(200 + band)).unwrap_or(u64::MAX);
            seat.low = u64::try_from(part(200 - band)).unwrap_or(0);
        }
    }

    /// Takes over the bounds of another board for the same fleet.
    pub fn copy_bounds(&mut self, other: &Self) {
        for (seat, other) in self.seats.iter_mut().zip(&other.seats) {
            (seat.low, seat.high) = (other.low, other.high);
        }
    }

    /// Whether so much more would be above the member's bounds.
    pub fn is_too_much(&self, seat: usize, more: u64) -> bool {
        self.seats[seat].load + more > self.seats[seat].high
    }

    /// How far outside of its bounds a member is with this load.
    fn excess(&self, seat: usize, load: u64) -> u64 {
        let seat = &self.seats[seat];
        load.saturating_sub(seat.high) + seat.low.saturating_sub(load)
    }

    /// How far outside of their bounds two members are if so much moves between them.
    pub fn excess_of_both(&self, from: usize, to: usize, weight: u64) -> u64 {
        self.excess(from, self.seats[from].load - weight)
            + self.excess(to, self.seats[to].load + weight)
    }

    /// Whether the load of a member is out of the band.
    pub fn is_out_of_band(&self) -> bool {
        let band = u64::from(self.settings.band.min(100)) * 10;
        let Imbalance { most, least } = self.imbalance();
        most > 1000 + band || least < 1000 - band
    }

    /// The loads of the members that take units, as parts of their fair shares.
    pub fn imbalance(&self) -> Imbalance {
        let loads: Vec<_> = self.seats.iter().map(|seat| seat.load).collect();
        self.imbalance_of(&loads)
    }

    /// The same for the owners that the units have now.
    pub fn imbalance_of_owners(&self) -> Imbalance {
        let mut loads = vec![0; self.seats.len()];
        for piece in &self.pieces {
            if let Some(owner) = piece.owner {
                loads[owner] += piece.weight;
            }
        }
        self.imbalance_of(&loads)
    }

    fn imbalance_of(&self, loads: &[u64]) -> Imbalance {
        let load = self.open_seats().map(|seat| loads[seat]).sum();
        let shares = || {
            let open = self.open_seats();
            open.map(|seat| self.share_of(loads[seat], load))
        };
        Imbalance {
            most: shares().max().unwrap_or(1000),
            least: shares().min().unwrap_or(1000),
        }
    }

    /// This load of a member, in thousandths of its fair share.
    pub fn share(&self, load: u64) -> u64 {
        self.share_of(load, self.totals().0)
    }

    fn share_of(&self, load: u64, total: u64) -> u64 {
        let part = u128::from(load) * u128::from(self.totals().1) * 1000;
        let part = part.checked_div(u128::from(total)).unwrap_or(1000);
        u64::try_from(part).unwrap_or(u64::MAX)
    }
}
