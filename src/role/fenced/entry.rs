//! The entry under a key of a role's data.

use crate::store::DataEntry;
use nats_elect_core::name::DataKey;

/// A value of a role's data.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FencedEntry {
    /// The key, as it was given to [`put`](super::FencedStore::put).
    pub key: String,
    /// The value.
    pub value: Vec<u8>,
    /// The stream sequence of the write. An [`update`](super::FencedStore::update) is conditional
    /// on it.
    pub revision: u64,
}

impl FencedEntry {
    /// Returns `None` if the key is deleted.
    pub(super) fn of(key: &DataKey, entry: DataEntry) -> Option<Self> {
        Some(Self {
            key: key.to_string(),
            value: entry.value?,
            revision: entry.revision,
        })
    }
}
