//! The groups of a bucket, as a watch has shown them. It has no I/O and no clock, so that it can be
//! tested as it is.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;
use std::time::Duration;

use super::observed_groups::{
    ObservedGroup, ObservedGroups, ObservedMember, ObservedUnit, UnitKind, UnitStanding,
};
use crate::store::AssignmentDelivery;
use nats_elect_core::Moment;
use nats_elect_core::assignment::{
    Epoch, Key, LONGEST_LEASE, Map, MemberRecord, UnitSet, UnitSets, Units, Value,
};
use nats_elect_core::name::{GroupName, UnitName};
use nats_elect_core::shard::shard_of;

/// What a watch has shown. Another watch begins with another one of these.
#[derive(Debug)]
pub(super) struct TrackedGroups {
    /// The creation time of the bucket.
    created: u64,
    groups: BTreeMap<GroupName, Group>,
    /// The last sequence of the stream that it is known to have shown.
    last: u64,
    caught_up: bool,
}

#[derive(Clone, Debug, Default)]
struct Group {
    /// The newest map, unless that is one of a later version.
    map: Option<Map>,
    /// The sequence of the newest value under the map's key.
    shown: u64,
    /// How many units each epoch owns by the map.
    owned: HashMap<Epoch, usize>,
    members: BTreeMap<Epoch, Member>,
}

/// What is under a member's key.
#[derive(Clone, Debug)]
struct Member {
    value: Value,
    sequence: u64,
    received: Moment,
    /// It came while the watch was running.
    is_live: bool,
}

impl TrackedGroups {
    /// Those of the bucket that was created at this time. Nothing was shown yet.
    pub const fn new(created: u64) -> Self {
        Self {
            created,
            groups: BTreeMap::new(),
            last: 0,
            caught_up: false,
        }
    }

    pub fn take_all(&mut self, told: Vec<AssignmentDelivery>, now: Moment) {
        for told in told {
            match told {
                AssignmentDelivery::Shown(key, sequence, value) => {
                    self.last = self.last.max(sequence);
                    let is_live = self.caught_up;
                    match key {
                        Key::Map(group) => self.group(group).take_map(sequence, value),
                        Key::Member(group, epoch) => {
                            let member = Member {
                                value,
                                sequence,
                                received: now,
                                is_live,
                            };
                            self.group(group).take_member(epoch, member);
                        }
                    }
                }
                AssignmentDelivery::CaughtUp(last) => {
                    self.last = self.last.max(last);
                    self.caught_up = true;
                }
            }
        }
    }

    fn group(&mut self, name: GroupName) -> &mut Group {
        self.groups.entry(name).or_default()
    }

    /// Whether everything was shown that stood there when the watch began.
    pub const fn has_caught_up(&self) -> bool {
        self.caught_up
    }

    /// Whether each member was seen alive.
    pub fn is_confirmed(&self) -> bool {
        let mut members = self.groups.values().flat_map(|it| it.members.values());
        members.all(|it| it.is_live || it.lease().is_none())
    }

    /// It follows what another watch has shown, which ended now. The server of this one may be behind:
    /// under each key that it has shown, the newer value counts. Who was seen alive is so here.
    pub fn follows(&mut self, before: &Self) {
        // A stream that has less than was shown lost it: what stands there counts.
        if self.created != before.created || self.last < before.last {
            return;
        }
        for (name, group) in &mut self.groups {
            if let Some(before) = before.groups.get(name) {
                group.follows(before);
            }
        }
    }

    /// The watch is over. Nobody is known to live any more.
    pub fn watch_ended(&mut self) {
        let groups = self.groups.values_mut();
        groups
            .flat_map(|it| it.members.values_mut())
            .for_each(|it| it.is_live = false);
    }

    /// All of them.
    pub fn observed(&self, now: Moment) -> ObservedGroups {
        let groups = self.groups.iter();
        let groups = groups.map(|(name, group)| (name.to_string(), group.observed(now)));
        ObservedGroups {
            groups: groups.collect(),
        }
    }

    /// A unit of a group, and the member that owns it.
    pub fn unit(
        &self,
        group: &GroupName,
        name: &UnitName,
        now: Moment,
    ) -> Option<(ObservedUnit, Option<ObservedMember>)> {
        let group = self.groups.get(group)?;
        let map = group.map.as_ref()?;
        let place = map.units().place_of(name)?;
        let owner = map.owner(place).and_then(|epoch| {
            let member = group.members.get(&epoch)?;
            (!member.is_over()).then(|| group.observed_member(epoch, member, now))
        });
        Some((group.observed_unit(map, place)?, owner))
    }

    /// The shard of a key. `None` if the group is not known to have shards.
    pub fn shard_of(&self, group: &GroupName, key: &[u8]) -> Option<UnitName> {
        let map = self.groups.get(group)?.map.as_ref()?;
        let shards = NonZeroU32::new(map.units().shards()?)?;
        Some(UnitName::shard(shard_of(key, shards)))
    }
}

impl Group {
    /// Takes a value under the map's key. Over one that is no map its members go on by the last one
    /// that they were shown. By one of a later version only those go on that understand it.
    fn take_map(&mut self, sequence: u64, value: Value) {
        if sequence <= self.shown {
            return;
        }
        self.shown = sequence;
        self.map = match value {
            Value::Map(map) => Some(*map),
            Value::LaterMap => None,
            _ => return,
        };
        self.owned.clear();
        let map = self.map.iter();
        let owners = map.flat_map(|map| (0..map.units().count()).filter_map(|it| map.owner(it)));
        for owner in owners {
            *self.owned.entry(owner).or_default() += 1;
        }
    }

    /// Takes a value under a member's key.
    fn take_member(&mut self, epoch: Epoch, member: Member) {
        let before = self.members.get(&epoch);
        if before.is_none_or(|it| member.replaces(it)) {
            self.members.insert(epoch, member);
        }
    }

    fn follows(&mut self, before: &Self) {
        // Where no map stands its members go on by the last one.
        if (1..=before.shown).contains(&self.shown) {
            self.map.clone_from(&before.map);
            self.shown = before.shown;
            self.owned.clone_from(&before.owned);
        }
        for (epoch, member) in &mut self.members {
            let before = before.members.get(epoch);
            if let Some(before) = before.filter(|it| !member.replaces(it)) {
                *member = before.clone();
            }
        }
    }

    fn observed(&self, now: Moment) -> ObservedGroup {
        let map = self.map.as_ref();
        let members = self.members.iter().map(|(epoch, member)| {
            let observed = self.observed_member(*epoch, member, now);
            (epoch.to_string(), observed)
        });
        let units = map.iter().flat_map(|map| {
            let places = 0..map.units().count();
            places.filter_map(|place| self.observed_unit(map, place))
        });
        ObservedGroup {
            kind: map.map(|map| match map.units() {
                Units::Shards(_) => UnitKind::Sharded,
                Units::Names(_) => UnitKind::Spread,
            }),
            shards: map.and_then(|map| map.units().shards()),
            generation: map.map_or(0, Map::generation),
            map: map.map(Map::sequence),
            units: units.collect(),
            members: members.collect(),
        }
    }

    fn observed_unit(&self, map: &Map, place: u32) -> Option<ObservedUnit> {
        let unit = map.units().get(place)?;
        let owner = map.owner(place);
        let member = owner.and_then(|it| self.members.get(&it));
        let is_clear = |epoch, number| {
            let member = self.members.get(&epoch);
            member.is_some_and(|it| it.value.is_clear(map.generation(), &unit, number))
        };
        let waits_for = map.waits_for(place);
        let waits_for: Vec<_> = waits_for
            .filter(|(epoch, number)| !is_clear(*epoch, *number))
            .map(|(epoch, _)| epoch.to_string())
            .collect();
        let record = member.and_then(Member::record);
        let standing = match (owner, record) {
            (None, _) => UnitStanding::Free,
            (Some(_), None) if member.is_some_and(Member::is_over) => UnitStanding::OwnerOver,
            (Some(_), None) => UnitStanding::OwnerMissing,
            (Some(_), Some(_)) if waits_for.is_empty() => UnitStanding::Owned,
            (Some(_), Some(_)) => UnitStanding::Changing,
        };
        Some(ObservedUnit {
            unit: unit.name().to_string(),
            standing,
            owner: owner.map(|owner| owner.to_string()),
            instance_id: record.map(|it| it.id.to_string()),
            waits_for,
        })
    }

    fn observed_member(&self, epoch: Epoch, member: &Member, now: Moment) -> ObservedMember {
        let record = member.record();
        let profile = record.map(|it| &it.profile);
        let names = |units: fn(&MemberRecord) -> &UnitSets| {
            record.map_or_else(Vec::new, |it| names_of(units(it)))
        };
        let age = now.since(member.received);
        ObservedMember {
            instance_id: record.map_or_else(String::new, |it| it.id.to_string()),
            incarnation: record.map(|it| it.incarnation),
            understood: record.is_some() || member.is_over(),
            ttl: record.map(|it| it.ttl),
            follows: record.map_or(0, |it| it.follows),
            still_running: names(|it| &it.excepts),
            unable: names(|it| &it.unable),
            load: profile.map_or(0, |it| it.load),
            zone: profile.and_then(|it| it.zone.clone()),
            version: profile.and_then(|it| it.version.clone()),
            cordoned: profile.is_some_and(|it| it.cordoned),
            leaves: record.is_some_and(|it| it.leaves),
            waits: record.is_some_and(|it| it.waits),
            aside: record.is_some_and(|it| it.aside),
            over: member.is_over(),
            revision: member.sequence,
            confirmed: member.is_live && member.lease().is_some_and(|lease| age < lease),
            age,
            units: self.owned.get(&epoch).copied().unwrap_or(0),
        }
    }
}

impl Member {
    /// Whether it counts after another one. Who is over stays so until a later record is shown.
    const fn replaces(&self, before: &Self) -> bool {
        let is_record = matches!(self.value, Value::Member(_) | Value::LaterMember);
        self.sequence > before.sequence && (is_record || !before.is_over())
    }

    const fn is_over(&self) -> bool {
        matches!(self.value, Value::Ended | Value::Expiring)
    }

    fn record(&self) -> Option<&MemberRecord> {
        match &self.value {
            Value::Member(record) => Some(record),
            _ => None,
        }
    }

    /// The lease, if there is one that is renewed.
    const fn lease(&self) -> Option<Duration> {
        match &self.value {
            Value::Member(record) => Some(record.ttl),
            Value::LaterMember => Some(LONGEST_LEASE),
            _ => None,
        }
    }
}

/// The names of units of all generations, each once.
fn names_of(units: &UnitSets) -> Vec<String> {
    let sets = units.generations().values();
    let names = sets.flat_map(|set| match set {
        UnitSet::Shards(numbers) => numbers.iter().map(UnitName::shard).collect(),
        UnitSet::Names(names) => names.iter().cloned().collect::<Vec<_>>(),
    });
    let mut names: Vec<_> = names.map(|it| (it.as_shard(), it.to_string())).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests;
