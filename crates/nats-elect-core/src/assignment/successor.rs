//! The maps that are made from a map.
//!
//! They are values: whoever writes one does so by compare-and-set over the sequence that it names.

use std::collections::{BTreeMap, BTreeSet};

use super::epoch::Epoch;
use super::map::{MOST_EPOCHS, MOST_GENERATIONS, MOST_WAITS, Map, NOBODY, Wait};
use super::units::{MOST_NAMES, Units};
use crate::mutation::mutated;
use crate::name::UnitName;

/// The changes of the next map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The epochs that join, in this order.
    pub joined: Vec<Epoch>,
    /// The members that are members no more. Their units have no owner if they get no other one.
    pub gone: BTreeSet<Epoch>,
    /// The new owners of units, by the units' places.
    pub owners: BTreeMap<u32, Option<Epoch>>,
}

/// The reason why there is no such map.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// These units wait for [`MOST_WAITS`] epochs already. They can be moved when one of those is
    /// clear.
    #[error("{} units wait for too many epochs to be moved", .0.len())]
    Full(Vec<u32>),
    /// The changes name a unit that the group lacks, or an owner that is no member. Or the map would
    /// break a bound, or its units are of another kind.
    #[error("the group can't have this map")]
    Impossible,
}

/// A number that no map has. Only an epoch that is over is clear for it.
const NEVER: u64 = u64::MAX;

impl Map {
    /// The first map of a group. It is a collect: all units wait for all epochs that were found.
    ///
    /// - `over`: the sequence of the foreign value that it is written over.
    /// - `bucket`: the creation time of the bucket in nanoseconds since the Unix epoch.
    /// - `members`: the epochs that join, in this order.
    /// - `found`: all epochs that were found and are not over. Members may be among them.
    ///
    /// # Errors
    ///
    /// [`MapError::Impossible`].
    pub fn first(
        over: u64,
        bucket: u64,
        units: Units,
        members: &[Epoch],
        found: impl IntoIterator<Item = Epoch>,
    ) -> Result<Self, MapError> {
        let mut map = Self::without_owners(over, bucket, 1, units, members.iter().copied())?;
        map.all_wait_for_all(found)?;
        Ok(map)
    }

    /// The map that is written over a foreign value at this sequence by a member that follows this
    /// one. Units have the owners that they have here, unless these are over. All units wait for all
    /// epochs that this map names, or that were found, and are not over. So they do for the owners,
    /// but no owner waits for itself.
    ///
    /// # Errors
    ///
    /// [`MapError::Impossible`].
    pub fn collect(
        &self,
        over: u64,
        found: impl IntoIterator<Item = Epoch>,
        is_over: impl Fn(Epoch) -> bool,
    ) -> Result<Self, MapError> {
        let living = |epochs: &[Epoch]| {
            let epochs = epochs.iter().copied();
            epochs.filter(|epoch| !is_over(*epoch)).collect::<Vec<_>>()
        };
        let mut map = self.successor(over, living(self.members()))?;
        self.copy_owners(&mut map);
        let named = living(&self.epochs).into_iter();
        let named = named.filter(|_| !mutated!(CollectForgetsNamed));
        map.all_wait_for_all(named.chain(found))?;
        Ok(map)
    }

    /// The next map of the same generation.
    ///
    /// Each unit goes on to wait for whom it waits here, less who is clear. A unit that changes its
    /// owner waits for its former owner, too, unless that is over.
    ///
    /// `is_clear(epoch, unit, number)` tells whether the epoch is over, or is clear of the unit at
    /// this place for the map of this sequence. With `u64::MAX` it is asked whether it is over.
    ///
    /// # Errors
    ///
    /// [`MapError::Full`] and [`Impossible`](MapError::Impossible).
    pub fn next(
        &self,
        changes: &Changes,
        is_clear: impl Fn(Epoch, u32, u64) -> bool,
    ) -> Result<Self, MapError> {
        let stay = self.members().iter();
        let stay = stay.filter(|epoch| !changes.gone.contains(epoch));
        let mut map = self.successor(self.sequence, stay.chain(&changes.joined).copied())?;
        self.copy_owners(&mut map);
        for (unit, owner) in &changes.owners {
            let place = map.place_of_member(*owner)?;
            let slot = map.owners.get_mut(*unit as usize);
            *slot.ok_or(MapError::Impossible)? = place;
        }
        let mut full = Vec::new();
        let mut table = Table::of(&map);
        for wait in &self.common {
            let (epoch, since) = self.told(*wait);
            let place = table.places.get(&epoch).copied();
            let others = (0..).zip(&map.owners);
            let mut others = others.filter(|(_, owner)| Some(**owner) != place);
            if others.any(|(unit, _)| !is_clear(epoch, unit, since)) {
                map.common.push(table.wait(epoch, since)?);
            }
        }
        for unit in 0..self.units.count() {
            let (former, owner) = (self.owner(unit), map.owner(unit));
            if former == owner && !self.own.contains_key(&unit) {
                continue;
            }
            let told = self.own.get(&unit).into_iter().flatten();
            let told = told.map(|wait| self.told(*wait));
            let mut waits: BTreeMap<_, _> = told
                .filter(|(epoch, since)| Some(*epoch) != owner && !is_clear(*epoch, unit, *since))
                .filter(|_| !mutated!(FromForgotten))
                .collect();
            if let Some(former) = former.filter(|it| former != owner && !is_clear(*it, unit, NEVER))
            {
                waits.insert(former, 0);
                if waits.len() > MOST_WAITS {
                    full.push(unit);
                }
            }
            table.insert_own(&mut map, unit, waits)?;
        }
        map.epochs = table.epochs;
        map.common.sort_unstable();
        full.is_empty().then_some(map).ok_or(MapError::Full(full))
    }

    /// The map of a spread group with further names. Those that are new enter without an owner, and
    /// wait for all of these epochs: each that was found and is not over. All else is as it is here.
    ///
    /// # Errors
    ///
    /// [`MapError::Impossible`] if the group is sharded, or has too many names or epochs.
    pub fn add_names(
        &self,
        names: impl IntoIterator<Item = UnitName>,
        found: &BTreeSet<Epoch>,
    ) -> Result<Self, MapError> {
        let mut map = self.next(&Changes::default(), |_, _, _| false)?;
        let Units::Names(known) = &mut map.units else {
            return Err(MapError::Impossible);
        };
        let before = self.units.count();
        for name in names {
            if !known.contains(&name) {
                known.push(name);
            }
        }
        if known.len() > MOST_NAMES {
            return Err(MapError::Impossible);
        }
        let mut owners = map.owners.to_vec();
        owners.resize(map.units.count() as usize, NOBODY);
        map.owners = owners.into();
        let mut table = Table::of(&map);
        for unit in before..map.units.count() {
            let found = found.iter().filter(|_| !mutated!(NameWaitsForNobody));
            let waits = found.map(|epoch| (*epoch, 0));
            table.insert_own(&mut map, unit, waits.collect())?;
        }
        map.epochs = table.epochs;
        Ok(map)
    }

    /// The first map of the next generation, with these units. It has no owners, and all units wait
    /// for all owners here and for whom any unit waits here, less who is clear.
    ///
    /// `is_clear` is that of [`next`](Self::next).
    ///
    /// # Errors
    ///
    /// [`MapError::Impossible`].
    pub fn resize(
        &self,
        to: Units,
        is_clear: impl Fn(Epoch, u32, u64) -> bool,
    ) -> Result<Self, MapError> {
        let is_same_kind = matches!(self.units, Units::Shards(_)) == matches!(to, Units::Shards(_));
        if !is_same_kind || self.generation >= MOST_GENERATIONS {
            return Err(MapError::Impossible);
        }
        let units = 0..self.units.count();
        let is_clear = |epoch, unit, number| {
            (number != NEVER && mutated!(GenerationForgetsWaits)) || is_clear(epoch, unit, number)
        };
        let mut latest = BTreeMap::<Epoch, u64>::new();
        for (epoch, since) in self.all_wait_for() {
            if units.clone().any(|unit| !is_clear(epoch, unit, since)) {
                latest.insert(epoch, since);
            }
        }
        for (unit, waits) in &self.own {
            for (epoch, since) in waits.iter().map(|wait| self.told(*wait)) {
                if !is_clear(epoch, *unit, since) {
                    let known = latest.entry(epoch).or_default();
                    *known = since.max(*known);
                }
            }
        }
        for unit in units {
            let owner = self.owner(unit).filter(|it| latest.get(it) != Some(&NEVER));
            if let Some(owner) = owner.filter(|owner| !is_clear(*owner, unit, NEVER)) {
                latest.insert(owner, NEVER);
            }
        }
        mutated!(GenerationWaitsForNobody => latest.clear());
        let members = self.members().iter().copied();
        let generation = self.generation + 1;
        let mut map = Self::without_owners(self.sequence, self.bucket, generation, to, members)?;
        let mut table = Table::of(&map);
        for (epoch, since) in latest {
            let since = if since == NEVER { 0 } else { since };
            map.common.push(table.wait(epoch, since)?);
        }
        map.epochs = table.epochs;
        map.common.sort_unstable();
        Ok(map)
    }

    /// A map of the same units with these members, in which nobody owns anything or waits.
    fn successor(
        &self,
        over: u64,
        members: impl IntoIterator<Item = Epoch>,
    ) -> Result<Self, MapError> {
        let units = self.units.clone();
        Self::without_owners(over, self.bucket, self.generation, units, members)
    }

    fn without_owners(
        over: u64,
        bucket: u64,
        generation: u32,
        units: Units,
        members: impl IntoIterator<Item = Epoch>,
    ) -> Result<Self, MapError> {
        if !units.is_valid() {
            return Err(MapError::Impossible);
        }
        let mut table = Table::default();
        for member in members {
            table.place(member)?;
        }
        Ok(Self {
            sequence: 0,
            over,
            bucket,
            generation,
            owners: vec![NOBODY; units.count() as usize].into(),
            units,
            members: table.epochs.len(),
            epochs: table.epochs,
            common: Vec::new(),
            own: BTreeMap::new(),
        })
    }

    /// Gives the units of another map with the same units their owners here, as far as those are
    /// members there.
    fn copy_owners(&self, map: &mut Self) {
        let members = self.members().iter();
        let places: Vec<_> = members
            .map(|epoch| map.place_of_member(Some(*epoch)).unwrap_or(NOBODY))
            .collect();
        for (new, old) in map.owners.iter_mut().zip(&self.owners) {
            *new = places.get(usize::from(*old)).copied().unwrap_or(NOBODY);
        }
    }

    fn place_of_member(&self, member: Option<Epoch>) -> Result<u16, MapError> {
        let Some(member) = member else {
            return Ok(NOBODY);
        };
        let place = self.members().iter().position(|it| *it == member);
        let place = place.ok_or(MapError::Impossible)?;
        u16::try_from(place).map_err(|_| MapError::Impossible)
    }

    /// Lets all units wait for all members and for these epochs, since this map.
    fn all_wait_for_all(&mut self, found: impl IntoIterator<Item = Epoch>) -> Result<(), MapError> {
        let mut table = Table::of(self);
        let found: BTreeSet<_> = found.into_iter().collect();
        for epoch in &found {
            table.place(*epoch)?;
        }
        self.epochs = table.epochs;
        let is_left_out = |it| mutated!(CollectForgetsNamed) && !found.contains(it);
        let waits = (0..).zip(&self.epochs).filter(|it| !is_left_out(it.1));
        let waits = waits.map(|(epoch, _)| Wait { epoch, since: 0 });
        self.common = waits.collect();
        Ok(())
    }
}

/// The epochs of a map that is being made, and their places.
#[derive(Default)]
struct Table {
    epochs: Vec<Epoch>,
    places: BTreeMap<Epoch, u16>,
}

impl Table {
    fn of(map: &Map) -> Self {
        Self {
            epochs: map.epochs.clone(),
            places: map.epochs.iter().copied().zip(0..).collect(),
        }
    }

    /// The place of an epoch, which enters the table if it is new.
    fn place(&mut self, epoch: Epoch) -> Result<u16, MapError> {
        if let Some(place) = self.places.get(&epoch) {
            return Ok(*place);
        }
        if self.epochs.len() == MOST_EPOCHS {
            return Err(MapError::Impossible);
        }
        let place = u16::try_from(self.epochs.len()).map_err(|_| MapError::Impossible)?;
        self.epochs.push(epoch);
        self.places.insert(epoch, place);
        Ok(place)
    }

    fn wait(&mut self, epoch: Epoch, since: u64) -> Result<Wait, MapError> {
        let epoch = self.place(epoch)?;
        Ok(Wait { epoch, since })
    }

    /// Lets a unit wait for these epochs.
    fn insert_own(
        &mut self,
        map: &mut Map,
        unit: u32,
        waits: BTreeMap<Epoch, u64>,
    ) -> Result<(), MapError> {
        let waits = waits
            .into_iter()
            .map(|(epoch, since)| self.wait(epoch, since));
        let mut waits = waits.collect::<Result<Vec<_>, _>>()?;
        waits.sort_unstable();
        if !waits.is_empty() {
            waits.shrink_to_fit();
            map.own.insert(unit, waits);
        }
        Ok(())
    }
}
