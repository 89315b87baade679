//! What a plan is made from: members, units and limits.

use std::collections::BTreeSet;

/// The greatest weight or load that a plan counts with. A greater one counts as this.
pub const MOST_WEIGHT: u32 = 1_000_000;

/// The weight of a unit for which nobody set one.
pub const USUAL_WEIGHT: u32 = 1_000;

/// A unit: one piece of work, which has one owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unit {
    /// The index of the owner. `None`: nobody, or a member that is no more.
    pub owner: Option<usize>,
    /// The plan must not move it, also if it has no owner: an earlier move of it is under way. It counts
    /// where it is.
    pub in_change: bool,
    /// Its share of the work, as configured: 1 to [`MOST_WEIGHT`]; 0 counts as 1. `None`:
    /// [`USUAL_WEIGHT`].
    pub weight: Option<u32>,
    /// Its load as its owner told it, in any measure that all owners share, to [`MOST_WEIGHT`]. `None`:
    /// nobody told it. The plan scales loads so that together they are what the weights of these units
    /// are, and takes the weight of a unit without a load.
    pub load: Option<u32>,
    /// Only a member with all of these labels may own it. A missing handler is a missing label, too.
    pub requires: BTreeSet<String>,
    /// It goes to the member that has most of these labels, up to that one's fair share.
    pub prefers: BTreeSet<String>,
    /// The indices of its apart sets. The plan spreads the units of such a set over members. Indices
    /// should be small: each set takes a number for each member.
    pub apart: Vec<usize>,
    /// The indices of its zone sets. The plan spreads the units of such a set over zones.
    pub zones: Vec<usize>,
    /// The sequence of the map that gave it its owner, as far as is known; 0: long ago. Of units that
    /// are equal else the plan moves those first that moved last: they return to who is back.
    pub since: u64,
    /// How often it moved lately, as far as is known. Of units that moved together the plan moves the
    /// one first that moved least.
    pub moved: u32,
}

/// Whether a member takes units and keeps its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// It takes units, and keeps its own.
    #[default]
    Takes,
    /// It keeps its own, and takes none for now: it does not follow the map yet, or heartbeats are
    /// missing. It has no part in the balance.
    Waits,
    /// The plan moves its units to others. It keeps those that nobody else may have.
    Cordoned,
    /// It goes: the plan takes all its units from it, also those that nobody else may have.
    Leaves,
}

/// An instance that takes part, and whose lease is not over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// Whether it takes units and keeps its own.
    pub standing: Standing,
    /// Its labels, such as `disk=ssd`. A plan only compares them.
    pub labels: BTreeSet<String>,
    /// Its zone. Members without one are together a zone.
    pub zone: Option<String>,
    /// How many units it owns at most. `None`: no limit.
    pub max_units: Option<u32>,
    /// The version of its application. A plan only compares it: the newest version is the one whose
    /// first living member joined last. After a return to an older version halfway through a restart
    /// of all, the plan may prefer the wrong one, at the cost of more moves.
    pub version: Option<String>,
    /// The indices of units that keep failing there. They go there only if nobody else may have them.
    pub failing: BTreeSet<usize>,
}

/// How much a plan may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many units may move that could stay. Default 64, so that a member that joins ten others
    /// gets its part of 256 units by one plan. Units without an owner, and
    /// those that must leave theirs, are exempt.
    pub moves: usize,
    /// How many times the plan compares a place for a unit. Default 1,000,000: at most about 50 ms. A
    /// plan that spends it all is right as far as it goes, and the next one goes on. At least two for
    /// each member; less counts as that.
    pub budget: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            moves: 64,
            budget: 1_000_000,
        }
    }
}

/// All that a plan is made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fleet {
    /// The members in the order of joining. An index is a place in it.
    pub members: Vec<Member>,
    /// The units of the group. An index is a place in it.
    pub units: Vec<Unit>,
    /// Whether a member came or went lately: within the time that a rolling restart leaves between two
    /// instances, say two minutes. While it is so and members tell several versions, no unit moves that
    /// could stay. So a restarted member is empty when the next one leaves, and takes all its units.
    pub rolls: bool,
    /// How much the plan may do.
    pub limits: Limits,
}
