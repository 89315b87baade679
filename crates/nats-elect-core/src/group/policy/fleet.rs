//! What a policy plans from: units, members, moves under way and the time.

use std::collections::{BTreeMap, BTreeSet};

use super::round::Round;
use crate::group::Epoch;
use crate::moment::Moment;
use crate::name::UnitName;
pub use crate::plan::{MOST_WEIGHT, USUAL_WEIGHT};
use crate::setters;

/// A unit: one piece of work, which has one owner.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unit {
    /// Its share of the load, as configured or as its handler reported. Default
    /// [`USUAL_WEIGHT`]. From 1 to [`MOST_WEIGHT`]; 0 counts as 1, so that idle units are spread,
    /// too.
    pub weight: u32,
    /// A member may own it only if it has all of these labels.
    pub requires: BTreeSet<String>,
    /// It goes to the member that has most of these labels, where the balance allows it.
    pub prefers: BTreeSet<String>,
    /// The name of a set of units. The units of a set are spread evenly over the zones, where labels
    /// and caps allow it, also at the cost of balance.
    pub spread: Option<String>,
    /// Units that it is not beside, where labels and caps allow it, also at the cost of balance. It
    /// holds in both directions. Names of unknown units mean nothing.
    pub apart_from: BTreeSet<UnitName>,
    /// Members on which its health check or its handler keeps failing. It is moved away from them,
    /// and goes there only if nobody else may take it.
    pub failing_on: BTreeSet<Epoch>,
    /// The owner, as the unit's record says. `None`: nobody. An owner that is not among the members
    /// is dead, and the unit free.
    pub owner: Option<Epoch>,
    /// When its owner last changed. `None`: not known, or long ago. Of two equal units the one that
    /// moved last moves first: then a rolling restart returns units, and leaves the others alone.
    pub moved: Option<Moment>,
}

impl Default for Unit {
    fn default() -> Self {
        Self {
            weight: USUAL_WEIGHT,
            requires: BTreeSet::new(),
            prefers: BTreeSet::new(),
            spread: None,
            apart_from: BTreeSet::new(),
            failing_on: BTreeSet::new(),
            owner: None,
            moved: None,
        }
    }
}

setters!(Unit {
    weight: u32 => weight;
    requires: BTreeSet<String> => requires;
    prefers: BTreeSet<String> => prefers;
    spread: &str => Some(spread.to_owned());
    apart_from: BTreeSet<UnitName> => apart_from;
    failing_on: BTreeSet<Epoch> => failing_on;
    owner: Epoch => Some(owner);
    moved: Moment => Some(moved);
});

/// Whether a member takes units and keeps its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// It takes units.
    #[default]
    Active,
    /// It is to own nothing: its units are moved away.
    Cordoned,
    /// Heartbeats are missing, but it is not deposed. So it takes nothing, and nobody else may have
    /// what it owns.
    Silent,
    /// Most units of the group are not of age for it yet. It could not begin them, so it takes
    /// nothing. It keeps what it owns.
    Waiting,
}

/// An instance that takes part, and is not deposed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Member {
    /// Its labels, such as `disk=ssd`. A policy only compares them.
    pub labels: BTreeSet<String>,
    /// Its zone. Members without one are together a zone.
    pub zone: Option<String>,
    /// How many units it owns at most. `None`: no limit. No plan exceeds it.
    pub cap: Option<u32>,
    /// Whether it takes units and keeps its own.
    pub standing: Standing,
    /// Since when it has been well without a break.
    pub since: Moment,
    /// It was lost or not well shortly before `since`. It then settles for longer.
    pub flapped: bool,
}

impl Member {
    /// A member that has been well since then, without labels, zone and cap.
    pub fn new(since: Moment) -> Self {
        Self {
            labels: BTreeSet::new(),
            zone: None,
            cap: None,
            standing: Standing::Active,
            since,
            flapped: false,
        }
    }
}

setters!(Member {
    labels: BTreeSet<String> => labels;
    zone: &str => Some(zone.to_owned());
    cap: u32 => Some(cap);
    standing: Standing => standing;
    flapped: bool => flapped;
});

/// All that a plan is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fleet {
    /// The units of the group.
    pub units: BTreeMap<UnitName, Unit>,
    /// The members that are not deposed.
    pub members: BTreeMap<Epoch, Member>,
    /// The moves that were planned and are not yet done, each to its new owner. Those to a member
    /// that is gone, or takes no units, are planned anew.
    pub under_way: BTreeMap<UnitName, Epoch>,
    /// Whether the group has just got another number of shards. Then it is not a fleet that starts,
    /// though no unit has an owner.
    pub grows: bool,
    /// The state of the round, as the last plan returned it. A new planner begins with the default.
    pub round: Round,
    /// The time of the plan.
    pub now: Moment,
}

impl Fleet {
    /// A fleet without units and members.
    pub fn new(now: Moment) -> Self {
        Self {
            units: BTreeMap::new(),
            members: BTreeMap::new(),
            under_way: BTreeMap::new(),
            grows: false,
            round: Round::default(),
            now,
        }
    }
}
