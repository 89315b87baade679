//! The link to the bucket: lost, unusable, new, or to another bucket than before.

use super::effect::Effect;
use super::phase::Phase;
use super::scene::Scene;
use crate::event::{EndCause, FailureKind};
use crate::lease::{Bucket, Failure, Held, Link};
use crate::moment::Moment;
use crate::mutation::mutated;

impl Phase {
    pub fn link_changed(mut self, at: &mut Scene, link: Link) -> Self {
        if !matches!(link, Link::Up(_)) {
            at.out_of_touch();
        }
        match &link {
            Link::Down { since } => {
                let since = if mutated!(CountGraceFromHearing) {
                    at.now
                } else {
                    *since
                };
                at.wire.link = link;
                self.suspend(at, since);
                let why = "the connection to NATS broke";
                self.refuse_proofs(at, u64::MAX, &Failure::new(FailureKind::Unavailable, why));
                self
            }
            Link::Unusable(failure) => {
                self.suspend(at, at.now);
                at.report(failure);
                let failure = failure.clone();
                at.wire.link = link;
                let mut phase = self.bucket_unusable(at, &failure);
                phase.refuse_proofs(at, u64::MAX, &failure);
                phase
            }
            Link::Up(bucket) => self.bucket_ready(at, *bucket),
        }
    }

    fn bucket_ready(self, at: &mut Scene, bucket: Bucket) -> Self {
        if let Some(failure) = bucket.unfit_for(at.settings.ttl) {
            let phase = self.link_changed(at, Link::Unusable(failure));
            // No other part finds the bucket unfit, so no other part looks at it again.
            at.wire.reopen_later(at.now);
            return phase;
        }
        let replaced = at.wire.linked(bucket);
        if replaced {
            at.observed_role.bucket_replaced(at.now);
        }
        at.observed_role.max_age = bucket.max_age;
        self.linked(at, replaced)
    }

    /// Handles a new link to the bucket. A leader proves itself by a heartbeat before it goes on.
    fn linked(mut self, at: &mut Scene, replaced: bool) -> Self {
        mutated!(ForgetDeadlineOnReconnect => self = self.extend_unproved(at));
        match &mut self {
            Self::Waiting(it) => it.must_read(at.now, false),
            _ if replaced => return self.lost(at, EndCause::BucketLost, None),
            Self::Leading(it) => it.held.renew_at = at.now,
            _ => {}
        }
        self
    }

    fn bucket_unusable(self, at: &mut Scene, failure: &Failure) -> Self {
        match failure.kind {
            FailureKind::BucketMissing | FailureKind::BucketUnfit => {
                self.lost(at, EndCause::BucketLost, None)
            }
            _ if failure.ends_term() => self.wind_down(at, EndCause::BucketLost),
            _ => self,
        }
    }
}

impl Scene {
    /// Asks for a look at the bucket, because this machine can't use the one that it was told of.
    /// It asks again until it is told of another.
    pub fn reopen(&mut self) {
        self.emit(Effect::Reopen);
        self.wire.reopen_later(self.now);
    }

    /// Since when there is no link, or heartbeats are late. An outage from before the last confirmed
    /// write was over when that was sent.
    pub fn out_of_touch_since(&self, held: Option<&Held>) -> Option<Moment> {
        let proved = held.map(|held| held.sent);
        self.suspended_since
            .map(|since| since.max(proved.unwrap_or_default()))
    }
}
