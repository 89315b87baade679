//! The reports of an observer about groups.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;
use uuid::Uuid;

use nats_elect_core::labels;
use nats_elect_core::token::FencingToken;

/// The groups of a bucket, as an observer has read them. See
/// [`Observer::groups`](super::Observer::groups) and
/// [`FollowedGroups::groups`](super::FollowedGroups::groups).
///
/// Any client may have written what is told here. Names and ids are printable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ObservedGroups {
    /// The groups, by their names.
    pub groups: BTreeMap<String, ObservedGroup>,
    /// The members whose lease was not ended, by their epochs. An instance has a new epoch after
    /// each start. So one that has just started anew may be here twice.
    pub members: BTreeMap<String, ObservedMember>,
    /// The epochs whose lease was ended: their keys have a delete marker. The value is the number
    /// of units that still name the epoch.
    pub ended: BTreeMap<String, usize>,
}

/// A group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ObservedGroup {
    /// What kind of units it has. `None` if its record is missing, was deleted or is not
    /// understood.
    pub kind: Option<UnitKind>,
    /// The number of shards. `None` for named units, and without a record.
    pub shards: Option<u32>,
    /// The present generation. Without a record it is the latest one that has units.
    pub generation: u32,
    /// Whether the group is new, and nobody owns a unit of it yet.
    pub making: bool,
    /// The units of the present generation, in the order of their numbers or names. Shards without a
    /// key are among them: at most 20,000 of all groups together, first those of the groups with the
    /// most keys.
    pub units: Vec<ObservedUnit>,
    /// The number of shards without a key.
    pub missing: usize,
    /// The keys of the present generation that are no unit's, in the same order: numbers beyond the
    /// number of shards, as a growth to more of them leaves behind that broke off. Nobody owns them,
    /// and nothing waits for them.
    pub surplus: Vec<String>,
    /// The number of units of earlier generations that are not closed. No unit of the present one
    /// begins before they are.
    pub unclosed: usize,
    /// The number of shards of the next generation that have a key. Somebody prepares another number of
    /// shards, or did not end that: nobody owns these.
    pub prepared: usize,
}

/// What kind of units a group has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum UnitKind {
    /// Units with numbers from 0 on.
    Sharded,
    /// Named units.
    Spread,
}

labels!(UnitKind {
    Sharded => "sharded",
    Spread => "spread",
});

/// A unit of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ObservedUnit {
    /// Its name: of a shard, the number.
    pub unit: String,
    /// Whether it has an owner.
    pub standing: UnitStanding,
    /// The epoch that its record names.
    pub owner: Option<String>,
    /// The instance id of that epoch. `None` if its record does not tell it.
    pub instance_id: Option<String>,
    /// The token of the record. The owner's term has this one, if the owner acts. `None` if the
    /// unit has no key.
    pub fencing_token: Option<FencingToken>,
    /// How long it takes at most until members build on the record: no owner gave the unit away with
    /// it, as far as can be seen. They wait for a minute from when they were shown it. `None` if it
    /// is of age. Of a record from before this watch it can't be seen in each case.
    pub ages_for: Option<Duration>,
}

/// Whether a unit has an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum UnitStanding {
    /// The record names a member whose lease was not ended. [`ObservedMember::confirmed`] tells
    /// whether that one was seen alive.
    Owned,
    /// The record says that nobody owns it.
    Free,
    /// The record names a member whose lease was ended. Any member may take the unit.
    Abandoned,
    /// The record names a member that has no record. Its lease is waited for, and ended then.
    OwnerMissing,
    /// The record is not understood, or a delete marker. Members wait for a minute before they
    /// write over it, and for another one before somebody owns it.
    Unknown,
    /// There is no key. Members create it.
    Missing,
    /// The record says that nobody owns it ever again. Members write that when the group has a later
    /// generation. Before, it counts as [`Unknown`](Self::Unknown).
    Closed,
}

labels!(UnitStanding {
    Owned => "owned",
    Free => "free",
    Abandoned => "abandoned",
    OwnerMissing => "owner_missing",
    Unknown => "unknown",
    Missing => "missing",
    Closed => "closed",
});

/// A member of groups: one lease of one instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ObservedMember {
    /// The instance id. It is empty if the record tells none.
    pub instance_id: String,
    /// The incarnation of that instance, if the record tells one.
    pub incarnation: Option<Uuid>,
    /// Whether the record fits its epoch. Otherwise its lease is not known, and nobody believes
    /// what it says.
    pub understood: bool,
    /// The length of its lease.
    pub ttl: Option<Duration>,
    /// The groups in which it takes part, each with the load that its units make there, in the
    /// measure of [`Term::report_load`](crate::Term::report_load). 0: none was reported.
    pub groups: BTreeMap<String, u64>,
    /// Where it runs, if it tells.
    pub zone: Option<String>,
    /// Whether it takes no more units.
    pub cordoned: bool,
    /// The sequence of its last record.
    pub revision: u64,
    /// Whether a heartbeat was received while the groups were watched, and its lease has not passed
    /// since then. Otherwise the record may be of a member that died.
    pub confirmed: bool,
    /// Time since its last record was received here.
    pub age: Duration,
    /// The number of units, of all groups, that name it as their owner.
    pub units: usize,
}

/// Something in a bucket's groups that is not as members leave it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "problem")]
#[non_exhaustive]
pub enum GroupProblem {
    /// A group has units, but no record that is understood. Nobody takes a unit of it.
    NoRecord {
        /// The group.
        group: String,
    },
    /// Units have no key.
    UnitsMissing {
        /// The group.
        group: String,
        /// Their number.
        units: usize,
    },
    /// Units have a record that is not understood, a delete marker, or one that closes them although
    /// the group has no later generation.
    UnitsUnknown {
        /// The group.
        group: String,
        /// Their number.
        units: usize,
    },
    /// Units name a member that has no record.
    OwnerMissing {
        /// The group.
        group: String,
        /// The number of these units.
        units: usize,
    },
    /// There are keys of units that the group does not have: [`ObservedGroup::surplus`].
    UnitsSurplus {
        /// The group.
        group: String,
        /// Their number.
        units: usize,
    },
    /// The group has units, and no member takes part in it.
    NoMember {
        /// The group.
        group: String,
    },
    /// A member's record does not fit its epoch, or is not understood.
    MemberUnknown {
        /// The epoch.
        epoch: String,
    },
}

impl fmt::Display for GroupProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRecord { group } => write!(
                f,
                "group {group:?} has no record that can be understood: nobody takes a unit of it"
            ),
            Self::UnitsMissing { group, units } => {
                write!(f, "group {group:?}: units without a key: {units}")
            }
            Self::UnitsUnknown { group, units } => write!(
                f,
                "group {group:?}: units whose value was deleted, closes them, or is not understood: {units}. They have no owner for two minutes"
            ),
            Self::OwnerMissing { group, units } => write!(
                f,
                "group {group:?}: units of a member that has no record: {units}. They have no owner for a minute"
            ),
            Self::UnitsSurplus { group, units } => write!(
                f,
                "group {group:?}: keys of units that it does not have: {units}. They harm nothing"
            ),
            Self::NoMember { group } => write!(f, "group {group:?} has no member"),
            Self::MemberUnknown { epoch } => {
                write!(f, "the record of member {epoch} is not understood")
            }
        }
    }
}

impl ObservedGroups {
    /// Returns what is not as members leave it. A moment after a member has died or has joined,
    /// some of it is usual.
    pub fn problems(&self) -> Vec<GroupProblem> {
        let groups = self.groups.keys();
        let mut problems: Vec<_> = groups.flat_map(|name| self.problems_of(name)).collect();
        let unknown = self.members.iter().filter(|(_, it)| !it.understood);
        problems.extend(unknown.map(|(epoch, _)| GroupProblem::MemberUnknown {
            epoch: epoch.clone(),
        }));
        problems
    }

    /// Returns what is not as members leave it in one group.
    pub fn problems_of(&self, group: &str) -> Vec<GroupProblem> {
        let Some(found) = self.groups.get(group) else {
            return Vec::new();
        };
        let name = || group.to_owned();
        let mut problems = Vec::new();
        if found.kind.is_none() {
            problems.push(GroupProblem::NoRecord { group: name() });
        }
        if !found.making && self.members_of(group).next().is_none() {
            problems.push(GroupProblem::NoMember { group: name() });
        }
        if found.missing > 0 && !found.making {
            let (group, units) = (name(), found.missing);
            problems.push(GroupProblem::UnitsMissing { group, units });
        }
        let units = found.count(UnitStanding::Unknown) + found.count(UnitStanding::Closed);
        if units > 0 {
            let group = name();
            problems.push(GroupProblem::UnitsUnknown { group, units });
        }
        let units = found.count(UnitStanding::OwnerMissing);
        if units > 0 {
            let group = name();
            problems.push(GroupProblem::OwnerMissing { group, units });
        }
        let units = found.surplus.len();
        if units > 0 {
            let group = name();
            problems.push(GroupProblem::UnitsSurplus { group, units });
        }
        problems
    }

    /// Returns the members that take part in a group, with their epochs.
    pub fn members_of<'a>(
        &'a self,
        group: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a ObservedMember)> + 'a {
        let takes_part = |(_, it): &(_, &ObservedMember)| it.groups.contains_key(group);
        let members = self.members.iter().filter(takes_part);
        members.map(|(epoch, member)| (epoch.as_str(), member))
    }
}

impl ObservedGroup {
    /// Returns the number of units of the present generation, those without a key among them.
    pub fn unit_count(&self) -> usize {
        let known = self.units.iter();
        known
            .filter(|unit| unit.standing != UnitStanding::Missing)
            .count()
            + self.missing
    }

    /// Returns the number of units of the present generation that stand so.
    pub fn count(&self, standing: UnitStanding) -> usize {
        if standing == UnitStanding::Missing {
            return self.missing;
        }
        let units = self.units.iter();
        units.filter(|unit| unit.standing == standing).count()
    }

    /// Returns a unit of the present generation.
    pub fn unit(&self, name: &str) -> Option<&ObservedUnit> {
        self.units.iter().find(|unit| unit.unit == name)
    }
}
