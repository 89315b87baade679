//! The map of a group.

use std::collections::BTreeMap;

use super::epoch::Epoch;
use super::units::Units;

/// The most epochs that a map names.
pub const MOST_EPOCHS: usize = 4096;

/// The most epochs for which a single unit waits, beside those for which all units do, when it is
/// moved. One that has more is not moved. A name that enters may wait for each epoch of the map.
pub const MOST_WAITS: usize = 8;

/// The last generation of a group.
pub const MOST_GENERATIONS: u32 = 1_000_000;

/// The place of nobody.
pub(super) const NOBODY: u16 = u16::MAX;

/// The map of a group: the owner of each unit, and the epochs that may still act on it.
///
/// Each owner takes two bytes in memory. A unit that waits for nobody of its own takes no more.
///
/// Units are told by their places: a shard's is its number, that of a named unit is its place in
/// [`Units::Names`]. A map that enters the bucket gets its sequence there. One that is only made
/// has the sequence 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Map {
    pub(super) sequence: u64,
    pub(super) over: u64,
    pub(super) bucket: u64,
    pub(super) generation: u32,
    pub(super) units: Units,
    /// The members in the order of joining, then all others that `from` names. Each once.
    pub(super) epochs: Vec<Epoch>,
    pub(super) members: usize,
    /// For each unit the place of its owner among the members, or [`NOBODY`].
    pub(super) owners: Box<[u16]>,
    /// For whom all units wait, by the places of the epochs.
    pub(super) common: Vec<Wait>,
    /// For whom a single unit waits beside, by the places of the epochs.
    pub(super) own: BTreeMap<u32, Vec<Wait>>,
}

/// An epoch in `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Wait {
    /// Its place among the epochs.
    pub epoch: u16,
    /// The sequence since when. 0: that of the map itself.
    pub since: u64,
}

impl Map {
    /// The sequence of the map in the stream. 0 if it is not stored.
    pub const fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The same map, stored at this sequence.
    #[must_use]
    pub fn stored_at(mut self, sequence: u64) -> Self {
        self.sequence = sequence;
        self
    }

    /// The sequence that it was written over. It is never 0.
    pub const fn over(&self) -> u64 {
        self.over
    }

    /// The creation time of its bucket in nanoseconds since the Unix epoch.
    pub const fn bucket(&self) -> u64 {
        self.bucket
    }

    /// The generation of its units, from 1 to [`MOST_GENERATIONS`].
    pub const fn generation(&self) -> u32 {
        self.generation
    }

    /// Its units.
    pub const fn units(&self) -> &Units {
        &self.units
    }

    /// The members in the order of joining.
    pub fn members(&self) -> &[Epoch] {
        &self.epochs[..self.members]
    }

    /// All epochs that the map names: the members, and then those that units wait for alone. At most
    /// [`MOST_EPOCHS`].
    pub fn epochs(&self) -> &[Epoch] {
        &self.epochs
    }

    /// The owner of a unit. `None` if it has none, or there is no such unit.
    pub fn owner(&self, unit: u32) -> Option<Epoch> {
        let place = *self.owners.get(unit as usize)?;
        self.epochs.get(usize::from(place)).copied()
    }

    /// The places of the units that an epoch owns, ascending.
    pub fn owned_by(&self, epoch: Epoch) -> impl Iterator<Item = u32> {
        let place = self.members().iter().position(|it| *it == epoch);
        let units = (0..).zip(&self.owners);
        units.filter_map(move |(unit, owner)| (Some(usize::from(*owner)) == place).then_some(unit))
    }

    /// For whom the owner of a unit waits, each with the sequence of the map that it has to follow:
    /// what all units wait for, and what this one waits for beside. If an epoch is in both, the later
    /// sequence counts. The owner's own entry is left out.
    ///
    /// The sequences of a map that is not stored are 0 where they are its own.
    pub fn waits_for(&self, unit: u32) -> impl Iterator<Item = (Epoch, u64)> {
        let owner = self.owners.get(unit as usize).copied();
        let own = self.own.get(&unit).map_or(&[][..], Vec::as_slice);
        let common = self.common.iter();
        let alone = common.filter(|it| !own.iter().any(|other| other.epoch == it.epoch));
        let latest = own.iter().map(|wait| {
            let same = self.common.iter().filter(|it| it.epoch == wait.epoch);
            // 0 is the map's own sequence, and the latest of all.
            let latest = same.chain([wait]).max_by_key(|it| it.since.wrapping_sub(1));
            latest.unwrap_or(wait)
        });
        latest
            .chain(alone)
            .filter(move |wait| Some(wait.epoch) != owner)
            .map(|wait| self.told(*wait))
    }

    /// For whom all units wait, the owners' own entries included.
    pub fn all_wait_for(&self) -> impl Iterator<Item = (Epoch, u64)> {
        self.common.iter().map(|wait| self.told(*wait))
    }

    /// The places of the units that wait for epochs of their own, ascending.
    pub fn moving(&self) -> impl Iterator<Item = u32> {
        self.own.keys().copied()
    }

    /// Whether any unit has an owner.
    pub fn has_owners(&self) -> bool {
        self.owners.iter().any(|owner| *owner != NOBODY)
    }

    /// How many entries it has for whom units wait.
    pub fn waits(&self) -> usize {
        self.common.len() + self.own.values().map(Vec::len).sum::<usize>()
    }

    /// Whether all units wait for an epoch, or a single one does.
    pub fn waits_on(&self, epoch: Epoch) -> bool {
        let all = self.common.iter().chain(self.own.values().flatten());
        let mut epochs = all.map(|wait| self.epochs[usize::from(wait.epoch)]);
        epochs.any(|it| it == epoch)
    }

    pub(super) fn told(&self, wait: Wait) -> (Epoch, u64) {
        let since = match wait.since {
            0 => self.sequence,
            since => since,
        };
        (self.epochs[usize::from(wait.epoch)], since)
    }
}
