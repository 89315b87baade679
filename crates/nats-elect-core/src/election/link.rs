//! The link to the bucket: lost, unusable, new, or to another bucket than before.

use super::effect::Effect;
use super::machine::Election;
use super::phase::Phase;
use crate::duration::exact;
use crate::event::{EndCause, FailureKind};
use crate::lease::{Bucket, Failure, Link};
use crate::moment::Moment;
use crate::mutation::mutated;

impl Election {
    /// Whether a request can be sent to NATS now.
    pub(super) fn may_send(&self) -> bool {
        let linked = matches!(self.link, Link::Up(_)) || mutated!(SendWhileDown);
        linked && !self.operations.is_busy()
    }

    /// Why the bucket cannot be used although NATS is connected. `None` if it can be, or if there
    /// is no connection.
    pub const fn link_failure(&self) -> Option<&Failure> {
        match &self.link {
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
                self.link = link;
                self.suspend(since);
                let detail = "the connection to NATS broke".to_owned();
                self.refuse_proofs(
                    u64::MAX,
                    &Failure {
                        kind: FailureKind::Unavailable,
                        detail,
                    },
                );
            }
            Link::Unusable(failure) => {
                self.suspend(self.now);
                self.report(failure);
                let failure = failure.clone();
                self.link = link;
                self.bucket_unusable(&failure);
                self.refuse_proofs(u64::MAX, &failure);
            }
            Link::Up(bucket) => self.bucket_ready(*bucket),
        }
    }

    fn bucket_ready(&mut self, bucket: Bucket) {
        if let Some(max_age) = bucket
            .max_age
            .filter(|max_age| *max_age < self.settings.ttl)
        {
            let detail = format!(
                "the bucket drops keys after {}, before the lease of {} ends: choose a shorter ttl or a longer max age",
                exact(max_age),
                exact(self.settings.ttl)
            );
            self.link_changed(Link::Unusable(Failure {
                kind: FailureKind::BucketUnfit,
                detail,
            }));
            // No other part finds the bucket unfit, so no other part looks at it again.
            self.reopen_later();
            return;
        }
        if !matches!(self.link, Link::Up(_)) {
            let breaker = self.retry.begin_anew();
            self.note_breaker(breaker);
        }
        self.link = Link::Up(bucket);
        let replaced = self
            .bucket
            .replace(bucket)
            .is_some_and(|old| old.epoch != bucket.epoch && !mutated!(IgnoreEpoch));
        if replaced {
            self.operations.bucket_replaced();
            self.attempts.forget_all();
            self.observed_role.bucket_replaced(self.now);
        }
        self.observed_role.bucket_max_age(bucket.max_age);
        self.linked(replaced);
    }

    /// Asks for a look at the bucket, because this machine can't use the one that it was told of.
    /// It asks again until it is told of another.
    pub(super) fn reopen(&mut self) {
        self.emit(Effect::Reopen);
        self.reopen_later();
    }

    fn reopen_later(&mut self) {
        mutated!(AskOnceForALook => return);
        self.reopen_at = Some(self.now + self.settings.retry.max_backoff);
    }

    /// Handles a new link to the bucket. A leader proves itself by a heartbeat before it goes on.
    fn linked(&mut self, replaced: bool) {
        let now = self.now;
        mutated!(ForgetDeadlineOnReconnect => self.extend_unproved());
        match &mut self.phase {
            Phase::Waiting(_) => self.must_read(now, false),
            _ if replaced => self.lost(EndCause::BucketLost, None),
            Phase::Leading(leadership) => leadership.keeper.renew_at = now,
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
        let is_over = self.not_before_proof(since) > since && !mutated!(ObeyOldGraceOver);
        if !is_over {
            self.wind_down(EndCause::ConnectionLost);
        }
    }

    /// Since when there is no link, or heartbeats are late.
    pub(super) fn out_of_touch_since(&self) -> Option<Moment> {
        self.suspended_since
            .map(|since| self.not_before_proof(since))
    }

    /// This moment or, if it is later, the one when the last confirmed write was sent: an outage
    /// from before that was over then.
    fn not_before_proof(&self, since: Moment) -> Moment {
        let held = self.phase.held();
        held.map_or(since, |held| held.sent.max(since))
    }
}
