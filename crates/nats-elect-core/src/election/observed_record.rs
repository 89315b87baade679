//! What stands in a role's key, and what was seen before it.

use uuid::Uuid;

use crate::moment::Moment;
use crate::record::{Content, Entry, Release, SeenRecord};
use crate::release::ReleaseHash;

/// What was last seen under the role's key, and since when.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct ObservedRecord {
    pub entry: Option<Entry>,
    pub received: Moment,
    /// Leases that were seen before and that nobody released last until then, whatever was written over them.
    pub held_until: Moment,
    /// A record of our own that this instance remembers to have written.
    pub own: bool,
    /// Nothing was ever seen of the role, neither under its key nor under its fence key.
    pub untouched: bool,
    /// The hash of the secret that a release tells.
    pub told: Option<ReleaseHash>,
    /// The last record seen before.
    pub before: LastRecord,
    /// Leases of records whose release would be known by another hash than the last one's, and that were not released.
    pub others_until: Moment,
    /// An operator says that whoever wrote it leads no more.
    pub ended: bool,
    /// It is a release that was believed by the fence record that was known before the next.
    pub released: bool,
}

impl ObservedRecord {
    pub fn content(&self) -> Option<&Content> {
        self.entry.as_ref().map(|entry| &entry.content)
    }

    pub fn release(&self) -> Option<&Release> {
        match self.content() {
            Some(Content::Release(release)) => Some(release),
            _ => None,
        }
    }

    /// Whether it is a record that a release with this hash is of.
    pub fn is_of(&self, told: ReleaseHash) -> bool {
        self.record()
            .is_some_and(|record| record.release == Some(told))
    }

    /// Whether it is a release of the record that was seen before it.
    pub fn fits_record(&self) -> bool {
        matches!((&self.before, self.told), (LastRecord::Of(hash), Some(told)) if *hash == told)
    }

    pub fn record(&self) -> Option<&SeenRecord> {
        match self.content() {
            Some(Content::Record(record)) => Some(record),
            _ => None,
        }
    }
}

/// By what the release of the last record that was seen would be known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LastRecord {
    /// None was seen.
    Unseen,
    /// It showed no hash, as those of older versions and other libraries.
    Plain {
        id: String,
        incarnation: Option<Uuid>,
    },
    Of(ReleaseHash),
}

impl LastRecord {
    pub fn of(record: &SeenRecord) -> Self {
        record.release.map_or_else(
            || Self::Plain {
                id: record.id.clone(),
                incarnation: record.incarnation,
            },
            Self::Of,
        )
    }
}
