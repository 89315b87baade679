//! A model of one NATS Key-Value bucket: two keys, one sequence, compare-and-set.

use std::time::Duration;

#[cfg(nats_elect_mutations)]
use nats_elect::internals::Mutation;

use nats_elect::internals::{Bucket, FenceCondition, Snapshot, Write, WriteKind, WriteOutcome};
use nats_elect::internals::{
    Content, Entry, FenceEntry, FenceRecord, Record, SeenFence, SeenRecord,
};

/// Versions kept, for lost tails and stale reads.
const KEPT: usize = 64;

/// What can be lost.
#[derive(Clone, Debug, Default)]
struct State {
    last: u64,
    role: Option<(Entry, Duration)>,
    fence: Option<(FenceEntry, Duration)>,
}

#[derive(Clone, Debug)]
pub struct ModelBucket {
    /// What an instance learns of it.
    pub made: Bucket,
    /// Whether it is there at all.
    pub exists: bool,
    /// Whether the server checks another key's sequence.
    pub cross_check: bool,
    /// Whether an expiry leaves a marker.
    pub expiry_markers: bool,
    /// Writes to other keys between two to ours, in permille: they use up sequences.
    pub traffic: u32,
    state: State,
    past: Vec<State>,
    highest: u64,
}

impl ModelBucket {
    pub fn new() -> Self {
        let mut bucket = Self {
            made: Bucket {
                epoch: 1_000_000,
                max_age: None,
                unique_sequences: true,
            },
            exists: true,
            cross_check: true,
            expiry_markers: true,
            traffic: 0,
            state: State::default(),
            past: Vec::new(),
            highest: 0,
        };
        bucket.state.last = bucket.first();
        bucket
    }

    /// As servers before 2.11 are: no cross-subject check, sequences from 1.
    pub fn old_server(mut self) -> Self {
        self.cross_check = false;
        self.plain()
    }

    /// As others make them: sequences begin with 1.
    pub fn plain(mut self) -> Self {
        self.made.unique_sequences = false;
        self.state.last = 0;
        self
    }

    pub fn max_age(mut self, max_age: Duration) -> Self {
        self.made.max_age = Some(max_age);
        self
    }

    /// The highest sequence that ever was.
    pub const fn highest(&self) -> u64 {
        self.highest
    }

    const fn first(&self) -> u64 {
        if self.made.unique_sequences {
            self.made.epoch
        } else {
            0
        }
    }

    pub fn role(&self) -> Option<&Entry> {
        self.state.role.as_ref().map(|(entry, _)| entry)
    }

    pub fn fence(&self) -> Option<FenceEntry> {
        self.state.fence.as_ref().map(|(entry, _)| *entry)
    }

    pub fn snapshot(&self, check_bucket: bool) -> Snapshot {
        Snapshot {
            role: self.role().cloned(),
            fence: self.fence(),
            epoch: check_bucket.then_some(self.made.epoch),
        }
    }

    /// As a stream leader of before may still answer.
    pub fn stale_snapshot(&self, check_bucket: bool, writes_ago: usize) -> Snapshot {
        let mut snapshot = self.snapshot(check_bucket);
        if let Some(index) = self.past.len().checked_sub(writes_ago)
            && let Some(state) = self.past.get(index)
        {
            snapshot.role = state.role.as_ref().map(|(entry, _)| entry.clone());
            snapshot.fence = state.fence.as_ref().map(|(entry, _)| *entry);
        }
        snapshot
    }

    pub fn write(&mut self, write: &Write, now: Duration) -> WriteOutcome {
        let nonce = write.nonce;
        match &write.kind {
            WriteKind::Claim { over, record } | WriteKind::Renew { over, record } => {
                self.set_role(*over, seen(record), now)
            }
            WriteKind::Release { over, heir } => {
                let nonce = Some(nonce);
                let content = match *heir {
                    None => Content::Release(nonce),
                    Some(heir) => Content::Handoff { nonce, heir },
                };
                self.set_role(*over, content, now)
            }
            WriteKind::Fence { condition, fence } => {
                let (is, expected) = match condition {
                    FenceCondition::RoleKeyAt(_) if !self.cross_check => {
                        return WriteOutcome::Unsupported;
                    }
                    FenceCondition::RoleKeyAt(expected) => (self.role_sequence(), *expected),
                    FenceCondition::FenceKeyAt(expected) => {
                        (self.fence().map_or(0, |fence| fence.revision), *expected)
                    }
                };
                #[cfg(nats_elect_mutations)]
                let expected = if Mutation::FenceWithoutCondition.is_on() {
                    is
                } else {
                    expected
                };
                if is != expected {
                    return WriteOutcome::Conflict { current: Some(is) };
                }
                self.put_fence(fence, now)
            }
        }
    }

    /// Anybody's put, without any expectation.
    pub fn put(&mut self, content: Content, now: Duration) {
        let revision = self.next();
        self.state.role = Some((Entry { revision, content }, now));
    }

    /// The role's key is gone without a trace.
    pub fn purge(&mut self) {
        self.remember();
        self.state.role = None;
    }

    /// The server drops what is older than the bucket's max age. Returns whether that left a marker.
    pub fn expire(&mut self, now: Duration) -> bool {
        let Some(max_age) = self.made.max_age else {
            return false;
        };
        let old = |at: Duration| now.saturating_sub(at) >= max_age;
        if self.state.fence.is_some_and(|(_, at)| old(at)) {
            self.state.fence = None;
        }
        let Some((entry, at)) = &self.state.role else {
            return false;
        };
        if !old(*at) {
            return false;
        }
        let was_marker = !matches!(entry.content, Content::Record(_) | Content::Opaque);
        if self.expiry_markers && !was_marker {
            self.put(Content::ForeignMarker, now);
            return true;
        }
        self.purge();
        false
    }

    /// Whether the role's message has outlived the bucket's max age and the server has not noticed yet.
    pub fn is_role_overdue(&self, now: Duration) -> bool {
        let Some(max_age) = self.made.max_age else {
            return false;
        };
        let written = self.state.role.as_ref().map(|(_, at)| *at);
        written.is_some_and(|at| now.saturating_sub(at) >= max_age)
    }

    /// When the next key grows too old.
    pub fn next_expiry(&self) -> Option<Duration> {
        let max_age = self.made.max_age?;
        let role = self.state.role.as_ref().map(|(_, at)| *at);
        let fence = self.state.fence.as_ref().map(|(_, at)| *at);
        [role, fence]
            .into_iter()
            .flatten()
            .min()
            .map(|at| at + max_age)
    }

    /// The last writes are lost, although they were acknowledged.
    pub fn lose_tail(&mut self, writes: usize) {
        for _ in 0..writes {
            if let Some(state) = self.past.pop() {
                self.state = state;
            }
        }
    }

    /// Deleted and made anew, at this time.
    pub fn recreate(&mut self, now: Duration) {
        let micros = u64::try_from(now.as_micros()).expect("a short run");
        self.made.epoch = 3_000_000 + micros;
        self.exists = true;
        self.past.clear();
        self.state = State::default();
        self.state.last = self.first();
        #[cfg(nats_elect_mutations)]
        if Mutation::ReuseSequences.is_on() {
            self.state.last = 1_000_000;
        }
    }

    fn role_sequence(&self) -> u64 {
        self.role().map_or(0, |entry| entry.revision)
    }

    fn set_role(&mut self, over: u64, content: Content, now: Duration) -> WriteOutcome {
        let current = self.role_sequence();
        #[cfg(nats_elect_mutations)]
        let over = if Mutation::BlindWrites.is_on() {
            current
        } else {
            over
        };
        if current != over {
            return WriteOutcome::Conflict {
                current: Some(current),
            };
        }
        self.put(content, now);
        WriteOutcome::Acked {
            revision: self.state.last,
        }
    }

    fn put_fence(&mut self, fence: &FenceRecord, now: Duration) -> WriteOutcome {
        let revision = self.next();
        let record = SeenFence {
            nonce: fence.nonce,
            ttl: Some(fence.ttl),
        };
        let record = Some(record);
        self.state.fence = Some((FenceEntry { revision, record }, now));
        WriteOutcome::Acked { revision }
    }

    fn next(&mut self) -> u64 {
        self.remember();
        // No chance of its own: a bucket is what was written to it.
        let others = self.state.last.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 1000;
        let others = if others < u64::from(self.traffic) {
            1 + others % 3
        } else {
            0
        };
        self.state.last += 1 + others;
        self.highest = self.highest.max(self.state.last);
        self.state.last
    }

    fn remember(&mut self) {
        if self.past.len() == KEPT {
            self.past.remove(0);
        }
        self.past.push(self.state.clone());
    }
}

/// A record as its readers see it.
pub fn seen(record: &Record) -> Content {
    Content::Record(Box::new(SeenRecord {
        id: record.id.clone(),
        priority: record.priority,
        meta: record.meta.clone(),
        ttl: Some(record.ttl),
        incarnation: Some(record.nonce.incarnation),
        beat: Some(record.nonce.beat),
        proof: None,
    }))
}

/// A record that was not written by any instance of the world.
pub fn stranger(ttl: Option<Duration>) -> Content {
    Content::Record(Box::new(SeenRecord {
        id: "stranger".to_owned(),
        priority: 0,
        meta: std::collections::BTreeMap::new(),
        ttl,
        incarnation: None,
        beat: None,
        proof: None,
    }))
}
