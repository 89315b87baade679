//! A bucket in memory, for tests of handlers. It answers the requests of fenced reads and writes as
//! a server does.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use super::entry::FencedEntry;
use crate::lock::lock;
use crate::store::{BucketInfo, DataEntry, DataWrite, StoreError};
use nats_elect_core::name::DataKey;
use nats_elect_core::token::FencingToken;

/// The error code of a refusal that nothing is known about.
const REFUSED: u64 = 400;

/// The fate of a fenced write in a test. [`TestStore::fail_next`](crate::testing::TestStore::fail_next)
/// takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteFault {
    /// Another writer puts this value under the key right before the write. The write ends with
    /// [`FencedError::Conflict`](crate::FencedError::Conflict), which shows that value.
    ///
    /// Only a write with a condition can be overtaken. The fault waits for the next one. In a batch
    /// it is the first write with a condition.
    Overtaken(Vec<u8>),
    /// The write is lost on its way. It ends with
    /// [`FencedError::Unconfirmed`](crate::FencedError::Unconfirmed), and nothing is stored.
    Lost,
    /// The write is stored, and its confirmation is lost. It ends with
    /// [`FencedError::Unconfirmed`](crate::FencedError::Unconfirmed) too.
    Unanswered,
    /// The bucket can't do it, for this reason. The write ends with
    /// [`FencedError::Unsupported`](crate::FencedError::Unsupported).
    Unsupported(String),
    /// The server refuses the write, for this reason. The write ends with
    /// [`FencedError::Refused`](crate::FencedError::Refused).
    Refused(String),
}

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
pub struct TestStore(Arc<Mutex<Memory>>);

#[derive(Debug)]
struct Memory {
    epoch: u64,
    /// The sequence of the fence record.
    fence: u64,
    /// The sequence of the last message.
    last: u64,
    entries: BTreeMap<String, DataEntry>,
    reached: bool,
    batches: bool,
    faults: VecDeque<WriteFault>,
}

impl TestStore {
    /// Reads a key. Returns `None` if the key is missing or deleted.
    pub fn get(&self, key: &str) -> Option<FencedEntry> {
        let key = named(key);
        let entry = self.data(&key).ok().flatten()?;
        FencedEntry::of(&key, entry)
    }

    /// Returns the keys, sorted, without deleted ones.
    pub fn list(&self) -> Vec<String> {
        self.data_keys().unwrap_or_default()
    }

    /// Writes a value without a condition, as an earlier term left it or another client wrote it.
    /// Returns its revision.
    pub fn put(&self, key: &str, value: impl AsRef<[u8]>) -> u64 {
        let value = Some(value.as_ref().to_vec());
        self.memory().store(&named(key), value)
    }

    /// Deletes a key in the same way. Returns the revision of the delete marker.
    pub fn delete(&self, key: &str) -> u64 {
        self.memory().store(&named(key), None)
    }

    /// Has the handler's next write fail. Several faults apply in their order, each to one write. A
    /// write that fails by itself, for instance because its condition does not hold, leaves the
    /// fault to the next one.
    pub fn fail_next(&self, fault: WriteFault) {
        self.memory().faults.push_back(fault);
    }

    /// Has the bucket refuse batches from now on, like a bucket without `allow_atomic`:
    /// [`create`](crate::FencedStore::create), [`update`](crate::FencedStore::update) and
    /// [`batch`](crate::FencedStore::batch) end with
    /// [`FencedError::Unsupported`](crate::FencedError::Unsupported).
    pub fn without_batches(&self) {
        self.memory().batches = false;
    }

    /// The largest value that has room in a message of 1 MiB, what a server takes by default.
    pub(super) const LARGEST_VALUE: usize = (1 << 20) - 1024;

    /// An empty bucket, in which the term of this token has just begun.
    pub(in crate::role) fn of(token: FencingToken) -> Self {
        Self(Arc::new(Mutex::new(Memory {
            epoch: token.epoch,
            fence: token.sequence,
            last: token.sequence,
            entries: BTreeMap::new(),
            reached: true,
            batches: true,
            faults: VecDeque::new(),
        })))
    }

    /// Returns the bucket, while it can be reached.
    pub(in crate::role) fn reached(&self) -> Option<Self> {
        self.memory().reached.then(|| self.clone())
    }

    pub(in crate::role) fn set_reached(&self, reached: bool) {
        self.memory().reached = reached;
    }

    /// Moves the fence, as a newer term does. Returns the token of that term.
    pub(in crate::role) fn move_fence(&self) -> FencingToken {
        let mut memory = self.memory();
        memory.last += 1;
        memory.fence = memory.last;
        FencingToken {
            epoch: memory.epoch,
            sequence: memory.fence,
        }
    }

    pub(in crate::role) fn info(&self) -> BucketInfo {
        let memory = self.memory();
        BucketInfo {
            epoch: memory.epoch,
            atomic: memory.batches,
            ..BucketInfo::default()
        }
    }

    pub(in crate::role) fn prove(
        &self,
        key: Option<&DataKey>,
        sequence: u64,
    ) -> Result<(), StoreError> {
        let memory = self.memory();
        expect(
            sequence,
            key.map_or(memory.fence, |key| memory.revision(key)),
        )
    }

    pub(in crate::role) fn write_fenced(
        &self,
        fence: u64,
        key: &DataKey,
        value: Option<&[u8]>,
    ) -> Result<u64, StoreError> {
        let write = DataWrite {
            key: key.clone(),
            value: value.map(<[u8]>::to_vec),
            over: None,
        };
        self.memory().write(fence, &[write])
    }

    pub(in crate::role) fn write_batch(
        &self,
        fence: u64,
        writes: &[DataWrite],
    ) -> Result<u64, StoreError> {
        let mut memory = self.memory();
        // The guard is the first message of a batch.
        memory.last += 1;
        memory.write(fence, writes)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        lock(&self.0)
    }
}

#[expect(clippy::unnecessary_wraps, reason = "in NATS these requests can fail")]
impl TestStore {
    pub(in crate::role) fn data(&self, key: &DataKey) -> Result<Option<DataEntry>, StoreError> {
        Ok(self.memory().entries.get(key.as_str()).cloned())
    }

    pub(in crate::role) fn data_keys(&self) -> Result<Vec<String>, StoreError> {
        let memory = self.memory();
        let standing = memory.entries.iter().filter(|(_, it)| it.value.is_some());
        Ok(standing.map(|(key, _)| key.clone()).collect())
    }

    pub(in crate::role) fn data_sizes(&self) -> Result<Vec<(String, u64)>, StoreError> {
        let bytes = |entry: &DataEntry| entry.value.as_ref().map_or(0, Vec::len) as u64;
        let memory = self.memory();
        let sizes = memory.entries.iter();
        Ok(sizes
            .map(|(key, entry)| (key.clone(), bytes(entry)))
            .collect())
    }

    pub(in crate::role) fn fence_sequence(&self) -> Result<u64, StoreError> {
        Ok(self.memory().fence)
    }
}

impl Memory {
    /// Writes all of these, or nothing. Returns the sequence of the last one.
    fn write(&mut self, fence: u64, writes: &[DataWrite]) -> Result<u64, StoreError> {
        expect(fence, self.fence)?;
        let conditional = writes.iter().find(|write| write.over.is_some());
        if let (Some(WriteFault::Overtaken(value)), Some(write)) =
            (self.faults.front().cloned(), conditional)
        {
            self.faults.pop_front();
            self.store(&write.key, Some(value));
        }
        for write in writes {
            let revision = self.revision(&write.key);
            expect(write.over.unwrap_or(revision), revision)?;
        }
        // A fault is for a write that would succeed: an attempt before it may only have been to
        // learn the revision of a deleted key.
        let fault = match self.faults.front() {
            None | Some(WriteFault::Overtaken(_)) => None,
            Some(_) => self.faults.pop_front(),
        };
        let unanswered = StoreError::Timeout {
            subject: "the data of the role".into(),
        };
        match fault {
            Some(WriteFault::Lost) => return Err(unanswered),
            Some(WriteFault::Unsupported(reason)) => return Err(StoreError::Unsupported(reason)),
            Some(WriteFault::Refused(detail)) => {
                let code = REFUSED;
                return Err(StoreError::Rejected { code, detail });
            }
            _ => {}
        }
        for write in writes {
            self.store(&write.key, write.value.clone());
        }
        if fault == Some(WriteFault::Unanswered) {
            return Err(unanswered);
        }
        Ok(self.last)
    }

    fn store(&mut self, key: &DataKey, value: Option<Vec<u8>>) -> u64 {
        self.last += 1;
        let revision = self.last;
        self.entries
            .insert(key.to_string(), DataEntry { revision, value });
        revision
    }

    fn revision(&self, key: &DataKey) -> u64 {
        self.entries
            .get(key.as_str())
            .map_or(0, |entry| entry.revision)
    }
}

fn expect(expected: u64, current: u64) -> Result<(), StoreError> {
    if expected == current {
        Ok(())
    } else {
        let current = Some(current);
        Err(StoreError::Conflict { current })
    }
}

fn named(key: &str) -> DataKey {
    DataKey::new(key).unwrap_or_else(|error| panic!("{error}"))
}
