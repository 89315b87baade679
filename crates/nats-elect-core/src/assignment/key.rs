//! The keys of a group in the bucket.

use std::fmt;

use super::epoch::Epoch;
use crate::name::GroupName;

/// The first part of every key of groups. No role name begins so.
const PREFIX: &str = "_groups";

/// A key of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// The group's map: `_groups.<group>.map`.
    Map(GroupName),
    /// A member's record: `_groups.<group>.member.<epoch>`.
    Member(GroupName, Epoch),
}

impl Key {
    /// The filter of all keys of all groups, within the bucket.
    pub const ALL: &str = "_groups.>";

    /// The filter of the one watch that shows all keys of a group, within the bucket.
    pub fn all_of(group: &GroupName) -> String {
        format!("{PREFIX}.{group}.>")
    }

    /// The filter of the keys of all members of a group, within the bucket.
    pub fn members_of(group: &GroupName) -> String {
        format!("{PREFIX}.{group}.member.*")
    }

    /// The group.
    pub const fn group(&self) -> &GroupName {
        match self {
            Self::Map(group) | Self::Member(group, _) => group,
        }
    }

    /// Parses a key, as `Display` writes it. Returns `None` for any other text.
    pub fn parse(key: &str) -> Option<Self> {
        let parts: Vec<_> = key.splitn(5, '.').collect();
        match parts[..] {
            [PREFIX, group, "map"] => Some(Self::Map(GroupName::new(group).ok()?)),
            [PREFIX, group, "member", epoch] => Some(Self::Member(
                GroupName::new(group).ok()?,
                Epoch::parse(epoch)?,
            )),
            _ => None,
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Map(group) => write!(f, "{PREFIX}.{group}.map"),
            Self::Member(group, epoch) => write!(f, "{PREFIX}.{group}.member.{epoch}"),
        }
    }
}
