//! The groups of a bucket, as a watch has shown them. It has no I/O and no clock, so that it can be
//! tested as it is.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::num::NonZeroU32;
use std::time::Duration;

use super::observed_groups::{
    ObservedGroup, ObservedGroups, ObservedMember, ObservedUnit, UnitKind, UnitStanding,
};
use crate::store::{GroupDelivery, Shown};
use nats_elect_core::Moment;
use nats_elect_core::group::policy::shard_of;
use nats_elect_core::group::{
    Epoch, GroupContent, GroupKind, GroupRecord, LONGEST_LEASE, MOST_SHARDS, MemberContent,
    SeenMember, UnitKey, UnitRecord,
};
use nats_elect_core::name::{GroupName, UnitName};
use nats_elect_core::token::FencingToken;

/// The most shards without a key that are told by their names, of all groups. A record of sixty bytes
/// may claim thousands.
const MOST_MISSING: usize = 20_000;

/// What one watch has shown. Another watch begins with another one of these.
#[derive(Debug)]
pub(super) struct TrackedGroups {
    /// The creation time of the bucket.
    created: u64,
    members: BTreeMap<Epoch, Member>,
    groups: BTreeMap<GroupName, Group>,
    /// How many units name an epoch, of all groups and generations.
    owned: HashMap<Epoch, usize>,
    /// The last sequence of the stream that it is known to have shown.
    last: u64,
    caught_up: bool,
}

#[derive(Debug)]
enum Member {
    Ended,
    Record {
        seen: Box<SeenMember>,
        revision: u64,
        received: Moment,
        /// It came while the watch was running.
        is_live: bool,
    },
}

#[derive(Debug, Default)]
struct Group {
    /// `None` if it is missing, was deleted or is not understood.
    record: Option<GroupRecord>,
    generations: BTreeMap<u32, BTreeMap<UnitName, Unit>>,
}

#[derive(Debug)]
struct Unit {
    sequence: u64,
    /// `None` if it is not understood, or a delete marker.
    record: Option<UnitRecord>,
    /// When members build on it, at the latest.
    of_age_at: Moment,
}

impl TrackedGroups {
    /// Those of the bucket that was created at this time. Nothing was shown yet.
    pub fn new(created: u64) -> Self {
        Self {
            created,
            members: BTreeMap::new(),
            groups: BTreeMap::new(),
            owned: HashMap::new(),
            last: 0,
            caught_up: false,
        }
    }

    pub fn take_all(&mut self, told: Vec<GroupDelivery>, now: Moment) {
        for told in told {
            match told {
                GroupDelivery::Shown(shown) => self.take(shown, now),
                GroupDelivery::CaughtUp(last) => {
                    self.last = self.last.max(last);
                    self.caught_up = true;
                }
                GroupDelivery::Nothing => {}
            }
        }
    }

    fn take(&mut self, shown: Shown, now: Moment) {
        let sequence = shown.message.sequence;
        self.last = self.last.max(sequence);
        match shown.message.content {
            GroupContent::Member(epoch, MemberContent::Tombstone { .. }) => {
                self.members.insert(epoch, Member::Ended);
            }
            GroupContent::Member(epoch, MemberContent::Record(seen)) => {
                let member = Member::Record {
                    seen,
                    revision: sequence,
                    received: now,
                    is_live: self.caught_up,
                };
                self.members.insert(epoch, member);
            }
            GroupContent::Group(name, record) => {
                self.groups.entry(name).or_default().record = record;
            }
            GroupContent::Unit { key, record, .. } => {
                let (over, is_signed) = (shown.message.over, shown.signed.is_some());
                self.take_unit(key, sequence, over, record, is_signed, now);
            }
        }
    }

    /// For how long nobody builds on a record, at most. The signature is not verified, and whether an
    /// owner's lease was waited for only each member knows.
    fn ages_for(
        &self,
        key: &UnitKey,
        over: Option<u64>,
        record: Option<UnitRecord>,
        is_signed: bool,
        now: Moment,
    ) -> Duration {
        let group = self.groups.get(&key.group);
        let is_new = group.is_some_and(|it| it.record.is_some_and(|record| record.making));
        let before = group
            .and_then(|it| it.generations.get(&key.generation)?.get(&key.unit))
            .filter(|before| Some(before.sequence) == over);
        let follows = match (record, before) {
            (None, _) => false,
            // What stood there before is not known. Members write over it without a signature to take
            // it, and to create it.
            (Some(record), None) => {
                let may_take = is_signed || record.owner().is_some();
                !self.caught_up && may_take && over.is_some_and(|over| over > 0)
            }
            (Some(record), Some(before)) => match before.record {
                Some(UnitRecord::Nobody) => true,
                Some(UnitRecord::Owned(owner)) => {
                    is_signed || matches!(self.members.get(&owner), Some(Member::Ended))
                }
                Some(UnitRecord::Closed) => record == UnitRecord::Closed,
                None => false,
            },
        };
        if follows || (is_new && record.is_some()) {
            before.map_or(Duration::ZERO, |before| before.of_age_at.since(now))
        } else {
            LONGEST_LEASE
        }
    }

    fn take_unit(
        &mut self,
        key: UnitKey,
        sequence: u64,
        over: Option<u64>,
        record: Option<UnitRecord>,
        is_signed: bool,
        now: Moment,
    ) {
        let unit = Unit {
            sequence,
            record,
            of_age_at: now + self.ages_for(&key, over, record, is_signed, now),
        };
        let group = self.groups.entry(key.group).or_default();
        let units = group.generations.entry(key.generation).or_default();
        if let Some(owner) = unit.owner() {
            *self.owned.entry(owner).or_default() += 1;
        }
        let before = units.insert(key.unit, unit);
        if let Some(owner) = before.and_then(|unit| unit.owner())
            && let Some(units) = self.owned.get_mut(&owner)
        {
            *units -= 1;
            if *units == 0 {
                self.owned.remove(&owner);
            }
        }
    }

    /// Whether everything was shown that stood there when the watch began.
    pub const fn has_caught_up(&self) -> bool {
        self.caught_up
    }

    /// Whether each member was seen alive.
    pub fn is_confirmed(&self) -> bool {
        let mut members = self.members.values();
        members.all(|member| !matches!(member, Member::Record { is_live, .. } if !is_live))
    }

    /// Whether it has shown all that the other one has.
    pub const fn is_beyond(&self, other: &Self) -> bool {
        self.last >= other.last
    }

    /// It follows a watch that lasted until now. Who was seen alive there is so here.
    pub fn follows(&mut self, before: &Self) {
        for (epoch, member) in &mut self.members {
            if let Member::Record {
                received, is_live, ..
            } = member
                && !*is_live
                && let Some(Member::Record {
                    received: seen,
                    is_live: true,
                    ..
                }) = before.members.get(epoch)
            {
                (*received, *is_live) = (*seen, true);
            }
        }
        for (name, group) in &mut self.groups {
            let known = before.groups.get(name).map(|it| &it.generations);
            for (generation, units) in &mut group.generations {
                let known = known.and_then(|it| it.get(generation));
                for (name, unit) in units {
                    let same = known.and_then(|it| it.get(name));
                    if let Some(same) = same.filter(|it| it.sequence == unit.sequence) {
                        unit.of_age_at = same.of_age_at;
                    }
                }
            }
        }
    }

    /// The watch is over. Nobody is known to live any more.
    pub fn watch_ended(&mut self) {
        for member in self.members.values_mut() {
            if let Member::Record { is_live, .. } = member {
                *is_live = false;
            }
        }
    }

    /// All of them.
    pub fn observed(&self, now: Moment) -> ObservedGroups {
        let mut room = MOST_MISSING;
        let mut groups: Vec<_> = self.groups.iter().collect();
        // Groups that strangers made up have few keys.
        groups.sort_by_key(|(_, group)| Reverse(group.units().len()));
        let members = self.members.iter();
        let ended = members
            .clone()
            .filter(|(_, it)| matches!(it, Member::Ended));
        ObservedGroups {
            groups: groups
                .into_iter()
                .map(|(name, group)| (name.to_string(), self.group(group, &mut room, now)))
                .collect(),
            members: members
                .filter_map(|(epoch, it)| {
                    Some((epoch.to_string(), it.observed(self.owns(*epoch), now)?))
                })
                .collect(),
            ended: ended
                .map(|(epoch, _)| (epoch.to_string(), self.owns(*epoch)))
                .collect(),
        }
    }

    /// A unit of a group's present generation, and the member that it names.
    pub fn unit(
        &self,
        group: &GroupName,
        name: &UnitName,
        now: Moment,
    ) -> Option<(ObservedUnit, Option<ObservedMember>)> {
        let group = self.groups.get(group)?;
        let Some(unit) = group.units().get(name) else {
            return group.has_shard(name).then(|| (missing(name), None));
        };
        if !group.may_have(name) {
            return None;
        }
        let owner = unit.owner().and_then(|epoch| {
            let member = self.members.get(&epoch)?;
            member.observed(self.owns(epoch), now)
        });
        Some((self.observed_unit(name, unit, now), owner))
    }

    /// The shard of a key. `None` if the group is not known to have shards.
    pub fn shard_of(&self, group: &GroupName, key: &[u8]) -> Option<UnitName> {
        let shards = NonZeroU32::new(self.groups.get(group)?.shards())?;
        Some(UnitName::shard(shard_of(key, shards)))
    }

    fn owns(&self, epoch: Epoch) -> usize {
        self.owned.get(&epoch).copied().unwrap_or(0)
    }

    fn group(&self, group: &Group, room: &mut usize, now: Moment) -> ObservedGroup {
        let kind = group.record.map(|record| match record.kind {
            GroupKind::Sharded { .. } => UnitKind::Sharded,
            GroupKind::Spread => UnitKind::Spread,
        });
        let is_open = |unit: &&Unit| unit.record != Some(UnitRecord::Closed);
        let before = group.generations.range(..group.generation());
        // Nobody closes a stranger's key that is no shard's.
        let may_be = |(name, _): &(&UnitName, &Unit)| {
            kind != Some(UnitKind::Sharded) || name.as_shard().is_some()
        };
        let before = before.flat_map(|(_, units)| units.iter());
        let before = before.filter(may_be).map(|(_, unit)| unit);
        let next = group.record.map(|record| record.generation + 1);
        let next = next.and_then(|next| group.generations.get(&next));
        let next = next.filter(|_| kind == Some(UnitKind::Sharded));
        let shards_of = |units: &BTreeMap<UnitName, Unit>| {
            let shards = units.keys().filter_map(UnitName::as_shard);
            shards.filter(|it| *it < MOST_SHARDS).count()
        };
        let (units, surplus) = self.units(group, room, now);
        let found = units.iter().filter(|it| it.fencing_token.is_some());
        let shards = usize::try_from(group.shards()).unwrap_or(usize::MAX);
        ObservedGroup {
            kind,
            shards: (kind == Some(UnitKind::Sharded)).then(|| group.shards()),
            generation: group.generation(),
            making: group.record.is_some_and(|record| record.making),
            missing: shards.saturating_sub(found.count()),
            units,
            surplus,
            unclosed: before.filter(is_open).count(),
            prepared: next.map_or(0, shards_of),
        }
    }

    /// The units of the group's present generation, as many of the missing ones among them as there is
    /// room for, and the keys that are no unit's.
    fn units(
        &self,
        group: &Group,
        room: &mut usize,
        now: Moment,
    ) -> (Vec<ObservedUnit>, Vec<String>) {
        let found = group.units().iter();
        let (found, surplus): (Vec<_>, Vec<_>) = found.partition(|(name, _)| group.may_have(name));
        let mut units: Vec<_> = found
            .into_iter()
            .map(|(name, unit)| (name.as_shard(), self.observed_unit(name, unit, now)))
            .collect();
        let there: HashSet<_> = units.iter().filter_map(|(shard, _)| *shard).collect();
        let before = units.len();
        let shards = (0..group.shards()).filter(|shard| !there.contains(shard));
        let shards = shards.take(*room);
        units.extend(shards.map(|shard| (Some(shard), missing(&UnitName::shard(shard)))));
        *room -= units.len() - before;
        // Names are in their order already.
        units.sort_by_key(|(shard, _)| *shard);
        let units = units.into_iter().map(|(_, unit)| unit).collect();
        let mut surplus: Vec<_> = surplus.into_iter().map(|(name, _)| name).collect();
        surplus.sort_by_key(|name| name.as_shard());
        let surplus = surplus.into_iter().map(UnitName::to_string).collect();
        (units, surplus)
    }

    fn observed_unit(&self, name: &UnitName, unit: &Unit, now: Moment) -> ObservedUnit {
        let owner = unit.owner();
        let member = owner.and_then(|owner| self.members.get(&owner));
        let standing = match (unit.record, member) {
            (None, _) => UnitStanding::Unknown,
            (Some(UnitRecord::Closed), _) => UnitStanding::Closed,
            (Some(UnitRecord::Nobody), _) => UnitStanding::Free,
            (Some(UnitRecord::Owned(_)), Some(Member::Record { .. })) => UnitStanding::Owned,
            (Some(UnitRecord::Owned(_)), Some(Member::Ended)) => UnitStanding::Abandoned,
            (Some(UnitRecord::Owned(_)), None) => UnitStanding::OwnerMissing,
        };
        let instance_id = match member {
            Some(Member::Record { seen, .. }) if !seen.id.is_empty() => Some(seen.id.clone()),
            _ => None,
        };
        ObservedUnit {
            unit: name.to_string(),
            standing,
            owner: owner.map(|owner| owner.to_string()),
            instance_id,
            fencing_token: Some(FencingToken {
                epoch: self.created,
                sequence: unit.sequence,
            }),
            ages_for: Some(unit.of_age_at.since(now)).filter(|left| !left.is_zero()),
        }
    }
}

fn missing(name: &UnitName) -> ObservedUnit {
    ObservedUnit {
        unit: name.to_string(),
        standing: UnitStanding::Missing,
        owner: None,
        instance_id: None,
        fencing_token: None,
        ages_for: None,
    }
}

impl Group {
    /// The present generation. Without a record it is the latest one that has units.
    fn generation(&self) -> u32 {
        let latest = || self.generations.keys().next_back().copied();
        let told = self.record.map(|record| record.generation);
        told.or_else(latest).unwrap_or_default()
    }

    /// The units of the present generation that have keys, and what stands beside them.
    fn units(&self) -> &BTreeMap<UnitName, Unit> {
        static NONE: BTreeMap<UnitName, Unit> = BTreeMap::new();
        self.generations.get(&self.generation()).unwrap_or(&NONE)
    }

    /// Whether it has a shard of this name.
    fn has_shard(&self, name: &UnitName) -> bool {
        name.as_shard().is_some_and(|it| it < self.shards())
    }

    /// Whether a key of the present generation can be a unit's. A growth that broke off leaves others
    /// behind, if the group got a smaller number then, and strangers leave what they like.
    fn may_have(&self, name: &UnitName) -> bool {
        self.shards() == 0 || self.has_shard(name)
    }

    /// The number of shards. 0 for named units, and without a record.
    fn shards(&self) -> u32 {
        match self.record.map(|record| record.kind) {
            Some(GroupKind::Sharded { shards, .. }) => shards,
            Some(GroupKind::Spread) | None => 0,
        }
    }
}

impl Unit {
    fn owner(&self) -> Option<Epoch> {
        self.record.and_then(UnitRecord::owner)
    }
}

impl Member {
    fn observed(&self, units: usize, now: Moment) -> Option<ObservedMember> {
        let Self::Record {
            seen,
            revision,
            received,
            is_live,
        } = self
        else {
            return None;
        };
        let info = seen.info.as_ref();
        let groups = info.into_iter().flat_map(|info| &info.groups);
        let ttl: Option<Duration> = seen.identity.map(|identity| identity.ttl);
        let age = now.since(*received);
        Some(ObservedMember {
            instance_id: seen.id.clone(),
            incarnation: seen.nonce.map(|nonce| nonce.incarnation),
            understood: info.is_some(),
            ttl,
            groups: groups
                .map(|(name, support)| (name.to_string(), support.load))
                .collect(),
            zone: info.and_then(|info| info.zone.clone()),
            cordoned: info.is_some_and(|info| info.cordoned),
            revision: *revision,
            confirmed: *is_live && age < ttl.unwrap_or(LONGEST_LEASE),
            age,
            units,
        })
    }
}

#[cfg(test)]
mod tests;
