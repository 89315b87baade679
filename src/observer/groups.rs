//! Reads the groups of a bucket: everything that stands there, and then heartbeats for a while.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::observed_groups::{
    ObservedGroup, ObservedGroups, ObservedMember, ObservedUnit, UnitKind, UnitStanding,
};
use crate::clock;
use crate::error::Error;
use crate::store::{Bucket, GroupDelivery, Shown, StoreError};
use nats_elect_core::Moment;
use nats_elect_core::group::{
    Epoch, GroupContent, GroupKind, GroupRecord, MemberContent, SeenMember, UnitKey, UnitRecord,
};
use nats_elect_core::name::{GroupName, UnitName};
use nats_elect_core::token::FencingToken;

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(2);
/// For how long a watch is begun again that ends before it has shown everything.
const PATIENCE: Duration = Duration::from_secs(5);
/// The pause before it begins again.
const PAUSE: Duration = Duration::from_millis(100);
/// The most messages that are taken at once.
const BATCH: usize = 256;

/// What was shown, as it stands.
#[derive(Debug, Default)]
struct Seen {
    members: BTreeMap<Epoch, Member>,
    groups: BTreeMap<GroupName, Option<GroupRecord>>,
    units: BTreeMap<UnitKey, Unit>,
    caught_up: bool,
}

#[derive(Debug)]
enum Member {
    Ended,
    Record {
        seen: Box<SeenMember>,
        revision: u64,
        received: Moment,
        confirmed: bool,
    },
}

#[derive(Debug)]
struct Unit {
    sequence: u64,
    /// `None` if it is not understood, or a delete marker.
    record: Option<UnitRecord>,
}

/// Reads the groups of the bucket that was created at this time, and watches until each member was
/// seen alive, for so long at most.
pub(super) async fn read(
    bucket: &Bucket,
    created: u64,
    within: Duration,
) -> Result<ObservedGroups, Error> {
    let give_up = clock::now() + PATIENCE;
    loop {
        let error = match attempt(bucket, created, within).await {
            Ok(seen) => return Ok(seen.observed(created, clock::now())),
            Err(error) => error,
        };
        let is_over = clock::now() + PAUSE >= give_up;
        match error {
            StoreError::Unavailable(_) | StoreError::Timeout { .. } if !is_over => {
                tracing::debug!(%error, "the watch on groups ended: watching again");
                tokio::time::sleep(PAUSE).await;
            }
            error => return Err(Error::of_reading(error, PATIENCE)),
        }
    }
}

async fn attempt(bucket: &Bucket, created: u64, within: Duration) -> Result<Seen, StoreError> {
    let mut seen = Seen::default();
    let mut watch = bucket.watch_groups(TIMEOUT).await?;
    while !seen.caught_up {
        let told = watch.next_batch(BATCH).await?;
        seen.take_all(told, clock::now());
    }
    if bucket.epoch(TIMEOUT).await? != created {
        let why = "the bucket is another one than before".to_owned();
        return Err(StoreError::Unavailable(why));
    }
    let watching = async {
        while !seen.is_confirmed() {
            let told = watch.next_batch(BATCH).await?;
            seen.take_all(told, clock::now());
        }
        Ok(())
    };
    match tokio::time::timeout(within, watching).await {
        Ok(Err(error)) => Err(error),
        Ok(Ok(())) | Err(_) => Ok(seen),
    }
}

impl Seen {
    fn take_all(&mut self, told: Vec<GroupDelivery>, now: Moment) {
        for told in told {
            match told {
                GroupDelivery::Shown(shown) => self.take(shown, now),
                GroupDelivery::CaughtUp(_) => self.caught_up = true,
                GroupDelivery::Nothing => {}
            }
        }
    }

    fn take(&mut self, shown: Shown, now: Moment) {
        let sequence = shown.message.sequence;
        match shown.message.content {
            GroupContent::Member(epoch, MemberContent::Tombstone { .. }) => {
                self.members.insert(epoch, Member::Ended);
            }
            GroupContent::Member(epoch, MemberContent::Record(seen)) => {
                let member = Member::Record {
                    seen,
                    revision: sequence,
                    received: now,
                    confirmed: self.caught_up,
                };
                self.members.insert(epoch, member);
            }
            GroupContent::Group(name, record) => {
                self.groups.insert(name, record);
            }
            GroupContent::Unit { key, record, .. } => {
                self.units.insert(key, Unit { sequence, record });
            }
        }
    }

    /// Whether each member was seen alive.
    fn is_confirmed(&self) -> bool {
        let mut members = self.members.values();
        members.all(|member| !matches!(member, Member::Record { confirmed, .. } if !confirmed))
    }

    fn observed(&self, created: u64, now: Moment) -> ObservedGroups {
        let mut groups: BTreeMap<GroupName, ObservedGroup> = BTreeMap::new();
        for (name, record) in &self.groups {
            groups.insert(name.clone(), of_record(*record));
        }
        for key in self.units.keys() {
            let group = groups.entry(key.group.clone()).or_default();
            if group.kind.is_none() {
                group.generation = group.generation.max(key.generation);
            }
        }
        let mut owned: HashMap<Epoch, usize> = HashMap::new();
        for (name, group) in &mut groups {
            let mut units = self.units_of(name, group, created);
            for (key, unit) in self.units.iter().filter(|(key, _)| key.group == *name) {
                if let Some(owner) = unit.record.and_then(UnitRecord::owner) {
                    *owned.entry(owner).or_default() += 1;
                }
                let is_open = unit.record != Some(UnitRecord::Closed);
                group.unclosed += usize::from(is_open && key.generation < group.generation);
            }
            units.sort_by(|(a, _), (b, _)| (a.as_shard(), a).cmp(&(b.as_shard(), b)));
            group.units = units.into_iter().map(|(_, unit)| unit).collect();
        }
        let mut observed = ObservedGroups::default();
        for (epoch, member) in &self.members {
            let units = owned.get(epoch).copied().unwrap_or(0);
            match member {
                Member::Ended => {
                    observed.ended.insert(epoch.to_string(), units);
                }
                Member::Record { .. } => {
                    let member = member.observed(units, now);
                    observed
                        .members
                        .extend(member.map(|it| (epoch.to_string(), it)));
                }
            }
        }
        let groups = groups.into_iter();
        observed.groups = groups.map(|(name, it)| (name.to_string(), it)).collect();
        observed
    }

    /// The units of the group's present generation, those that are missing among them.
    fn units_of(
        &self,
        name: &GroupName,
        group: &ObservedGroup,
        created: u64,
    ) -> Vec<(UnitName, ObservedUnit)> {
        let is_of = |key: &UnitKey| key.group == *name && key.generation == group.generation;
        let found = self.units.iter().filter(|(key, _)| is_of(key));
        let mut units: Vec<_> = found
            .map(|(key, unit)| (key.unit.clone(), self.unit(&key.unit, unit, created)))
            .collect();
        let missing = (0..group.shards.unwrap_or(0)).map(UnitName::shard);
        let missing = missing.filter(|unit| {
            let key = UnitKey {
                group: name.clone(),
                generation: group.generation,
                unit: unit.clone(),
            };
            !self.units.contains_key(&key)
        });
        units.extend(missing.map(|unit| {
            let missing = ObservedUnit {
                unit: unit.to_string(),
                standing: UnitStanding::Missing,
                owner: None,
                instance_id: None,
                fencing_token: None,
            };
            (unit, missing)
        }));
        units
    }

    fn unit(&self, name: &UnitName, unit: &Unit, created: u64) -> ObservedUnit {
        let owner = unit.record.and_then(UnitRecord::owner);
        let member = owner.map(|owner| self.members.get(&owner));
        let standing = match (unit.record, member) {
            (None, _) => UnitStanding::Unknown,
            (Some(UnitRecord::Closed), _) => UnitStanding::Closed,
            (Some(UnitRecord::Nobody), _) => UnitStanding::Free,
            (Some(UnitRecord::Owned(_)), Some(Some(Member::Record { .. }))) => UnitStanding::Owned,
            (Some(UnitRecord::Owned(_)), Some(Some(Member::Ended))) => UnitStanding::Abandoned,
            (Some(UnitRecord::Owned(_)), _) => UnitStanding::OwnerMissing,
        };
        let instance_id = match member {
            Some(Some(Member::Record { seen, .. })) if !seen.id.is_empty() => Some(seen.id.clone()),
            _ => None,
        };
        ObservedUnit {
            unit: name.to_string(),
            standing,
            owner: owner.map(|owner| owner.to_string()),
            instance_id,
            fencing_token: Some(FencingToken {
                epoch: created,
                sequence: unit.sequence,
            }),
        }
    }
}

fn of_record(record: Option<GroupRecord>) -> ObservedGroup {
    let Some(record) = record else {
        return ObservedGroup::default();
    };
    let (kind, shards) = match record.kind {
        GroupKind::Sharded { shards, .. } => (UnitKind::Sharded, Some(shards)),
        GroupKind::Spread => (UnitKind::Spread, None),
    };
    ObservedGroup {
        kind: Some(kind),
        shards,
        generation: record.generation,
        making: record.making,
        ..ObservedGroup::default()
    }
}

impl Member {
    fn observed(&self, units: usize, now: Moment) -> Option<ObservedMember> {
        let Self::Record {
            seen,
            revision,
            received,
            confirmed,
        } = self
        else {
            return None;
        };
        let info = seen.info.as_ref();
        let groups = info.into_iter().flat_map(|info| &info.groups);
        Some(ObservedMember {
            instance_id: seen.id.clone(),
            understood: info.is_some(),
            ttl: seen.identity.map(|identity| identity.ttl),
            groups: groups
                .map(|(name, support)| (name.to_string(), support.load))
                .collect(),
            zone: info.and_then(|info| info.zone.clone()),
            cordoned: info.is_some_and(|info| info.cordoned),
            revision: *revision,
            confirmed: *confirmed,
            age: now.since(*received),
            units,
        })
    }
}
