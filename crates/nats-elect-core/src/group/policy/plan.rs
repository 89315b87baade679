//! What a policy returns: moves, units without a place, and the reasons.

use std::collections::BTreeSet;

use super::round::Round;
use crate::group::Epoch;
use crate::labels;
use crate::moment::Moment;
use crate::name::UnitName;

/// The reason for a move. Those further up come first where the number of moves is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// The unit has no owner. Exempt from the limit on moves.
    Unowned,
    /// The owner died. Exempt from the limit on moves.
    OwnerDied,
    /// It makes room for a unit that no other member may take.
    Room,
    /// The owner is cordoned.
    Drain,
    /// The owner lacks a required label.
    Labels,
    /// The owner has more units than its cap.
    Cap,
    /// Its health check or its handler keeps failing there.
    Failing,
    /// Units of its set are in the same zone, while another zone has fewer.
    Zones,
    /// It is beside a unit that it should be apart from.
    Apart,
    /// Another member has more of the labels that it prefers.
    Preference,
    /// It evens out the load.
    Balance,
}

labels!(Cause {
    Unowned => "unowned",
    OwnerDied => "owner_died",
    Room => "room",
    Drain => "drain",
    Labels => "labels",
    Cap => "cap",
    Failing => "failing",
    Zones => "zones",
    Apart => "apart",
    Preference => "preference",
    Balance => "balance",
});

impl Cause {
    /// Whether the move only makes things better, and so waits for a round.
    pub fn is_improvement(self) -> bool {
        matches!(
            self,
            Self::Zones | Self::Apart | Self::Preference | Self::Balance
        )
    }

    /// Whether the unit has no living owner. Its move does not count for the limit.
    pub fn is_exempt(self) -> bool {
        matches!(self, Self::Unowned | Self::OwnerDied)
    }
}

/// A unit that changes its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The unit.
    pub unit: UnitName,
    /// The owner that gives it away. `None`: it has no living owner.
    pub from: Option<Epoch>,
    /// The next owner.
    pub to: Epoch,
    /// The reason.
    pub cause: Cause,
}

/// The reason why a move has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hold {
    /// As many moves are under way as may be.
    Limit,
    /// The next owner settles until then.
    Settling(Moment),
    /// The next owner has as many units as its cap until another one has left. Units that are to
    /// change places between members that are full wait until a cap is raised.
    Room,
    /// It makes things better only after other moves.
    Order,
}

/// A move that has to wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The move.
    pub planned: Move,
    /// The reason why it waits.
    pub hold: Hold,
}

/// The reason why nobody may take a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unfit {
    /// There is no member, or all are cordoned or silent.
    NoMember,
    /// The fleet starts, and has too few settled members.
    Starting {
        /// How many there are.
        settled: u32,
        /// How many there must be: `min_members`.
        needed: u32,
    },
    /// No member has all required labels. Here are those that no member has; or all of them, if each
    /// is there, but not on one member.
    Labels(BTreeSet<String>),
    /// Every member that may take it settles, or waits for units to come of age. The value is when
    /// the first one has settled.
    Settling(Moment),
    /// These members could take it, and are full up to their caps. No units could be moved to make
    /// room.
    Caps(Vec<Epoch>),
}

/// A unit that nobody may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unplaced {
    /// The unit.
    pub unit: UnitName,
    /// The owner, which keeps it although it should not. `None`: it stays without an owner.
    pub kept_by: Option<Epoch>,
    /// The reason.
    pub why: Unfit,
}

/// The loads of the members that take units, in thousandths of each one's fair share, which is the
/// same for all. 1000 and 1000 where there is nothing to share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Imbalance {
    /// The highest.
    pub most: u64,
    /// The lowest.
    pub least: u64,
}

/// What is to be done now, and what it leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Plan {
    /// The moves to begin now, the most urgent first. None of them is under way.
    pub moves: Vec<Move>,
    /// The moves that have to wait. Plan again when a move has ended: they may differ then.
    pub held: Vec<Held>,
    /// The units that nobody may take.
    pub unplaced: Vec<Unplaced>,
    /// The imbalance of the present owners.
    pub before: Imbalance,
    /// The imbalance when all moves have ended, also those that wait.
    pub after: Imbalance,
    /// The state of the round, for the next plan.
    pub round: Round,
    /// When to plan again, even if nothing happens. Plan again anyway after each change: of a
    /// member, of a unit, and when a move has ended.
    pub again: Option<Moment>,
}

impl Plan {
    /// A plan that does nothing, for a policy of one's own to fill in.
    pub fn idle(round: Round) -> Self {
        let even = Imbalance {
            most: 1000,
            least: 1000,
        };
        Self {
            moves: Vec::new(),
            held: Vec::new(),
            unplaced: Vec::new(),
            before: even,
            after: even,
            round,
            again: None,
        }
    }
}
