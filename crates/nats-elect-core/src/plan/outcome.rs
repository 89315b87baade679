//! What a plan says: moves, units without a place, and reasons.

use crate::labels;

/// Why a unit leaves its owner, or does not go to a member.
///
/// The reasons for which a member may not have a unit come in the order of nearness: of a unit without a
/// place the plan tells the last one that it met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// There is no member.
    Nobody,
    /// The member lacks a label that the unit requires.
    Labels,
    /// The member leaves.
    Leaves,
    /// The member is cordoned.
    Cordoned,
    /// The member takes no units for now.
    Waits,
    /// The member has as many units as its `max_units`, or more.
    Full,
    /// The budget of the plan was spent before.
    Budget,
    /// The unit has no owner.
    Unowned,
    /// It makes room for a unit that no other member may have.
    Room,
    /// It keeps failing there.
    Failing,
    /// More units of its zone sets are in the member's zone than in another.
    Zones,
    /// It is beside more units there that it should be apart from.
    Apart,
    /// The member has fewer of the labels that it prefers.
    Preference,
    /// The member has an older version of the application.
    Version,
    /// The member has more load.
    Balance,
    /// The member is as good, or not better by enough for a move; or the unit has no owner, and is in
    /// change.
    Near,
}

labels!(Reason {
    Nobody => "nobody",
    Labels => "labels",
    Leaves => "leaves",
    Cordoned => "cordoned",
    Waits => "waits",
    Full => "full",
    Budget => "budget",
    Unowned => "unowned",
    Room => "room",
    Failing => "failing",
    Zones => "zones",
    Apart => "apart",
    Preference => "preference",
    Version => "version",
    Balance => "balance",
    Near => "near",
});

/// A unit that gets another owner, or loses its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The unit.
    pub unit: usize,
    /// The next owner. `None`: its owner leaves, or lacks a required label, and nobody else may have it.
    pub to: Option<usize>,
    /// Why it leaves its owner.
    pub cause: Reason,
}

/// A unit for which there is no member that may have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unplaced {
    /// The unit. It has no owner, or stays with one that is cordoned or has too many.
    pub unit: usize,
    /// The reason why no member may have it, of the one that is nearest to it.
    pub why: Reason,
}

/// The weights of the members that take units. A usual unit counts 1,000. 0 and 0 if there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imbalance {
    /// The highest.
    pub most: u64,
    /// The lowest.
    pub least: u64,
}

/// Which units should have which owners.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Plan {
    /// The moves, in the order of units. Together, as one step, they exceed no member's `max_units`; a
    /// member whose handler is slow to end has one more for that long.
    pub moves: Vec<Move>,
    /// The units without a place, in the order in which the plan tried to place them.
    pub unplaced: Vec<Unplaced>,
    /// The imbalance of the present owners.
    pub before: Imbalance,
    /// The imbalance after all moves.
    pub after: Imbalance,
    /// How many places for units the plan compared: at most the budget.
    pub evaluated: usize,
    /// Whether the budget was spent, so that another plan may find more when this one is carried out.
    pub is_spent: bool,
}
