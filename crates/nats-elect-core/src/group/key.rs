//! The keys of members, groups and units in the bucket.

use std::fmt;

use super::epoch::Epoch;
use crate::name::{GroupName, UnitName};

/// The first part of every key of groups. No role name begins so.
const PREFIX: &str = "_group";

/// One unit of one generation of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnitKey {
    /// The group.
    pub group: GroupName,
    /// The generation, from 1 on. A group that grows begins a new one.
    pub generation: u32,
    /// The unit.
    pub unit: UnitName,
}

impl UnitKey {
    /// Shard 0 of a generation, before which none of its shards comes.
    pub(super) fn first_shard(group: &GroupName, generation: u32) -> Self {
        Self {
            group: group.clone(),
            generation,
            unit: UnitName::shard(0),
        }
    }
}

/// A key of groups.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupKey {
    /// A member's lease: `_group.m.<epoch>`.
    Member(Epoch),
    /// A group's own record: `_group.g.<group>`.
    Group(GroupName),
    /// A unit's owner: `_group.u.<group>.<generation>.<unit>`.
    Unit(UnitKey),
}

impl GroupKey {
    /// The filter of the one watch that shows all of these keys, within the bucket.
    pub const ALL: &'static str = "_group.>";

    /// The filter of the keys of members, within the bucket.
    pub const MEMBERS: &'static str = "_group.m.*";

    /// The epoch, if this is a member's key.
    pub const fn member(&self) -> Option<Epoch> {
        match self {
            Self::Member(epoch) => Some(*epoch),
            Self::Group(_) | Self::Unit(_) => None,
        }
    }

    /// Parses a key, as `Display` writes it. Returns `None` for any other text.
    pub fn parse(key: &str) -> Option<Self> {
        let mut parts = key.split('.');
        if parts.next()? != PREFIX {
            return None;
        }
        let kind = parts.next()?;
        let name = parts.next()?;
        let key = match kind {
            "m" => Self::Member(Epoch::parse(name)?),
            "g" => Self::Group(GroupName::new(name).ok()?),
            "u" => Self::Unit(UnitKey {
                group: GroupName::new(name).ok()?,
                generation: generation(parts.next()?)?,
                unit: UnitName::new(parts.next()?).ok()?,
            }),
            _ => return None,
        };
        parts.next().is_none().then_some(key)
    }
}

fn generation(text: &str) -> Option<u32> {
    let number: u32 = text.parse().ok()?;
    (number > 0 && number.to_string() == text).then_some(number)
}

impl fmt::Display for UnitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            group,
            generation,
            unit,
        } = self;
        write!(f, "{PREFIX}.u.{group}.{generation}.{unit}")
    }
}

impl fmt::Display for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Member(epoch) => write!(f, "{PREFIX}.m.{epoch}"),
            Self::Group(group) => write!(f, "{PREFIX}.g.{group}"),
            Self::Unit(key) => key.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::name::RoleName;

    #[test]
    fn a_key_has_one_text() {
        for text in [
            "_group.m.AAAAAAAAAAAAAAAAAAAAAA",
            "_group.g.partitions",
            "_group.u.partitions.1.17",
            "_group.u.control.4294967295.scheduler",
        ] {
            assert_eq!(
                GroupKey::parse(text).map(|key| key.to_string()).as_deref(),
                Some(text)
            );
        }
        for text in [
            "",
            "_group",
            "_group.",
            "_group.m",
            "_group.m.",
            "_group.m.x",
            "_group.g.a.b",
            "_group.x.a",
            "_group.u.a.1",
            "_group.u.a.0.1",
            "_group.u.a.01.1",
            "_group.u.a.+1.1",
            "_group.u.a.4294967296.1",
            "_group.u.a.1._b",
            "_group.u.a.1.b.c",
            "_fence.a",
            "a",
        ] {
            assert_eq!(GroupKey::parse(text), None, "{text}");
        }
    }

    #[test]
    fn no_key_of_groups_is_a_role() {
        assert!(RoleName::new(PREFIX).is_err());
    }

    proptest! {
        #[test]
        fn units_read_back(group in "[-/a-z0-9=]{1,9}", generation in 1..=u32::MAX, unit in "[-/a-z0-9=]{1,9}") {
            let key = UnitKey {
                group: GroupName::new(&group).unwrap(),
                generation,
                unit: UnitName::new(&unit).unwrap(),
            };
            prop_assert_eq!(GroupKey::parse(&key.to_string()), Some(GroupKey::Unit(key)));
        }

        #[test]
        fn text_that_is_a_key_is_its_text(text in "(_group\\.)?[mgu](\\.[a-zA-Z0-9_]{0,22}){0,4}|\\PC{0,40}") {
            if let Some(key) = GroupKey::parse(&text) {
                prop_assert_eq!(key.to_string(), text);
            }
        }
    }
}
