//! Why a group does not get another number of shards.

use thiserror::Error;

use crate::error::Error;
use nats_elect_core::group::MOST_SHARDS;
use nats_elect_core::name::{GroupName, NameError};

/// The reason why a group does not get another number of shards.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GrowthError {
    /// The name of the bucket or the group breaks a rule.
    #[error(transparent)]
    Name(#[from] NameError),
    /// No group has so many shards.
    #[error("a group has 1 to {MOST_SHARDS} shards, and not {0}")]
    Shards(u32),
    /// There is no such group.
    #[error("there is no group `{0}` in the bucket")]
    NoSuchGroup(GroupName),
    /// The group's record is gone, and not the group: members or units of it are there. Members that
    /// know the record write it again; else an operator has to (`docs/runbook.md`).
    #[error(
        "group `{0}` has no record, although it has members or units: the record was purged, or the group is only being made"
    )]
    RecordMissing(GroupName),
    /// The group has named units. The settings of the instances name them.
    #[error("group `{0}` has named units, and no shards: the settings of its instances name them")]
    NamedUnits(GroupName),
    /// The group is new, and its units are still being created.
    #[error("group `{0}` is still being made: try again when its units have owners")]
    BeingMade(GroupName),
    /// What stands under the group's key is not understood.
    #[error(
        "the record of group `{0}` is not understood: it was deleted, written by hand, or is of a later version"
    )]
    NotUnderstood(GroupName),
    /// The group has this number of shards, and its last growth has ended.
    #[error("group `{group}` has {shards} shards already, in generation {generation}")]
    SameNumber {
        /// The group.
        group: GroupName,
        /// The number.
        shards: u32,
        /// The present generation.
        generation: u32,
    },
    /// The last growth of the group has not ended.
    #[error(
        "group `{group}` is still growing to {shards} shards: units of earlier generations that are not closed: {unclosed}"
    )]
    StillGrowing {
        /// The group.
        group: GroupName,
        /// The number of shards that its record says.
        shards: u32,
        /// The number of units that are not closed.
        unclosed: usize,
    },
    /// No generation can follow the present one.
    #[error("group `{0}` is in the last generation that there can be")]
    LastGeneration(GroupName),
    /// Something else than a unit of nobody stands under the key of a unit of the next generation.
    #[error("under the key {key:?} of the next generation stands something else than a free unit")]
    InTheWay {
        /// The key within the bucket.
        key: String,
    },
    /// Somebody else creates units of the next generation at this moment, for more shards.
    #[error("somebody else prepares group `{group}` for {shards} shards at least")]
    OtherGrowth {
        /// The group.
        group: GroupName,
        /// The number of shards that these units are of, or fewer.
        shards: u32,
    },
    /// Somebody wrote the group's record meanwhile, or replaced the bucket.
    #[error("somebody wrote the record of group `{0}` meanwhile, or the bucket is another one")]
    Changed(GroupName),
    /// The bucket can't be used.
    #[error(transparent)]
    Bucket(#[from] Error),
}
