//! Why a unit is where it is, as data.

use std::collections::BTreeSet;

use super::balanced::Planned;
use super::board::Board;
use super::fleet::{Fleet, Standing};
use super::plan::{Cause, Hold, Unfit};
use crate::group::Epoch;
use crate::moment::Moment;
use crate::name::UnitName;

/// What a plan does with a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It stays: no other place is better by enough.
    Stays,
    /// A move to this member is under way.
    UnderWay(Epoch),
    /// It moves now.
    Moves {
        /// The next owner.
        to: Epoch,
        /// The reason.
        cause: Cause,
    },
    /// It is to move, and has to wait.
    Held {
        /// The next owner.
        to: Epoch,
        /// The reason for the move.
        cause: Cause,
        /// The reason for the wait.
        hold: Hold,
    },
    /// Nobody may take it. It stays with its owner, or without one.
    Unplaced(Unfit),
}

/// The reason why a member may not take a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// It is cordoned.
    Cordoned,
    /// Its heartbeats are missing.
    Silent,
    /// Most units of the group are not of age for it yet.
    Waiting,
    /// It lacks these labels.
    Labels(BTreeSet<String>),
    /// It settles until then.
    Settling(Moment),
    /// It has as many units as its cap.
    Cap(u32),
}

/// A member as the owner of a unit. All is as the plan leaves it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Choice {
    /// The member.
    pub member: Epoch,
    /// Why it may not take the unit.
    pub refusal: Option<Refusal>,
    /// The unit keeps failing there.
    pub failing: bool,
    /// How many other units of its set are in the member's zone.
    pub zone_mates: usize,
    /// The units there that it should be apart from.
    pub beside: Vec<UnitName>,
    /// The labels that it prefers and the member lacks.
    pub missed: BTreeSet<String>,
    /// The member's load with this unit, in thousandths of its fair share. `None`: it takes no
    /// units, and so has no share.
    pub load: Option<u64>,
}

/// Why a unit is where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The unit.
    pub unit: UnitName,
    /// Its living owner.
    pub owner: Option<Epoch>,
    /// What the plan does with it.
    pub verdict: Verdict,
    /// All members, in the order of their ids. Of those that may take it the best has the least of
    /// `failing`, `zone_mates`, `beside`, `missed` within the band, and `load`.
    pub choices: Vec<Choice>,
}

/// Explains the unit of this number.
pub(super) fn explain(fleet: &Fleet, planned: &Planned<'_>, piece: usize) -> Explanation {
    let board = &planned.board;
    let it = &board.pieces[piece];
    Explanation {
        unit: it.id.clone(),
        owner: it.owner.map(|owner| board.seats[owner].id),
        verdict: verdict(planned, piece),
        choices: (0..board.seats.len())
            .map(|seat| choice(fleet, board, piece, seat))
            .collect(),
    }
}

fn verdict(planned: &Planned<'_>, piece: usize) -> Verdict {
    let (plan, it) = (&planned.plan, &planned.board.pieces[piece]);
    if let Some(unplaced) = plan.unplaced.iter().find(|other| &other.unit == it.id) {
        return Verdict::Unplaced(unplaced.why.clone());
    }
    if let Some(now) = plan.moves.iter().find(|other| &other.unit == it.id) {
        let (to, cause) = (now.to, now.cause);
        return Verdict::Moves { to, cause };
    }
    if let Some(held) = plan.held.iter().find(|held| &held.planned.unit == it.id) {
        return Verdict::Held {
            to: held.planned.to,
            cause: held.planned.cause,
            hold: held.hold,
        };
    }
    match it.at {
        Some(at) if it.at != it.owner => Verdict::UnderWay(planned.board.seats[at].id),
        _ => Verdict::Stays,
    }
}

fn choice(fleet: &Fleet, board: &Board<'_>, piece: usize, seat: usize) -> Choice {
    let (it, takes) = (&board.pieces[piece], &board.seats[seat]);
    let labels = &takes.member.labels;
    let lacks = it.unit.requires.difference(labels);
    let refusal = match takes.member.standing {
        Standing::Cordoned => Some(Refusal::Cordoned),
        Standing::Silent => Some(Refusal::Silent),
        Standing::Waiting => Some(Refusal::Waiting),
        Standing::Active if !board.has_labels(piece, seat) => {
            Some(Refusal::Labels(lacks.cloned().collect()))
        }
        Standing::Active if takes.settled_at > fleet.now => {
            Some(Refusal::Settling(takes.settled_at))
        }
        Standing::Active if it.at != Some(seat) && !board.has_room(seat) => {
            takes.member.cap.map(Refusal::Cap)
        }
        Standing::Active => None,
    };
    let unmet = board.unmet(piece, seat);
    let more = if it.at == Some(seat) { 0 } else { it.weight };
    Choice {
        member: takes.id,
        refusal,
        failing: unmet.failing,
        zone_mates: unmet.zone_mates,
        beside: board
            .beside(piece, seat)
            .map(|other| board.pieces[other].id.clone())
            .collect(),
        missed: it.unit.prefers.difference(labels).cloned().collect(),
        load: takes.open.then(|| board.share(takes.load + more)),
    }
}
