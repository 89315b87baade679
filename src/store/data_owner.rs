//! The owner of fenced data: a role, or a unit of a group.

use super::bucket::Bucket;
use nats_elect_core::group::UnitKey;
use nats_elect_core::name::{DataKey, RoleName};

/// A name under which data stands, and the key that fences it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataOwner {
    /// Data under `_data.<role>`, which the role's fence key fences.
    Role(RoleName),
    /// Data under `_gdata.<group>.<generation>.<unit>`.
    Unit(UnitKey, FencedBy),
}

/// The key that fences a unit's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FencedBy {
    /// The unit's own record. Its sequence is in the token of the term.
    Record,
    /// The unit's fence key, `_gfence.<group>.<generation>.<unit>`, which a term raises when it first
    /// uses its store. A unit of a group with one map has no record.
    ///
    /// The key is apart from the group's other ones. So no member's watch shows it.
    Fence,
}

impl From<RoleName> for DataOwner {
    fn from(role: RoleName) -> Self {
        Self::Role(role)
    }
}

impl Bucket {
    /// The subject of the key that fences the owner's data.
    pub(super) fn fence_of(&self, owner: &DataOwner) -> String {
        match owner {
            DataOwner::Role(role) => self.fence_subject(role),
            DataOwner::Unit(unit, FencedBy::Record) => format!("{}{unit}", self.prefix()),
            DataOwner::Unit(unit, FencedBy::Fence) => {
                let (group, generation, name) = (&unit.group, unit.generation, &unit.unit);
                format!("{}_gfence.{group}.{generation}.{name}", self.prefix())
            }
        }
    }

    /// Returns the prefix of the keys of one owner's data. No name of a role, a group or a unit has
    /// a dot in it, so no owner's prefix is the beginning of another's.
    pub(super) fn data_prefix(&self, owner: &DataOwner) -> String {
        match owner {
            DataOwner::Role(role) => format!("{}_data.{role}.", self.prefix()),
            DataOwner::Unit(unit, _) => {
                let (group, generation, name) = (&unit.group, unit.generation, &unit.unit);
                format!("{}_gdata.{group}.{generation}.{name}.", self.prefix())
            }
        }
    }

    pub(super) fn data_subject(&self, owner: &DataOwner, key: &DataKey) -> String {
        format!("{}{key}", self.data_prefix(owner))
    }

    pub(super) fn guard_subject(&self, owner: &DataOwner) -> String {
        match owner {
            DataOwner::Role(role) => format!("{}_guard.{role}", self.prefix()),
            DataOwner::Unit(unit, _) => {
                let (group, generation, name) = (&unit.group, unit.generation, &unit.unit);
                format!("{}_guard.{group}.{generation}.{name}", self.prefix())
            }
        }
    }
}
