//! The wire to the bucket: one request at a time, and what each answer is an answer to.

use std::time::Duration;

use uuid::Uuid;

use super::attempts::{Attempt, Attempts, Secrets};
use super::input::{Failure, OpId, TermId, WriteOutcome};
use super::link::{Bucket, Link};
use super::operations::{Operation, Operations};
use super::retry::{AdaptiveTimeout, Retry};
use crate::config::RetrySettings;
use crate::event::BucketRequest;
use crate::moment::Moment;
use crate::mutation::mutated;
use crate::record::Nonce;

/// What sends the requests of one lease, and sorts their answers.
#[derive(Clone, Debug, Hash)]
pub struct Wire {
    pub link: Link,
    /// The bucket last used. It is kept while there is no link.
    pub bucket: Option<Bucket>,
    pub attempts: Attempts,
    pub operations: Operations,
    pub retry: Retry,
    /// When to ask for another look at the bucket, if its user gave up the link.
    pub reopen_at: Option<Moment>,
}

impl Wire {
    /// Forgets what decides nothing from `now` on, for model checkers. A confirmed write starts no other
    /// lease.
    pub fn forget_what_is_over(&mut self, now: Moment) {
        self.attempts.forget_sending();
        self.retry.forget_what_is_over(now);
        self.reopen_at = self.reopen_at.map(|at| at.max(now));
    }

    pub fn new(
        incarnation: Uuid,
        first_beat: u64,
        retry: RetrySettings,
        timeout: AdaptiveTimeout,
        now: Moment,
    ) -> Self {
        Self {
            link: Link::Down { since: now },
            bucket: None,
            attempts: Attempts::new(incarnation, first_beat),
            operations: Operations::new(timeout),
            retry: Retry::new(retry),
            reopen_at: None,
        }
    }

    pub const fn is_up(&self) -> bool {
        matches!(self.link, Link::Up(_))
    }

    /// Whether a request can be sent to NATS now.
    pub fn may_send(&self) -> bool {
        (self.is_up() || mutated!(SendWhileDown)) && !self.operations.is_busy()
    }

    /// Whether a sequence tells which bucket it is of.
    pub fn has_unique_sequences(&self) -> bool {
        self.bucket.is_some_and(|bucket| bucket.unique_sequences)
    }

    /// Takes the link to a bucket that can be used. Returns whether it is another bucket than
    /// before.
    pub fn linked(&mut self, bucket: Bucket) -> bool {
        if !self.is_up() {
            self.retry.begin_anew();
        }
        self.link = Link::Up(bucket);
        let old = self.bucket.replace(bucket);
        let replaced = old.is_some_and(|old| old.epoch != bucket.epoch) && !mutated!(IgnoreEpoch);
        if replaced {
            self.operations.bucket_replaced();
            self.attempts.forget_all();
        }
        replaced
    }

    /// Notes that the bucket can't be used as it is. Another look at it is due later.
    pub fn reopen_later(&mut self, now: Moment) {
        mutated!(AskOnceForALook => return);
        self.reopen_at = Some(now + self.retry.longest());
    }

    /// Remembers a write that is sent now. Returns its number, its timeout and its nonce.
    pub fn send(
        &mut self,
        request: BucketRequest,
        term: TermId,
        secrets: Secrets,
        over: u64,
        beside: u64,
        now: Moment,
    ) -> (OpId, Duration, Nonce) {
        debug_assert!(
            self.may_send(),
            "one write at a time, and none without a link"
        );
        let attempt = self
            .attempts
            .open(request, term, secrets, over, beside, now);
        let (op, within) = self.operations.begin(Operation::Write(attempt));
        (op, within, self.attempts.nonce(attempt.beat))
    }

    /// Remembers a read that is sent now. Returns its number and its timeout.
    pub fn read(&mut self, now: Moment) -> (OpId, Duration) {
        debug_assert!(
            self.may_send(),
            "one request at a time, and none without a link"
        );
        self.operations.begin(Operation::Read { sent: now })
    }

    /// Takes the answer to a write, or the reason why there is none. `None` if it tells nothing: the
    /// write has ended before, or went to a bucket that was replaced. After the timeout only a
    /// confirmation counts.
    pub fn write_ended(
        &mut self,
        op: OpId,
        outcome: &WriteOutcome,
        now: Moment,
    ) -> Option<Attempt> {
        let (failure, acked) = match outcome {
            WriteOutcome::Failed(failure) => (Some(failure), false),
            outcome => (None, matches!(outcome, WriteOutcome::Acked { .. })),
        };
        let what = self.operations.finish(op, failure, acked, now);
        let Some(Operation::Write(write)) = what else {
            return None;
        };
        if let WriteOutcome::Acked { revision } = outcome {
            self.attempts.settle(write.beat, *revision);
        }
        if failure.is_none() {
            self.retry.succeeded(write.request);
        }
        Some(write)
    }

    /// Takes the answer to a read, or the reason why there is none. Returns when the read was sent,
    /// if the answer counts.
    pub fn read_ended(
        &mut self,
        op: OpId,
        failure: Option<&Failure>,
        now: Moment,
    ) -> Option<Moment> {
        let what = self.operations.finish(op, failure, failure.is_none(), now);
        let Some(Operation::Read { sent }) = what else {
            return None;
        };
        if failure.is_none() {
            self.retry.succeeded(BucketRequest::Read);
        }
        Some(sent)
    }
}
