//! A model of one NATS Key-Value bucket: two keys, one sequence, compare-and-set.

use std::time::Duration;

use uuid::Uuid;

#[cfg(feature = "__mutations")]
use nats_elect_core::Mutation;

use nats_elect_core::heirs::Heirs;
use nats_elect_core::record::Snapshot;
use nats_elect_core::record::{
    Content, Entry, FenceEntry, FenceRecord, Record, SeenFence, SeenRecord,
};
use nats_elect_core::{Bucket, Write, WriteKind, WriteOutcome};

/// Versions kept, for lost tails and stale reads.
const KEPT: usize = 256;

/// What can be lost.
#[derive(Clone, Debug, Default)]
struct State {
    /// Since when it has been so.
    since: Duration,
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
    /// After this time keys expire.
    ages: Option<Duration>,
    /// Genuine releases, to be put again by other hands.
    pub releases: Vec<Content>,
    /// Records that stood there, likewise.
    pub records: Vec<Content>,
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
            ages: None,
            releases: Vec::new(),
            records: Vec::new(),
            expiry_markers: true,
            traffic: 0,
            state: State::default(),
            past: Vec::new(),
            highest: 0,
        };
        bucket.state.last = bucket.first();
        bucket
    }

    /// As others make them: sequences begin with 1.
    pub fn plain(mut self) -> Self {
        self.made.unique_sequences = false;
        self.state.last = 0;
        self
    }

    pub fn max_age(mut self, max_age: Duration) -> Self {
        self.made.max_age = Some(max_age);
        self.ages = Some(max_age);
        self
    }

    /// Somebody edits the max age, so that it is below the leases, or puts it back. (That keys
    /// would expire then is not modelled: it would be an early expiry.)
    pub const fn edit_max_age(&mut self, unfit: Option<Duration>) {
        self.made.max_age = match unfit {
            Some(_) => unfit,
            None => self.ages,
        };
    }

    /// The highest sequence that ever was.
    pub const fn highest(&self) -> u64 {
        self.highest
    }

    /// The sequence of its last message.
    pub const fn last(&self) -> u64 {
        self.state.last
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

    /// What stands under both keys.
    #[allow(dead_code, reason = "the exploration reads so")]
    pub fn snapshot(&self) -> Snapshot {
        self.shown_by(&self.state)
    }

    /// What stood there so many writes ago.
    #[allow(dead_code, reason = "the exploration reads so")]
    pub fn stale_snapshot(&self, writes_ago: usize) -> Snapshot {
        let index = self.past.len().checked_sub(writes_ago);
        let state = index.and_then(|index| self.past.get(index));
        self.shown_by(state.unwrap_or(&self.state))
    }

    #[allow(dead_code, reason = "the exploration reads so")]
    fn shown_by(&self, state: &State) -> Snapshot {
        Snapshot {
            role: state.role.as_ref().map(|(entry, _)| entry.clone()),
            fence: state.fence.as_ref().map(|(entry, _)| *entry),
            epoch: Some(self.made.epoch),
            last_sequence: Some(self.state.last),
        }
    }

    /// What stood there so long ago, as a stream leader of before may still answer.
    fn state_of(&self, ago: Duration, now: Duration) -> &State {
        let at = now.saturating_sub(ago);
        let before = self.past.iter().rev().find(|state| state.since <= at);
        match before {
            _ if self.state.since <= at => &self.state,
            Some(state) => state,
            None => self.past.first().unwrap_or(&self.state),
        }
    }

    pub fn role_of(&self, ago: Duration, now: Duration) -> Option<Entry> {
        let role = &self.state_of(ago, now).role;
        role.as_ref().map(|(entry, _)| entry.clone())
    }

    pub fn fence_of(&self, ago: Duration, now: Duration) -> Option<FenceEntry> {
        let fence = &self.state_of(ago, now).fence;
        fence.as_ref().map(|(entry, _)| *entry)
    }

    /// What a server says that refuses this write by what stood there so long ago; nothing if it
    /// would have stored it then.
    pub fn refusal_of(&self, write: &Write, ago: Duration, now: Duration) -> Option<u64> {
        let state = self.state_of(ago, now);
        let (is, over) = match &write.kind {
            WriteKind::Fence { over, .. } => (
                state.fence.as_ref().map_or(0, |(fence, _)| fence.revision),
                *over,
            ),
            WriteKind::Claim { over, .. }
            | WriteKind::Renew { over, .. }
            | WriteKind::Release { over, .. } => (
                state.role.as_ref().map_or(0, |(role, _)| role.revision),
                *over,
            ),
        };
        (is != over).then_some(is)
    }

    pub fn write(&mut self, write: &Write, now: Duration) -> WriteOutcome {
        match &write.kind {
            WriteKind::Claim { over, record } | WriteKind::Renew { over, record } => {
                self.set_role(*over, seen(record), now)
            }
            WriteKind::Release { over, release } => {
                self.set_role(*over, Content::Release(*release), now)
            }
            WriteKind::Fence { over, fence } => {
                let is = self.fence().map_or(0, |fence| fence.revision);
                let expected = *over;
                #[cfg(feature = "__mutations")]
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
        match &content {
            Content::Release(_) => self.releases.push(content.clone()),
            Content::Record(_) => self.records.push(content.clone()),
            Content::Opaque | Content::ForeignMarker => {}
        }
        let revision = self.next(now);
        self.state.role = Some((Entry { revision, content }, now));
    }

    /// Somebody's hand writes a fence record.
    pub fn forge_fence(&mut self, fence: &FenceRecord, now: Duration) {
        self.put_fence(fence, now);
    }

    /// Somebody deletes the fence record: a marker stands there.
    pub fn delete_fence(&mut self, now: Duration) {
        let revision = self.next(now);
        let record = None;
        self.state.fence = Some((FenceEntry { revision, record }, now));
    }

    /// The fence key is gone without a trace.
    pub fn purge_fence(&mut self, now: Duration) {
        self.remember();
        self.state.since = now;
        self.state.fence = None;
    }

    /// The same, unless it stands above this sequence.
    #[allow(dead_code, reason = "no operator retires a role in the exploration")]
    pub fn purge_fence_through(&mut self, sequence: u64, now: Duration) {
        if self.fence().is_some_and(|fence| fence.revision <= sequence) {
            self.purge_fence(now);
        }
    }

    /// The role's key is gone without a trace, unless it stands above this sequence.
    #[allow(dead_code, reason = "no operator retires a role in the exploration")]
    pub fn purge_through(&mut self, sequence: u64, now: Duration) {
        if self.role().is_some_and(|role| role.revision <= sequence) {
            self.purge(now);
        }
    }

    /// The role's key is gone without a trace.
    pub fn purge(&mut self, now: Duration) {
        self.remember();
        self.state.since = now;
        self.state.role = None;
    }

    /// The server drops what is older than the bucket's max age. Returns whether that left a marker
    /// under either key.
    pub fn expire(&mut self, now: Duration) -> bool {
        let Some(max_age) = self.ages else {
            return false;
        };
        let old = |at: Duration| now.saturating_sub(at) >= max_age;
        let mut marked = false;
        if let Some((fence, _)) = self.state.fence.filter(|(_, at)| old(*at)) {
            marked = self.expiry_markers && fence.record.is_some();
            self.state.fence = None;
            if marked {
                self.delete_fence(now);
            }
        }
        let Some((entry, at)) = &self.state.role else {
            return marked;
        };
        if !old(*at) {
            return marked;
        }
        let was_marker = !matches!(entry.content, Content::Record(_) | Content::Opaque);
        if self.expiry_markers && !was_marker {
            self.put(Content::ForeignMarker, now);
            return true;
        }
        self.purge(now);
        marked
    }

    /// Whether the role's message has outlived the bucket's max age and the server has not noticed
    /// yet.
    pub fn is_role_overdue(&self, now: Duration) -> bool {
        let Some(max_age) = self.ages else {
            return false;
        };
        let written = self.state.role.as_ref().map(|(_, at)| *at);
        written.is_some_and(|at| now.saturating_sub(at) >= max_age)
    }

    /// When the next key grows too old.
    pub fn next_expiry(&self) -> Option<Duration> {
        let max_age = self.ages?;
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
        self.state.since = now;
        self.state.last = self.first();
        #[cfg(feature = "__mutations")]
        if Mutation::ReuseSequences.is_on() {
            self.state.last = 1_000_000;
        }
    }

    fn role_sequence(&self) -> u64 {
        self.role().map_or(0, |entry| entry.revision)
    }

    fn set_role(&mut self, over: u64, content: Content, now: Duration) -> WriteOutcome {
        let current = self.role_sequence();
        #[cfg(feature = "__mutations")]
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
        let revision = self.next(now);
        let record = SeenFence {
            nonce: fence.nonce,
            ttl: Some(fence.ttl),
            release: Some(fence.release),
        };
        let record = Some(record);
        self.state.fence = Some((FenceEntry { revision, record }, now));
        WriteOutcome::Acked { revision }
    }

    fn next(&mut self, now: Duration) -> u64 {
        self.remember();
        self.state.since = now;
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
        release: Some(record.release),
        heirs: record.heirs,
        proof: None,
        application: None,
    }))
}

/// A record that was not written by any instance of the world.
pub fn stranger(ttl: Option<Duration>) -> Content {
    stray(ttl, None)
}

/// A record by nobody, which may look as if this incarnation had written it.
pub fn stray(ttl: Option<Duration>, incarnation: Option<Uuid>) -> Content {
    Content::Record(Box::new(SeenRecord {
        id: "stranger".to_owned(),
        priority: 0,
        meta: std::collections::BTreeMap::new(),
        ttl,
        incarnation,
        beat: incarnation.map(|_| 1),
        release: None,
        heirs: Heirs::NONE,
        proof: None,
        application: None,
    }))
}
