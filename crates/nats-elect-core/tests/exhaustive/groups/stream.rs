//! A model of the keys of groups in one stream: one message for each key, and what is overwritten
//! but still on its way to watches.

use std::sync::Arc;

use nats_elect_core::Bucket;
use nats_elect_core::group::{Epoch, GroupKey, GroupRecord, MemberContent, UnitRecord};
use nats_elect_core::record::Content;

/// What a member learns of the bucket.
pub const MADE: Bucket = Bucket {
    epoch: 1_000_000,
    max_age: None,
    unique_sequences: true,
};

/// What a message says.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "most are members' records")]
pub enum Body {
    /// As an election reads it, and as a member's machine does.
    Member(Content, MemberContent),
    Group(GroupRecord),
    /// With the epoch that signed it, together with the sequence that it was written over.
    Unit(Option<UnitRecord>, Option<Epoch>),
}

/// A message.
#[derive(Clone, Debug)]
pub struct Stored {
    pub key: GroupKey,
    pub sequence: u64,
    /// The condition that the server compared when it stored this.
    pub over: Option<u64>,
    pub body: Body,
}

#[derive(Clone, Debug)]
pub struct Stream {
    pub last: u64,
    /// In the order of their sequences.
    standing: Vec<Arc<Stored>>,
    /// Overwritten or purged, and not behind all watches. A watch may show them or leave them out.
    passing: Vec<Arc<Stored>>,
}

impl Stream {
    pub const fn new() -> Self {
        Self {
            last: MADE.epoch,
            standing: Vec::new(),
            passing: Vec::new(),
        }
    }

    pub fn get(&self, key: &GroupKey) -> Option<&Arc<Stored>> {
        self.standing.iter().find(|it| it.key == *key)
    }

    pub fn sequence(&self, key: &GroupKey) -> u64 {
        self.get(key).map_or(0, |stored| stored.sequence)
    }

    pub fn standing(&self) -> &[Arc<Stored>] {
        &self.standing
    }

    pub fn passing(&self) -> &[Arc<Stored>] {
        &self.passing
    }

    /// The first message above this sequence that is not hidden.
    pub fn next(&self, position: u64, hidden: &[u64]) -> Option<&Arc<Stored>> {
        let all = self.standing.iter().chain(&self.passing);
        let after = all.filter(|it| it.sequence > position && !hidden.contains(&it.sequence));
        after.min_by_key(|it| it.sequence)
    }

    pub fn is_overwritten(&self, stored: &Stored) -> bool {
        self.sequence(&stored.key) != stored.sequence
    }

    /// Stores a message if the condition holds. Otherwise tells where the key stands.
    pub fn store(&mut self, key: GroupKey, over: Option<u64>, body: Body) -> Result<u64, u64> {
        let stands = self.sequence(&key);
        if over.is_some_and(|over| over != stands) {
            return Err(stands);
        }
        self.purge(&key);
        self.last += 1;
        self.standing.push(Arc::new(Stored {
            key,
            sequence: self.last,
            over,
            body,
        }));
        Ok(self.last)
    }

    /// The key is gone without a trace, but for a message that may be on its way.
    pub fn purge(&mut self, key: &GroupKey) {
        let index = self.standing.iter().position(|it| it.key == *key);
        let gone = index.map(|index| self.standing.remove(index));
        self.passing.extend(gone);
    }

    /// Forgets what no watch will show: what all have passed, heartbeats that were overwritten, and
    /// of one key all but the last message on its way. That heartbeats are left out makes no
    /// difference: a watch that shows one right before the next has its receiver learn the same.
    pub fn forget(&mut self, passed: u64) {
        let passing = std::mem::take(&mut self.passing);
        let later = |it: &Stored| {
            let of_key = passing.iter().filter(|other| other.key == it.key);
            of_key.map(|other| other.sequence).max()
        };
        let is_heartbeat =
            |it: &Stored| matches!(it.body, Body::Member(_, MemberContent::Record(_)));
        let kept = passing.iter().filter(|it| {
            it.sequence > passed && !is_heartbeat(it) && later(it) == Some(it.sequence)
        });
        self.passing = kept.cloned().collect();
    }
}
