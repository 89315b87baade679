//! The message under a role's key, and what was seen before it.

use uuid::Uuid;

use crate::moment::Moment;
use crate::record::{Content, Entry, Release, SeenRecord};
use crate::release::ReleaseHash;

/// The message last seen under the role's key, and since when.
#[derive(Clone, Debug, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct ObservedRecord {
    pub entry: Option<Entry>,
    pub received: Moment,
    /// The end of the leases that were seen before and not released, whatever was written over
    /// them.
    pub held_until: Moment,
    /// Whether it is a record of our own that this instance remembers writing.
    pub own: bool,
    /// Whether nothing was ever seen of the role, neither under its key nor under its fence key.
    pub untouched: bool,
    /// The hash of the secret that a release tells.
    pub told: Option<ReleaseHash>,
    /// The last record seen before.
    pub before: LastRecord,
    /// The end of the leases of displaced records: records with another release hash than the last
    /// one, which were not released.
    pub others_until: Moment,
    /// Whether an operator said that its writer no longer leads.
    pub ended: bool,
    /// Whether it is a release that the then known fence record proved, before the next fence
    /// record came.
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

    /// Whether it is a record of the term that a release with this hash ends.
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

/// How the release of the last record that was seen can be recognised.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LastRecord {
    /// No record was seen.
    Unseen,
    /// The record showed no hash, like those of older versions and other libraries.
    Plain {
        id: String,
        incarnation: Option<Uuid>,
    },
    /// By this hash of its secret.
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
