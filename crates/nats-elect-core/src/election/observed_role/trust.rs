//! Which release is believed: how it is known to be its leader's.

use super::ObservedRole;
use crate::election::observed_record::{LastRecord, ObservedRecord};
use crate::moment::Moment;
use crate::mutation::mutated;
use crate::record::{SeenFence, SeenRecord};
use crate::release::ReleaseHash;

/// How a release is known to be its leader's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// By the fence record of the term that it ends, and by the record that stood there, if one was
    /// seen.
    Fence,
    /// By that record alone. There is no fence record, or its term is known to have ended.
    Record,
    /// By less than that. All leases that were seen before the release may last.
    ObservedRecord,
}

impl Trust {
    /// Until when other leases may last than the one of the released term.
    pub const fn others_until(self, latest: &ObservedRecord) -> Moment {
        match self {
            Self::Fence | Self::Record => latest.others_until,
            Self::ObservedRecord => latest.held_until,
        }
    }
}

impl ObservedRole {
    /// How far the observed release, if there is one, is known to be its leader's.
    pub(super) fn trust(&self, latest: &ObservedRecord) -> Option<Trust> {
        latest.release()?;
        mutated!(BelieveAnyRelease => return Some(Trust::Fence));
        let by_less = if latest.fits_record() {
            Trust::Record
        } else {
            Trust::ObservedRecord
        };
        let fence = self.fence.and_then(|fence| fence.record);
        match fence {
            // The writer of a forged release could have written the fence record, too. So the
            // record that was seen must fit as well.
            Some(fence) if releases(fence, latest.told) => match &latest.before {
                LastRecord::Of(hash) if latest.told != Some(*hash) => None,
                _ => Some(Trust::Fence),
            },
            // A claim was given back. It never had a fence record, and the term before it is over.
            Some(_) => self.has_ended().then_some(by_less),
            None => {
                let old_form =
                    matches!(latest.before, LastRecord::Plain { .. }) && latest.told.is_none();
                (latest.fits_record() || old_form).then_some(by_less)
            }
        }
    }

    pub(super) fn vouches_for(&self, record: &SeenRecord) -> bool {
        let fence = self.fence_nonce();
        fence.is_some_and(|nonce| record.incarnation == Some(nonce.incarnation))
    }

    /// Whether the known fence record may be of the record's very term. The same process may have
    /// led before.
    pub(super) fn is_fenced(&self, record: &SeenRecord) -> bool {
        mutated!(VouchByProcess => return true);
        let fenced = self.fence.and_then(|fence| fence.record?.release);
        fenced.is_none() || record.release.is_none() || fenced == record.release
    }

    /// Whether the term of the known fence record is known to have ended.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_some() && self.ended == self.fence_nonce()
    }
}

/// Whether a release with this secret's hash ends the term of this fence record. Versions that
/// write no hash release without a secret.
fn releases(fence: SeenFence, told: Option<ReleaseHash>) -> bool {
    fence.release.is_none_or(|hash| told == Some(hash))
}
