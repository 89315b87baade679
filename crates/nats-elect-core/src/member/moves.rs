//! How often units changed their owners, and when last.

use crate::assignment::Map;

/// The changes of owners that this member was shown, by the places of units. Those before its start, and
/// those of another generation, are not known.
#[derive(Clone, Debug, Default)]
pub(super) struct Moves {
    generation: u32,
    /// The number of maps that were followed.
    maps: u32,
    units: Vec<Moved>,
}

/// The changes of one unit's owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moved {
    /// The number of the map that gave the unit its owner, together with others. 0: not known.
    pub since: u32,
    /// How often another owner followed an owner.
    pub times: u16,
}

impl Moves {
    /// This map is followed after the other one.
    pub fn follow(&mut self, before: Option<&Map>, map: &Map) {
        self.maps += 1;
        if self.generation != map.generation() {
            *self = Self {
                generation: map.generation(),
                maps: self.maps,
                units: Vec::new(),
            };
        }
        self.units
            .resize(map.units().count() as usize, Moved::default());
        let Some(before) = before.filter(|it| it.generation() == map.generation()) else {
            return;
        };
        let places = 0..map.units().count().min(before.units().count());
        let changed = places.filter(|place| before.owner(*place) != map.owner(*place));
        let changed: Vec<_> = changed.collect();
        for place in &changed {
            let moved = &mut self.units[*place as usize];
            // One that somebody moved by hand is to stay, rather than to go back first.
            if changed.len() > 1 {
                moved.since = self.maps;
            }
            let had_owner = before.owner(*place).is_some();
            moved.times = moved.times.saturating_add(had_owner.into());
        }
    }

    /// The changes of the unit at a place.
    pub fn of(&self, place: u32) -> Moved {
        let known = self.units.get(place as usize);
        known.copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assignment::{Changes, Epoch, Units};

    const UNITS: u32 = 2;

    /// The map that follows with these owners.
    fn next(map: &Map, owners: [Option<u8>; UNITS as usize]) -> Map {
        let epoch = |it: u8| Epoch::new([it; 16]);
        let owners = (0..).zip(owners.map(|it| it.map(epoch)));
        let changes = Changes {
            owners: owners.collect(),
            ..Changes::default()
        };
        map.next(&changes, |_, _, _| true).expect("a map")
    }

    fn first() -> Map {
        let members = [1, 2].map(|it| Epoch::new([it; 16]));
        Map::first(1, 1, Units::Shards(UNITS), &members, []).expect("a map")
    }

    #[test]
    fn a_move_counts_where_an_owner_is_followed_by_another() {
        let mut moves = Moves::default();
        let mut map = first();
        moves.follow(None, &map);
        let was = |since, times| Moved { since, times };
        for (owners, expected) in [
            ([Some(1), None], [was(0, 0), was(0, 0)]),
            ([Some(2), Some(1)], [was(3, 1), was(3, 0)]),
            ([Some(2), Some(1)], [was(3, 1), was(3, 0)]),
            ([Some(2), Some(2)], [was(3, 1), was(3, 1)]),
            ([Some(1), Some(1)], [was(6, 2), was(6, 2)]),
        ] {
            let before = map;
            map = next(&before, owners);
            moves.follow(Some(&before), &map);
            assert_eq!([moves.of(0), moves.of(1)], expected, "{owners:?}");
        }
        let before = map;
        let another = before.resize(Units::Shards(3), |_, _, _| true);
        moves.follow(Some(&before), &another.expect("a map"));
        assert_eq!(moves.of(0), Moved::default());
    }
}
