//! Units across generations.

use crate::assignment::{Map, Unit};

/// A unit of a group: a generation and a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnitId {
    /// The generation.
    pub generation: u32,
    /// The unit within it.
    pub unit: Unit,
}

impl UnitId {
    /// The unit at a place of a map. `None` if there is none.
    pub fn at(map: &Map, place: u32) -> Option<Self> {
        Some(Self {
            generation: map.generation(),
            unit: map.units().get(place)?,
        })
    }

    /// The unit without its generation.
    pub const fn unit(&self) -> &Unit {
        &self.unit
    }

    /// Its place in a map. `None` if the map is of another generation, or lacks it.
    pub fn place_in(&self, map: &Map) -> Option<u32> {
        let is_same = self.generation == map.generation();
        is_same.then(|| map.units().place(&self.unit)).flatten()
    }
}
