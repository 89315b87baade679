//! Why a unit is where it is.

use super::board::{Board, REASONS};
use super::fleet::Fleet;
use super::outcome::{Move, Reason};
use super::planned;

/// Why a unit is where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// What the plan does with the unit. `None`: it stays.
    pub moves: Option<Move>,
    /// Why nobody may have it.
    pub unplaced: Option<Reason>,
    /// By member, in the order of joining: why the unit is not there after the plan, or should not be.
    /// `None`: it is there, and may be.
    pub why_not: Vec<Option<Reason>>,
}

/// Explains a unit of the fleet. `None`: there is no unit of this index.
pub fn explain(fleet: &Fleet, unit: usize) -> Option<Explanation> {
    fleet.units.get(unit)?;
    let (board, plan) = planned(fleet);
    let unplaced = plan.unplaced.iter().find(|it| it.unit == unit);
    let members = 0..fleet.members.len();
    Some(Explanation {
        moves: board.move_of(unit),
        unplaced: unplaced.map(|it| it.why),
        why_not: members.map(|it| why_not(&board, unit, it)).collect(),
    })
}

fn why_not(board: &Board<'_>, unit: usize, member: usize) -> Option<Reason> {
    let refusal = board.refusal(unit, member);
    let Some(place) = board.at[unit] else {
        let why = if board.is_spent() {
            Reason::Budget
        } else {
            Reason::Near
        };
        return refusal.or(Some(why));
    };
    if refusal.is_some() || place == member {
        return refusal;
    }
    let (there, here) = (board.rate(unit, member), board.rate(unit, place));
    let part = (0..REASONS.len()).find(|part| there[*part] != here[*part]);
    let worse = part.filter(|part| there[*part] > here[*part]);
    Some(worse.map_or(Reason::Near, |part| REASONS[part]))
}
