//! The data of a role in a test of its handler.

use super::entry::FencedEntry;
use super::memory::{MemoryBucket, WriteFault};
use nats_elect_core::name::DataKey;

/// The keys and values behind the [`FencedStore`](crate::FencedStore) of a
/// [`TestTerm`](crate::testing::TestTerm), as the test sees and changes them.
///
/// They are in memory. The handler's calls go through the code that it runs in production, with its
/// conditions, retries, limits and errors. Only the requests to the server are answered here. The
/// bucket is that of a single server with atomic batches.
///
/// # Panics
///
/// The methods panic if a key breaks the rule for keys.
#[derive(Clone, Debug)]
pub struct TestStore(MemoryBucket);

impl TestStore {
    pub(in crate::role) const fn new(memory: MemoryBucket) -> Self {
        Self(memory)
    }

    /// Reads a key. Returns `None` if the key is missing or deleted.
    pub fn get(&self, key: &str) -> Option<FencedEntry> {
        let key = named(key);
        let entry = self.0.data(&key).ok().flatten()?;
        FencedEntry::of(&key, entry)
    }

    /// Returns the keys, sorted, without deleted ones.
    pub fn list(&self) -> Vec<String> {
        self.0.data_keys().unwrap_or_default()
    }

    /// Writes a value without a condition, as an earlier term left it or another client wrote it.
    /// Returns its revision.
    pub fn put(&self, key: &str, value: impl AsRef<[u8]>) -> u64 {
        self.0.store(&named(key), Some(value.as_ref().to_vec()))
    }

    /// Deletes a key in the same way. Returns the revision of the delete marker.
    pub fn delete(&self, key: &str) -> u64 {
        self.0.store(&named(key), None)
    }

    /// Has the handler's next write fail. Several faults apply in their order, each to one write. A
    /// write that fails by itself, for instance because its condition does not hold, leaves the
    /// fault to the next one.
    pub fn fail_next(&self, fault: WriteFault) {
        self.0.fail_next(fault);
    }

    /// Has the bucket refuse batches from now on, like a bucket without `allow_atomic`:
    /// [`create`](crate::FencedStore::create), [`update`](crate::FencedStore::update) and
    /// [`batch`](crate::FencedStore::batch) end with
    /// [`FencedError::Unsupported`](crate::FencedError::Unsupported).
    pub fn without_batches(&self) {
        self.0.refuse_batches();
    }
}

fn named(key: &str) -> DataKey {
    DataKey::new(key).unwrap_or_else(|error| panic!("{error}"))
}
