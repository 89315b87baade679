//! The owner of fenced data: a role, or a unit of a group.

use super::bucket::Bucket;
use nats_elect_core::assignment::UnitKey;
use nats_elect_core::name::{DataKey, RoleName};

/// A name under which data stands, and the key that fences it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataOwner {
    /// Data under `_data.<role>`, which the role's fence key fences.
    Role(RoleName),
    /// Data under `_gdata.<group>.<generation>.<unit>`, which the unit's fence key,
    /// `_gfence.<group>.<generation>.<unit>`, fences. A term raises it when it first uses its store. The
    /// key is apart from the group's other ones, so no member's watch shows it.
    Unit(UnitKey),
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
            DataOwner::Unit(unit) => format!("{}_gfence.{unit}", self.prefix()),
        }
    }

    /// Returns the prefix of the keys of one owner's data. No name of a role, a group or a unit has
    /// a dot in it, so no owner's prefix is the beginning of another's.
    pub(super) fn data_prefix(&self, owner: &DataOwner) -> String {
        match owner {
            DataOwner::Role(role) => format!("{}_data.{role}.", self.prefix()),
            DataOwner::Unit(unit) => format!("{}_gdata.{unit}.", self.prefix()),
        }
    }

    pub(super) fn data_subject(&self, owner: &DataOwner, key: &DataKey) -> String {
        format!("{}{key}", self.data_prefix(owner))
    }

    pub(super) fn guard_subject(&self, owner: &DataOwner) -> String {
        match owner {
            DataOwner::Role(role) => format!("{}_guard.{role}", self.prefix()),
            DataOwner::Unit(unit) => format!("{}_guard.{unit}", self.prefix()),
        }
    }
}
