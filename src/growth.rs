//! Another number of shards for a group: the units of the next generation are created ahead, and
//! then the group's record says so.

mod error;
mod watching;

use std::fmt;
use std::time::Duration;

use async_nats::Client;
use futures::stream::{self, StreamExt};

pub use self::error::GrowthError;
use self::watching::{Seen, Watching};
use crate::clock;
use crate::error::Error;
use crate::store::{Bucket, IfMissing, Mailbox, StoreError};
use nats_elect_core::group::{
    GroupKind, GroupRecord, LONGEST_LEASE, MOST_SHARDS, UnitKey, UnitRecord,
};
use nats_elect_core::name::{BucketName, GroupName};

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(2);
/// For how long something is tried again that may help to try again.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pause before it is tried again.
const PAUSE: Duration = Duration::from_millis(100);
/// The most units that are created at a time.
const WRITES_AT_ONCE: usize = 500;
/// The age of new units at which the group's record is written. Members count it from the moment at
/// which they were shown a unit, and that is a little later than its creation.
const AGE: Duration = LONGEST_LEASE.saturating_add(Duration::from_secs(1));

/// How far a growth has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GrowthProgress {
    /// Units of the next generation are created.
    Creating {
        /// How many are missing.
        missing: usize,
    },
    /// All exist, and members wait before they build on them. The group goes on as before.
    Ageing {
        /// How long it takes.
        left: Duration,
    },
    /// The group's record was written. Members end their terms and close the units of the generation
    /// before, and then take the new ones.
    Changing {
        /// How many units of earlier generations are not closed yet.
        unclosed: usize,
        /// How many units of the new generation have no owner yet.
        unowned: usize,
    },
}

/// Units of the next generation that stood there before a growth began. Somebody prepares another
/// one, or one was cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PreparedUnits {
    /// How many there are.
    pub count: usize,
    /// The number of shards that they are of, or fewer: the growth may have created more of them
    /// since.
    pub shards: u32,
}

/// Gives a sharded group another number of shards.
///
/// A group that has one begins a new generation, with other units. No unit of it has an owner before
/// all units of the generation before have ended for good. So a key belongs to one owner at a time,
/// although it changes its shard.
///
/// It needs a connection and no instance. Its user reads the bucket, and writes the record of the
/// group and the units of its next generation: see `deploy/nats/grow.conf`. A permission that is
/// missing shows as a timeout, unless the caller listens to the events of the connection.
///
/// Every step may be interrupted. Begin again with the same number, and it goes on where it was.
///
/// ```no_run
/// use nats_elect::{BoxError, GroupGrowth};
///
/// # async fn run() -> Result<(), BoxError> {
/// let client = nats_elect::async_nats::connect("nats://127.0.0.1:4222").await?;
/// let mut growth = GroupGrowth::begin(client, "leaders", "partitions", 512).await?;
/// growth.write(|progress| println!("{progress:?}")).await?;
/// growth.follow(|progress| println!("{progress:?}")).await?;
/// # Ok(())
/// # }
/// ```
pub struct GroupGrowth {
    watching: Watching,
    /// The bucket's creation time.
    created: u64,
    shards: u32,
    way: Way,
    prepared: Option<PreparedUnits>,
}

/// From one generation to the next.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// The record by which the group has the new number of shards.
    record: GroupRecord,
    /// The number of shards before.
    before: u32,
    /// The sequence of the record that is to be replaced. `None` once it is.
    over: Option<u64>,
}

impl GroupGrowth {
    /// Reads the group. Nothing is written.
    ///
    /// If the group's record has this number already, and its growth has not ended, there is nothing
    /// left but to [`follow`](Self::follow) it.
    ///
    /// # Errors
    /// Returns why the group can't have this number of shards: see [`GrowthError`].
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing is left running.
    pub async fn begin(
        client: Client,
        bucket: &str,
        group: &str,
        shards: u32,
    ) -> Result<Self, GrowthError> {
        let (name, group) = (BucketName::new(bucket)?, GroupName::new(group)?);
        if !(1..=MOST_SHARDS).contains(&shards) {
            return Err(GrowthError::Shards(shards));
        }
        let opened = Bucket::open(
            client,
            Mailbox::default().into(),
            &name,
            IfMissing::Fail,
            TIMEOUT,
        );
        let (bucket, info) = opened.await.map_err(|it| Error::of_reading(it, TIMEOUT))?;
        let watching = Watching::begin(bucket, group).await?;
        let way = Way::of(&watching.seen, shards)?;
        missing(&watching.seen, &way, shards)?;
        let prepared = way.over.and(watching.seen.prepared(way.record.generation));
        Ok(Self {
            watching,
            created: info.epoch,
            shards,
            way,
            prepared,
        })
    }

    /// Returns the number of shards of the generation before.
    pub const fn before(&self) -> u32 {
        self.way.before
    }

    /// Returns the new generation.
    pub const fn generation(&self) -> u32 {
        self.way.record.generation
    }

    /// Returns whether the group's record says the new number.
    pub const fn is_written(&self) -> bool {
        self.way.over.is_none()
    }

    /// Returns the units of the new generation that stood there when this began. `None` also if the
    /// record says the new number.
    ///
    /// Those of a growth to the same number, or to fewer shards, are built on. If they are of more
    /// shards, find out whether somebody else has the group grow before you [`write`](Self::write).
    pub const fn prepared(&self) -> Option<PreparedUnits> {
        self.prepared
    }

    /// Returns how many units the bucket has once the group has grown: those of all groups, and of
    /// earlier generations, too. A bucket is fit for about 20,000, as each member that starts reads
    /// them all.
    pub fn units_afterwards(&self) -> usize {
        let seen = &self.watching.seen;
        let all = seen.numbered(self.generation(), self.shards);
        let new = all.filter(|key| !seen.units.contains_key(key)).count();
        seen.units.len() + seen.others.len() + new
    }

    /// Creates the units of the new generation, waits until members may build on them, and writes the
    /// group's record over the very one that was read. Until then the group goes on as before.
    ///
    /// Takes a bit more than a minute. `told` is called about once a second.
    ///
    /// # Errors
    /// See [`GrowthError`]. After [`GrowthError::Bucket`] the record may have been written all the
    /// same: begin again to find out.
    ///
    /// # Cancel safety
    /// If the future is dropped, units that were created stay. Nobody takes them.
    pub async fn write(&mut self, mut told: impl FnMut(GrowthProgress)) -> Result<(), GrowthError> {
        let Some(over) = self.way.over else {
            return Ok(());
        };
        // Somebody else may write that very record.
        while !self.watching.seen.says(self.way.record) {
            self.create(&mut told).await?;
            if self.let_age(&mut told).await? {
                self.write_record(over).await?;
            }
        }
        self.way.over = None;
        Ok(())
    }

    /// Waits until all units of the generations before are closed, and all of the new one have an
    /// owner.
    ///
    /// `told` is called about once a second. There is no limit of time: members may be missing.
    ///
    /// # Errors
    /// Returns [`GrowthError::Changed`] if the group's record is another one, and
    /// [`GrowthError::Bucket`].
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing is left running.
    pub async fn follow(
        &mut self,
        mut told: impl FnMut(GrowthProgress),
    ) -> Result<(), GrowthError> {
        let (record, before) = (self.way.record, self.way.before);
        let mut left = None;
        loop {
            let seen = &self.watching.seen;
            let (unclosed, unowned) = *left.get_or_insert_with(|| {
                let unclosed = seen.unclosed(record.generation, before);
                (unclosed, seen.unowned(record.generation, self.shards))
            });
            if !seen.says(record) {
                return Err(self.changed());
            }
            told(GrowthProgress::Changing { unclosed, unowned });
            if unclosed + unowned == 0 {
                return Ok(());
            }
            if self.watching.watch_on().await? {
                left = None;
            }
        }
    }

    async fn create(&mut self, told: &mut impl FnMut(GrowthProgress)) -> Result<(), GrowthError> {
        loop {
            let missing = self.missing()?;
            if missing.is_empty() {
                return Ok(());
            }
            let count = missing.len();
            told(GrowthProgress::Creating { missing: count });
            let bucket = &self.watching.bucket;
            let writes = missing.iter().map(|unit| {
                let value = UnitRecord::Nobody.to_json();
                bucket.write_unit(unit, 0, value, TIMEOUT)
            });
            let writes = stream::iter(writes).buffer_unordered(WRITES_AT_ONCE);
            let ended: Vec<_> = writes.collect().await;
            // Somebody else may have created the others. The next look shows what stands there.
            let helps =
                |it: &Result<u64, _>| matches!(it, Ok(_) | Err(StoreError::Conflict { .. }));
            if !ended.iter().any(helps)
                && let Some(error) = ended.into_iter().find_map(Result::err)
            {
                return Err(unusable(error));
            }
            self.watching.look().await?;
        }
    }

    /// Waits until the units are of age. Returns whether all of them still stand there then, beside
    /// the record that is to be replaced.
    async fn let_age(
        &mut self,
        told: &mut impl FnMut(GrowthProgress),
    ) -> Result<bool, GrowthError> {
        let of_age = clock::now() + AGE;
        loop {
            let left = of_age.since(clock::now());
            told(GrowthProgress::Ageing { left });
            if left.is_zero() {
                return Ok(true);
            }
            let changed = self.watching.watch_on().await?;
            let is_written = self.watching.seen.says(self.way.record);
            if is_written || (changed && !self.missing()?.is_empty()) {
                return Ok(false);
            }
        }
    }

    async fn write_record(&mut self, over: u64) -> Result<(), GrowthError> {
        let give_up = clock::now() + PATIENCE;
        let record = self.way.record;
        loop {
            // A bucket that was made anew may have the same sequence.
            let bucket = &self.watching.bucket;
            let created = bucket.epoch(TIMEOUT).await.map_err(unusable)?;
            if created != self.created {
                return Err(self.changed());
            }
            let group = &self.watching.seen.group;
            let written = bucket.write_group(group, over, &record, TIMEOUT).await;
            self.watching.look().await?;
            // By this write, or by one before it whose answer was lost.
            if self.watching.seen.says(record) {
                return Ok(());
            }
            self.require_unchanged()?;
            match written {
                Err(error) if error.is_transient() && clock::now() < give_up => {
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return Err(unusable(error)),
                Ok(_) => return Err(self.changed()),
            }
        }
    }

    /// The units of the new generation that do not exist, while the record stands there that is to be
    /// replaced. None if the new one does.
    fn missing(&self) -> Result<Vec<UnitKey>, GrowthError> {
        if self.watching.seen.says(self.way.record) {
            return Ok(Vec::new());
        }
        self.require_unchanged()?;
        self.require_alone()?;
        missing(&self.watching.seen, &self.way, self.shards)
    }

    fn require_unchanged(&self) -> Result<(), GrowthError> {
        let stands = self.watching.seen.record.map(|(sequence, _)| sequence);
        if stands == self.way.over {
            return Ok(());
        }
        Err(self.changed())
    }

    /// Of two growths at a time the one to fewer shards gives way, unless it was begun with the units of
    /// the other one before its eyes. The other one finds only what it would have created itself.
    fn require_alone(&self) -> Result<(), GrowthError> {
        let seen = &self.watching.seen;
        let known = self.prepared.map_or(0, |it| it.shards).max(self.shards);
        match seen.prepared(self.generation()) {
            Some(now) if now.shards > known => Err(GrowthError::OtherGrowth {
                group: seen.group.clone(),
                shards: now.shards,
            }),
            _ => Ok(()),
        }
    }

    fn changed(&self) -> GrowthError {
        GrowthError::Changed(self.watching.seen.group.clone())
    }
}

impl Way {
    /// The way from what stands there to this number of shards.
    fn of(seen: &Seen, shards: u32) -> Result<Self, GrowthError> {
        let group = || seen.group.clone();
        let (sequence, record) = match seen.record {
            None if seen.is_known() => return Err(GrowthError::RecordMissing(group())),
            None => return Err(GrowthError::NoSuchGroup(group())),
            Some((_, None)) => return Err(GrowthError::NotUnderstood(group())),
            Some((sequence, Some(record))) => (sequence, record),
        };
        let GroupKind::Sharded {
            shards: present,
            before,
        } = record.kind
        else {
            return Err(GrowthError::NamedUnits(group()));
        };
        if record.making {
            return Err(GrowthError::BeingMade(group()));
        }
        let generation = record.generation;
        let unclosed = seen.unclosed(generation, before);
        if present == shards {
            if generation == 1 || unclosed + seen.unowned(generation, present) == 0 {
                return Err(GrowthError::SameNumber {
                    group: group(),
                    shards,
                    generation,
                });
            }
            return Ok(Self {
                record,
                before,
                over: None,
            });
        }
        if unclosed > 0 {
            return Err(GrowthError::StillGrowing {
                group: group(),
                shards: present,
                unclosed,
            });
        }
        let record = record.resized(shards);
        Ok(Self {
            record: record.ok_or_else(|| GrowthError::LastGeneration(group()))?,
            before: present,
            over: Some(sequence),
        })
    }
}

/// The units of the new generation that do not exist. None once the record is written: members
/// create them then.
fn missing(seen: &Seen, way: &Way, shards: u32) -> Result<Vec<UnitKey>, GrowthError> {
    let mut missing = Vec::new();
    if way.over.is_none() {
        return Ok(missing);
    }
    for key in seen.numbered(way.record.generation, shards) {
        match seen.units.get(&key) {
            None => missing.push(key),
            Some(Some(UnitRecord::Nobody)) => {}
            Some(_) => {
                let key = key.to_string();
                return Err(GrowthError::InTheWay { key });
            }
        }
    }
    Ok(missing)
}

fn unusable(error: StoreError) -> GrowthError {
    Error::of_reading(error, TIMEOUT).into()
}

impl fmt::Debug for GroupGrowth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupGrowth")
            .field("group", &self.watching.seen.group)
            .field("shards", &self.shards)
            .field("way", &self.way)
            .finish_non_exhaustive()
    }
}
