//! Messages as they stand in the bucket.

use std::collections::BTreeMap;
use std::time::Duration;

use uuid::Uuid;

use super::SECRET;
use crate::Write;
use crate::heirs::Heirs;
use crate::record::{Content, Entry, FenceEntry, Nonce, Release, SeenFence, SeenRecord};
use crate::release::ReleaseSecret;

/// An attempt of another instance.
const THEIRS: Nonce = Nonce {
    incarnation: Uuid::from_u128(99),
    beat: 0,
};

/// The fence record of an earlier term, by another instance.
pub const OLD_FENCE: FenceEntry = fence_of(99, THEIRS);

pub const fn entry(revision: u64, content: Content) -> Entry {
    Entry { revision, content }
}

/// A release of the role, by nobody in particular.
pub fn free(revision: u64) -> Entry {
    entry(revision, Content::Release(Release::default()))
}

/// A release that our secret proves.
pub fn proven_release() -> Content {
    Content::Release(Release {
        secret: Some(SECRET),
        ..Release::default()
    })
}

/// A release of ours as it looks in the bucket.
pub fn released(write: &Write) -> Content {
    Content::Release(Release {
        nonce: Some(write.nonce),
        secret: Some(SECRET),
        ..Release::default()
    })
}

/// A record by another instance, with this lease.
pub fn stranger(ttl: Option<Duration>) -> Content {
    record_of(Uuid::from_u128(99), 1, ttl)
}

pub fn record_of(incarnation: Uuid, beat: u64, ttl: Option<Duration>) -> Content {
    Content::Record(Box::new(SeenRecord {
        id: "somebody".to_owned(),
        priority: 0,
        meta: BTreeMap::new(),
        ttl,
        incarnation: Some(incarnation),
        beat: Some(beat),
        release: None,
        heirs: Heirs::NONE,
        proof: None,
        application: None,
    }))
}

/// A write of ours as it looks in the bucket.
pub fn own(write: &Write, ttl: Duration) -> Content {
    record_of(write.nonce.incarnation, write.nonce.beat, Some(ttl))
}

/// A fence record that does not tell its lease, like those of older versions.
pub const fn fence_of(revision: u64, nonce: Nonce) -> FenceEntry {
    FenceEntry {
        revision,
        record: Some(SeenFence {
            nonce,
            ttl: None,
            release: None,
        }),
    }
}

/// The fence record of another instance's term. It shows the hash of this secret.
pub fn hashed_fence(revision: u64, ttl: Option<Duration>, secret: ReleaseSecret) -> FenceEntry {
    FenceEntry {
        revision,
        record: Some(SeenFence {
            nonce: THEIRS,
            ttl,
            release: Some(secret.hash()),
        }),
    }
}
