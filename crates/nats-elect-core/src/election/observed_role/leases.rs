//! How long the leases of the observed leaders may last.

use std::time::Duration;

use uuid::Uuid;

use super::ObservedRole;
use crate::election::observed_record::ObservedRecord;
use crate::mutation::mutated;
use crate::record::SeenRecord;

/// Where there is no fence record at all, a record's unproved lease counts up to this many times
/// our own ttl.
const MOST_UNVOUCHED: u32 = 4;

impl ObservedRole {
    /// The lease of a record that does not tell its own.
    pub(super) fn default_lease(&self) -> Duration {
        self.max_age.unwrap_or(self.own_ttl)
    }

    /// The lease of a record. The lease of a leader is the one in its fence record. A lease that
    /// only the record itself claims is limited to the longest that may be true.
    pub(super) fn lease_of(&self, record: &SeenRecord) -> Duration {
        let lease = record.ttl.unwrap_or_else(|| self.default_lease());
        if self.vouches_for(record) {
            let fence = self.fence.and_then(|fence| fence.record);
            return fence.and_then(|fence| fence.ttl).unwrap_or(lease);
        }
        let led = self.led.filter(|(who, _)| record.incarnation == Some(*who));
        if let Some((_, lease)) = led {
            return lease;
        }
        if record.ttl.is_none() || mutated!(BelieveAnyLease) {
            return lease;
        }
        let known = self.knows_fence_record();
        let most = match self.max_age {
            // The known fence record is of another instance, and this record's writer was never
            // seen to lead.
            _ if known => self.own_ttl,
            // Fence records may expire while their leaders lead.
            Some(max_age) => self.own_ttl.max(max_age),
            None => self.own_ttl.saturating_mul(MOST_UNVOUCHED),
        };
        lease.min(most)
    }

    pub(super) fn note_led(&mut self) {
        let record = self.latest.as_ref().and_then(ObservedRecord::record);
        if let Some(record) = record.filter(|record| self.vouches_for(record)) {
            self.led = record.incarnation.map(|who| (who, self.lease_of(record)));
        }
    }

    /// The longest lease that an unseen leader may hold. Where keys expire, a fence record may
    /// expire while its leader leads.
    pub(super) fn longest(&self) -> Duration {
        mutated!(ForgetExpiredFences => return self.longest_told());
        let expired = self.max_age.filter(|_| !self.knows_fence_record());
        self.longest_told().max(expired.unwrap_or_default())
    }

    /// The same, if every leader's fence record is still there.
    pub(super) fn longest_told(&self) -> Duration {
        mutated!(IgnoreFenceLease => return self.own_ttl);
        let fenced = self.fenced_lease.filter(|_| !self.has_ended());
        fenced.map_or(self.own_ttl, |(_, lease)| lease.max(self.own_ttl))
    }

    /// The lease of the last term, if neither `holder` nor this instance had it and it is not known
    /// to have ended.
    pub(super) fn lease_before(&self, holder: Option<Uuid>) -> Duration {
        let own = self.own_incarnation;
        mutated!(IgnoreFenceLease => return Duration::ZERO);
        self.fence
            .and_then(|fence| fence.record)
            .filter(|record| {
                let incarnation = record.nonce.incarnation;
                incarnation != own
                    && Some(incarnation) != holder
                    && self.ended != Some(record.nonce)
            })
            .and_then(|record| record.ttl)
            .unwrap_or_default()
    }
}
