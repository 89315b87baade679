//! What is known of groups: their records, and whether earlier generations are closed.

use std::collections::BTreeSet;

use super::{Change, KnownUnit, Unit, View};
use crate::group::key::UnitKey;
use crate::group::record::{GroupKind, GroupRecord, UnitRecord};
use crate::moment::Moment;
use crate::name::{GroupName, UnitName};

/// What is known of a group.
#[derive(Clone, Debug)]
pub(in crate::group) struct SeenGroup {
    pub sequence: u64,
    /// The record that counts. `None` if what stands there is not understood.
    pub record: Option<GroupRecord>,
    /// The first sequence at which a record of this generation was shown.
    pub since: u64,
    /// Whether the record there goes back behind the one that counts.
    pub is_behind: bool,
    /// Whether this record began the group where nothing was.
    pub began: bool,
    pub watch: u64,
}

impl View {
    /// Learns of a group's record, by the watch alone: its writer may be behind with what came
    /// before it.
    pub(super) fn learn_of_group(
        &mut self,
        name: GroupName,
        sequence: u64,
        over: Option<u64>,
        record: Option<GroupRecord>,
        now: Moment,
    ) -> Change {
        let watch = self.watch;
        if let Some(before) = self.groups.get(&name)
            && before.began
            && over == Some(before.sequence)
            && sequence > before.sequence
            && record.is_some_and(|record| !record.making)
            && !self.may_be_made(&name, now)
        {
            // Nobody owned a unit before this record. So what was created until then is of age, if
            // all are known who may have a lease. Otherwise it is as if this member had found it.
            let while_new = before.sequence..sequence;
            let knows_all = self.knows_members(now);
            let of_age = now.max(self.found_until);
            let units = self.units.iter_mut().filter(|(key, _)| key.group == name);
            for (_, unit) in units.filter(|(_, it)| while_new.contains(&it.sequence)) {
                match (unit.newborn, knows_all) {
                    (false, _) => {}
                    (true, true) => (unit.quiet_until, unit.unproved) = (of_age, false),
                    (true, false) => unit.was_found = true,
                }
            }
        }
        let before = self.groups.get_mut(&name);
        if let Some(before) = before
            && sequence <= before.sequence
        {
            before.watch = watch;
            return Change::Nothing;
        }
        // It was written when all units had been created, and stands since. So units of nobody that
        // are older never had an owner.
        let made = record.is_some_and(|record| !record.making && record.generation == 1);
        let is_fresh = self.joins(now) && !self.earlier.contains_key(&name);
        if is_fresh && made && over.is_some_and(|over| over > 0) {
            let units = self.units.iter_mut().filter(|(key, _)| key.group == name);
            for (_, unit) in units.filter(|(_, it)| it.newborn && it.sequence < sequence) {
                unit.was_found = true;
            }
        }
        let known = self.known.get(&name).copied();
        let is_behind = record.is_some_and(|it| known.is_some_and(|known| !it.may_follow(&known)));
        let counts = if is_behind { known } else { record };
        if let Some(record) = counts {
            self.known.insert(name.clone(), record);
        }
        if let Some(GroupRecord {
            kind: GroupKind::Sharded { shards, before },
            generation,
            ..
        }) = counts
        {
            for (generation, shards) in [(generation, shards), (generation - 1, before)] {
                let most = self.shards.entry((name.clone(), generation)).or_insert(0);
                *most = shards.max(*most);
            }
        }
        let before = self.groups.get(&name);
        let was_known = known.is_some() || self.earlier.contains_key(&name);
        let is_first = !was_known && before.is_none() && over == Some(0);
        let generation = |record: Option<GroupRecord>| record.map(|record| record.generation);
        let same = before.filter(|before| generation(before.record) == generation(counts));
        let group = SeenGroup {
            sequence,
            record: counts,
            since: same.map_or(sequence, |before| before.since),
            is_behind,
            began: is_first && record.is_some_and(|record| record.making),
            watch,
        };
        self.groups.insert(name.clone(), group);
        Change::Group(name)
    }

    /// The latest generation of a group that is or was known. `None` if it may be new.
    pub fn generation(&self, group: &GroupName) -> Option<u32> {
        let units = self.units_in(group).map(|(key, _)| key.generation).max();
        units.max(self.earlier.get(group).copied())
    }

    /// Until when a member may have a lease that owns a unit of a later generation than this one's.
    pub fn later_until(&self, unit: &UnitKey) -> Option<Moment> {
        let first = UnitKey::first_shard(&unit.group, unit.generation + 1);
        let (known, _) = self.units.range(&first..).next()?;
        if known.group != unit.group {
            // A group has no such unit unless it grows.
            return None;
        }
        let owns_later = |units: &BTreeSet<UnitKey>| {
            let mut later = units.range(&first..);
            later.next().is_some_and(|it| it.group == unit.group)
        };
        let owners = self.owned.iter().filter(|(_, units)| owns_later(units));
        let owners = owners.filter_map(|(epoch, _)| self.members.get(epoch));
        let living = owners.filter(|owner| !owner.deposed);
        living.map(|owner| owner.over_at).max()
    }

    pub fn group(&self, name: &GroupName) -> Option<&SeenGroup> {
        self.groups.get(name)
    }

    /// The last record of a group that counted, whatever became of its key.
    pub fn known(&self, name: &GroupName) -> Option<GroupRecord> {
        self.known.get(name).copied()
    }

    /// Whether every unit of the generations before this one is closed for good. Keys that `is_unit`
    /// leaves out are a stranger's: nobody acts on them, and nobody closes them.
    pub fn are_closed_before(
        &self,
        group: &GroupName,
        generation: u32,
        is_unit: impl Fn(&UnitKey) -> bool,
        now: Moment,
    ) -> bool {
        let is_closed = |unit: &Unit| self.is_closed(group, unit) && unit.quiet_until <= now;
        let known = self.units_in(group);
        let earlier = known.take_while(|(key, _)| key.generation < generation);
        let mut units = earlier.filter(|(key, _)| is_unit(key));
        units.all(|(_, unit)| is_closed(unit))
            && self.numbered_before(group, generation).all(|key| {
                let unit = self.units.get(&key);
                unit.is_some_and(is_closed)
            })
    }

    /// Whether a unit of an earlier generation is closed for good. A member that was not shown that
    /// the group has grown may write over a *closed* from before, which is a stranger's.
    pub fn is_closed(&self, group: &GroupName, unit: &Unit) -> bool {
        let since = self.groups.get(group).map(|group| group.since);
        unit.known == KnownUnit::Record(UnitRecord::Closed)
            && !unit.unproved
            && since.is_some_and(|since| since < unit.sequence)
    }

    /// All shards of the generation before this one.
    pub fn numbered_before(
        &self,
        group: &GroupName,
        generation: u32,
    ) -> impl Iterator<Item = UnitKey> {
        let generation = generation.saturating_sub(1);
        let shards = self.shards.get(&(group.clone(), generation));
        let group = group.clone();
        (0..shards.copied().unwrap_or(0)).map(move |number| UnitKey {
            group: group.clone(),
            generation,
            unit: UnitName::shard(number),
        })
    }
}
