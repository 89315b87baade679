//! The reports of an observer about groups.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use uuid::Uuid;

use nats_elect_core::labels;

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
}

/// A group: its map, and the keys of its members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ObservedGroup {
    /// What kind of units it has. `None` if no map is known that is understood.
    pub kind: Option<UnitKind>,
    /// The number of shards. `None` for named units, and without a map.
    pub shards: Option<u32>,
    /// The generation of its units. 0 without a map.
    pub generation: u32,
    /// The sequence of the map in the stream, which is its version. While a value that is no map
    /// stands in its place, members go on by the last map that they were shown, and so does who
    /// follows the group.
    pub map: Option<u64>,
    /// The units, in the order of their numbers, or as the map names them.
    pub units: Vec<ObservedUnit>,
    /// All epochs that have a key in this group. An instance has another epoch after each start, and
    /// after each lease that it lost. A key that shows the end of an epoch stays for a while.
    pub members: BTreeMap<String, ObservedMember>,
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
    /// The epoch that owns it by the map.
    pub owner: Option<String>,
    /// The instance id of that epoch. `None` if no record tells it.
    pub instance_id: Option<String>,
    /// The other epochs that may still act on it. Its owner begins nothing before each of them has
    /// acknowledged the map without this unit among those [still
    /// running](ObservedMember::still_running), or is over.
    pub waits_for: Vec<String>,
}

/// Whether a unit has an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum UnitStanding {
    /// It has an owner, and nobody else may act on it. [`ObservedMember::confirmed`] tells whether
    /// the owner was seen alive.
    Owned,
    /// It has an owner, and others may still act on it: [`ObservedUnit::waits_for`].
    Changing,
    /// Nobody owns it.
    Free,
    /// Its owner is over. Another one gets it.
    OwnerOver,
    /// Under the key of its owner no record is found that is understood. That one's lease is waited
    /// for.
    OwnerMissing,
}

labels!(UnitStanding {
    Owned => "owned",
    Changing => "changing",
    Free => "free",
    OwnerOver => "owner_over",
    OwnerMissing => "owner_missing",
});

/// A member of a group, by one epoch: one lease of one instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "a member tells them")]
pub struct ObservedMember {
    /// The instance id. It is empty if no record tells it, as that of an epoch that is over.
    pub instance_id: String,
    /// The incarnation of that instance, if a record tells it.
    pub incarnation: Option<Uuid>,
    /// Whether its key shows a record of this epoch that is understood, or the end. Otherwise all
    /// that is told here of leases, maps and loads is empty.
    pub understood: bool,
    /// The length of its lease.
    pub ttl: Option<Duration>,
    /// The sequence of the newest map that it was shown. 0: none.
    pub follows: u64,
    /// The units whose handler still acts by an earlier map, of earlier generations, too.
    pub still_running: Vec<String>,
    /// The units that it can't run.
    pub unable: Vec<String>,
    /// The load that its units make, in the measure of
    /// [`Term::report_load`](crate::Term::report_load). 0: none was reported.
    pub load: u64,
    /// Where it runs, if it tells.
    pub zone: Option<String>,
    /// The version of its application, if it tells.
    pub version: Option<String>,
    /// Whether it takes no more units.
    pub cordoned: bool,
    /// Whether it leaves, and begins nothing.
    pub leaves: bool,
    /// Whether it waits for leases of another bucket, and gets no units until then.
    pub waits: bool,
    /// Whether its writes of the group's map keep failing, so that other members plan.
    pub aside: bool,
    /// Whether its key shows the end: it acts on nothing ever again.
    pub over: bool,
    /// The sequence of the value under its key.
    pub revision: u64,
    /// Whether a heartbeat was received while the groups were watched, and its lease has not passed
    /// since then. Otherwise the record may be of a member that died.
    pub confirmed: bool,
    /// Time since that value was received here.
    pub age: Duration,
    /// The number of units that it owns by the map.
    pub units: usize,
}

/// Something in a bucket's groups that an operator should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case", tag = "problem")]
#[non_exhaustive]
pub enum GroupProblem {
    /// A group has no map that is understood. Nobody owns anything by it.
    #[error("group {group:?} has no map that is understood. Its members write one")]
    NoMap {
        /// The group.
        group: String,
    },
    /// All epochs of a group are over: nobody takes a unit of it.
    #[error("group {group:?} has no member")]
    NoMember {
        /// The group.
        group: String,
    },
    /// Units have an owner under whose key no record is found that is understood.
    #[error(
        "group {group:?}: units of a member that has no record: {units}. They have no other owner for a minute"
    )]
    OwnerMissing {
        /// The group.
        group: String,
        /// The number of these units.
        units: usize,
    },
    /// The value under a member's key is not understood.
    #[error("group {group:?}: the value under the key of member {epoch} is not understood")]
    MemberUnknown {
        /// The group.
        group: String,
        /// The epoch.
        epoch: String,
    },
    /// A member's writes of the map keep failing: a permission is missing, or the map is larger than
    /// its connection takes. Other members plan, as far as theirs do not.
    #[error(
        "group {group:?}: {instance_id:?} can't write the map, so others plan: its log says why"
    )]
    MapRefused {
        /// The group.
        group: String,
        /// The member's instance id.
        instance_id: String,
    },
}

impl ObservedGroups {
    /// Returns what an operator should know. A moment after a member has died or has joined, some of
    /// it is usual.
    pub fn problems(&self) -> Vec<GroupProblem> {
        let groups = self.groups.keys();
        groups.flat_map(|name| self.problems_of(name)).collect()
    }

    /// Returns what an operator should know of one group.
    pub fn problems_of(&self, group: &str) -> Vec<GroupProblem> {
        let Some(found) = self.groups.get(group) else {
            return Vec::new();
        };
        let name = || group.to_owned();
        let mut problems = Vec::new();
        if found.kind.is_none() {
            problems.push(GroupProblem::NoMap { group: name() });
        }
        if self.members_of(group).next().is_none() {
            problems.push(GroupProblem::NoMember { group: name() });
        }
        let units = found.count(UnitStanding::OwnerMissing);
        if units > 0 {
            let group = name();
            problems.push(GroupProblem::OwnerMissing { group, units });
        }
        let unknown = found.members.iter().filter(|(_, it)| !it.understood);
        problems.extend(unknown.map(|(epoch, _)| GroupProblem::MemberUnknown {
            group: name(),
            epoch: epoch.clone(),
        }));
        let aside = found.members.values().filter(|it| it.aside);
        problems.extend(aside.map(|it| GroupProblem::MapRefused {
            group: name(),
            instance_id: it.instance_id.clone(),
        }));
        problems
    }

    /// Returns the members of a group that are not over, with their epochs.
    pub fn members_of<'a>(
        &'a self,
        group: &str,
    ) -> impl Iterator<Item = (&'a str, &'a ObservedMember)> + use<'a> {
        let members = self.groups.get(group).into_iter();
        let members = members.flat_map(|it| &it.members);
        let members = members.filter(|(_, member)| !member.over);
        members.map(|(epoch, member)| (epoch.as_str(), member))
    }
}

impl ObservedGroup {
    /// Returns the number of units.
    pub fn unit_count(&self) -> usize {
        self.units.len()
    }

    /// Returns the number of units that stand so.
    pub fn count(&self, standing: UnitStanding) -> usize {
        let units = self.units.iter();
        units.filter(|unit| unit.standing == standing).count()
    }

    /// Returns a unit.
    pub fn unit(&self, name: &str) -> Option<&ObservedUnit> {
        self.units.iter().find(|unit| unit.unit == name)
    }
}
