//! The JSON of a map.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::VERSION;
use super::bits::{Packer, Unpacker, width};
use super::epoch::Epoch;
use super::map::{MOST_EPOCHS, MOST_GENERATIONS, MOST_WAITS, Map, NOBODY, Wait};
use super::ranges::Ranges;
use super::units::Units;
use crate::record::json;

/// The largest map that is parsed, in bytes.
pub(super) const MOST_MAP_BYTES: usize = 1024 * 1024;

/// The most members that all can have a former epoch in the map.
const MOST_MEMBERS: u16 = 2048;

/// A map as JSON. Places tell epochs: the members first, then the others.
#[derive(Serialize, Deserialize)]
struct MapValue {
    v: u64,
    bucket: u64,
    over: u64,
    generation: u32,
    units: Units,
    members: Vec<Epoch>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    others: Vec<Epoch>,
    /// For each unit 0, or the place of its owner and 1, in as many bits as the number of members
    /// needs. Nothing if there are no owners.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    owners: String,
    /// For whom all units wait: epochs by sequences since when.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    from: BTreeMap<u64, Ranges>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    moving: Option<Moving>,
}

/// For whom single units wait beside.
#[derive(Serialize, Deserialize)]
struct Moving {
    /// Their places.
    units: Ranges,
    /// All pairs of an epoch and a sequence since when, ascending.
    from: Vec<(u16, u64)>,
    /// For each of these units its pairs, ascending: the pair's place, in as many bits as the last
    /// place needs, and a bit that is 1 if another pair of the unit follows.
    each: String,
}

impl Map {
    /// The JSON value for the bucket.
    pub fn to_json(&self) -> Vec<u8> {
        let (members, others) = self.epochs.split_at(self.members);
        let has_owners = self.has_owners();
        let mut from = BTreeMap::<u64, Vec<u32>>::new();
        for wait in &self.common {
            from.entry(wait.since).or_default().push(wait.epoch.into());
        }
        let value = MapValue {
            v: VERSION,
            bucket: self.bucket,
            over: self.over,
            generation: self.generation,
            units: self.units.clone(),
            members: members.to_vec(),
            others: others.to_vec(),
            owners: if has_owners {
                self.packed_owners()
            } else {
                String::new()
            },
            from: from
                .into_iter()
                .map(|(since, epochs)| (since, epochs.into_iter().collect()))
                .collect(),
            moving: (!self.own.is_empty()).then(|| self.packed_moving()),
        };
        json(&value)
    }

    fn packed_owners(&self) -> String {
        let mut bits = Packer::default();
        for owner in &self.owners {
            // Nobody is 0.
            bits.put(owner.wrapping_add(1).into(), width(self.members));
        }
        bits.into_text()
    }

    fn packed_moving(&self) -> Moving {
        let all: BTreeSet<Wait> = self.own.values().flatten().copied().collect();
        let places: BTreeMap<_, u32> = all.iter().zip(0..).collect();
        let mut bits = Packer::default();
        for waits in self.own.values() {
            for (number, wait) in waits.iter().enumerate() {
                bits.put(places[wait], width(all.len() - 1));
                bits.put((number + 1 < waits.len()).into(), 1);
            }
        }
        Moving {
            units: self.own.keys().copied().collect(),
            from: all.iter().map(|wait| (wait.epoch, wait.since)).collect(),
            each: bits.into_text(),
        }
    }

    /// Parses the value of a message at this sequence. Returns `None` if it is no map of this
    /// version, or breaks a bound.
    pub(super) fn parse(sequence: u64, value: &[u8]) -> Option<Self> {
        if value.len() > MOST_MAP_BYTES {
            return None;
        }
        let value: MapValue = serde_json::from_slice(value).ok()?;
        let in_bounds = value.v == VERSION
            && (1..sequence).contains(&value.over)
            && (1..=MOST_GENERATIONS).contains(&value.generation)
            && value.units.is_valid()
            && value.members.len() + value.others.len() <= MOST_EPOCHS;
        in_bounds.then_some(())?;
        let (members, mut epochs) = (value.members.len(), value.members);
        epochs.extend(value.others);
        let is_once = epochs.iter().collect::<BTreeSet<_>>().len() == epochs.len();
        is_once.then_some(())?;
        let mut map = Self {
            sequence,
            over: value.over,
            bucket: value.bucket,
            generation: value.generation,
            owners: vec![NOBODY; value.units.count() as usize].into(),
            units: value.units,
            epochs,
            members,
            common: Vec::new(),
            own: BTreeMap::new(),
        };
        if !value.owners.is_empty() {
            map.unpack_owners(&value.owners)?;
        }
        for (since, epochs) in value.from {
            for epoch in epochs.iter() {
                // Each epoch once: many sequences can't make it grow.
                (map.common.len() < map.epochs.len()).then_some(())?;
                map.common.push(map.wait(epoch.try_into().ok()?, since)?);
            }
        }
        map.common.sort_unstable();
        is_ascending(&map.common).then_some(())?;
        if let Some(moving) = value.moving {
            map.unpack_moving(&moving)?;
        }
        Some(map)
    }

    fn unpack_owners(&mut self, text: &str) -> Option<()> {
        let mut bits = Unpacker::new(text)?;
        for owner in &mut self.owners {
            let number: u16 = bits.take(width(self.members))?.try_into().ok()?;
            (usize::from(number) <= self.members).then_some(())?;
            *owner = number.wrapping_sub(1);
        }
        bits.is_at_end().then_some(())
    }

    fn unpack_moving(&mut self, moving: &Moving) -> Option<()> {
        let all = moving
            .from
            .iter()
            .map(|(epoch, since)| self.wait(*epoch, *since));
        let all = all.collect::<Option<Vec<_>>>()?;
        let most = match self.units {
            Units::Shards(_) => MOST_WAITS,
            Units::Names(_) => MOST_EPOCHS,
        };
        (moving.units.end() <= self.units.count()).then_some(())?;
        let width = width(all.len().checked_sub(1)?);
        let mut bits = Unpacker::new(&moving.each)?;
        for unit in moving.units.iter() {
            let mut waits = Vec::<Wait>::new();
            loop {
                let wait = *all.get(bits.take(width)? as usize)?;
                let is_next = waits.last().is_none_or(|last| last.epoch < wait.epoch);
                (is_next && waits.len() < most).then(|| waits.push(wait))?;
                if bits.take(1)? == 0 {
                    break;
                }
            }
            waits.shrink_to_fit();
            self.own.insert(unit, waits);
        }
        bits.is_at_end().then_some(())
    }

    fn wait(&self, epoch: u16, since: u64) -> Option<Wait> {
        let is_known = usize::from(epoch) < self.epochs.len() && since <= self.over;
        is_known.then_some(Wait { epoch, since })
    }

    /// The bytes of the largest map of a group: each of its members has a former epoch for which all
    /// units wait, each since another map, and each unit waits for its former owner.
    ///
    /// A collect and the first map of a generation are smaller. So is each map in which no unit was
    /// moved twice before its former owner acknowledged that. A longer map can come of other moves: the
    /// writer compares its length with what the server takes, and moves fewer units. More than 2,048 members, half of
    /// [`MOST_EPOCHS`], count as that many.
    pub fn most_bytes(units: Units, members: u16) -> usize {
        let members = members.min(MOST_MEMBERS);
        let epochs = 0..2 * u128::from(members);
        let epochs = epochs.map(|bits| Epoch::new(bits.to_be_bytes()));
        let places = || (0..members).cycle();
        let wait = |epoch: u16| Wait {
            epoch,
            since: u64::MAX - u64::from(epoch),
        };
        let map = Self {
            sequence: u64::MAX,
            over: u64::MAX,
            bucket: u64::MAX,
            generation: MOST_GENERATIONS,
            epochs: epochs.collect(),
            members: members.into(),
            owners: places().take(units.count() as usize).collect(),
            common: (0..2 * members).map(wait).collect(),
            own: (0..units.count())
                .zip(places())
                .map(|(unit, epoch)| (unit, vec![wait(epoch)]))
                .collect(),
            units,
        };
        map.to_json().len()
    }
}

/// Whether no epoch is there twice.
fn is_ascending(waits: &[Wait]) -> bool {
    waits.is_sorted_by(|one, next| one.epoch < next.epoch)
}
