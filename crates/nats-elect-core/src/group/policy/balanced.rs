//! The default policy: what must move, what may move, and in what order.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::Policy;
use super::board::Board;
use super::explain::{self, Explanation};
use super::fleet::{Fleet, Standing};
use super::improve::Among;
use super::plan::{Cause, Held, Hold, Move, Plan, Unfit, Unplaced};
use super::settings::PolicySettings;
use crate::name::UnitName;

/// The default policy. It spreads units evenly, with as few moves as that takes.
///
/// In this order:
///
/// 1. Units without a living owner go to settled members with the labels that they require and
///    room under their caps. If only a unit that has an owner is in the way, that one moves.
/// 2. So do the units of cordoned members, and those that their owner must not have, for the want of
///    a label or beyond its cap. Each goes to where it will stay. Where nobody may take one, its
///    owner keeps it. Units move away from where they keep failing.
/// 3. In a round, units move for their wishes (zones, then `apart_from`, then preferred labels
///    within the band), and for balance.
///
/// Of several members the one with the least load takes a unit, of equal ones the youngest. Of several
/// units that would even out the load, the one that moved last does so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balanced {
    settings: PolicySettings,
}

impl Balanced {
    /// The default policy with these settings.
    pub fn new(settings: PolicySettings) -> Self {
        Self { settings }
    }

    /// The settings.
    pub fn settings(&self) -> &PolicySettings {
        &self.settings
    }
}

impl Policy for Balanced {
    fn plan(&self, fleet: &Fleet) -> Plan {
        Planned::new(fleet, &self.settings).plan
    }

    fn explain(&self, fleet: &Fleet, unit: &UnitName) -> Option<Explanation> {
        let index = fleet.units.keys().position(|id| id == unit)?;
        let planned = Planned::new(fleet, &self.settings);
        Some(explain::explain(fleet, &planned, index))
    }
}

/// A plan, and the board that it comes from.
pub(super) struct Planned<'a> {
    pub plan: Plan,
    pub board: Board<'a>,
}

impl<'a> Planned<'a> {
    fn new(fleet: &'a Fleet, settings: &'a PolicySettings) -> Self {
        let mut plan = Plan::idle(fleet.round);
        let mut board = place_all(fleet, settings, &mut plan.unplaced);
        plan.before = board.imbalance_of_owners();
        board.set_bounds(0);
        board.relieve();
        board.improve(Among::Loose, true);
        // Their places have room without other moves.
        board.fix_loose();

        let may_begin = fleet.round.may_begin(settings.cool_down);
        let resting = may_begin.filter(|at| *at > fleet.now);
        if resting.is_none() {
            let balance = fleet.round.is_open() || board.is_out_of_band();
            board.improve(Among::All, balance);
        }
        plan.after = board.imbalance();

        let wanted = wanted(&board);
        let improving = wanted.iter().any(|(_, it)| it.cause.is_improvement());
        let unfinished = improving || (fleet.round.is_open() && improvement_under_way(&board));
        plan.round = fleet.round.after(unfinished, fleet.now);
        let settling = board.seats.iter().filter_map(|seat| {
            let counts = seat.member.standing == Standing::Active && !seat.ready;
            counts.then_some(seat.settled_at)
        });
        let resting_until = plan.round.may_begin(settings.cool_down);
        let resting_until = resting_until.filter(|at| *at > fleet.now);
        plan.again = settling.chain(resting_until).min();
        emit(&board, fleet, wanted, &mut plan);
        Self { plan, board }
    }
}

/// Finds a place for all units that have none, or must leave theirs.
fn place_all<'a>(
    fleet: &'a Fleet,
    settings: &'a PolicySettings,
    unplaced: &mut Vec<Unplaced>,
) -> Board<'a> {
    // Units that turned out to have no place but with an owner that takes units. Their room there is
    // not free, so all begins anew.
    let mut stay = BTreeSet::<usize>::new();
    loop {
        let mut board = Board::new(fleet, settings);
        for piece in &stay {
            board.pieces[*piece].fixed = true;
        }
        let must = must_move(&mut board);
        let weight = must.iter().map(|piece| board.pieces[*piece].weight).sum();
        board.set_bounds(weight);
        let starting = starting(&board, fleet);
        let waits = |board: &Board<'_>, piece: usize| {
            let starting = starting.clone();
            starting.filter(|_| board.pieces[piece].owner.is_none())
        };
        let mut left = Vec::new();
        for piece in must {
            if waits(&board, piece).is_some() || !board.place(piece) {
                left.push(piece);
            }
        }
        let known = stay.len();
        stay.extend(left.iter().filter(|piece| {
            let owner = board.pieces[**piece].owner;
            owner.is_some_and(|owner| board.seats[owner].open)
        }));
        if stay.len() > known {
            continue;
        }
        left.extend(misplaced(&board, &stay));
        for piece in left {
            let why = waits(&board, piece).unwrap_or_else(|| unfit(&board, piece));
            keep(&mut board, piece, why, unplaced);
        }
        return board;
    }
}

/// Those of these units that must not be where they are: for the want of a label, or as many as are
/// beyond the cap.
fn misplaced(board: &Board<'_>, stay: &BTreeSet<usize>) -> Vec<usize> {
    let seats = board.seats.iter();
    let mut beyond: Vec<_> = seats
        .map(|seat| seat.units.len().saturating_sub(seat.cap))
        .collect();
    let at = |piece: usize| Some((piece, board.pieces[piece].at?));
    let (fit, mut misplaced): (Vec<_>, Vec<_>) = stay
        .iter()
        .filter_map(|piece| at(*piece))
        .partition(|(piece, at)| board.has_labels(*piece, *at));
    for (_, at) in &misplaced {
        beyond[*at] = beyond[*at].saturating_sub(1);
    }
    for (piece, at) in fit {
        if beyond[at] > 0 {
            beyond[at] -= 1;
            misplaced.push((piece, at));
        }
    }
    misplaced.into_iter().map(|(piece, _)| piece).collect()
}

/// Takes all units off the board that have no owner, or must leave it. Returns them in the order in
/// which they get their places: those without an owner first, then those with the least choice, the
/// strongest wishes, the greatest weight, and the last move.
fn must_move(board: &mut Board<'_>) -> Vec<usize> {
    let mut must = Vec::new();
    for piece in 0..board.pieces.len() {
        let it = &board.pieces[piece];
        if it.fixed {
            continue;
        }
        let Some(owner) = it.owner else {
            let cause = if it.unit.owner.is_some() {
                Cause::OwnerDied
            } else {
                Cause::Unowned
            };
            board.loosen(piece, cause);
            must.push(piece);
            continue;
        };
        let cause = match board.seats[owner].member.standing {
            Standing::Silent | Standing::Waiting => {
                board.pieces[piece].fixed = true;
                continue;
            }
            Standing::Cordoned => Cause::Drain,
            Standing::Active if !board.has_labels(piece, owner) => Cause::Labels,
            Standing::Active => continue,
        };
        board.loosen(piece, cause);
        must.push(piece);
    }
    for seat in 0..board.seats.len() {
        let over = board.seats[seat]
            .units
            .len()
            .saturating_sub(board.seats[seat].cap);
        let mut units: Vec<_> = board.seats[seat].units.iter().copied().collect();
        units.retain(|rank| !board.pieces[rank.3].fixed);
        units.sort_unstable_by_key(|rank| (rank.2, rank.3));
        for (.., piece) in units.into_iter().take(over) {
            board.loosen(piece, Cause::Cap);
            must.push(piece);
        }
    }
    let mut choices = BTreeMap::new();
    for piece in &must {
        let kind = board.kind(*piece);
        choices.entry(kind).or_insert_with(|| board.choice(*piece));
    }
    must.sort_by_cached_key(|piece| {
        let it = &board.pieces[*piece];
        (
            it.owner.is_some(),
            choices[&board.kind(*piece)],
            !it.has_wishes(),
            it.unit.prefers.is_empty(),
            Reverse(it.weight),
            Reverse(it.unit.moved),
            *piece,
        )
    });
    must
}

/// Why units without an owner stay so, if the fleet is only starting.
fn starting(board: &Board<'_>, fleet: &Fleet) -> Option<Unfit> {
    let settled = board.seats.iter().filter(|seat| seat.ready).count();
    let settled = u32::try_from(settled).unwrap_or(u32::MAX);
    let needed = board.settings.min_members;
    let owned = board.pieces.iter().any(|it| it.owner.is_some());
    let started = fleet.grows || owned || !fleet.under_way.is_empty();
    // A single member says better itself why it takes nothing.
    let starting = !started && needed > 1 && settled < needed;
    starting.then_some(Unfit::Starting { settled, needed })
}

/// Leaves a unit where it is, because nobody may take it.
fn keep(board: &mut Board<'_>, piece: usize, why: Unfit, unplaced: &mut Vec<Unplaced>) {
    let owner = board.pieces[piece].owner;
    board.pieces[piece].cause = None;
    board.pieces[piece].fixed = true;
    if let (None, Some(owner)) = (board.pieces[piece].at, owner) {
        board.put(piece, owner);
    }
    unplaced.push(Unplaced {
        unit: board.pieces[piece].id.clone(),
        kept_by: owner.map(|owner| board.seats[owner].id),
        why,
    });
}

/// Why nobody may take the unit.
fn unfit(board: &Board<'_>, piece: usize) -> Unfit {
    let active = || {
        let seats = board.seats.iter().zip(0..);
        seats.filter(|(seat, _)| {
            matches!(seat.member.standing, Standing::Active | Standing::Waiting)
        })
    };
    if active().next().is_none() {
        return Unfit::NoMember;
    }
    let fit = || active().filter(|(_, index)| board.has_labels(piece, *index));
    if fit().next().is_none() {
        let known: BTreeSet<_> = active()
            .flat_map(|(seat, _)| &seat.member.labels)
            .cloned()
            .collect();
        let requires = &board.pieces[piece].unit.requires;
        let missing: BTreeSet<_> = requires.difference(&known).cloned().collect();
        return Unfit::Labels(if missing.is_empty() {
            requires.clone()
        } else {
            missing
        });
    }
    let able = || fit().filter(|(_, index)| board.may_take(piece, *index));
    if able().next().is_none() {
        let settled = fit().map(|(seat, _)| seat.settled_at).min();
        return settled.map_or(Unfit::NoMember, Unfit::Settling);
    }
    Unfit::Caps(able().map(|(seat, _)| seat.id).collect())
}

/// Whether a unit with a living owner is on its way.
fn improvement_under_way(board: &Board<'_>) -> bool {
    let mut pieces = board.pieces.iter();
    pieces.any(|it| it.owner.is_some() && it.at != it.owner && it.cause.is_none())
}

/// All moves of the plan with the number of the unit, the most urgent first. Of the same cause the
/// unit that moved last comes first. Moves that only make things better come in the order in which
/// they were found, as the later ones may rest on the earlier ones.
fn wanted(board: &Board<'_>) -> Vec<(usize, Move)> {
    let mut wanted: Vec<_> = board
        .pieces
        .iter()
        .enumerate()
        .filter(|(_, it)| it.at != it.owner)
        .filter_map(|(piece, it)| {
            let planned = Move {
                unit: it.id.clone(),
                from: it.owner.map(|owner| board.seats[owner].id),
                to: board.seats[it.at?].id,
                cause: it.cause?,
            };
            Some((piece, planned))
        })
        .collect();
    wanted.sort_by_key(|(piece, it)| {
        let found = &board.pieces[*piece];
        let (order, step) = if it.cause.is_improvement() {
            (Cause::Balance, found.step)
        } else {
            (it.cause, 0)
        };
        (order, step, Reverse(found.unit.moved), *piece)
    });
    wanted
}

/// Divides the moves into those that begin now and those that wait.
///
/// Of those that only make things better, each that begins must do so by itself. Else a part of a
/// plan could lead to a state from which the next plan leads back.
fn emit(board: &Board<'_>, fleet: &Fleet, wanted: Vec<(usize, Move)>, plan: &mut Plan) {
    // How many units each member has, and will have by the moves under way. Those that leave still
    // count.
    let mut counts = vec![0_usize; board.seats.len()];
    let (mut limited, mut under_way) = (0, 0);
    for it in &board.pieces {
        if let Some(owner) = it.owner {
            counts[owner] += 1;
        }
        if let (None, true, Some(at)) = (it.cause, it.at != it.owner, it.at) {
            counts[at] += 1;
            under_way += 1;
            limited += u32::from(it.owner.is_some());
        }
    }
    let improves = wanted.iter().any(|(_, it)| it.cause.is_improvement());
    let mut so_far = improves.then(|| {
        let mut now = Board::new(fleet, board.settings);
        now.copy_bounds(board);
        now
    });
    for (piece, planned) in wanted {
        let Some(to) = board.pieces[piece].at else {
            continue;
        };
        let seat = &board.seats[to];
        let exempt = planned.cause.is_exempt();
        let hold = if !seat.ready {
            Some(Hold::Settling(seat.settled_at))
        } else if counts[to] >= seat.cap {
            Some(Hold::Room)
        } else if !exempt && limited >= board.settings.max_moves.max(1) {
            Some(Hold::Limit)
        } else if let Some(now) = &so_far
            && planned.cause.is_improvement()
            && !now.is_better(piece, to)
        {
            Some(Hold::Order)
        } else {
            None
        };
        if let Some(hold) = hold {
            // Nothing that only makes things better takes the place of what must move.
            counts[to] += usize::from(!may_be_first(planned.cause));
            plan.held.push(Held { planned, hold });
        } else {
            if let Some(now) = &mut so_far {
                now.shift(piece, to, planned.cause);
            }
            counts[to] += 1;
            limited += u32::from(!exempt);
            plan.moves.push(planned);
        }
    }
    let waits = |held: &Held| {
        matches!(held.hold, Hold::Order | Hold::Room) && may_be_first(held.planned.cause)
    };
    let stuck = plan.moves.is_empty() && under_way == 0 && !plan.held.is_empty();
    if stuck && plan.held.iter().all(waits) {
        first_step(board, &counts, plan);
    }
}

fn may_be_first(cause: Cause) -> bool {
    cause.is_improvement() || cause == Cause::Failing
}

/// Begins the first move that was found, where those of the plan wait for each other. Its unit moves
/// on in the same plan, so it is not among them as it is.
fn first_step(board: &Board<'_>, counts: &[usize], plan: &mut Plan) {
    let Some((piece, to, cause)) = board.first_step else {
        return;
    };
    let (it, seat) = (&board.pieces[piece], &board.seats[to]);
    if it.owner.is_some() && seat.ready && counts[to] < seat.cap && may_be_first(cause) {
        plan.held.retain(|held| &held.planned.unit != it.id);
        plan.moves.push(Move {
            unit: it.id.clone(),
            from: it.owner.map(|owner| board.seats[owner].id),
            to: seat.id,
            cause,
        });
    }
}
