//! What is known of units, and when it is of age.

use super::{Change, View};
use crate::group::epoch::{Epoch, LONGEST_LEASE};
use crate::group::key::UnitKey;
use crate::group::record::UnitRecord;
use crate::moment::Moment;
use crate::mutation::mutated;
use crate::name::GroupName;

/// What is known of a unit.
#[derive(Clone, Copy, Debug)]
pub(in crate::group) struct Unit {
    /// The sequence of its last record.
    pub sequence: u64,
    pub known: KnownUnit,
    /// Until when an owner before the one in the record may act. Nobody builds on the record before.
    pub quiet_until: Moment,
    /// Whether this record, or one before it, had to age. Its age counts only if it stood until
    /// then: it may have been purged before an owner of before was shown it. A write of this member
    /// over it proves that it stood.
    pub unproved: bool,
    /// The record that stood there before a watch lacked the key, with its sequence. It was purged,
    /// or written over while the watch began.
    pub lacked: Option<(u64, KnownUnit)>,
    /// Whether it is known by its creation as nobody's alone.
    pub newborn: bool,
    /// Whether it stood there when this member joined, as members write it; or follows such a one
    /// from before it was known who has a lease.
    pub was_found: bool,
    pub watch: u64,
}

/// What stands under a unit's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::group) enum KnownUnit {
    Record(UnitRecord),
    /// A value that is not understood, or a delete marker.
    Opaque,
    Missing,
}

impl KnownUnit {
    pub const fn owner(self) -> Option<Epoch> {
        match self {
            Self::Record(record) => record.owner(),
            Self::Opaque | Self::Missing => None,
        }
    }
}

impl Unit {
    /// The last that is known to have stood there, with its sequence. It may have been purged.
    pub fn stood(&self) -> (u64, KnownUnit) {
        self.lacked.unwrap_or((self.sequence, self.known))
    }
}

impl View {
    /// Learns of a unit's record, by the watch or as its writer.
    pub fn learn_of_unit(
        &mut self,
        key: UnitKey,
        sequence: u64,
        over: Option<u64>,
        record: Option<UnitRecord>,
        signed: Option<Epoch>,
        now: Moment,
    ) -> Change {
        let watch = self.watch;
        if let Some(before) = self.units.get_mut(&key)
            && before.known != KnownUnit::Missing
            && sequence <= before.sequence
        {
            before.watch = watch;
            return Change::Nothing;
        }
        let before = self.units.get(&key);
        let is_created = before.is_none_or(|it| it.known == KnownUnit::Missing) && over == Some(0);
        // A record that was written by compare-and-set over an earlier one, as members write it. The
        // first watch could as well have begun after it, and shown it alone.
        let is_trusted = self.joins(now) && over.is_some_and(|over| over > 0) && record.is_some();
        let over_known = before.and_then(|before| {
            let (sequence, known) = before.stood();
            (over == Some(sequence)).then_some((before, known))
        });
        // `None` if it has to age.
        let of_age_at = over_known.and_then(|(before, known)| match known {
            KnownUnit::Record(UnitRecord::Nobody) => Some(before.quiet_until),
            KnownUnit::Record(UnitRecord::Owned(owner)) => {
                if signed == Some(owner) || mutated!(BelieveUnsigned) {
                    Some(before.quiet_until)
                } else {
                    let deposed = self.members.get(&owner).filter(|owner| owner.deposed);
                    deposed.map(|owner| before.quiet_until.max(owner.over_at))
                }
            }
            KnownUnit::Record(UnitRecord::Closed) => {
                (record == Some(UnitRecord::Closed)).then_some(before.quiet_until)
            }
            KnownUnit::Opaque | KnownUnit::Missing => None,
        });
        let follows_found = !self.awaited.is_empty()
            && of_age_at.is_some()
            && over_known.is_some_and(|(before, _)| before.was_found);
        // Nobody owns a unit of a generation that its group does not have yet.
        let is_ahead = is_created && self.is_ahead(&key);
        let unproved = if of_age_at.is_some() {
            over_known.is_some_and(|(before, _)| before.unproved)
        } else {
            !is_ahead
        };
        if let Some(owner) = self.owner_of(&key) {
            self.disown(owner, &key);
        }
        if let Some(UnitRecord::Owned(owner)) = record {
            self.owned.entry(owner).or_default().insert(key.clone());
            if self.caught_up {
                self.note_missing(owner, now);
            }
        }
        let unit = Unit {
            sequence,
            known: record.map_or(KnownUnit::Opaque, KnownUnit::Record),
            quiet_until: if mutated!(UnknownIsOfAge) {
                now
            } else {
                of_age_at.unwrap_or(now + LONGEST_LEASE)
            },
            unproved: unproved && !mutated!(BelieveAge),
            lacked: None,
            newborn: is_created && record == Some(UnitRecord::Nobody),
            was_found: is_trusted || follows_found,
            watch,
        };
        self.units.insert(key.clone(), unit);
        Change::Unit(key)
    }

    /// A write of ours over a record of age is confirmed: that record stood until then.
    pub fn prove(&mut self, key: &UnitKey, sequence: u64, now: Moment) {
        if let Some(unit) = self.units.get_mut(key)
            && unit.sequence == sequence
            && unit.quiet_until <= now
        {
            unit.unproved = false;
        }
    }

    pub(super) fn disown(&mut self, owner: Epoch, key: &UnitKey) {
        if let Some(units) = self.owned.get_mut(&owner) {
            units.remove(key);
            if units.is_empty() {
                self.owned.remove(&owner);
            }
        }
    }

    /// The units whose records name the epoch.
    pub fn units_of(&self, epoch: Epoch) -> impl Iterator<Item = &UnitKey> {
        self.owned.get(&epoch).into_iter().flatten()
    }

    /// All units of a group that are known, also of earlier generations.
    pub fn units_in<'a>(
        &'a self,
        group: &'a GroupName,
    ) -> impl Iterator<Item = (&'a UnitKey, &'a Unit)> {
        // No generation is 0.
        let from = self.units.range(UnitKey::first_shard(group, 0)..);
        from.take_while(move |(key, _)| key.group == *group)
    }

    pub fn owner_of(&self, key: &UnitKey) -> Option<Epoch> {
        self.units.get(key)?.known.owner()
    }

    pub fn keys(&self) -> impl Iterator<Item = &UnitKey> {
        self.units.keys()
    }

    fn is_ahead(&self, unit: &UnitKey) -> bool {
        let group = self.groups.get(&unit.group);
        let present = group.and_then(|it| it.record);
        present.is_some_and(|it| it.generation < unit.generation)
    }

    pub fn unit(&self, key: &UnitKey) -> Option<&Unit> {
        self.units.get(key)
    }
}
