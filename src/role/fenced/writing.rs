//! The course of one write call, and the meaning of a refusal.

use std::pin::{Pin, pin};
use std::sync::Arc;

use futures::future::BoxFuture;

use super::attempts::Attempts;
use super::data_bucket::DataBucket;
use super::entry::FencedEntry;
use super::error::FencedError;
use super::{FencedStore, LANES};
use crate::clock;
use crate::role::scope::Request;
use crate::store::{BucketInfo, DataWrite, StoreError, is_closed, is_unsent};

/// The reason why a call was given up.
const WOUND_DOWN: &str =
    "no answer came in time for the handler to end: its term is being wound down";
/// The reason why an attempt is in doubt.
const BEHIND: &str = "refused by a server that may be behind";

/// The next step after an attempt.
pub(super) enum Next {
    /// Try again after a pause. The attempt stored nothing.
    Pause(String),
    /// Try again after a pause. The attempt may have been stored, by another server than the one
    /// that refused it.
    Doubt(String),
    /// Try again at once. The expected revision of a deleted key has been corrected.
    Mended,
    GiveUp(FencedError),
}

impl FencedStore {
    /// Writes all of these, or nothing. Returns their revisions. Compiled here, and not in each
    /// program.
    pub(super) fn write<'a>(
        &'a self,
        changes: &'a [DataWrite],
    ) -> BoxFuture<'a, Result<Vec<u64>, FencedError>> {
        Box::pin(self.call(changes))
    }

    async fn call(&self, changes: &[DataWrite]) -> Result<Vec<u64>, FencedError> {
        let until = clock::now() + self.timeout;
        let opening = pin!(self.open(until));
        let fence = self.in_time(opening).await.ok_or_else(wound_down)??;
        let reserved = match &self.term.0.allowance {
            Some(allowance) => {
                self.may_send()?;
                let bucket = self.bucket()?;
                let reserving =
                    allowance.reserve(&bucket, &self.setup().owner, changes, self.timeout);
                let reserving = pin!(reserving);
                Some(self.in_time(reserving).await.ok_or_else(wound_down)??)
            }
            None => None,
        };
        let mut call = Call {
            store: self,
            fence,
            changes,
            writes: changes.to_vec(),
            attempts: Attempts::new(self, until),
            doubt: None,
            is_sent: false,
        };
        let tried = {
            let trying = pin!(call.try_on());
            self.in_time(trying).await
        };
        let written = match tried {
            Some(written) => written,
            None if call.is_sent => Err(FencedError::Unconfirmed {
                reason: WOUND_DOWN.into(),
            }),
            None => Err(wound_down()),
        };
        let written = written.map_err(|error| in_doubt(error, call.doubt));
        if let Some(reserved) = reserved {
            reserved.settle(&written);
        }
        written
    }

    /// Runs a request, but gives it up in time for the handler to end when the term is wound down.
    pub(super) async fn in_time<T>(&self, request: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        tokio::select! {
            biased;
            answer = request => Some(answer),
            () = self.term.0.must_end() => None,
        }
    }

    pub(super) fn may_send(&self) -> Result<(), FencedError> {
        if self.term.is_valid() || self.unchecked {
            Ok(())
        } else {
            Err(FencedError::NotLeader)
        }
    }

    /// Returns the bucket and its properties, if this term may write and there is a connection.
    pub(super) fn usable(&self) -> Result<Option<(DataBucket, Arc<BucketInfo>)>, FencedError> {
        self.may_send()?;
        let Some(bucket) = self.setup().data.bucket() else {
            return Ok(None);
        };
        let Some(info) = bucket.info() else {
            return Ok(None);
        };
        if info.epoch != self.term.fencing_token().epoch {
            // The election learns of it too. In this bucket the term's fence means nothing.
            return Err(FencedError::NotLeader);
        }
        Ok(Some((bucket, info)))
    }

    /// Ends the term, whose fence is at this other sequence.
    pub(super) fn superseded(&self, fence: u64) -> FencedError {
        // A term that is over has nothing left to end. After a crash of its election another term
        // may have its number.
        if self.term.is_valid() {
            (self.term.0.setup.ask)(Request::Superseded {
                term: self.term.0.start.term,
            });
        }
        FencedError::Superseded { fence }
    }
}

/// One call, from its first attempt to its last.
struct Call<'a> {
    store: &'a FencedStore,
    /// The sequence at which the term's fence stands.
    fence: u64,
    changes: &'a [DataWrite],
    /// The changes as they are sent, in the same order.
    writes: Vec<DataWrite>,
    attempts: Attempts<'a>,
    /// The reason why an attempt before the last may have been stored.
    doubt: Option<String>,
    /// Whether an attempt is under way that may be stored.
    is_sent: bool,
}

impl Call<'_> {
    /// Tries until the changes are written or must be given up.
    async fn try_on(&mut self) -> Result<Vec<u64>, FencedError> {
        loop {
            let Some(bucket) = self.may_write()? else {
                self.attempts.pause("not connected").await?;
                continue;
            };
            self.is_sent = true;
            let attempted = self.attempt(&bucket).await;
            self.is_sent = false;
            let error = match attempted {
                Ok(revisions) => return Ok(revisions),
                Err(error) => error,
            };
            match self.judge(&bucket, error).await {
                Next::Pause(reason) => self.attempts.pause(&reason).await?,
                Next::Doubt(reason) => {
                    self.doubt = Some(reason.clone());
                    self.attempts.pause(&reason).await?;
                }
                Next::Mended => {}
                Next::GiveUp(error) => return Err(error),
            }
        }
    }

    /// Returns the bucket, if anything may be sent now.
    fn may_write(&self) -> Result<Option<DataBucket>, FencedError> {
        let Some((bucket, info)) = self.store.usable()? else {
            return Ok(None);
        };
        if info.max_age.is_some() {
            return Err(unsupported(
                "keys of this bucket expire (max age), fence records among them: use a bucket without a max age, as \
                 `bucket_auto_create` makes it",
            ));
        }
        let batched = !is_single(&self.writes);
        if !info.atomic && batched {
            return Err(unsupported(
                "this bucket has no atomic batches, which `create`, `update` and `batch` need: on nats-server 2.12 set \
                 `allow_atomic` (`nats stream edit --allow-batch`), or let the bucket be made by `bucket_auto_create`",
            ));
        }
        let owner = &self.store.setup().owner;
        let most = bucket.largest_value(owner, self.fence, batched);
        for write in &self.writes {
            let bytes = write.value.as_ref().map_or(0, Vec::len);
            if bytes > most {
                let key = write.key.to_string();
                return Err(FencedError::TooLarge { key, bytes, most });
            }
        }
        Ok(Some(bucket))
    }

    async fn attempt(&self, bucket: &DataBucket) -> Result<Vec<u64>, StoreError> {
        // In a replicated bucket the server refuses a write that meets another write under the same
        // fence on its way.
        let lanes = if is_replicated(bucket) { LANES } else { 1 };
        let lanes = self.store.term.0.lanes.acquire_many(lanes);
        let busy = || StoreError::Unavailable("other writes of this term are under way".into());
        let _lanes = tokio::time::timeout(self.attempts.until.since(clock::now()), lanes)
            .await
            .map_err(|_| busy())?
            .map_err(|_| busy())?;
        let left = self.attempts.left();
        if left.is_zero() {
            return Err(busy());
        }
        let fence = self.fence;
        match &self.writes[..] {
            [write] if write.over.is_none() => {
                let value = write.value.as_deref();
                let written =
                    bucket.write_fenced(&self.store.setup().owner, fence, &write.key, value, left);
                Ok(vec![written.await?])
            }
            writes => {
                let last = bucket
                    .write_batch(&self.store.setup().owner, fence, writes, left)
                    .await?;
                let first = last + 1 - writes.len() as u64;
                Ok((first..=last).collect())
            }
        }
    }

    async fn judge(&mut self, bucket: &DataBucket, error: StoreError) -> Next {
        let reason = error.to_string();
        match error {
            StoreError::Conflict { current } => self.refused(bucket, current).await,
            error if is_closed(&error) => Next::GiveUp(FencedError::Unconfirmed { reason }),
            error @ StoreError::PermissionDenied(_) => Next::GiveUp(if is_unsent(&error) {
                FencedError::Refused { reason }
            } else {
                FencedError::Unconfirmed { reason }
            }),
            error if is_unsent(&error) || !is_replicated(bucket) && error.is_refusal() => {
                Next::Pause(reason)
            }
            error if error.is_refusal() => Next::Doubt(reason),
            // An answer that can't be read may be a confirmation.
            StoreError::Timeout { .. }
            | StoreError::Uncertain(_)
            | StoreError::Rejected { code: 0, .. } => {
                Next::GiveUp(FencedError::Unconfirmed { reason })
            }
            StoreError::Unsupported(_) => Next::GiveUp(FencedError::Unsupported(reason)),
            _ => Next::GiveUp(FencedError::Refused { reason }),
        }
    }

    /// Finds out why a condition did not hold on the server that answered. It is either the fence's
    /// condition or a key's. `told` is the current sequence that the server returned for the
    /// subject it checked.
    ///
    /// A fence key never goes back to a sequence that it left. If it is read at our sequence, it
    /// was there when the write came. If it is read above our sequence, the term is over.
    ///
    /// A fence below our sequence proves nothing by itself. A server that was replaced as the
    /// stream's leader refuses, and reads, by an older state of the stream. So a write checks
    /// whether the fence has really gone back.
    async fn refused(&mut self, bucket: &DataBucket, told: Option<u64>) -> Next {
        let owner = &self.store.setup().owner;
        let ours = self.fence;
        let fence = match bucket.fence_sequence(owner, self.attempts.reading()).await {
            Ok(fence) => fence,
            Err(error) => return self.unexplained(bucket, told, &error),
        };
        if fence > ours {
            return Next::GiveUp(self.store.superseded(fence));
        }
        if fence < ours {
            let stale =
                || Next::Doubt("refused by what stood there before the fence was written".into());
            if told != Some(fence) {
                return stale();
            }
            let proving = bucket.prove(owner, None, fence, self.attempts.reading());
            return match proving.await {
                Ok(()) => Next::GiveUp(self.store.superseded(fence)),
                Err(error @ StoreError::PermissionDenied(_)) => {
                    self.unexplained(bucket, told, &error)
                }
                Err(_) => stale(),
            };
        }
        let unmet = self.find_unmet(bucket, told).await;
        unmet.unwrap_or_else(|error| self.unexplained(bucket, told, &error))
    }

    /// A refusal whose reason could not be read. It proves nothing if its server may lack what the
    /// write requires: that server's successor may have stored the write.
    fn unexplained(&self, bucket: &DataBucket, told: Option<u64>, error: &StoreError) -> Next {
        let reason = format!("refused, and not known why: {error}");
        let in_doubt = is_replicated(bucket) && self.may_be_stale(told);
        match error {
            // Another attempt would end in the same way.
            StoreError::PermissionDenied(_) if in_doubt => {
                Next::GiveUp(FencedError::Unconfirmed { reason })
            }
            StoreError::PermissionDenied(_) => Next::GiveUp(FencedError::Refused { reason }),
            _ if in_doubt => Next::Doubt(reason),
            _ => Next::Pause(reason),
        }
    }

    /// Finds the key that is not as its write requires. The fence holds.
    async fn find_unmet(
        &mut self,
        bucket: &DataBucket,
        told: Option<u64>,
    ) -> Result<Next, StoreError> {
        let owner = &self.store.setup().owner;
        let may_be_stale = is_replicated(bucket) && self.may_be_stale(told);
        let mut mended = false;
        for (change, write) in self.changes.iter().zip(&mut self.writes) {
            let Some(required) = change.over else {
                continue;
            };
            let standing = bucket
                .data(owner, &change.key, self.attempts.reading())
                .await?;
            let revision = standing.as_ref().map_or(0, |entry| entry.revision);
            let current = standing.and_then(|entry| FencedEntry::of(&change.key, entry));
            if may_be_stale && write.over.is_some_and(|over| revision < over) {
                let (key, reading) = (Some(&change.key), self.attempts.reading());
                let proving = bucket.prove(owner, key, revision, reading);
                match proving.await {
                    Ok(()) => {}
                    Err(error @ StoreError::PermissionDenied(_)) => return Err(error),
                    Err(_) => return Ok(Next::Doubt(BEHIND.into())),
                }
            }
            match required {
                // A deleted key has the revision of its marker.
                0 if current.is_none() => {
                    mended |= write.over != Some(revision);
                    write.over = Some(revision);
                }
                required if required == revision => {}
                // The refusal may have referred to another sequence: the fence's, if the value that
                // was just read is stale.
                _ if told.is_some_and(|told| told != revision) => {}
                _ => {
                    let key = change.key.to_string();
                    return Ok(Next::GiveUp(FencedError::Conflict { key, current }));
                }
            }
        }
        Ok(if mended {
            Next::Mended
        } else if may_be_stale {
            Next::Doubt(BEHIND.into())
        } else {
            Next::Pause("refused, and what it was refused for has changed since".into())
        })
    }

    /// Returns whether a refusal with this sequence may come from a server that does not have the
    /// required data yet.
    fn may_be_stale(&self, told: Option<u64>) -> bool {
        let ours = self.fence;
        let newest = self.writes.iter().filter_map(|write| write.over).max();
        told.is_none_or(|told| told < newest.map_or(ours, |newest| newest.max(ours)))
    }
}

pub(super) fn wound_down() -> FencedError {
    FencedError::Unavailable {
        reason: WOUND_DOWN.into(),
    }
}

/// Returns what is known of the call as a whole when its last attempt ended like this, and an
/// earlier one may have been stored.
fn in_doubt(error: FencedError, doubt: Option<String>) -> FencedError {
    match (error, doubt) {
        (error @ (FencedError::Superseded { .. } | FencedError::Unconfirmed { .. }), _)
        | (error, None) => error,
        (_, Some(reason)) => FencedError::Unconfirmed { reason },
    }
}

fn is_replicated(bucket: &DataBucket) -> bool {
    bucket.info().is_some_and(|info| info.replicas > 1)
}

fn is_single(writes: &[DataWrite]) -> bool {
    matches!(writes, [write] if write.over.is_none())
}

fn unsupported(what: &str) -> FencedError {
    FencedError::Unsupported(what.to_owned())
}
