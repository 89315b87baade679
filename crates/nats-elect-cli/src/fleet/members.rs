//! The members of a group, and what they own there.

use std::collections::HashMap;

use nats_elect::{ObservedGroup, ObservedGroups, ObservedMember, ObservedUnit, UnitStanding};

/// A member of a group, with the units that it owns there.
pub struct Member<'a> {
    pub epoch: &'a str,
    pub seen: &'a ObservedMember,
    pub units: Vec<&'a str>,
}

impl<'a> Member<'a> {
    /// The members of a group, and those that own units of it all the same, by their names.
    pub fn all(all: &'a ObservedGroups, name: &'a str, group: &'a ObservedGroup) -> Vec<Self> {
        let mut owned = HashMap::<_, Vec<_>>::new();
        for unit in &group.units {
            if let Some(epoch) = owner(unit) {
                owned.entry(epoch).or_default().push(unit.unit.as_str());
            }
        }
        let members = all.members.iter().map(|(epoch, seen)| Self {
            epoch,
            seen,
            units: owned.remove(epoch.as_str()).unwrap_or_default(),
        });
        let mut members: Vec<_> = members
            .filter(|it| !it.units.is_empty() || it.seen.groups.contains_key(name))
            .collect();
        members.sort_by(|a, b| (&a.seen.instance_id, a.epoch).cmp(&(&b.seen.instance_id, b.epoch)));
        members
    }

    pub fn name(&self) -> String {
        if self.seen.instance_id.is_empty() {
            format!("(no name, {})", self.epoch)
        } else {
            self.seen.instance_id.clone()
        }
    }

    /// Whether it lives, as one word.
    pub const fn state(&self) -> &'static str {
        state(self.seen)
    }
}

pub const fn state(member: &ObservedMember) -> &'static str {
    match (member.understood, member.confirmed) {
        (false, _) => "unknown",
        (true, true) => "confirmed",
        (true, false) => "unconfirmed",
    }
}

/// The epoch that owns a unit, if its lease was not ended.
pub fn owner(unit: &ObservedUnit) -> Option<&str> {
    let is_owned = unit.standing == UnitStanding::Owned;
    unit.owner.as_deref().filter(|_| is_owned)
}

/// What is wrong with a group, in words.
pub fn problems(all: &ObservedGroups, name: &str) -> Vec<String> {
    let problems = all.problems_of(name).into_iter();
    problems.map(|it| it.to_string()).collect()
}
