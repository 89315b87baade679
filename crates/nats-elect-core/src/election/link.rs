//! The link to the bucket: lost, unusable, new, or to another bucket than before.

use super::effect::Effect;
use super::machine::Election;
use super::phase::Phase;
use crate::event::{EndCause, FailureKind};
use crate::lease::{Bucket, Failure, Held, Link};
use crate::moment::Moment;
use crate::mutation::mutated;

impl Election {
    /// Why the bucket cannot be used although NATS is connected. `None` if it can be, or if there
    /// is no connection.
    pub const fn link_failure(&self) -> Option<&Failure> {
        match &self.wire.link {
            Link::Unusable(failure) => Some(failure),
            Link::Down { .. } | Link::Up(_) => None,
        }
    }

    pub(super) fn link_changed(&mut self, link: Link) {
        if !matches!(link, Link::Up(_)) {
            self.out_of_touch();
        }
        match &link {
            Link::Down { since } => {
                let since = if mutated!(CountGraceFromHearing) {
                    self.now
                } else {
                    *since
                };
                self.wire.link = link;
                self.suspend(since);
                let why = "the connection to NATS broke";
                self.refuse_proofs(u64::MAX, &Failure::new(FailureKind::Unavailable, why));
            }
            Link::Unusable(failure) => {
                self.suspend(self.now);
                self.report(failure);
                let failure = failure.clone();
                self.wire.link = link;
                self.bucket_unusable(&failure);
                self.refuse_proofs(u64::MAX, &failure);
            }
            Link::Up(bucket) => self.bucket_ready(*bucket),
        }
    }

    fn bucket_ready(&mut self, bucket: Bucket) {
        if let Some(failure) = bucket.unfit_for(self.settings.ttl) {
            self.link_changed(Link::Unusable(failure));
            // No other part finds the bucket unfit, so no other part looks at it again.
            self.wire.reopen_later(self.now);
            return;
        }
        let (replaced, breaker) = self.wire.linked(bucket);
        self.note_breaker(breaker);
        if replaced {
            self.observed_role.bucket_replaced(self.now);
        }
        self.observed_role.bucket_max_age(bucket.max_age);
        self.linked(replaced);
    }

    /// Asks for a look at the bucket, because this machine can't use the one that it was told of.
    /// It asks again until it is told of another.
    pub(super) fn reopen(&mut self) {
        self.emit(Effect::Reopen);
        self.wire.reopen_later(self.now);
    }

    /// Handles a new link to the bucket. A leader proves itself by a heartbeat before it goes on.
    fn linked(&mut self, replaced: bool) {
        mutated!(ForgetDeadlineOnReconnect => self.extend_unproved());
        match &mut self.phase {
            Phase::Waiting(_) => self.must_read(self.now, false),
            _ if replaced => self.lost(EndCause::BucketLost, None),
            Phase::Leading(leadership) => leadership.held.renew_at = self.now,
            _ => {}
        }
    }

    fn bucket_unusable(&mut self, failure: &Failure) {
        match failure.kind {
            FailureKind::BucketMissing | FailureKind::BucketUnfit => {
                self.lost(EndCause::BucketLost, None);
            }
            _ if failure.ends_term() => self.wind_down(EndCause::BucketLost),
            _ => {}
        }
    }

    /// Ends the term, because an outage has lasted for the whole grace period.
    pub(super) fn grace_over(&mut self, since: Moment) {
        let is_over =
            not_before_proof(since, self.phase.held()) > since && !mutated!(ObeyOldGraceOver);
        if !is_over {
            self.wind_down(EndCause::ConnectionLost);
        }
    }

    /// Since when there is no link, or heartbeats are late.
    pub(super) fn out_of_touch_since(&self, held: Option<&Held>) -> Option<Moment> {
        self.suspended_since
            .map(|since| not_before_proof(since, held))
    }
}

/// This moment or, if it is later, the one when the last confirmed write was sent: an outage from
/// before that was over then.
fn not_before_proof(since: Moment, held: Option<&Held>) -> Moment {
    held.map_or(since, |held| held.sent.max(since))
}
