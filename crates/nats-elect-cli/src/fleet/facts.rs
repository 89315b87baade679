//! All that is known of one unit, and what it waits for until its owner acts, by the rules of the
//! members.

use nats_elect::{
    LONGEST_LEASE, ObservedGroup, ObservedGroups, ObservedMember, ObservedUnit, UnitExplanation,
    UnitStanding,
};

use super::groups::{Head, MemberRecord, Unit};
use super::members::Member;
use crate::text::lasted;
use crate::unowned::lives;

/// A unit with all that surrounds it.
pub struct Facts<'a> {
    pub all: &'a ObservedGroups,
    pub name: &'a str,
    pub group: &'a ObservedGroup,
    pub unit: &'a ObservedUnit,
    /// The words of a member about the unit.
    pub planned: Option<UnitExplanation>,
}

/// A condition in words, and what follows.
type Wait = (String, &'static str);

impl Facts<'_> {
    pub fn owner(&self) -> Option<&ObservedMember> {
        self.all.members.get(self.unit.owner.as_ref()?)
    }

    /// For programs.
    pub fn unit(&self) -> Unit {
        let member = self.owner().map(|seen| {
            let member = Member {
                epoch: self.unit.owner.as_deref().unwrap_or_default(),
                seen,
                units: self.units_of_owner(),
            };
            MemberRecord::of(&member, self.name)
        });
        let (waits_for, then) = self.waits_for().unzip();
        Unit {
            record: self.unit.into(),
            head: Head::of(self.all, self.name, self.group),
            member,
            waits_for,
            then,
        }
    }

    pub fn units_of_owner(&self) -> Vec<&str> {
        let units = self.group.units.iter();
        let same = units.filter(|it| it.owner.is_some() && it.owner == self.unit.owner);
        same.map(|it| it.unit.as_str()).collect()
    }

    /// The condition for an owner, if it has none, and what follows.
    pub fn waits_for(&self) -> Option<Wait> {
        if self.group.making {
            let units = "the members to create all units of the new group";
            return Some((units.into(), "the members take the units"));
        }
        if self.group.kind.is_none() {
            let record = "the group's record, which is missing or can't be understood";
            return Some((record.into(), "nobody takes a unit before"));
        }
        let unclosed = self.group.unclosed;
        let others =
            (unclosed > 0).then(|| format!("{unclosed} units of earlier generations to be closed"));
        if self.unit.standing == UnitStanding::Owned {
            let begins = "its owner begins, if it had not begun before";
            let before = others.or_else(|| self.age()).map(|it| (it, begins));
            return self.waits_for_owner().or(before);
        }
        if let Some(why) = self.nobody_may() {
            let member = format!("a member that may take it: {why}");
            return Some((member, "that one takes it, a minute later at most"));
        }
        let others = others.map(|it| (it, "the members take the units of this one"));
        Some(others.unwrap_or_else(|| self.waits_for_taker()))
    }

    /// Why no member that is there may take it from its owner, or if it has none.
    fn nobody_may(&self) -> Option<String> {
        let mut takers = self.all.members_of(self.name);
        let owner = self.unit.owner.as_deref();
        let may = takers.any(|(epoch, it)| {
            let lasts = it.confirmed || it.age < it.ttl.unwrap_or(LONGEST_LEASE);
            lasts && !it.cordoned && Some(epoch) != owner
        });
        if !may {
            return Some("the group has none that lives, or all are cordoned".into());
        }
        let planned = self.planned.as_ref()?;
        let why = planned.why.clone();
        why.filter(|_| planned.verdict == "unplaced")
    }

    /// Nobody owns it.
    fn waits_for_taker(&self) -> Wait {
        let aged = |otherwise: &str| self.age().unwrap_or_else(|| otherwise.to_owned());
        match self.unit.standing {
            // Members plan for units whose records are of age.
            UnitStanding::Free if self.planned.is_some() => (
                "a member that takes it".into(),
                "it has an owner in a moment",
            ),
            UnitStanding::Free | UnitStanding::Abandoned => (
                aged("a member that takes it"),
                "a member takes it, a minute later at most",
            ),
            UnitStanding::OwnerMissing => (
                "the end of its owner's lease, which has no record: a minute at most".into(),
                "members end that lease, and one takes the unit",
            ),
            UnitStanding::Missing => (
                "a member to notice that it has no key: after a purge 5m at most".into(),
                "one creates it as nobody's, and a minute later one takes it",
            ),
            _ => (
                aged("a member that writes over this record"),
                "a member writes over it, and begins a minute later",
            ),
        }
    }

    /// Nobody builds on a record before it is of age.
    fn age(&self) -> Option<String> {
        let left = lasted(self.unit.ages_for?);
        Some(format!("this record to be of age, in {left} at most"))
    }

    fn waits_for_owner(&self) -> Option<Wait> {
        let owner = self.owner().filter(|it| !lives(it))?;
        let lease = owner.ttl.map_or_else(|| "a minute".to_owned(), lasted);
        let then = match self.nobody_may() {
            Some(_) => "if none comes, it has no owner until a member comes that may take it",
            None => "if none comes for so long, members end that lease, and one takes the unit",
        };
        let what = format!("a heartbeat of the owner, whose lease is {lease}");
        Some((what, then))
    }
}
