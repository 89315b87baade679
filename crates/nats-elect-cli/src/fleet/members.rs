//! The members of a group, what they own there, and which units have no owner that is known to live.

use std::collections::HashMap;

use nats_elect::{ObservedGroup, ObservedGroups, ObservedMember, ObservedUnit, UnitStanding};

/// The map names an owner that was not seen alive yet.
pub const UNCONFIRMED: &str = "unconfirmed";
/// The map names an owner of which no heartbeat was seen for its whole lease.
const EXPIRED: &str = "expired";

/// A member of a group, with the units that it owns there.
pub struct Member<'a> {
    pub epoch: &'a str,
    pub seen: &'a ObservedMember,
    pub units: Vec<&'a str>,
}

impl<'a> Member<'a> {
    /// The members of a group that are not over, and those that own units all the same, by their
    /// names.
    pub fn all(group: &'a ObservedGroup) -> Vec<Self> {
        let mut owned = HashMap::<_, Vec<_>>::new();
        for unit in &group.units {
            let units = owned.entry(unit.owner.as_deref()).or_default();
            units.push(unit.unit.as_str());
        }
        let members = group.members.iter().map(|(epoch, seen)| Self {
            epoch,
            seen,
            units: owned.remove(&Some(epoch.as_str())).unwrap_or_default(),
        });
        let mut members: Vec<_> = members
            .filter(|it| !it.seen.over || !it.units.is_empty())
            .collect();
        members.sort_by_key(|it| (&it.seen.instance_id, it.epoch));
        members
    }

    pub fn name(&self) -> String {
        name(self.epoch, Some(self.seen))
    }

    /// Whether it lives, as one word.
    pub const fn state(&self) -> &'static str {
        match self.seen {
            it if !it.understood => "unknown",
            it if it.over => "over",
            it if it.leaves => "leaving",
            it if it.confirmed => "confirmed",
            _ => "unconfirmed",
        }
    }
}

/// The id of the instance that has this epoch.
pub fn name(epoch: &str, member: Option<&ObservedMember>) -> String {
    let id = member.map(|it| &it.instance_id).filter(|it| !it.is_empty());
    id.map_or_else(|| format!("(no name, {epoch})"), Clone::clone)
}

/// The member that the map names, if it has a key.
pub fn owner<'a>(group: &'a ObservedGroup, unit: &ObservedUnit) -> Option<&'a ObservedMember> {
    group.members.get(unit.owner.as_ref()?)
}

/// Why a unit has no owner that is known to live, as one word, if it has none.
pub fn lack(
    unit: &ObservedUnit,
    owner: Option<&ObservedMember>,
    is_current: bool,
) -> Option<&'static str> {
    let is_owned = matches!(unit.standing, UnitStanding::Owned | UnitStanding::Changing);
    match owner.filter(|_| is_owned) {
        None => Some(if is_owned {
            UnitStanding::OwnerMissing.as_str()
        } else {
            unit.standing.as_str()
        }),
        Some(owner) if lives(owner) => None,
        Some(owner) if has_expired(owner, is_current) => Some(EXPIRED),
        Some(_) => Some(UNCONFIRMED),
    }
}

/// All that [`lack`] says.
pub const LACKS: [&str; 5] = [
    UnitStanding::Free.as_str(),
    UnitStanding::OwnerOver.as_str(),
    UnitStanding::OwnerMissing.as_str(),
    UNCONFIRMED,
    EXPIRED,
];

/// Whether no heartbeat of a member was seen for its whole lease. Who sees nothing can't tell.
pub fn has_expired(member: &ObservedMember, is_current: bool) -> bool {
    member.over || is_current && member.ttl.is_some_and(|ttl| member.age >= ttl)
}

/// Whether a member is known to live.
pub const fn lives(member: &ObservedMember) -> bool {
    member.confirmed && member.understood && !member.over
}

/// What is wrong with a group, in words.
pub fn problems(all: &ObservedGroups, name: &str) -> Vec<String> {
    let problems = all.problems_of(name).into_iter();
    problems.map(|it| it.to_string()).collect()
}
