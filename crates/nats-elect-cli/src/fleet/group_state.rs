//! How a group stands, in words.

use nats_elect::ObservedGroup;

use super::Groups;
use super::roles::Urgency;
use crate::unowned::UNCONFIRMED;

/// A group as it stands in the bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupState {
    pub units: usize,
    /// Units that have no owner, or one of which no heartbeat came for its whole lease.
    pub unowned: usize,
    /// Units of members that were not seen alive yet.
    pub unconfirmed: usize,
    /// The members whose lease may last.
    pub members: usize,
    /// Whether its record is there, and understood.
    pub understood: bool,
    /// Whether its units are only being created.
    pub making: bool,
}

impl GroupState {
    pub fn of(groups: &Groups, name: &str, group: &ObservedGroup) -> Self {
        let unowned = groups.unowned(group);
        let unconfirmed = unowned.get(UNCONFIRMED).copied().unwrap_or(0);
        Self {
            units: group.unit_count(),
            unowned: unowned.values().sum::<usize>() - unconfirmed,
            unconfirmed,
            members: groups.lasting(name).count(),
            understood: group.kind.is_some(),
            making: group.making,
        }
    }

    /// How soon somebody has to look after it.
    pub const fn urgency(&self) -> Urgency {
        if self.members == 0 || !self.understood || (self.unowned > 0 && !self.making) {
            Urgency::Bad
        } else if self.unconfirmed > 0 || self.making {
            Urgency::Doubtful
        } else {
            Urgency::Good
        }
    }

    /// What is not as it should be, in words.
    pub fn trouble(&self) -> Option<String> {
        let of_all = |count: usize, one: &str, more: &str| {
            let what = if count == 1 { one } else { more };
            format!("{count} of {} units {what}", self.units)
        };
        let unowned = if self.making {
            Some("it is new: no unit has an owner yet".to_owned())
        } else {
            (self.unowned > 0).then(|| of_all(self.unowned, "has no owner", "have no owner"))
        };
        let unseen = "of owners that were not seen alive yet";
        let unconfirmed = (self.unconfirmed > 0).then(|| of_all(self.unconfirmed, unseen, unseen));
        let members = (self.members == 0).then(|| "no member is there".to_owned());
        let record = (!self.understood).then(|| "its record is missing or not understood".into());
        let all = [unowned, unconfirmed, members, record];
        let all: Vec<_> = all.into_iter().flatten().collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}
