//! A model of the keys of groups in one stream: one message for each key, and the condition of a
//! compare-and-set stored with it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use nats_elect_core::Bucket;
use nats_elect_core::group::{Epoch, GroupKey, GroupRecord, MemberContent, UnitKey, UnitRecord};
use nats_elect_core::name::GroupName;
use nats_elect_core::record::Content;

/// A signature, of one write alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    pub by: Epoch,
    pub key: UnitKey,
    pub over: u64,
    pub record: UnitRecord,
}

/// What a message says.
#[derive(Clone, Debug)]
pub enum Body {
    /// As an election reads it, and as a member's machine does.
    Member(Content, MemberContent),
    Group(Option<GroupRecord>),
    Unit(Option<UnitRecord>, Option<Signature>),
}

/// A message.
#[derive(Clone, Debug)]
pub struct Stored {
    pub key: GroupKey,
    pub sequence: u64,
    /// The condition that the server compared when it stored this.
    pub over: Option<u64>,
    pub body: Body,
    pub at: Duration,
}

impl Stored {
    /// Whether a member's record says that the member knows that the group was made.
    pub fn tells(&self, group: &GroupName) -> bool {
        let Body::Member(_, MemberContent::Record(member)) = &self.body else {
            return false;
        };
        let support = member.info.as_ref().and_then(|it| it.groups.get(group));
        support.is_some_and(|it| it.generation > 0)
    }
}

/// How to undo the last change.
#[derive(Debug)]
struct Undo {
    key: GroupKey,
    before: Option<Arc<Stored>>,
    last: u64,
}

#[derive(Debug)]
pub struct Stream {
    pub made: Bucket,
    pub last: u64,
    keys: BTreeMap<GroupKey, Arc<Stored>>,
    standing: BTreeMap<u64, Arc<Stored>>,
    /// All that was ever stored, for copies, stale reads and servers that lag.
    pub log: Vec<Arc<Stored>>,
    purges: Vec<(Duration, GroupKey)>,
    undo: Vec<Undo>,
}

impl Stream {
    /// `unique`: sequences begin above those of any bucket of that name before, as ours do.
    pub fn new(unique: bool) -> Self {
        let made = Bucket {
            epoch: 1_000_000,
            max_age: None,
            unique_sequences: unique,
        };
        Self {
            made,
            last: if unique { made.epoch } else { 0 },
            keys: BTreeMap::new(),
            standing: BTreeMap::new(),
            log: Vec::new(),
            purges: Vec::new(),
            undo: Vec::new(),
        }
    }

    pub fn get(&self, key: &GroupKey) -> Option<&Arc<Stored>> {
        self.keys.get(key)
    }

    pub fn sequence(&self, key: &GroupKey) -> u64 {
        self.keys.get(key).map_or(0, |stored| stored.sequence)
    }

    pub fn keys(&self) -> impl Iterator<Item = &GroupKey> {
        self.keys.keys()
    }

    /// What stands there above this sequence, in order.
    pub fn after(&self, sequence: u64) -> impl Iterator<Item = &Arc<Stored>> {
        self.standing
            .range(sequence + 1..)
            .map(|(_, stored)| stored)
    }

    /// Stores a message if the condition holds. Otherwise tells where the key stands.
    pub fn store(
        &mut self,
        key: GroupKey,
        over: Option<u64>,
        body: Body,
        at: Duration,
    ) -> Result<Arc<Stored>, u64> {
        let stands = self.sequence(&key);
        if over.is_some_and(|over| over != stands) {
            return Err(stands);
        }
        let last = self.last;
        self.last += 1;
        let stored = Arc::new(Stored {
            key: key.clone(),
            sequence: self.last,
            over,
            body,
            at,
        });
        let before = self.put(&key, Some(stored.clone()));
        self.undo.push(Undo { key, before, last });
        self.log.push(stored.clone());
        Ok(stored)
    }

    fn put(&mut self, key: &GroupKey, stored: Option<Arc<Stored>>) -> Option<Arc<Stored>> {
        let before = match stored {
            Some(stored) => {
                self.standing.insert(stored.sequence, stored.clone());
                self.keys.insert(key.clone(), stored)
            }
            None => self.keys.remove(key),
        };
        if let Some(before) = &before {
            self.standing.remove(&before.sequence);
        }
        before
    }

    /// The key is gone without a trace.
    pub fn purge(&mut self, key: &GroupKey, at: Duration) {
        let last = self.last;
        if let Some(before) = self.put(key, None) {
            self.purges.push((at, key.clone()));
            let (key, before) = (key.clone(), Some(before));
            self.undo.push(Undo { key, before, last });
        }
    }

    /// The last changes are lost, although they were confirmed. Their sequences come again.
    pub fn lose_end(&mut self, changes: usize) {
        for _ in 0..changes {
            let Some(Undo { key, before, last }) = self.undo.pop() else {
                return;
            };
            self.put(&key, before);
            self.last = last;
        }
    }

    /// What stood under a key at that time, as a server that lags may still answer.
    pub fn read(&self, key: &GroupKey, at: Duration) -> Option<Arc<Stored>> {
        let mut written = self.log.iter().rev().filter(|it| it.key == *key);
        written.find(|it| it.at <= at).cloned()
    }

    /// All that stood there at that time, in order.
    pub fn standing_at(&self, at: Duration) -> Vec<Arc<Stored>> {
        let mut keys: BTreeMap<&GroupKey, &Arc<Stored>> = BTreeMap::new();
        for stored in self.log.iter().take_while(|it| it.at <= at) {
            keys.insert(&stored.key, stored);
        }
        for (when, key) in self.purges.iter().filter(|(when, _)| *when <= at) {
            if keys.get(key).is_some_and(|it| it.at <= *when) {
                keys.remove(key);
            }
        }
        let mut standing: Vec<_> = keys.into_values().cloned().collect();
        standing.sort_by_key(|it| it.sequence);
        standing
    }
}
