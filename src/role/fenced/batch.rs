//! Several fenced writes as one.

use std::collections::HashSet;

use super::FencedStore;
use super::error::FencedError;
use crate::store::{DataWrite, MOST_WRITES};
use nats_elect_core::name::DataKey;

/// Writes to different keys of a role's data that all take effect at once, or not at all.
/// [`FencedStore::batch`] makes it.
///
/// A batch has at most 999 writes. The server takes 1000 messages in a batch, and one of them
/// guards the fence. Nothing is sent before [`commit`](Self::commit). A batch needs nats-server
/// 2.12 and a bucket with `allow_atomic`.
///
/// ```
/// # use nats_elect::{FencedError, FencedStore};
/// # async fn example(store: FencedStore) -> Result<(), FencedError> {
/// let revisions = store
///     .batch()
///     .delete("jobs.queued.7")
///     .create("jobs.running.7", "node-1")
///     .put("last", "7")
///     .commit()
///     .await?;
/// assert_eq!(revisions.len(), 3);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is written before `commit`"]
pub struct FencedBatch {
    store: FencedStore,
    writes: Vec<DataWrite>,
    /// The first problem that was found.
    problem: Option<FencedError>,
}

impl FencedBatch {
    pub(super) const fn new(store: FencedStore) -> Self {
        Self {
            store,
            writes: Vec::new(),
            problem: None,
        }
    }

    /// Adds a [`put`](FencedStore::put).
    pub fn put(self, key: &str, value: impl AsRef<[u8]>) -> Self {
        self.add(key, Some(value.as_ref()), None)
    }

    /// Adds a [`delete`](FencedStore::delete).
    pub fn delete(self, key: &str) -> Self {
        self.add(key, None, None)
    }

    /// Adds a [`create`](FencedStore::create).
    pub fn create(self, key: &str, value: impl AsRef<[u8]>) -> Self {
        self.add(key, Some(value.as_ref()), Some(0))
    }

    /// Adds an [`update`](FencedStore::update).
    pub fn update(self, key: &str, value: impl AsRef<[u8]>, revision: u64) -> Self {
        self.add(key, Some(value.as_ref()), Some(revision))
    }

    fn add(mut self, key: &str, value: Option<&[u8]>, over: Option<u64>) -> Self {
        let value = value.map(<[u8]>::to_vec);
        match DataKey::new(key) {
            Ok(key) => self.writes.push(DataWrite { key, value, over }),
            Err(problem) => {
                self.problem.get_or_insert(problem.into());
            }
        }
        self
    }

    /// Writes the whole batch, or nothing. Returns the revisions, in the order of the writes.
    ///
    /// # Errors
    ///
    /// The same as the single writes. [`FencedError::Conflict`] names the first key that is not as
    /// its write requires. [`FencedError::Unconfirmed`] means that either all or nothing was
    /// written, or may still be written. Returns [`FencedError::Batch`] if the batch is empty, is
    /// too large, or writes a key twice.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the whole batch may have been written, may still be written, or
    /// may never be written.
    pub async fn commit(self) -> Result<Vec<u64>, FencedError> {
        let written = match self.checked() {
            Ok(()) => self.store.write(&self.writes).await,
            Err(problem) => Err(problem),
        };
        self.store.count(written)
    }

    /// Writes a batch of one change. Returns its revision.
    pub(super) async fn only(self) -> Result<u64, FencedError> {
        Ok(self.commit().await?[0])
    }

    fn checked(&self) -> Result<(), FencedError> {
        if let Some(problem) = &self.problem {
            return Err(problem.clone());
        }
        let mut keys = HashSet::new();
        let twice = self.writes.iter().find(|write| !keys.insert(&write.key));
        let problem = if self.writes.is_empty() {
            "it is empty".to_owned()
        } else if self.writes.len() > MOST_WRITES {
            let count = self.writes.len();
            format!(
                "{count} writes are more than the {MOST_WRITES} that one batch can have; split it"
            )
        } else if let Some(write) = twice {
            format!("it writes `{}` more than once", write.key)
        } else {
            return Ok(());
        };
        Err(FencedError::Batch(problem))
    }
}
