//! The bucket that keeps a role's data: the one in NATS, or memory in a test of a handler.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

#[cfg(any(test, feature = "testing"))]
use super::memory::TestStore;
use crate::store::{Bucket, BucketInfo, DataEntry, DataOwner, DataWrite, StoreError};
use nats_elect_core::name::DataKey;

/// Where to find the bucket just now.
pub(in crate::role) enum DataSource {
    /// The bucket on the current connection.
    Link(watch::Receiver<Option<Bucket>>),
    #[cfg(any(test, feature = "testing"))]
    Memory(TestStore),
}

/// A bucket that can be asked.
#[derive(Clone, Debug)]
pub(super) enum DataBucket {
    Nats(Bucket),
    #[cfg(any(test, feature = "testing"))]
    Memory(TestStore),
}

impl DataSource {
    /// Returns nothing while there is no connection.
    pub(super) fn bucket(&self) -> Option<DataBucket> {
        match self {
            Self::Link(bucket) => bucket.borrow().clone().map(DataBucket::Nats),
            #[cfg(any(test, feature = "testing"))]
            Self::Memory(memory) => memory.reached().map(DataBucket::Memory),
        }
    }
}

/// The requests of [`Bucket`] that a role's data needs. Memory keeps one role, and answers at once.
macro_rules! requests {
    ($($name:ident($($given:ident: $type:ty),*) -> $answer:ty;)*) => {
        impl DataBucket {
            $(
                pub async fn $name(
                    &self,
                    owner: &DataOwner,
                    $($given: $type,)*
                    timeout: Duration,
                ) -> Result<$answer, StoreError> {
                    match self {
                        Self::Nats(bucket) => bucket.$name(owner, $($given,)* timeout).await,
                        #[cfg(any(test, feature = "testing"))]
                        Self::Memory(memory) => memory.$name($($given),*),
                    }
                }
            )*
        }
    };
}

requests! {
    data(key: &DataKey) -> Option<DataEntry>;
    data_keys() -> Vec<String>;
    data_sizes() -> Vec<(String, u64)>;
    fence_sequence() -> u64;
    write_fenced(fence: u64, key: &DataKey, value: Option<&[u8]>) -> u64;
    write_batch(fence: u64, writes: &[DataWrite]) -> u64;
    prove(key: Option<&DataKey>, sequence: u64) -> ();
}

impl DataBucket {
    /// Returns the bucket, unless it is in memory.
    #[cfg_attr(
        not(any(test, feature = "testing")),
        expect(
            clippy::unnecessary_wraps,
            reason = "there is a bucket in memory with the feature alone"
        )
    )]
    pub const fn in_nats(&self) -> Option<&Bucket> {
        match self {
            Self::Nats(bucket) => Some(bucket),
            #[cfg(any(test, feature = "testing"))]
            Self::Memory(_) => None,
        }
    }

    /// Returns the properties as of the last look at the bucket.
    pub fn info(&self) -> Option<Arc<BucketInfo>> {
        match self {
            Self::Nats(bucket) => bucket.info(),
            #[cfg(any(test, feature = "testing"))]
            Self::Memory(memory) => Some(Arc::new(memory.info())),
        }
    }

    /// Returns the size of the largest value that a write may have, alone or in a batch, in bytes.
    pub fn largest_value(&self, owner: &DataOwner, fence: u64, batched: bool) -> usize {
        match self {
            Self::Nats(bucket) => bucket.largest_value(owner, fence, batched),
            #[cfg(any(test, feature = "testing"))]
            Self::Memory(_) => TestStore::LARGEST_VALUE,
        }
    }
}
