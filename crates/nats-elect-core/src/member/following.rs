//! The map that a member follows.

use std::sync::Arc;

use super::moves::Moves;
use crate::assignment::{Map, Units, Value};
use crate::moment::Moment;
use crate::mutation::mutated;
use crate::unhashed::Unhashed;

/// What is known of the map's key.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Following {
    map: Option<Arc<Map>>,
    /// The sequence of the last map, whether the member can follow it or not.
    last: u64,
    /// The sequence of the newest value that was shown, and since when it is known.
    pub shown: u64,
    since: Moment,
    /// The sequence of the last map that this member wrote.
    written: u64,
    /// Since when the key is known to be empty, or when the next blank is due.
    pub missing: Option<Moment>,
    /// When to read the key. No watch shows that somebody emptied it, and one that goes on may not show
    /// that NATS lost its last values, and gave their sequences again.
    pub read_at: Moment,
    /// What was known when it was read last, until something is shown that is not newer.
    pub known_at_read: Option<u64>,
    /// Whether any map of this bucket that was shown had owners.
    pub has_owned: bool,
    /// A plan alone depends on it.
    pub moves: Unhashed<Moves>,
}

impl Following {
    /// Takes what the watch or a read shows. `units` are of the kind that the member knows. Returns
    /// whether it is another map: one to follow, or one of a later version or another kind, which the
    /// member can't follow. Under a foreign value it goes on by the map that it follows.
    pub fn show(&mut self, now: Moment, sequence: u64, value: Value, units: &Units) -> bool {
        if sequence <= self.shown {
            return false;
        }
        (self.shown, self.since, self.missing) = (sequence, now, None);
        match value {
            Value::Map(map) if is_same_kind(map.units(), units) => {
                self.has_owned |= map.has_owners();
                self.last = sequence;
                self.moves.follow(self.map.as_deref(), &map);
                self.map = Some(Arc::new(*map));
            }
            Value::Map(_) | Value::LaterMap => {
                self.has_owned = true;
                self.last = sequence;
            }
            _ => return false,
        }
        true
    }

    /// A map of this member is stored at this sequence.
    pub fn written(&mut self, sequence: u64) {
        self.written = self.written.max(sequence);
    }

    /// The highest sequence at which a value is known to be stored.
    pub fn known(&self) -> u64 {
        self.shown.max(self.written)
    }

    /// Whether another value than this one was shown at its sequence.
    pub fn is_another(&self, sequence: u64, value: &Value) -> bool {
        let was_map = self.last == sequence;
        let is_another = match value {
            Value::Map(map) => {
                let shown = self.map.as_ref().filter(|it| it.sequence() == sequence);
                !was_map || shown.is_some_and(|it| **it != **map)
            }
            Value::LaterMap => !was_map,
            _ => was_map,
        };
        sequence == self.shown && is_another
    }

    /// A read from the stream's leader found nothing, or the watch has shown nothing.
    pub fn miss(&mut self, now: Moment) {
        self.missing.get_or_insert(now);
    }

    /// The newest map that the member could follow.
    pub const fn map(&self) -> Option<&Arc<Map>> {
        self.map.as_ref()
    }

    /// The map by which the member acts: none if a newer one can't be followed.
    pub fn acting(&self) -> Option<&Arc<Map>> {
        let goes_on = mutated!(ActsByLaterMap) || !self.is_strange();
        self.map.as_ref().filter(|_| goes_on)
    }

    /// The followed map, if nothing newer was shown.
    pub fn current(&self) -> Option<&Arc<Map>> {
        self.map.as_ref().filter(|it| it.sequence() == self.shown)
    }

    /// The sequence that the member acknowledges.
    pub fn acknowledged(&self) -> u64 {
        if mutated!(AcknowledgesShown) {
            return self.shown;
        }
        self.last
    }

    /// Whether the last map is none that the member can follow.
    pub fn is_strange(&self) -> bool {
        self.last > self.map.as_ref().map_or(0, |it| it.sequence())
    }

    /// The sequence of the foreign value over the map, and since when it is known. A member that can't
    /// follow the last map writes nothing over it.
    pub fn foreign(&self) -> Option<(u64, Moment)> {
        let is_strange = self.is_strange() && !mutated!(LaterMapOverwritten);
        let is_foreign = self.shown > self.last && !is_strange;
        is_foreign.then_some((self.shown, self.since))
    }
}

fn is_same_kind(a: &Units, b: &Units) -> bool {
    matches!(a, Units::Shards(_)) == matches!(b, Units::Shards(_))
}
