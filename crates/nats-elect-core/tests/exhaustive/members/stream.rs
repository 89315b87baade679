//! A model of the keys of one group: the last value of each, and maps that were overwritten but are
//! still on their way to watches.

use std::collections::BTreeMap;
use std::sync::Arc;

use nats_elect_core::Bucket;
use nats_elect_core::assignment::{Epoch, Key, Value};
use nats_elect_core::member::Over;
use nats_elect_core::name::GroupName;

/// What a member learns of the bucket.
pub const MADE: Bucket = Bucket {
    epoch: 1_000_000,
    max_age: None,
    unique_sequences: true,
};

pub fn group() -> GroupName {
    GroupName::new("g").expect("a name")
}

pub fn map_key() -> Key {
    Key::Map(group())
}

/// A value that is stored.
#[derive(Clone, Debug, Hash)]
pub struct Entry {
    pub key: Key,
    pub sequence: u64,
    pub value: Value,
}

#[derive(Clone, Debug)]
pub struct Stream {
    pub last: u64,
    pub standing: BTreeMap<Key, Arc<Entry>>,
    /// Maps that were overwritten or purged, and are not behind all watches. A watch may show them or
    /// leave them out. Of members' records it shows the last one alone: whoever is shown one right
    /// before the next learns the same.
    pub passing: Vec<Arc<Entry>>,
    /// Records that say the same as the one before under their keys, whose sequences these are.
    repeats: BTreeMap<Key, u64>,
    /// The first record of each epoch, for who puts it back.
    pub first: BTreeMap<Epoch, Value>,
}

impl Stream {
    pub const fn new() -> Self {
        Self {
            last: MADE.epoch,
            standing: BTreeMap::new(),
            passing: Vec::new(),
            repeats: BTreeMap::new(),
            first: BTreeMap::new(),
        }
    }

    pub fn get(&self, key: &Key) -> Option<(u64, Value)> {
        let entry = self.standing.get(key)?;
        Some((entry.sequence, entry.value.clone()))
    }

    pub fn sequence(&self, key: &Key) -> u64 {
        self.standing.get(key).map_or(0, |it| it.sequence)
    }

    /// Stores a value if the condition holds. Otherwise tells where the key stands.
    pub fn store(&mut self, key: &Key, over: Over, value: Value) -> Result<u64, u64> {
        let stands = self.sequence(key);
        if let Over::Sequence(over) = over
            && over != stands
        {
            return Err(stands);
        }
        let former = self.standing.get(key).cloned();
        self.purge(key);
        self.last += 1;
        let sequence = self.last;
        let value = match value {
            Value::Map(map) => Value::Map(map.stored_at(sequence).into()),
            value => value,
        };
        if former
            .as_ref()
            .is_some_and(|it| says_same(&it.value, &value))
        {
            self.repeats.insert(key.clone(), stands);
        }
        if let Key::Member(_, epoch) = key {
            self.first.entry(*epoch).or_insert_with(|| value.clone());
        }
        let entry = Entry {
            key: key.clone(),
            sequence,
            value,
        };
        self.standing.insert(key.clone(), Arc::new(entry));
        Ok(sequence)
    }

    /// The key is gone without a trace, but for a map that may be on its way.
    pub fn purge(&mut self, key: &Key) {
        self.repeats.remove(key);
        let gone = self.standing.remove(key);
        self.passing
            .extend(gone.filter(|it| matches!(it.key, Key::Map(_))));
    }

    /// Whether who has passed this position is told nothing by an entry, but that its member lives.
    pub fn tells_nothing(&self, entry: &Entry, position: u64) -> bool {
        let former = self.repeats.get(&entry.key);
        former.is_some_and(|it| *it <= position)
    }

    pub fn is_overwritten(&self, entry: &Entry) -> bool {
        self.sequence(&entry.key) != entry.sequence
    }

    /// Forgets what all watches have passed.
    pub fn forget(&mut self, passed: u64) {
        self.passing.retain(|it| it.sequence > passed);
    }
}

/// Whether two records differ in the number of their heartbeat alone.
fn says_same(former: &Value, value: &Value) -> bool {
    let (Value::Member(former), Value::Member(record)) = (former, value) else {
        return false;
    };
    let mut former = former.clone();
    former.beat = record.beat;
    former == *record
}
