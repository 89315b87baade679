//! The stream: the last value of each key, and all values in their order.

use std::collections::{BTreeMap, BTreeSet};

use nats_elect_core::Moment;
use nats_elect_core::assignment::{Epoch, Key, Map, Unit, Value};

pub const CONDITION: &str = "Nats-Expected-Last-Subject-Sequence";

/// A stored value.
#[derive(Clone, Debug)]
pub struct Entry {
    pub key: Key,
    pub sequence: u64,
    pub bytes: Vec<u8>,
    pub value: Value,
    /// When it was stored.
    pub at: Moment,
}

#[derive(Debug)]
pub struct Stream {
    pub bucket: u64,
    pub sequence: u64,
    pub log: Vec<Entry>,
    /// What was lost. What a member once told stays true.
    lost: Vec<Entry>,
    /// The time.
    pub now: Moment,
    last: BTreeMap<Key, usize>,
    /// Keys that were emptied, each with the length of the log.
    purges: Vec<(usize, Key)>,
}

impl Stream {
    pub const fn new(bucket: u64) -> Self {
        Self {
            bucket,
            sequence: 0,
            log: Vec::new(),
            lost: Vec::new(),
            now: Moment::from_nanos(0),
            last: BTreeMap::new(),
            purges: Vec::new(),
        }
    }

    /// The last value of a key.
    pub fn get(&self, key: &Key) -> Option<&Entry> {
        self.last.get(key).map(|at| &self.log[*at])
    }

    pub fn last_sequence(&self, key: &Key) -> u64 {
        self.get(key).map_or(0, |it| it.sequence)
    }

    /// Stores a value. The header tells the condition that the server compared, if there was one.
    pub fn store(&mut self, key: &Key, bytes: &[u8], condition: Option<u64>) -> &Entry {
        self.store_with(key, bytes, condition, &[])
    }

    /// Stores a value with these headers beside.
    pub fn store_with(
        &mut self,
        key: &Key,
        bytes: &[u8],
        condition: Option<u64>,
        headers: &[(&str, &str)],
    ) -> &Entry {
        self.sequence += 1;
        let condition = condition.map(|it| it.to_string());
        let condition = condition.iter().map(|it| (CONDITION, it.as_str()));
        let headers = condition.chain(headers.iter().copied());
        let value = Value::read(key, self.sequence, bytes, headers, self.bucket);
        self.last.insert(key.clone(), self.log.len());
        self.log.push(Entry {
            key: key.clone(),
            sequence: self.sequence,
            bytes: bytes.to_vec(),
            value,
            at: self.now,
        });
        self.log.last().expect("just now")
    }

    /// Removes all of a key, without a trace.
    pub fn purge(&mut self, key: &Key) {
        self.last.remove(key);
        self.purges.push((self.log.len(), key.clone()));
    }

    /// Loses the last values. Their sequences are given again.
    pub fn lose(&mut self, count: usize) {
        let length = self.log.len().saturating_sub(count).max(1);
        let kept = length.min(self.log.len());
        self.lost.extend(self.log.split_off(kept));
        self.purges.retain(|(at, _)| *at <= length);
        self.sequence = self.log.last().map_or(self.sequence, |it| it.sequence);
        let all = self.log.iter().enumerate();
        self.last = all.map(|(at, it)| (it.key.clone(), at)).collect();
        let purges = &self.purges;
        self.last
            .retain(|key, at| !purges.iter().any(|(after, it)| it == key && *at < *after));
    }

    /// Whether the entry is still there.
    pub fn is_last(&self, at: usize) -> bool {
        self.last.get(&self.log[at].key) == Some(&at)
    }

    /// The last values of members' keys after a sequence, the first of them. `until`: as the log was
    /// when it had so many values.
    pub fn next_member(&self, after: u64, until: Option<usize>) -> Option<&Entry> {
        let is_member = |key: &Key| matches!(key, Key::Member(..));
        let entries: Vec<_> = match until {
            None => self.last.values().map(|at| &self.log[*at]).collect(),
            Some(until) => {
                let log = self.log[..until.min(self.log.len())].iter();
                let last: BTreeMap<_, _> = log.map(|it| (&it.key, it)).collect();
                last.into_values().collect()
            }
        };
        let members = entries.into_iter().filter(|it| is_member(&it.key));
        let beyond = members.filter(|it| it.sequence > after);
        beyond.min_by_key(|it| it.sequence)
    }

    /// All values that a key ever had, the latest first.
    pub fn history(&self, key: &Key) -> impl Iterator<Item = &Entry> {
        self.log.iter().rev().filter(move |it| it.key == *key)
    }

    /// The same, and what was lost of it.
    fn said(&self, key: &Key) -> impl Iterator<Item = &Entry> {
        let lost = self.lost.iter().filter(move |it| it.key == *key);
        self.history(key).chain(lost)
    }

    /// When this value first stood at its sequence, which may be given again.
    pub fn first_at(&self, entry: &Entry) -> Moment {
        let all = self.said(&entry.key);
        let is_same = |it: &&Entry| (it.sequence, &it.bytes) == (entry.sequence, &entry.bytes);
        all.filter(is_same)
            .map(|it| it.at)
            .min()
            .unwrap_or(entry.at)
    }

    /// Whether a former record was put back under this key.
    pub fn is_put_back(&self, key: &Key) -> bool {
        let mut former = BTreeSet::new();
        let mut said = self.said(key);
        said.any(|it| matches!(it.value, Value::Member(_)) && !former.insert(&it.bytes))
    }

    /// Whether a value of this key was lost at this sequence.
    pub fn has_lost_at(&self, key: &Key, sequence: u64) -> bool {
        (self.lost.iter()).any(|it| (&it.key, it.sequence) == (key, sequence))
    }

    /// What was stored at a sequence.
    pub fn at(&self, sequence: u64) -> Option<&Entry> {
        let at = self.log.binary_search_by_key(&sequence, |it| it.sequence);
        self.log.get(at.ok()?)
    }

    /// The map that was stored at a sequence.
    pub fn map_at(&self, sequence: u64) -> Option<&Map> {
        match &self.at(sequence)?.value {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }

    /// Whether a member ever told that its epoch is over.
    pub fn was_over(&self, key: &Key) -> bool {
        self.said(key)
            .any(|it| matches!(it.value, Value::Ended | Value::Expiring))
    }

    /// Whether an epoch ever was clear of a unit for the map of this sequence.
    pub fn was_clear(&self, key: &Key, generation: u32, unit: &Unit, number: u64) -> bool {
        self.said(key).any(|it| match &it.value {
            Value::Ended | Value::Expiring => true,
            Value::Member(it) => it.is_clear(generation, unit, number),
            _ => false,
        })
    }

    pub fn keys(&self) -> Vec<Key> {
        self.last.keys().cloned().collect()
    }
}

/// A value in a few words.
pub fn brief(key: &Key, value: &Value) -> String {
    let short = |epoch: &Epoch| epoch.to_string()[..4].to_owned();
    let waits = |waits: Vec<(Epoch, u64)>| -> String {
        let each = waits
            .iter()
            .map(|(epoch, since)| format!("{}@{since}", short(epoch)));
        each.collect::<Vec<_>>().join(" ")
    };
    let key = match key {
        Key::Map(_) => "map".to_owned(),
        Key::Member(_, epoch) => short(epoch),
    };
    let value = match value {
        Value::Map(map) => {
            let owner = |unit| map.owner(unit).map_or("-".to_owned(), |it| short(&it));
            let units = (0..map.units().count()).map(|unit| {
                format!(
                    " {unit}:{} {}",
                    owner(unit),
                    waits(map.waits_for(unit).collect())
                )
            });
            let units: Vec<_> = units.collect();
            format!("generation {}{}", map.generation(), units.join(","))
        }
        Value::Member(it) => {
            let excepts = serde_json::to_string(&it.excepts).expect("strings");
            let unable = serde_json::to_string(&it.unable).expect("strings");
            let leaves = if it.leaves { " leaves" } else { "" };
            let waits = if it.waits { " waits" } else { "" };
            let beat = (it.ttl, it.beat, it.follows);
            format!(
                "{} {beat:?} except {excepts} unable {unable}{leaves}{waits}",
                it.id
            )
        }
        other => format!("{other:?}"),
    };
    format!("{key} {value}")
}
