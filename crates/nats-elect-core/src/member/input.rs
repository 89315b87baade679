//! The inputs of the state machine.

use std::collections::BTreeMap;

use crate::assignment::{Epoch, Key, Units, Value};
use crate::moment::Moment;
use crate::name::UnitName;
use crate::{OpId, RequestId, WriteOutcome};

use super::unit::UnitId;

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// Time has passed.
    Tick,
    /// The lease of an epoch has begun, or is extended: a claim or a heartbeat is confirmed, and the
    /// watch or a read from the stream's leader has shown it.
    Leased(Lease),
    /// The lease of this epoch is lost, or its claim was given up. It is never used again.
    LeaseLost(Epoch),
    /// The bucket is another one, or it lost confirmed writes. The lease is lost, too. The watch begins
    /// anew.
    Forget {
        /// The creation time of the bucket, in nanoseconds since the Unix epoch.
        bucket: u64,
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
    HandlerEnded(UnitId),
    /// A plan is made.
    Planned {
        /// The sequence of the map from which it is made.
        base: u64,
        /// The next owners of units, by their places.
        owners: BTreeMap<u32, Option<Epoch>>,
    },
    /// An operator orders something of this member.
    Order(RequestId, Order),
    /// The member leaves the group.
    Leave,
}

/// What an operator orders of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Move a unit to this epoch.
    Move(UnitName, Epoch),
    /// Open another generation, with these units.
    Resize(Units),
}

/// A member's lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The epoch.
    pub epoch: Epoch,
    /// When it is over, unless it is extended.
    pub until: Moment,
    /// The sequence of the write that is confirmed.
    pub sequence: u64,
    /// The [`stamp`](super::Acknowledgement::stamp) of that write.
    pub stamp: u64,
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
