//! State of a role, kept beside its election, that only the newest term can change.

mod allowance;
mod batch;
mod entry;
mod error;
#[cfg(all(test, unix))]
mod tests;
mod writing;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};

use self::allowance::Allowance;
pub use self::batch::FencedBatch;
use self::batch::{Change, Requires};
pub use self::entry::FencedEntry;
pub use self::error::{BatchProblem, FencedError};
use super::term::Term;
use crate::metrics::Labels;
use crate::store::{Bucket, StoreError};
use nats_elect_core::name::{DataKey, RoleName};

/// How long a call may take if nothing else is said.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Writes of one term that are under way at once, where they do not hold each other up: the server takes 50 batches per stream.
const LANES: u32 = 16;

/// Keys and values of a role, in the bucket of its election, under a term's fence.
///
/// Every write is refused *by the server* as soon as a newer term exists: it carries the condition that the role's fence key still
/// stands at this term's [`fencing_token`](Term::fencing_token). So no write of a leader that was paused, cut off or replaced
/// lands after its successor's promotion, however late it arrives. It needs no trust in clocks. Writes are refused here already once
/// the lease is over.
///
/// A role's keys are its own: they stand under `_data.<role>.<key>` in the bucket, where no watch for leaders looks, and do not expire.
/// Later terms of the role find what earlier ones wrote, on whatever instance. A key has 1 to 255 ASCII letters, digits, `-`, `/`, `_`,
/// `=` and `.`, and no dot at an end or beside another. Anyone else can read them with a Key-Value client, and nothing but the server's
/// permissions keeps anyone else from writing them.
///
/// # What it needs
///
/// [`create`](Self::create), [`update`](Self::update) and [`batch`](Self::batch): nats-server 2.12 and a bucket with `allow_atomic`, as
/// this crate creates them. All writes: a bucket without a max age, for there fence records expire. Where that is lacking they fail with [`FencedError::Unsupported`]; they never write without
/// the fence. In a bucket that was not created by this crate, a write of a term of *before* the bucket was deleted and created again may be
/// accepted by accident, since its sequences are used again.
///
/// # Retries
///
/// What the server refuses for the moment, so that nothing was stored, is sent again, with growing, jittered pauses, for as long as
/// [`timeout`](Self::timeout) and the lease allow. What was not answered is never sent again: the call fails with
/// [`FencedError::Unconfirmed`].
///
/// In a bucket with replicas a refusal is not always the last word: a server that was replaced as the stream's leader refuses by what stood there
/// before, and its successor may store the same message. The call is tried again then, and its first success is its result. Where it does not succeed
/// in the end, and such an attempt may have been stored, it is [`FencedError::Unconfirmed`] too, also where the last attempt was refused for good.
///
/// # Limit
///
/// Without a limit one role can fill the bucket and the account for all, up to what the bucket's own settings allow.
/// [`RoleConfig::data_limit`](crate::RoleConfig::data_limit) bounds what the role keeps: a write that would take it beyond is not sent, and fails with
/// [`FencedError::OverLimit`]. Each key counts its name, its value and 512 bytes for what the server stores beside them; a deleted key counts
/// too, for its marker stays. What takes no more than what it replaces is always let through.
///
/// Before a term's first write the role's keys are listed and looked at, as by [`list`](Self::list), which fails for more than 10,000 of them. After that the term
/// counts its own writes: nobody else's can land under its fence. It counts too much rather than too little: what is not confirmed, or written more than once at a
/// time, keeps the room of its greatest value for the rest of the term. Too little it counts where the listing was answered by a server that had been replaced as the stream's leader without knowing
/// yet, by what the term before wrote last. The library counts, not the server. So this is a bound for applications that write more than was meant; whoever has the NATS permission to
/// write the role's data can write past it, and only limits of the bucket or the account hold against that.
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
///         // Somebody else leads: this term has ended with this answer.
///         Err(FencedError::Superseded { .. }) => Ok(()),
///         Err(error) => Err(error.into()),
///     }
/// }
/// # let _ = lead;
/// ```
#[derive(Clone)]
pub struct FencedStore {
    term: Term,
    timeout: Duration,
    /// Writes are sent although the lease is over, as by a process that was paused right after it had looked.
    unchecked: bool,
}

/// What a term needs to write with.
pub(super) struct Access {
    pub role: RoleName,
    /// The bucket on the connection of the day.
    pub bucket: watch::Receiver<Option<Bucket>>,
    pub labels: Labels,
    /// Writes of the term under way.
    lanes: Semaphore,
    /// How much it may keep, if there is a limit.
    allowance: Option<Allowance>,
}

impl Access {
    pub fn new(
        role: RoleName,
        bucket: watch::Receiver<Option<Bucket>>,
        labels: Labels,
        data_limit: Option<u64>,
    ) -> Arc<Self> {
        let lanes = Semaphore::new(LANES as usize);
        Arc::new(Self {
            role,
            bucket,
            labels,
            lanes,
            allowance: data_limit.map(Allowance::new),
        })
    }
}

impl FencedStore {
    pub(super) const fn new(term: Term) -> Self {
        Self {
            term,
            timeout: TIMEOUT,
            unchecked: false,
        }
    }

    /// How long each call may take, retries included: 5 s unless set. The end of the lease ends it too, as it stood when the
    /// request was sent.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sends although the lease is over: for tests of the server's refusal.
    #[cfg(test)]
    #[doc(hidden)]
    #[must_use]
    pub const fn unchecked(mut self) -> Self {
        self.unchecked = true;
        self
    }

    /// Writes a value, whatever stood there. Returns its revision.
    ///
    /// # Errors
    ///
    /// Any [`FencedError`] but [`FencedError::Conflict`]. After [`FencedError::Unconfirmed`] putting the same again does no harm, unless
    /// other writes of this term to the key are under way: the first may land after them, as long as the term is the newest.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the value may have been written, or may yet be.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with its timers enabled.
    pub async fn put(&self, key: &str, value: impl AsRef<[u8]>) -> Result<u64, FencedError> {
        let change = Change::new(key, Some(value.as_ref()), Requires::Nothing);
        self.write_one(change).await
    }

    /// Deletes a key, whatever stood there, by a delete marker. Returns the marker's revision.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    ///
    /// # Cancel safety
    ///
    /// As [`put`](Self::put).
    pub async fn delete(&self, key: &str) -> Result<u64, FencedError> {
        self.write_one(Change::new(key, None, Requires::Nothing))
            .await
    }

    /// Writes a value if the key is missing; a deleted key counts as missing. Returns its revision.
    ///
    /// # Errors
    ///
    /// [`FencedError::Conflict`] with what stands there, besides those of [`put`](Self::put). After [`FencedError::Unconfirmed`], creating
    /// it again may fail with the value of the first attempt.
    ///
    /// # Cancel safety
    ///
    /// As [`put`](Self::put).
    pub async fn create(&self, key: &str, value: impl AsRef<[u8]>) -> Result<u64, FencedError> {
        let change = Change::new(key, Some(value.as_ref()), Requires::Missing);
        self.write_one(change).await
    }

    /// Writes a value if the key still stands at `revision`, as [`get`](Self::get) or a write returned it. Returns the new
    /// revision.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create).
    ///
    /// # Cancel safety
    ///
    /// As [`put`](Self::put).
    pub async fn update(
        &self,
        key: &str,
        value: impl AsRef<[u8]>,
        revision: u64,
    ) -> Result<u64, FencedError> {
        let change = Change::new(key, Some(value.as_ref()), Requires::Revision(revision));
        self.write_one(change).await
    }

    /// Begins a batch: several writes of which all take effect at once, or none.
    pub fn batch(&self) -> FencedBatch {
        FencedBatch::new(self.clone())
    }

    /// Reads a key from the stream's leader; nothing if it is missing or deleted.
    ///
    /// A read proves nothing: another term may have begun, and a server that has lost its office without knowing yet answers with
    /// what stood there before, for up to some seconds. A value that depends on what was read belongs in an [`update`](Self::update)
    /// over the entry's revision, not in a [`put`](Self::put). It works also after the term.
    ///
    /// # Errors
    ///
    /// [`FencedError::Key`], [`FencedError::Unavailable`], [`FencedError::Refused`].
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost by dropping the future.
    pub async fn get(&self, key: &str) -> Result<Option<FencedEntry>, FencedError> {
        let key = DataKey::new(key)?;
        let bucket = self.bucket()?;
        let data = bucket.data(&self.access().role, &key, self.timeout).await;
        Ok(data
            .map_err(|error| unread(&error))?
            .and_then(|entry| FencedEntry::of(&key, entry)))
    }

    /// The role's keys, sorted, without deleted ones. What is written meanwhile may be in it or not. It proves no more than
    /// [`get`](Self::get).
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get); [`FencedError::Refused`] also if the role has more than 10,000 keys, those included that were deleted and
    /// of which the marker still stands. Each key is looked at: it takes a request for each.
    ///
    /// # Cancel safety
    ///
    /// As [`get`](Self::get).
    pub async fn list(&self) -> Result<Vec<String>, FencedError> {
        let bucket = self.bucket()?;
        let keys = bucket.data_keys(&self.access().role, self.timeout).await;
        keys.map_err(|error| unread(&error))
    }

    async fn write_one(&self, change: Result<Change, FencedError>) -> Result<u64, FencedError> {
        let written = match change {
            Ok(change) => self.write(&[change]).await,
            Err(error) => Err(error),
        };
        self.count(written).map(|revisions| revisions[0])
    }

    fn count<T>(&self, written: Result<T, FencedError>) -> Result<T, FencedError> {
        let status = written
            .as_ref()
            .map_or_else(FencedError::status, |_| "written");
        self.access().labels.fenced_write(status);
        written
    }

    fn access(&self) -> &Access {
        &self.term.0.access
    }

    fn bucket(&self) -> Result<Bucket, FencedError> {
        let bucket = self.access().bucket.borrow().clone();
        bucket.ok_or_else(|| FencedError::Unavailable {
            reason: "not connected".into(),
        })
    }
}

impl fmt::Debug for FencedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FencedStore")
            .field("term", &self.term)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
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
