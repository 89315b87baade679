//! Plans: which member should own which unit of a group.
//!
//! [`plan`] is a pure function from a [`Fleet`] to a [`Plan`]. It does no I/O, reads no clock and draws
//! no random number. The same fleet gives the same plan. A wrong, late or missing plan costs balance,
//! and never safety.
//!
//! Units and members are named by their index in the fleet. A plan has these steps:
//!
//! 1. It takes units off their owners that leave, are cordoned, lack a required label or have more than
//!    [`Member::max_units`].
//! 2. It gives those, and all units without an owner, to the cheapest member that may have them. Where
//!    all are full, another unit makes room. Then units leave where they keep failing.
//! 3. It moves at most [`Limits::moves`] other units to where they crowd their zone less, are beside
//!    fewer units that they should be apart from, find more labels that they prefer, or even out the
//!    load. It leaves this step out while the fleet [rolls](Fleet::rolls).
//!
//! A member is the cheaper the less there is of the first of these in which it differs: the unit's
//! failures, units of the same zone sets, units of the same apart sets, load
//! beyond the fair share, lacking preferred labels, age of the version, load.
//!
//! Each move of step 3 lessens the first of these sums that it changes: units that fail, squared counts
//! of zone sets by zone, squared counts of apart sets by member, load beyond the fair share, lacking
//! preferred labels, squared loads. So a fleet that stays as it is comes to rest, also if each plan does
//! a part of the moves only.
//!
//! ```
//! use nats_elect_core::plan::{Fleet, Member, Unit, plan};
//!
//! let mut fleet = Fleet::default();
//! fleet.members = vec![Member::default(); 3];
//! fleet.units = vec![Unit::default(); 9];
//! let first = plan(&fleet);
//! assert_eq!(first.moves.len(), 9);
//! assert_eq!((first.after.most, first.after.least), (3_000, 3_000));
//!
//! for it in first.moves {
//!     fleet.units[it.unit].owner = it.to;
//! }
//! assert_eq!(plan(&fleet).moves, []);
//! ```

mod board;
mod explain;
mod fleet;
mod improve;
mod outcome;
mod place;

use board::Board;

pub use explain::{Explanation, explain};
pub use fleet::{Fleet, Limits, MOST_WEIGHT, Member, Standing, USUAL_WEIGHT, Unit};
pub use outcome::{Imbalance, Move, Plan, Reason, Unplaced};

/// Plans the owners of all units.
pub fn plan(fleet: &Fleet) -> Plan {
    planned(fleet).1
}

/// The plan, and the board as it leaves it.
fn planned(fleet: &Fleet) -> (Board<'_>, Plan) {
    let mut board = Board::new(fleet);
    let before = board.imbalance();
    let unplaced = board.place_all();
    board.improve();
    let moves = (0..fleet.units.len()).filter_map(|unit| board.move_of(unit));
    let plan = Plan {
        moves: moves.collect(),
        unplaced,
        before,
        after: board.imbalance(),
        evaluated: board.evaluated.get(),
        is_spent: board.is_spent(),
    };
    (board, plan)
}
