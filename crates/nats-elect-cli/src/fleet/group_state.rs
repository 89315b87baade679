//! How a group stands, in words.

use nats_elect::{ObservedGroup, UnitStanding};

use super::Groups;
use super::members::UNCONFIRMED;
use super::roles::Urgency;

/// A group as it stands in the bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupState {
    pub units: usize,
    /// Units that have no owner, or one of which no heartbeat came for its whole lease.
    pub unowned: usize,
    /// Units of members that were not seen alive yet.
    pub unconfirmed: usize,
    /// Units whose owner waits for former ones.
    pub changing: usize,
    /// The members whose lease may last.
    pub members: usize,
    /// Whether it has a map that is understood.
    pub understood: bool,
}

impl GroupState {
    pub fn of(groups: &Groups, group: &ObservedGroup) -> Self {
        let unowned = groups.unowned(group);
        let unconfirmed = unowned.get(UNCONFIRMED).copied().unwrap_or(0);
        Self {
            units: group.unit_count(),
            unowned: unowned.values().sum::<usize>() - unconfirmed,
            unconfirmed,
            changing: group.count(UnitStanding::Changing),
            members: groups.lasting(group).count(),
            understood: group.kind.is_some(),
        }
    }

    /// How soon somebody has to look after it.
    pub const fn urgency(&self) -> Urgency {
        if self.members == 0 || !self.understood || self.unowned > 0 {
            Urgency::Bad
        } else if self.unconfirmed > 0 || self.changing > 0 {
            Urgency::Doubtful
        } else {
            Urgency::Good
        }
    }

    /// What is not as it should be, in words.
    pub fn trouble(&self) -> Option<String> {
        let units = |count: usize, one: &str, more: &str| {
            let what = if count == 1 { one } else { more };
            (count > 0).then(|| format!("{count} of {} units {what}", self.units))
        };
        let unseen = "of owners that were not seen alive yet";
        let all = [
            units(self.unowned, "has no owner", "have no owner"),
            units(self.unconfirmed, unseen, unseen),
            units(self.changing, "changes its owner", "change their owners"),
            (self.members == 0).then(|| "no member is there".to_owned()),
            (!self.understood).then(|| "no map that is understood".to_owned()),
        ];
        let all: Vec<_> = all.into_iter().flatten().collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}
