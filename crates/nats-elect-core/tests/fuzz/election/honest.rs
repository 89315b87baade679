//! A bucket that answers honestly.

use std::time::Duration;

use nats_elect_core::heirs::Heirs;
use nats_elect_core::record::{Content, Entry, FenceEntry, Nonce, SeenFence, SeenRecord, Snapshot};
use nats_elect_core::release::ReleaseHash;
use nats_elect_core::{Bucket, Write, WriteKind, WriteOutcome};

/// A bucket as it should be.
#[derive(Default)]
pub(super) struct Honest {
    pub(super) last: u64,
    pub(super) role: Option<Entry>,
    pub(super) fence: Option<FenceEntry>,
}

impl Honest {
    pub(super) fn snapshot(&self, bucket: Option<Bucket>) -> Snapshot {
        Snapshot {
            role: self.role.clone(),
            fence: self.fence,
            epoch: bucket.map(|bucket| bucket.epoch),
            last_sequence: Some(self.last),
        }
    }

    pub(super) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub(super) fn put(&mut self, content: Content) -> u64 {
        let revision = self.next();
        self.role = Some(Entry { revision, content });
        revision
    }

    pub(super) fn take(&mut self, write: &Write) -> WriteOutcome {
        let role = self.role.as_ref().map_or(0, |entry| entry.revision);
        let fence = self.fence.map_or(0, |fence| fence.revision);
        let (expected, current) = match &write.kind {
            WriteKind::Claim { over, .. }
            | WriteKind::Renew { over, .. }
            | WriteKind::Release { over, .. } => (*over, role),
            WriteKind::Fence { over, .. } => (*over, fence),
        };
        if expected != current {
            return WriteOutcome::Conflict {
                current: Some(current),
            };
        }
        let revision = match &write.kind {
            WriteKind::Claim { record, .. } | WriteKind::Renew { record, .. } => self.put(
                record_of(write.nonce, Some(record.ttl), Some(record.release)),
            ),
            WriteKind::Release { release, .. } => self.put(Content::Release(*release)),
            WriteKind::Fence { fence, .. } => {
                let revision = self.next();
                self.fence = Some(FenceEntry {
                    revision,
                    record: Some(SeenFence {
                        nonce: write.nonce,
                        ttl: Some(fence.ttl),
                        release: Some(fence.release),
                    }),
                });
                revision
            }
        };
        WriteOutcome::Acked { revision }
    }
}

pub(super) fn record_of(
    nonce: Nonce,
    ttl: Option<Duration>,
    release: Option<ReleaseHash>,
) -> Content {
    Content::Record(Box::new(SeenRecord {
        id: "somebody".to_owned(),
        priority: -1,
        meta: std::collections::BTreeMap::new(),
        ttl,
        incarnation: Some(nonce.incarnation),
        beat: Some(nonce.beat),
        release,
        heirs: Heirs::NONE,
        proof: None,
        application: None,
    }))
}
