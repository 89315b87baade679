//! Units of a group, and sets of them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::ranges::Ranges;
use crate::name::UnitName;

/// The most shards of a group.
pub const MOST_SHARDS: u32 = 1 << 18;

/// The most named units of a group.
pub const MOST_NAMES: usize = 256;

/// The units of one generation of a group. In JSON `{"shards":256}` or `{"names":["a","b"]}`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Units {
    /// A sharded group: this many units, from 1 to [`MOST_SHARDS`], with numbers from 0 on.
    Shards(u32),
    /// A spread group: units with names, at most [`MOST_NAMES`] and each once.
    Names(Vec<UnitName>),
}

/// A unit of a generation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// A shard, by its number.
    Shard(u32),
    /// A unit of a spread group.
    Named(UnitName),
}

impl Unit {
    /// The name of the unit. That of a shard is its number.
    pub fn name(&self) -> UnitName {
        match self {
            Self::Shard(number) => UnitName::shard(*number),
            Self::Named(name) => name.clone(),
        }
    }
}

impl Units {
    /// The number of units.
    pub fn count(&self) -> u32 {
        match self {
            Self::Shards(count) => *count,
            Self::Names(names) => u32::try_from(names.len()).unwrap_or(u32::MAX),
        }
    }

    /// The unit at this place. `None` if there is none.
    pub fn get(&self, place: u32) -> Option<Unit> {
        match self {
            Self::Shards(count) => (place < *count).then_some(Unit::Shard(place)),
            Self::Names(names) => names.get(place as usize).cloned().map(Unit::Named),
        }
    }

    /// The place of a unit. `None` if the group has no such unit.
    pub fn place(&self, unit: &Unit) -> Option<u32> {
        match (self, unit) {
            (Self::Shards(count), Unit::Shard(number)) => (number < count).then_some(*number),
            (Self::Names(names), Unit::Named(name)) => {
                let place = names.iter().position(|it| it == name)?;
                place.try_into().ok()
            }
            _ => None,
        }
    }

    /// The number of shards. `None` if the units have names.
    pub const fn shards(&self) -> Option<u32> {
        match self {
            Self::Shards(count) => Some(*count),
            Self::Names(_) => None,
        }
    }

    /// The place of the unit with this name. That of a shard is its number. `None` if the group has no
    /// such unit.
    pub fn place_of(&self, name: &UnitName) -> Option<u32> {
        self.place(&match self {
            Self::Shards(_) => Unit::Shard(name.as_shard()?),
            Self::Names(_) => Unit::Named(name.clone()),
        })
    }

    /// Whether the bounds hold, and no name is there twice.
    pub(super) fn is_valid(&self) -> bool {
        match self {
            Self::Shards(count) => (1..=MOST_SHARDS).contains(count),
            Self::Names(names) => {
                names.len() <= MOST_NAMES
                    && names.iter().collect::<BTreeSet<_>>().len() == names.len()
            }
        }
    }
}

/// Units of one generation, which has either shards or names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UnitSet {
    /// Shards, by their numbers.
    Shards(Ranges),
    /// Named units.
    Names(BTreeSet<UnitName>),
}

impl UnitSet {
    fn contains(&self, unit: &Unit) -> bool {
        match (self, unit) {
            (Self::Shards(numbers), Unit::Shard(number)) => numbers.contains(*number),
            (Self::Shards(numbers), Unit::Named(name)) => {
                name.as_shard().is_some_and(|it| numbers.contains(it))
            }
            (Self::Names(names), unit) => names.contains(&unit.name()),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Shards(numbers) => numbers.is_empty(),
            Self::Names(names) => names.is_empty(),
        }
    }
}

/// A set of units, each a generation and a name. In JSON `{"1":{"shards":"0-3,7"}}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnitSets(BTreeMap<u32, UnitSet>);

impl UnitSets {
    /// Whether the unit is in the set.
    pub fn contains(&self, generation: u32, unit: &Unit) -> bool {
        let units = self.0.get(&generation);
        units.is_some_and(|units| units.contains(unit))
    }

    /// Whether a unit of another generation is in the set.
    pub fn has_other_generation(&self, generation: u32) -> bool {
        let mut sets = self.0.iter();
        sets.any(|(it, units)| *it != generation && !units.is_empty())
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.values().all(UnitSet::is_empty)
    }

    /// The units by their generations.
    pub const fn generations(&self) -> &BTreeMap<u32, UnitSet> {
        &self.0
    }
}

impl FromIterator<(u32, Unit)> for UnitSets {
    fn from_iter<I: IntoIterator<Item = (u32, Unit)>>(units: I) -> Self {
        let mut generations = BTreeMap::<u32, Vec<Unit>>::new();
        for (generation, unit) in units {
            generations.entry(generation).or_default().push(unit);
        }
        let set = |units: Vec<Unit>| {
            let numbers = units.iter().map(|unit| match unit {
                Unit::Shard(number) => Some(*number),
                Unit::Named(_) => None,
            });
            let names = || units.iter().map(Unit::name).collect();
            let numbers = numbers.collect::<Option<Ranges>>();
            numbers.map_or_else(|| UnitSet::Names(names()), UnitSet::Shards)
        };
        let sets = generations.into_iter();
        Self(sets.map(|(number, units)| (number, set(units))).collect())
    }
}
