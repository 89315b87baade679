//! What stands in the bucket of one group.

use std::collections::{BTreeMap, BTreeSet};

use super::{PATIENCE, PAUSE, PreparedUnits, TIMEOUT};
use crate::clock;
use crate::error::Error;
use crate::store::{Bucket, GroupDelivery, GroupWatch, StoreError};
use nats_elect_core::group::{
    Epoch, GroupContent, GroupRecord, MOST_SHARDS, MemberContent, UnitKey, UnitRecord,
};
use nats_elect_core::name::{GroupName, UnitName};

/// The most messages that are taken at once.
const BATCH: usize = 256;

/// A watch on a group, and what it has shown.
pub(super) struct Watching {
    pub bucket: Bucket,
    watch: Option<GroupWatch>,
    pub seen: Seen,
}

/// What stands there.
#[derive(Debug)]
pub(super) struct Seen {
    pub group: GroupName,
    /// The group's record, if it is understood, and its sequence.
    pub record: Option<(u64, Option<GroupRecord>)>,
    /// The members that take part in it.
    pub members: BTreeSet<Epoch>,
    /// The units, with their records if these are understood.
    pub units: BTreeMap<UnitKey, Option<UnitRecord>>,
    /// The units of other groups.
    pub others: BTreeSet<UnitKey>,
}

impl Watching {
    /// Begins a watch, and waits until it has shown all that stands there.
    pub async fn begin(bucket: Bucket, group: GroupName) -> Result<Self, Error> {
        let mut watching = Self {
            bucket,
            watch: None,
            seen: Seen::nothing(group),
        };
        watching.look().await?;
        Ok(watching)
    }

    /// Begins a watch, and waits until it has shown all that stands there.
    pub async fn look(&mut self) -> Result<(), Error> {
        let give_up = clock::now() + PATIENCE;
        loop {
            let error = match self.attempt_look().await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            if !error.is_transient() || clock::now() + PAUSE >= give_up {
                return Err(Error::of_reading(error, PATIENCE));
            }
            tracing::debug!(%error, "the watch on groups ended: watching again");
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn attempt_look(&mut self) -> Result<(), StoreError> {
        self.watch = None;
        let mut seen = Seen::nothing(self.seen.group.clone());
        let mut caught_up = false;
        let mut watch = self.bucket.watch_groups(TIMEOUT).await?;
        while !caught_up {
            for told in watch.next_batch(BATCH).await? {
                caught_up |= matches!(told, GroupDelivery::CaughtUp(_));
                seen.take(told);
            }
        }
        (self.watch, self.seen) = (Some(watch), seen);
        Ok(())
    }

    /// Takes what the watch shows within its next second. Returns whether something of the group may
    /// have changed.
    pub async fn watch_on(&mut self) -> Result<bool, Error> {
        let told = match &mut self.watch {
            Some(watch) => watch.next_batch(BATCH).await,
            None => Err(StoreError::Unavailable("there is no watch".into())),
        };
        let Ok(told) = told else {
            self.look().await?;
            return Ok(true);
        };
        let mut changed = false;
        for told in told {
            changed |= self.seen.take(told);
        }
        Ok(changed)
    }
}

impl Seen {
    const fn nothing(group: GroupName) -> Self {
        Self {
            group,
            record: None,
            members: BTreeSet::new(),
            units: BTreeMap::new(),
            others: BTreeSet::new(),
        }
    }

    /// Takes what the watch tells. Returns whether it is of this group.
    fn take(&mut self, told: GroupDelivery) -> bool {
        let GroupDelivery::Shown(shown) = told else {
            return false;
        };
        let sequence = shown.message.sequence;
        match shown.message.content {
            GroupContent::Group(name, record) if name == self.group => {
                self.record = Some((sequence, record));
                true
            }
            GroupContent::Member(epoch, content) => {
                let info = match content {
                    MemberContent::Record(seen) => seen.info,
                    MemberContent::Tombstone { .. } => None,
                };
                if info.is_some_and(|it| it.groups.contains_key(&self.group)) {
                    self.members.insert(epoch);
                } else {
                    self.members.remove(&epoch);
                }
                false
            }
            GroupContent::Unit { key, record, .. } if key.group == self.group => {
                self.units.insert(key, record);
                true
            }
            GroupContent::Unit { key, .. } => {
                self.others.insert(key);
                false
            }
            GroupContent::Group(..) => false,
        }
    }

    /// Whether anything but a record tells of the group.
    pub fn is_known(&self) -> bool {
        !self.members.is_empty() || !self.units.is_empty()
    }

    /// Whether the group's record is this one.
    pub fn says(&self, record: GroupRecord) -> bool {
        self.record.and_then(|(_, it)| it) == Some(record)
    }

    /// How many units of the generations before this one are not closed. The last of them had so
    /// many shards.
    pub fn unclosed(&self, generation: u32, before: u32) -> usize {
        let known = self.units.iter();
        // A stranger's key that is no shard's is nobody's to close.
        let earlier =
            known.filter(|(key, _)| key.generation < generation && key.unit.as_shard().is_some());
        let open = earlier.filter(|(_, record)| **record != Some(UnitRecord::Closed));
        let last = self.numbered(generation.saturating_sub(1), before);
        let missing = last.filter(|key| !self.units.contains_key(key));
        open.count() + missing.count()
    }

    /// The shards of a generation that have a key. A number that no shard can have is a stranger's.
    pub fn prepared(&self, generation: u32) -> Option<PreparedUnits> {
        let units = self.units.keys().filter(|it| it.generation == generation);
        let numbers = || units.clone().filter_map(|it| it.unit.as_shard());
        let shards = || numbers().filter(|it| *it < MOST_SHARDS);
        let last = shards().max()?;
        Some(PreparedUnits {
            count: shards().count(),
            shards: last.saturating_add(1),
        })
    }

    /// How many of so many shards of a generation have no owner.
    pub fn unowned(&self, generation: u32, shards: u32) -> usize {
        let is_owned = |key: &UnitKey| {
            let record = self.units.get(key).copied().flatten();
            record.and_then(UnitRecord::owner).is_some()
        };
        let units = self.numbered(generation, shards);
        units.filter(|key| !is_owned(key)).count()
    }

    /// The keys of so many shards of a generation.
    pub fn numbered(&self, generation: u32, shards: u32) -> impl Iterator<Item = UnitKey> + '_ {
        (0..shards).map(move |number| UnitKey {
            group: self.group.clone(),
            generation,
            unit: UnitName::shard(number),
        })
    }
}
