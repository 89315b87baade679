//! The inputs of the state machine.

use std::collections::BTreeMap;

use crate::RequestId;
use crate::assignment::{Epoch, Key, Profile, Units, Value};
use crate::lease::{Failure, HandlerEnd, Link, OpId, WriteOutcome};
use crate::name::UnitName;

use super::unit::UnitId;

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// Time has passed.
    Tick,
    /// The link to the bucket, and the bucket. If it is another one than before, the watch begins anew.
    Link(Link),
    /// A claim or a heartbeat ended.
    BeatEnded {
        /// The write.
        op: OpId,
        /// How it ended.
        outcome: WriteOutcome,
    },
    /// The reads of the own key and of the map ended.
    Looked {
        /// The reads.
        op: OpId,
        /// What they found.
        found: Result<Look, Failure>,
    },
    /// The watch has shown all that was stored when it began.
    CaughtUp,
    /// The watch, or a read from the stream's leader, shows the last value of a key.
    Shown {
        /// The key.
        key: Key,
        /// The value's sequence.
        sequence: u64,
        /// The value.
        value: Value,
    },
    /// A read from the stream's leader found nothing under the key.
    Missing(Key),
    /// A write ended.
    Written {
        /// The write.
        op: OpId,
        /// How it ended.
        outcome: WriteOutcome,
    },
    /// The reads of all members' keys ended.
    Collected {
        /// The reads.
        op: OpId,
        /// What they found. `None` if they failed.
        found: Option<Vec<Found>>,
    },
    /// The handler of a unit has ended, and all tasks that it spawned.
    HandlerEnded(UnitId, HandlerEnd),
    /// The handler of a unit fails its health checks, or there is none for it. The unit goes elsewhere,
    /// if it can.
    Unhealthy(UnitId),
    /// A plan is made.
    Planned {
        /// The sequence of the map from which it is made.
        base: u64,
        /// The next owners of units, by their places.
        owners: BTreeMap<u32, Option<Epoch>>,
    },
    /// What the member tells about itself from now on.
    Tell(Box<Profile>),
    /// Somebody wants to know that the lease is held: a heartbeat is sent at once.
    Prove,
    /// An operator orders something of this member.
    Order(RequestId, Order),
    /// The member leaves the group.
    Leave,
}

/// What an operator orders of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// Move a unit to this epoch.
    Move(UnitName, Epoch),
    /// Open another generation, with these units.
    Resize(Units),
}

/// Random values for one step, drawn by the driver.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fresh {
    /// The name of an epoch that is claimed in this step. It must never have been used before.
    pub epoch: [u8; 16],
    /// The jitter of delays set in this step, uniform in `0.0..1.0`.
    pub chance: f64,
}

/// What reads from the stream's leader found, each value with its sequence.
#[derive(Clone, Debug)]
pub struct Look {
    /// The creation time of the bucket, after the reads. `None` if it was not asked for.
    pub bucket: Option<u64>,
    /// The value under the own key.
    pub own: Option<(u64, Value)>,
    /// The value under the map's key.
    pub map: Option<(u64, Value)>,
}

/// A value under a member's key, as a read from the stream's leader found it.
#[derive(Clone, Debug)]
pub struct Found {
    /// The epoch in the key.
    pub epoch: Epoch,
    /// The value's sequence.
    pub sequence: u64,
    /// The value.
    pub value: Value,
}
