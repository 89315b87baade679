//! The board: where each unit is in the plan so far, and what each other place would cost.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::fleet::{Fleet, MOST_WEIGHT, Member, Standing, USUAL_WEIGHT, Unit};
use super::outcome::{Imbalance, Move, Reason};

/// What a place costs a unit: see [`REASONS`]. The less, the better.
pub(super) type Cost = [u64; 7];

/// The parts of a cost, the gravest first: the unit keeps failing there, others of its zone
/// sets in that zone, others of its apart sets there, load beyond the fair share, preferred labels that
/// are lacking, an older version, load.
pub(super) const REASONS: [Reason; 7] = [
    Reason::Failing,
    Reason::Zones,
    Reason::Apart,
    Reason::Balance,
    Reason::Preference,
    Reason::Version,
    Reason::Balance,
];
/// So many first parts of a cost move a unit at once.
pub(super) const MUST: usize = 1;
/// So many first parts are stronger than the balance.
pub(super) const WISHES: usize = 3;
/// The part that is load beyond the fair share.
pub(super) const EXCESS: usize = 3;
/// The part that is lacking labels.
pub(super) const LACKING: usize = 4;

/// The fair share is at least one part in so many above the mean, so that preferences have some room.
const SLACK: u64 = 20;

/// The order in which units that are alike move: those that move anyway, those that moved last, and of
/// these the ones that moved least.
pub(super) type Rank = (bool, Reverse<u64>, u32, usize);

pub(super) struct Board<'a> {
    pub fleet: &'a Fleet,
    /// By unit: its weight, and the number of its kind. Units of a kind have the same rules.
    pub weight: Vec<u64>,
    pub kind: Vec<usize>,
    /// By unit: its place in the plan, and why it leaves its owner.
    pub at: Vec<Option<usize>>,
    pub cause: Vec<Option<Reason>>,
    /// By member: its load, and how many units it has.
    pub load: Vec<u64>,
    pub count: Vec<u64>,
    /// The mean weight of a unit.
    pub usual: u64,
    /// The mean load of those that take units.
    pub mean: u64,
    /// How much load a member may have before preferences and versions count no more.
    pub fair: u64,
    /// How many costs were asked for.
    pub evaluated: Cell<usize>,
    /// Labels that units require for which no room can be made.
    pub hopeless: BTreeSet<&'a BTreeSet<String>>,
    newest: Option<&'a Option<String>>,
    /// By member: the first one in its zone.
    zone: Vec<usize>,
    /// By set: how many units are in the zone of this first one, or on this member.
    zones: Vec<Vec<u64>>,
    apart: Vec<Vec<u64>>,
}

impl<'a> Board<'a> {
    /// The board with all units where they are.
    pub fn new(fleet: &'a Fleet) -> Self {
        let (members, units) = (&fleet.members, &fleet.units);
        let failing: BTreeSet<_> = members.iter().flat_map(|it| &it.failing).collect();
        let mut kinds = BTreeMap::new();
        let kind = units.iter().enumerate().map(|(unit, it)| {
            let own = failing.contains(&unit).then_some(unit);
            let labels = (&it.requires, &it.prefers);
            let next = kinds.len();
            let rules = (labels, &it.zones, &it.apart, own);
            *kinds.entry(rules).or_insert(next)
        });
        let sets = |of: fn(&Unit) -> &Vec<usize>| {
            let most = units.iter().flat_map(of).max();
            vec![vec![0; members.len()]; most.map_or(0, |it| it + 1)]
        };
        let first_like = |it: &Member| members.iter().position(|other| other.zone == it.zone);
        let weight = weights(units);
        let mut board = Self {
            fleet,
            kind: kind.collect(),
            at: vec![None; units.len()],
            cause: vec![None; units.len()],
            load: vec![0; members.len()],
            count: vec![0; members.len()],
            usual: weight.iter().sum::<u64>() / (units.len() as u64).max(1),
            mean: 0,
            fair: 0,
            weight,
            evaluated: Cell::new(0),
            hopeless: BTreeSet::new(),
            newest: newest(members),
            zone: members.iter().filter_map(first_like).collect(),
            zones: sets(|it| &it.zones),
            apart: sets(|it| &it.apart),
        };
        let mut total = 0;
        for unit in 0..units.len() {
            let owner = board.owner(unit);
            if let Some(owner) = owner {
                board.put(unit, owner);
            }
            if owner.is_none_or(|it| members[it].standing != Standing::Waits) {
                total += board.weight[unit];
            }
        }
        board.mean = total / (board.takers().count() as u64).max(1);
        // A whole unit more than the mean is too much, and less than that can't be helped.
        board.fair = board.mean + (board.mean / SLACK).max(board.usual.saturating_sub(1));
        board
    }

    pub fn owner(&self, unit: usize) -> Option<usize> {
        let owner = self.fleet.units[unit].owner;
        owner.filter(|it| *it < self.load.len())
    }

    /// Members that have a part in the balance.
    pub fn takers(&self) -> impl Iterator<Item = usize> {
        let takes = |it: &usize| self.fleet.members[*it].standing == Standing::Takes;
        (0..self.load.len()).filter(takes)
    }

    fn is_old(&self, member: usize) -> bool {
        self.newest != Some(&self.fleet.members[member].version)
    }

    /// Whether no unit moves that could stay.
    pub fn holds(&self) -> bool {
        let lives = |it: &usize| self.fleet.members[*it].standing != Standing::Leaves;
        let mut living = (0..self.load.len()).filter(lives);
        self.fleet.rolls && living.any(|it| self.is_old(it))
    }

    /// Puts a unit there that is nowhere.
    pub fn put(&mut self, unit: usize, member: usize) {
        self.at[unit] = Some(member);
        self.tally(unit, member, |sum, part| *sum += part);
    }

    /// Takes a unit off the board. The first reason for which it leaves its owner remains.
    pub fn lift(&mut self, unit: usize, cause: Reason) {
        self.cause[unit].get_or_insert(cause);
        if let Some(member) = self.at[unit].take() {
            self.tally(unit, member, |sum, part| *sum -= part);
        }
    }

    fn tally(&mut self, unit: usize, member: usize, change: fn(&mut u64, u64)) {
        change(&mut self.load[member], self.weight[unit]);
        change(&mut self.count[member], 1);
        for set in &self.fleet.units[unit].zones {
            change(&mut self.zones[*set][self.zone[member]], 1);
        }
        for set in &self.fleet.units[unit].apart {
            change(&mut self.apart[*set][member], 1);
        }
    }

    /// Moves a unit there.
    pub fn shift(&mut self, unit: usize, member: usize, cause: Reason) {
        self.lift(unit, cause);
        self.put(unit, member);
    }

    /// Why the member may not have the unit.
    pub fn refusal(&self, unit: usize, member: usize) -> Option<Reason> {
        let is_there = self.at[unit] == Some(member);
        let it = &self.fleet.members[member];
        if !self.fleet.units[unit].requires.is_subset(&it.labels) {
            return Some(Reason::Labels);
        }
        let others = self.count[member] - u64::from(is_there);
        let is_full = it.max_units.is_some_and(|most| others >= most.into());
        match it.standing {
            Standing::Leaves => Some(Reason::Leaves),
            Standing::Cordoned => Some(Reason::Cordoned),
            Standing::Waits if !is_there => Some(Reason::Waits),
            Standing::Waits | Standing::Takes => is_full.then_some(Reason::Full),
        }
    }

    /// What the place costs, as if the unit was nowhere.
    pub fn rate(&self, unit: usize, member: usize) -> Cost {
        let (it, takes) = (&self.fleet.units[unit], &self.fleet.members[member]);
        let (at, zone, weight) = (self.at[unit], self.zone[member], self.weight[unit]);
        let is_there = u64::from(at == Some(member));
        let is_near = u64::from(at.is_some_and(|at| self.zone[at] == zone));
        let zones = it.zones.iter().map(|set| self.zones[*set][zone] - is_near);
        let apart = it.apart.iter();
        let apart = apart.map(|set| self.apart[*set][member] - is_there);
        let load = self.load[member] - is_there * weight;
        [
            takes.failing.contains(&unit).into(),
            zones.sum(),
            apart.sum(),
            (load + weight).saturating_sub(self.fair),
            it.prefers.difference(&takes.labels).count() as u64,
            self.is_old(member).into(),
            load,
        ]
    }

    /// What the place costs, if the member may have the unit and the budget is not spent.
    pub fn cost(&self, unit: usize, member: usize) -> Option<Cost> {
        if self.is_spent() {
            return None;
        }
        self.evaluated.set(self.evaluated.get() + 1);
        let may = self.refusal(unit, member).is_none();
        may.then(|| self.rate(unit, member))
    }

    pub fn is_spent(&self) -> bool {
        self.evaluated.get() >= self.fleet.limits.budget.max(2 * self.load.len())
    }

    /// The cheapest other place for which there is a reason, and the reason. Of equal ones the youngest
    /// member: it is not the next one to be restarted.
    pub fn best<F>(&self, unit: usize, reason: F) -> Option<(usize, Reason)>
    where
        F: Fn(&Cost) -> Option<Reason>,
    {
        let members = (0..self.load.len()).filter(|it| self.at[unit] != Some(*it));
        let costs = members.filter_map(|it| Some((self.cost(unit, it)?, Reverse(it))));
        let best = costs.filter_map(|(cost, it)| Some((cost, it, reason(&cost)?)));
        best.min().map(|(_, it, reason)| (it.0, reason))
    }

    pub fn rank(&self, unit: usize) -> Rank {
        let (it, stays) = (&self.fleet.units[unit], self.at[unit] == self.owner(unit));
        (stays, Reverse(it.since), it.moved, unit)
    }

    pub fn imbalance(&self) -> Imbalance {
        let loads = || self.takers().map(|it| self.load[it]);
        Imbalance {
            most: loads().max().unwrap_or(0),
            least: loads().min().unwrap_or(0),
        }
    }

    /// The move of the unit, if it has one.
    pub fn move_of(&self, unit: usize) -> Option<Move> {
        let to = self.at[unit];
        let cause = self.cause[unit].filter(|_| to != self.owner(unit))?;
        Some(Move { unit, to, cause })
    }
}

/// The version of those that do not leave whose first member joined last.
fn newest(members: &[Member]) -> Option<&Option<String>> {
    let mut versions = Vec::new();
    for it in members.iter().filter(|it| it.standing != Standing::Leaves) {
        if !versions.contains(&&it.version) {
            versions.push(&it.version);
        }
    }
    versions.pop()
}

/// The weights of units, with the loads that are told.
fn weights(units: &[Unit]) -> Vec<u64> {
    let weight = |it: &Unit| u64::from(it.weight.unwrap_or(USUAL_WEIGHT).clamp(1, MOST_WEIGHT));
    let load = |it: &Unit| Some(u64::from(it.load?.min(MOST_WEIGHT)));
    let told = || units.iter().filter(|it| it.load.is_some());
    let weights: u64 = told().map(weight).sum();
    let loads: u64 = told().filter_map(load).sum();
    let scaled = |it: &Unit| (load(it)? * weights).checked_div(loads);
    let of = |it| scaled(it).map_or(weight(it), |it| it.max(1));
    units.iter().map(of).collect()
}
