//! Units across generations.

use crate::assignment::{Map, Unit};
use crate::name::UnitName;

/// A unit of a group: a generation and a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnitId {
    /// The generation.
    pub generation: u32,
    /// The name within it.
    pub label: UnitLabel,
}

/// The name of a unit within its generation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UnitLabel {
    /// A shard, by its number.
    Shard(u32),
    /// A unit of a spread group.
    Named(UnitName),
}

impl UnitId {
    /// The unit at a place of a map. `None` if there is none.
    pub fn at(map: &Map, place: u32) -> Option<Self> {
        let label = match map.units().get(place)? {
            Unit::Shard(number) => UnitLabel::Shard(number),
            Unit::Named(name) => UnitLabel::Named(name.clone()),
        };
        Some(Self {
            generation: map.generation(),
            label,
        })
    }

    /// The unit without its generation.
    pub const fn unit(&self) -> Unit<'_> {
        match &self.label {
            UnitLabel::Shard(number) => Unit::Shard(*number),
            UnitLabel::Named(name) => Unit::Named(name),
        }
    }

    /// Its place in a map. `None` if the map is of another generation, or lacks it.
    pub fn place_in(&self, map: &Map) -> Option<u32> {
        let is_same = self.generation == map.generation();
        is_same.then(|| map.units().place(self.unit())).flatten()
    }
}
