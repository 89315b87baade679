//! When the observed role is free, and until then why not.

use std::time::Duration;

use super::ObservedRole;
use super::trust::Trust;
use crate::election::observed_record::ObservedRecord;
use crate::event::WaitReason;
use crate::moment::Moment;
use crate::mutation::mutated;
use crate::record::Content;
use crate::release::ReleaseHash;

/// Why a role is not free, and who holds it.
#[derive(Debug)]
pub struct Wait {
    pub holder: Option<String>,
    pub why: WaitReason,
}

impl ObservedRole {
    /// When the role may be claimed over [`claim_over`](Self::claim_over). `None` if it was never
    /// seen.
    pub fn free_at(&self) -> Option<Moment> {
        let latest = self.latest.as_ref()?;
        mutated!(HeirsDoNotWait => if self.line().has(self.own_incarnation) {
            return Some(latest.received);
        });
        #[cfg(feature = "__mutations")]
        if let Some(free_at) = crate::election::breakages::free_at(
            latest.entry.as_ref(),
            latest.received,
            self.wait_for(latest),
        ) {
            return Some(free_at.max(self.quarantined_until));
        }
        let free_at = match self.trust(latest) {
            Some(trust) => trust
                .others_until(latest)
                .max(latest.received + self.left_to_heir(latest)),
            None if latest.ended => latest.received,
            None => latest
                .held_until
                .max(latest.received + self.wait_for(latest)),
        };
        Some(free_at.max(self.quarantined_until))
    }

    /// When the role would be free by the message in its key, without the fence record. That one
    /// may say that another instance led, but perhaps it is not the last fence record.
    pub fn free_by_record(&self) -> Option<Moment> {
        let latest = self.latest.as_ref()?;
        let disbelieved = latest.release().is_some() && self.trust(latest).is_none();
        let free_at = if disbelieved {
            latest.received
        } else {
            self.shown_until(latest)
        };
        Some(free_at.max(self.quarantined_until))
    }

    /// When the role would be free if the release with this hash came now.
    ///
    /// `None` if the last record that was seen is not of its term, because then the release would
    /// not be believed. A fence record that is not known yet is read when the release comes.
    pub fn free_if_released(&self, release: ReleaseHash) -> Option<Moment> {
        let latest = self
            .latest
            .as_ref()
            .filter(|latest| latest.is_of(release))?;
        Some(latest.others_until)
    }

    /// When the role would be free if its observed leader released it now.
    pub fn free_if_handed_over(&self) -> Moment {
        let latest = self.latest.as_ref();
        let others_until = latest.map(|latest| latest.others_until);
        self.quarantined_until.max(others_until.unwrap_or_default())
    }

    /// Whether the message in the role's key can be claimed over without another read of both keys,
    /// because the known fence record is of the same term.
    pub fn is_vouched(&self) -> bool {
        self.latest.as_ref().is_some_and(|latest| {
            let fenced = latest
                .record()
                .is_some_and(|record| self.vouches_for(record) && self.is_fenced(record));
            fenced || latest.own || self.trust(latest) == Some(Trust::Fence)
        })
    }

    /// Why the role is not free, and who holds it.
    pub fn wait(&self) -> Wait {
        let holder = match self.seen().map(|entry| &entry.content) {
            Some(Content::Record(record)) => Some(record.id.clone()),
            _ => None,
        };
        let latest = self.latest.as_ref();
        let shown = latest.map(|latest| self.shown_until(latest));
        let why = if self.free_at() == Some(self.quarantined_until) {
            WaitReason::Lost
        } else if shown < self.free_at() {
            WaitReason::FenceRecord
        } else {
            match latest.and_then(ObservedRecord::content) {
                Some(Content::Record(record)) if self.vouches_for(record) => WaitReason::Leader,
                Some(Content::Record(_)) => WaitReason::UnfencedRecord,
                Some(Content::Opaque) => WaitReason::UnreadableRecord,
                Some(Content::Release(_)) => WaitReason::UnprovenRelease,
                Some(Content::ForeignMarker) | None => WaitReason::Deleted,
            }
        };
        Wait { holder, why }
    }

    /// Until when a lease that was seen lasts, whatever is written over it now. Another write does
    /// not end it, because its holder may not know of that write yet. Only its release does.
    pub(super) fn held_after(&self, latest: &ObservedRecord) -> Moment {
        match self.trust(latest) {
            Some(trust) => trust.others_until(latest).max(latest.received),
            None if latest.ended => latest.received,
            None => self.shown_until(latest),
        }
    }

    /// Until when the observed leases last, without the lease of another term in the fence record.
    fn shown_until(&self, latest: &ObservedRecord) -> Moment {
        latest
            .held_until
            .max(latest.received + self.own_wait(latest))
    }

    /// How long this message must be watched unchanged before the role is free.
    pub(super) fn wait_for(&self, latest: &ObservedRecord) -> Duration {
        let own_wait = self.own_wait(latest);
        match latest.record() {
            Some(_) if latest.own => self.lease_before(None),
            Some(record) => own_wait.max(self.lease_before(record.incarnation)),
            None => own_wait,
        }
    }

    /// The same, without the lease of another term in the fence record.
    fn own_wait(&self, latest: &ObservedRecord) -> Duration {
        if latest.own || latest.untouched && self.fence.is_none() {
            return Duration::ZERO;
        }
        match latest.content() {
            // A copy of a record of ours was written by another client.
            Some(Content::Record(record)) if record.incarnation == Some(self.own_incarnation) => {
                self.longest()
            }
            Some(Content::Record(record)) if record.incarnation.is_some() => self.lease_of(record),
            // The writer may not have checked whether another instance still leads.
            Some(Content::Record(record)) => self.lease_of(record).max(self.longest()),
            Some(Content::Opaque) => self.default_lease().max(self.longest()),
            // Where keys expire, a key is not missing before the lease of its last writer is over.
            Some(Content::Release(_)) | None => self.longest_told(),
            Some(Content::ForeignMarker) => self.longest(),
        }
    }

    /// How long a released role is left to its heir. The wait is a courtesy and protects nothing.
    fn left_to_heir(&self, latest: &ObservedRecord) -> Duration {
        match latest.release().and_then(|release| release.heir) {
            Some(heir) if heir != self.own_incarnation => self.handoff_hold,
            _ => Duration::ZERO,
        }
    }
}
