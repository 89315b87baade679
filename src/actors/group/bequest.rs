//! What a companion process is told of this member.

use super::{GroupState, Stopping};
use crate::model::bequests::{Lease, Will};

impl GroupState {
    /// Notes the epoch for a companion process: before a unit's handler can start under it, and no more
    /// once it was lost, or others are to wait for its lease.
    pub(super) fn bequeath(&mut self) {
        let Some(bequests) = &self.bequests else {
            return;
        };
        let is_kept = self.stopping == Some(Stopping::Keeping);
        let epoch = self.member.epoch().filter(|_| !is_kept);
        let now = epoch.zip(self.bucket_epoch());
        // Without a link the bucket is still the same one.
        let now = now.or(self.bequeathed.filter(|it| epoch == Some(it.0)));
        let before = std::mem::replace(&mut self.bequeathed, now);
        if before == now {
            return;
        }
        let of = |epoch| Lease::Member(self.scope.name.clone(), epoch);
        if let Some((former, _)) = before.filter(|it| epoch != Some(it.0)) {
            bequests.set(&of(former), None);
        }
        if let Some((epoch, bucket)) = now {
            let ttl = self.scope.settings.ttl;
            bequests.set(&of(epoch), Some(Will::Epoch { bucket, ttl }));
        }
    }
}
