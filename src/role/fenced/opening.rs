//! The fence of a term's writes, and how the term of a unit raises it.
//!
//! A term writes under a sequence of its fence key.
//!
//! For a role it is in the term's token: the fence record was written before the term began. A unit of
//! a group with one map has no record. Its term *opens* its store at the first use, before anything is
//! read or written. It writes its token to the unit's fence key, over exactly what it read there: a
//! lower token, or nothing that a member can have written.
//!
//! A write of an older term never takes effect once a newer term of the same unit, in the same bucket,
//! has opened its store:
//!
//! - A write is stored only while the fence key is at the sequence at which its own term raised it, and
//!   the key never comes back to that sequence.
//! - The older term can't raise the fence again. It finds the greater token, or its attempt is made
//!   over a sequence at which the key no longer is.
//!
//! Neither clocks nor leases take part, however late a message arrives. A fence key that was deleted,
//! purged or overwritten by hand ends the term, as for a role, and the next one raises it anew. Until
//! then only its lease, which is over, keeps an older term from raising it.

use super::FencedStore;
use super::attempts::Attempts;
use super::data_bucket::DataBucket;
use super::error::FencedError;
use super::unread;
use super::writing::Next;
use crate::clock;
use crate::store::{Bucket, DataOwner, StoreError};
use nats_elect_core::Moment;
use nats_elect_core::assignment::UnitFence;

impl FencedStore {
    /// Returns the sequence of the term's fence, which is raised before if the term's store was not
    /// opened yet. Callers share one attempt. Whoever is dropped leaves it to the next caller.
    pub(super) async fn open(&self, until: Moment) -> Result<u64, FencedError> {
        let DataOwner::Unit(_) = self.setup().owner else {
            return Ok(self.term.fencing_token().sequence);
        };
        if let Some(sequence) = self.term.0.fence.get() {
            return Ok(*sequence);
        }
        let raising = self.term.0.fence.get_or_try_init(|| self.raise(until));
        let raised = tokio::time::timeout(until.since(clock::now()), raising).await;
        let late = |_| {
            let reason = "the unit's fence was not raised in time".into();
            Err(FencedError::Unavailable { reason })
        };
        raised.unwrap_or_else(late).copied()
    }

    /// Opens the store for a read. The store of a term that is over stays as it is.
    pub(super) async fn opened(&self) -> Result<DataBucket, FencedError> {
        match self.open(clock::now() + self.timeout).await {
            Ok(_) | Err(FencedError::NotLeader) => self.bucket(),
            Err(error) => Err(error),
        }
    }

    async fn raise(&self, until: Moment) -> Result<u64, FencedError> {
        let mut attempts = Attempts::new(self, until);
        loop {
            let reason = match self.usable()? {
                None => "not connected".into(),
                Some((bucket, _)) => {
                    let Some(bucket) = bucket.in_nats() else {
                        // A test made it for this one term.
                        return Ok(self.term.fencing_token().sequence);
                    };
                    match self.raise_once(bucket, &attempts).await {
                        Ok(sequence) => return Ok(sequence),
                        Err(Next::GiveUp(error)) => return Err(error),
                        Err(Next::Pause(reason) | Next::Doubt(reason)) => reason,
                        Err(Next::Mended) => continue,
                    }
                }
            };
            attempts.pause(&reason).await?;
        }
    }

    /// An attempt. What became of one without an answer is read by the next one.
    async fn raise_once(&self, bucket: &Bucket, attempts: &Attempts<'_>) -> Result<u64, Next> {
        let owner = &self.setup().owner;
        let ours = UnitFence {
            token: self.term.fencing_token(),
            term: self.term.0.correlation_id.clone(),
        };
        let patience = attempts.left() / 2;
        let reading = bucket.unit_fence(owner, ours.token.epoch, patience);
        let (sequence, stands) = reading.await.map_err(|error| after(&error))?;
        match stands {
            Some(stands) if stands == ours => return Ok(sequence),
            Some(stands) if stands.token >= ours.token => {
                return Err(Next::GiveUp(self.superseded(sequence)));
            }
            _ => {}
        }
        // What was read may be newer than this term.
        self.may_send().map_err(Next::GiveUp)?;
        let patience = attempts.left() / 2;
        let raising = bucket.raise_unit_fence(owner, sequence, &ours, patience);
        raising.await.map_err(|error| after(&error))
    }
}

/// The next step after an attempt that failed. Nothing of the caller's was sent.
fn after(error: &StoreError) -> Next {
    if matches!(error, StoreError::Conflict { .. }) {
        return Next::Pause(error.to_string());
    }
    match unread(error) {
        FencedError::Unavailable { reason } => Next::Pause(reason),
        refused => Next::GiveUp(refused),
    }
}
