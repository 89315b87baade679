//! State of a role, kept beside its election, that only the newest term can change.

mod allowance;
mod attempts;
mod batch;
mod data_bucket;
mod entry;
mod error;
#[cfg(any(test, feature = "testing"))]
mod memory;
mod opening;
#[cfg(all(test, unix))]
mod tests;
mod writing;

use std::pin::pin;
use std::time::Duration;

use futures::future::BoxFuture;

pub(super) use self::allowance::Allowance;
pub use self::batch::FencedBatch;
use self::data_bucket::DataBucket;
pub(super) use self::data_bucket::DataSource;
pub use self::entry::FencedEntry;
pub use self::error::FencedError;
#[cfg(any(test, feature = "testing"))]
pub use self::memory::{TestStore, WriteFault};
use self::writing::wound_down;
use super::running::TermSetup;
use super::term::Term;
use crate::store::{DataEntry, StoreError};
use nats_elect_core::name::DataKey;

/// The default for how long a call may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The number of writes of one term that are under way at once, where they do not hold each other
/// up. The server takes 50 batches per stream.
pub(super) const LANES: u32 = 16;

/// Keys and values of a role, in the bucket of its election, under a term's fence.
///
/// *The server* refuses every write as soon as a newer term exists. Each write carries the
/// condition that the role's fence key still stands at this term's
/// [`fencing_token`](Term::fencing_token). So no write of a leader that was paused, cut off or
/// replaced lands after its successor's promotion, however late it arrives. This does not depend on
/// clocks. Once the lease is over, this library already refuses writes itself.
///
/// A role's keys belong to that role alone. They stand under `_data.<role>.<key>` in the bucket,
/// where no watch for leaders looks, and they do not expire. Later terms of the role find what
/// earlier terms wrote, on any instance. A key has 1 to 255 ASCII letters, digits, `-`, `/`, `_`,
/// `=` and `.`. It has no dot at either end and no two dots in a row. Any other client can read the
/// keys with a Key-Value client. Only the server's permissions prevent other clients from writing
/// them.
///
/// # What it needs
///
/// [`create`](Self::create), [`update`](Self::update) and [`batch`](Self::batch) need nats-server
/// 2.12 and a bucket with `allow_atomic`, as this crate creates them. All writes need a bucket
/// without a max age, because fence records expire in a bucket with one. If a requirement is not
/// met, the writes fail with [`FencedError::Unsupported`]. They never write without the fence.
///
/// A bucket that was not created by this crate has a limit. If the bucket is deleted and created
/// again, its sequences are used again, and a write of a term from *before* the deletion may be
/// accepted by accident.
///
/// # Retries
///
/// If the server refuses a write for the moment, so that nothing was stored, the write is sent
/// again. The pauses between attempts grow and are jittered. Attempts go on for as long as
/// [`timeout`](Self::timeout) and the lease allow. A write that was not answered is never sent
/// again. The call fails with [`FencedError::Unconfirmed`].
///
/// In a bucket with replicas a refusal is not always final. A server that was replaced as the
/// stream's leader refuses a write by an older state of the stream, and its successor may store the
/// same message. The call is tried again then, and its first success is its result. If no attempt
/// succeeds in the end, and such an attempt may have been stored, the call fails with
/// [`FencedError::Unconfirmed`] too. This holds even if the last attempt was refused for good.
///
/// # Limit
///
/// Without a limit one role can fill the bucket and the account for all roles, up to what the
/// bucket's own settings allow. [`RoleConfig::data_limit`](crate::RoleConfig::data_limit) bounds
/// what the role keeps. A write that would exceed the limit is not sent, and fails with
/// [`FencedError::OverLimit`]. Each key counts its name, its value and 512 bytes for what the
/// server stores beside them. A deleted key counts too, because its marker stays. A write that
/// takes no more than the value it replaces is always let through.
///
/// Before a term's first write the role's keys are listed and looked at, as by
/// [`list`](Self::list), which fails for more than 10,000 of them. After that the term counts its
/// own writes, because no other write can land under its fence. It counts too much rather than too
/// little. A key whose write is not confirmed, or that is written more than once at a time, keeps
/// the room of its greatest value for the rest of the term.
///
/// There is one case in which it counts too little. If a server that had been replaced as the
/// stream's leader without knowing it yet answered the listing, the last writes of the term before
/// are missing from the count.
///
/// The library counts, not the server. So the limit is a bound for applications that write more
/// than was meant. Any client with the NATS permission to write the role's data can write past it.
/// Only limits of the bucket or the account prevent that.
///
/// # Example
///
/// ```
/// # use nats_elect::{BoxError, FencedError, Term};
/// async fn lead(term: Term) -> Result<(), BoxError> {
///     let store = term.store();
///     let (done, revision) = match store.get("cursor").await? {
///         Some(entry) => (String::from_utf8(entry.value)?.parse::<u64>()?, entry.revision),
///         None => (0, store.create("cursor", "0").await?),
///     };
///     match store.update("cursor", (done + 1).to_string(), revision).await {
///         Ok(_) => Ok(()),
///         // Another instance leads: this term has ended with this answer.
///         Err(FencedError::Superseded { .. }) => Ok(()),
///         Err(error) => Err(error.into()),
///     }
/// }
/// # let _ = lead;
/// ```
#[derive(Clone, Debug)]
pub struct FencedStore {
    term: Term,
    timeout: Duration,
    /// Sends writes although the lease is over, as a process does that was paused right after its
    /// check.
    unchecked: bool,
}

impl FencedStore {
    pub(super) const fn new(term: Term) -> Self {
        Self {
            term,
            timeout: TIMEOUT,
            unchecked: false,
        }
    }

    /// Sets how long each call may take, retries included. The default is 5 s. A call also ends at
    /// the end of the lease, as it stood when the request was sent.
    ///
    /// When the term is wound down, a call that NATS does not answer ends after half of the time
    /// that is left until the handler is aborted, with [`FencedError::Unavailable`] or
    /// [`FencedError::Unconfirmed`]. So the handler can end by itself, and calls that begin while
    /// the term is wound down work as before if NATS answers.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sends although the lease is over, for tests of the server's refusal.
    #[cfg(test)]
    #[doc(hidden)]
    #[must_use]
    pub const fn unchecked(mut self) -> Self {
        self.unchecked = true;
        self
    }

    /// Writes a value, whatever the key held before. Returns its revision.
    ///
    /// # Errors
    ///
    /// Returns any [`FencedError`] but [`FencedError::Conflict`].
    ///
    /// After [`FencedError::Unconfirmed`] you can safely put the same value again, unless other
    /// writes of this term to the key are under way. In that case the first write may land after
    /// them, as long as the term is the newest.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the value may have been written, or may still be written.
    ///
    /// # Panics
    ///
    /// Panics if called outside a tokio runtime with its timers enabled.
    pub async fn put(&self, key: &str, value: impl AsRef<[u8]>) -> Result<u64, FencedError> {
        self.batch().put(key, value).only().await
    }

    /// Deletes a key by a delete marker, whatever the key held before. Returns the marker's
    /// revision.
    ///
    /// # Errors
    ///
    /// The same as [`put`](Self::put).
    ///
    /// # Cancel safety
    ///
    /// The same as [`put`](Self::put).
    pub async fn delete(&self, key: &str) -> Result<u64, FencedError> {
        self.batch().delete(key).only().await
    }

    /// Writes a value if the key is missing. A deleted key counts as missing. Returns the revision.
    ///
    /// # Errors
    ///
    /// The same as [`put`](Self::put). Also returns [`FencedError::Conflict`] with the current
    /// entry if the key exists.
    ///
    /// After [`FencedError::Unconfirmed`], a second `create` may fail with the value of the first
    /// attempt.
    ///
    /// # Cancel safety
    ///
    /// The same as [`put`](Self::put).
    pub async fn create(&self, key: &str, value: impl AsRef<[u8]>) -> Result<u64, FencedError> {
        self.batch().create(key, value).only().await
    }

    /// Writes a value if the key still stands at `revision`, as [`get`](Self::get) or a write
    /// returned it. Returns the new revision. Revision 0 is that of a key that is missing or deleted.
    ///
    /// # Errors
    ///
    /// The same as [`create`](Self::create).
    ///
    /// # Cancel safety
    ///
    /// The same as [`put`](Self::put).
    pub async fn update(
        &self,
        key: &str,
        value: impl AsRef<[u8]>,
        revision: u64,
    ) -> Result<u64, FencedError> {
        self.batch().update(key, value, revision).only().await
    }

    /// Begins a batch: several writes that all take effect at once, or not at all.
    pub fn batch(&self) -> FencedBatch {
        FencedBatch::new(self.clone())
    }

    /// Reads a key from the stream's leader. Returns `None` if the key is missing or deleted.
    ///
    /// A read proves nothing. Another term may have begun. A server that has lost the stream's
    /// leadership without knowing it yet answers with older data, for up to some seconds. If a
    /// value depends on what you read, write it with an [`update`](Self::update) over the entry's
    /// revision, not with a [`put`](Self::put).
    ///
    /// The method also works after the term.
    ///
    /// # Errors
    ///
    /// Returns [`FencedError::Key`], [`FencedError::Unavailable`] or [`FencedError::Refused`].
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. Nothing is lost if the future is dropped.
    pub async fn get(&self, key: &str) -> Result<Option<FencedEntry>, FencedError> {
        let key = DataKey::new(key)?;
        let data = self.read(&key).await?;
        Ok(data.and_then(|entry| FencedEntry::of(&key, entry)))
    }

    /// Returns the role's keys, sorted, without deleted ones.
    ///
    /// A key that is written meanwhile may be included or not. The list proves no more than
    /// [`get`](Self::get).
    ///
    /// The method looks at each key, and sends a request for each.
    ///
    /// # Errors
    ///
    /// The same as [`get`](Self::get). Also returns [`FencedError::Refused`] if the role has more
    /// than 10,000 keys. Deleted keys whose marker still stands count too.
    ///
    /// # Cancel safety
    ///
    /// The same as [`get`](Self::get).
    pub async fn list(&self) -> Result<Vec<String>, FencedError> {
        self.read_keys().await
    }

    /// Compiled here, and not in each program.
    fn read<'a>(
        &'a self,
        key: &'a DataKey,
    ) -> BoxFuture<'a, Result<Option<DataEntry>, FencedError>> {
        let reading = async {
            let bucket = self.opened().await?;
            let data = bucket.data(&self.setup().owner, key, self.timeout);
            data.await.map_err(|error| unread(&error))
        };
        Box::pin(async { self.in_time(pin!(reading)).await.ok_or_else(wound_down)? })
    }

    /// Compiled here, too.
    fn read_keys(&self) -> BoxFuture<'_, Result<Vec<String>, FencedError>> {
        let reading = async {
            let bucket = self.opened().await?;
            let keys = bucket.data_keys(&self.setup().owner, self.timeout);
            keys.await.map_err(|error| unread(&error))
        };
        Box::pin(async { self.in_time(pin!(reading)).await.ok_or_else(wound_down)? })
    }

    fn count<T>(&self, written: Result<T, FencedError>) -> Result<T, FencedError> {
        let status = written
            .as_ref()
            .map_or_else(FencedError::status, |_| "written");
        self.setup().labels.fenced_write(status);
        written
    }

    fn setup(&self) -> &TermSetup {
        &self.term.0.setup
    }

    fn bucket(&self) -> Result<DataBucket, FencedError> {
        let bucket = self.setup().data.bucket();
        bucket.ok_or_else(|| FencedError::Unavailable {
            reason: "not connected".into(),
        })
    }
}

fn unread(error: &StoreError) -> FencedError {
    let reason = error.to_string();
    if error.is_transient() {
        FencedError::Unavailable { reason }
    } else {
        FencedError::Refused { reason }
    }
}
