//! The inputs of a member's machine.

use std::collections::BTreeMap;
use std::time::Duration;

use super::epoch::Epoch;
use super::key::UnitKey;
use super::record::{GroupKind, GroupRecord, MemberContent, UnitRecord};
use crate::election::{OpId, WriteOutcome};
use crate::moment::Moment;
use crate::name::{GroupName, UnitName};

/// What a member is and takes part in. It does not change.
#[derive(Clone, Debug)]
pub struct GroupSettings {
    /// The length of the member's own lease: at most [`LONGEST_LEASE`](super::LONGEST_LEASE).
    pub ttl: Duration,
    /// The time between two heartbeats.
    pub heartbeat: Duration,
    /// How long a handler may take to end before it is aborted.
    pub stop_budget: Duration,
    /// The groups.
    pub groups: BTreeMap<GroupName, Units>,
}

/// The units of a group, as this instance's settings have them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Units {
    /// This many shards, if the group is new. Otherwise its record tells their number.
    Shards(u32),
    /// Named units, each with a handler of its own.
    Named(Vec<UnitName>),
}

impl Units {
    pub(super) const fn is_of(&self, kind: GroupKind) -> bool {
        matches!(
            (self, kind),
            (Self::Shards(_), GroupKind::Sharded { .. }) | (Self::Named(_), GroupKind::Spread)
        )
    }
}

/// A message that the watch shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its stream sequence.
    pub sequence: u64,
    /// The sequence that it was written over: see [`stored_condition`](super::stored_condition).
    pub over: Option<u64>,
    /// What it says, and under which key.
    pub content: GroupContent,
}

/// What stands under a key of groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupContent {
    /// Under a member's key.
    Member(Epoch, MemberContent),
    /// Under a group's key. `None` if it is not understood, or a delete marker.
    Group(GroupName, Option<GroupRecord>),
    /// Under a unit's key.
    Unit {
        /// The key.
        key: UnitKey,
        /// The record. `None` if it is not understood, or a delete marker.
        record: Option<UnitRecord>,
        /// The epoch whose key signed this value, under this key, over this record.
        signed: Option<Epoch>,
    },
}

/// Something that happened.
#[derive(Clone, Debug)]
pub enum GroupInput {
    /// Time has passed. The driver sends it at [`next_wakeup`](super::Group::next_wakeup).
    Tick,
    /// A write of the member's own record is confirmed: its claim or a heartbeat.
    Granted {
        /// The epoch of that record.
        epoch: Epoch,
        /// The sequence of the write.
        sequence: u64,
        /// The end of the lease that it grants, counted from its sending.
        until: Moment,
    },
    /// The epoch's lease is lost, whatever its deadline.
    LeaseLost {
        /// The epoch.
        epoch: Epoch,
    },
    /// A watch begins. It shows the last message of each key first, in the stream's order.
    WatchBegan,
    /// The watch showed a message.
    Shown(Message),
    /// The watch has shown all that was stored when it began.
    CaughtUp {
        /// The last sequence of the stream, as the watch knows it.
        last: u64,
    },
    /// A write ended.
    WriteEnded {
        /// The write.
        op: OpId,
        /// How it ended.
        outcome: WriteOutcome,
    },
    /// The handler of a term and all tasks that it spawned have ended.
    HandlerEnded {
        /// The unit.
        unit: UnitKey,
        /// The sequence of the term's record.
        sequence: u64,
    },
    /// The unit should go to this epoch. Its owner gives it away. If nobody owns it, that epoch
    /// takes it before the others do.
    Hint {
        /// The unit.
        unit: UnitKey,
        /// The epoch.
        to: Epoch,
    },
    /// Gives all units away and takes none.
    Drain,
}
