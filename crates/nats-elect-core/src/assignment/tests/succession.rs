//! Maps made from each other at random, by members that follow them or not, keep the invariant.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

const EPOCHS: u16 = 6;

/// The words of members, and all maps that were stored.
struct World {
    sequence: u64,
    maps: Vec<Map>,
    records: Vec<MemberRecord>,
    /// The latest map that an epoch followed without acting on a unit by an earlier one.
    cleared: BTreeMap<(Epoch, u32, UnitName), u64>,
    over: BTreeSet<Epoch>,
}

/// Each number chooses something.
type Step = (u8, u8, u8, u8);

impl World {
    fn new(units: Units) -> Self {
        let members = epochs(2);
        let map = Map::first(1, BUCKET, units, &members, []).unwrap();
        Self {
            sequence: 2,
            maps: vec![map.stored_at(2)],
            records: (0..EPOCHS).map(record).collect(),
            cleared: BTreeMap::new(),
            over: BTreeSet::new(),
        }
    }

    fn last(&self) -> &Map {
        self.maps.last().unwrap()
    }

    fn living(&self) -> Vec<Epoch> {
        let epochs = epochs(EPOCHS).into_iter();
        epochs.filter(|epoch| !self.over.contains(epoch)).collect()
    }

    fn record(&self, epoch: Epoch) -> &MemberRecord {
        self.records.iter().find(|it| it.epoch == epoch).unwrap()
    }

    fn is_clear(&self, map: &Map, epoch: Epoch, unit: u32, number: u64) -> bool {
        let unit = map.units().get(unit).unwrap();
        self.over.contains(&epoch) || self.record(epoch).is_clear(map.generation(), &unit, number)
    }

    fn step(&mut self, (kind, one, two, three): Step) {
        let chosen = epoch(u16::from(one) % EPOCHS);
        let last = self.last().clone();
        let is_clear = |epoch, unit, number| self.is_clear(&last, epoch, unit, number);
        let made = match kind {
            0..5 => return self.acknowledge(usize::from(one), usize::from(two), three),
            5 => {
                self.over.insert(chosen);
                return;
            }
            6..12 => {
                let owner = last.members().get(usize::from(two) % 8).copied();
                let units = [three, three / 7].map(|it| u32::from(it) % last.units().count());
                let changes = Changes {
                    owners: units.map(|unit| (unit, owner)).into(),
                    joined: if kind == 6 && self.living().contains(&chosen) {
                        vec![chosen]
                    } else {
                        vec![]
                    },
                    gone: if kind == 7 && Some(chosen) != owner {
                        [chosen].into()
                    } else {
                        [].into()
                    },
                };
                last.next(&changes, is_clear)
            }
            12 => match last.units() {
                Units::Shards(count) => last.resize(Units::Shards(count % 4 + 1), is_clear),
                Units::Names(names) => {
                    let names = vec![name(&format!("n{}", two % 6)), names[0].clone()];
                    last.add_names(names, &self.living().into_iter().collect())
                }
            },
            // Somebody behind may write a collect, too.
            _ => {
                self.sequence += 1;
                let behind = usize::from(two) % self.maps.len().min(3);
                let base = &self.maps[self.maps.len() - 1 - behind];
                base.collect(self.sequence, self.living(), |epoch| {
                    self.over.contains(&epoch)
                })
            }
        };
        if let Ok(map) = made {
            self.sequence += 1;
            self.store(map.stored_at(self.sequence));
        }
    }

    /// A member follows some map that is not older than the one before, and excepts some units.
    fn acknowledge(&mut self, who: usize, which: usize, excepted: u8) {
        let map = &self.maps[self.maps.len() - 1 - which % self.maps.len().min(4)];
        let record = &mut self.records[who % usize::from(EPOCHS)];
        if map.sequence() < record.follows {
            return;
        }
        let units = (0..map.units().count()).filter(|unit| excepted >> (unit % 8) & 3 == 3);
        let units = units.map(|unit| (map.generation(), map.units().get(unit).unwrap()));
        (record.follows, record.excepts) = (map.sequence(), units.collect());
        for map in &self.maps {
            for unit in (0..map.units().count()).map(|unit| map.units().get(unit).unwrap()) {
                if !record.excepts.contains(map.generation(), &unit) {
                    let key = (record.epoch, map.generation(), unit.name());
                    self.cleared.insert(key, record.follows);
                }
            }
        }
    }

    fn store(&mut self, map: Map) {
        assert_eq!(
            Map::parse(map.sequence(), &map.to_json()).as_ref(),
            Some(&map)
        );
        for earlier in &self.maps {
            for unit in 0..map.units().count() {
                self.check(earlier, &map, unit);
            }
        }
        let named = (0..map.units().count()).flat_map(|unit| map.waits_for(unit));
        let named: BTreeSet<_> = named
            .chain(map.all_wait_for())
            .map(|(epoch, _)| epoch)
            .collect();
        let others = &map.epochs()[map.members().len()..];
        assert!(others.iter().all(|epoch| named.contains(epoch)));
        self.maps.push(map);
    }

    /// The earlier map's owner of the same unit, and of each one of another generation, is over, or
    /// owns the unit, or is waited for since later than the earlier map, or has said that it acts by
    /// that one no more.
    fn check(&self, earlier: &Map, map: &Map, unit: u32) {
        let name = map.units().get(unit).unwrap();
        let excluded: Vec<_> = if earlier.generation() == map.generation() {
            earlier.units().place(&name).into_iter().collect()
        } else {
            (0..earlier.units().count()).collect()
        };
        for (former, owner) in excluded
            .into_iter()
            .filter_map(|it| Some((earlier.units().get(it)?, earlier.owner(it)?)))
        {
            let mut waits = map.waits_for(unit);
            let key = (owner, earlier.generation(), former.name());
            let cleared = self.cleared.get(&key);
            let is_kept = self.over.contains(&owner)
                || map.owner(unit) == Some(owner)
                || waits.any(|(epoch, since)| epoch == owner && since > earlier.sequence())
                || cleared.is_some_and(|number| *number > earlier.sequence());
            assert!(
                is_kept,
                "{owner}, unit {unit} of\n{}\nand\n{}",
                text(earlier),
                text(map)
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn epochs_that_may_still_act_are_waited_for(
        steps in proptest::collection::vec((0..16_u8, any::<u8>(), any::<u8>(), any::<u8>()), 1..80),
        is_sharded in any::<bool>(),
    ) {
        let names = || ["a", "b", "c"].map(name).to_vec();
        let mut world = World::new(if is_sharded { Units::Shards(3) } else { Units::Names(names()) });
        for step in steps {
            world.step(step);
        }
    }
}
