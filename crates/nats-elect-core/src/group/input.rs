//! The inputs of a member's machine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::epoch::Epoch;
use super::key::{GroupKey, UnitKey};
use super::policy::{Policy, Unit};
use super::record::{GroupKind, GroupRecord, MemberContent, UnitRecord};
use crate::lease::{HandlerEnd, OpId, WriteOutcome};
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
    /// How their units are placed. A group without an entry has the default policy, and its units
    /// the usual weight.
    pub placements: BTreeMap<GroupName, Placement>,
}

/// How the units of a group are placed. It is to be the same in all instances: any of them may plan.
#[derive(Clone, Debug)]
pub struct Placement {
    /// The policy.
    pub policy: Arc<dyn Policy>,
    /// What the settings tell of units, such as their weights. All other units are as
    /// [`Unit::default`]. If all members tell their load, it is divided in proportion to the weights.
    pub units: BTreeMap<UnitName, Unit>,
}

/// A unit should go to this member. It decides nothing: its owner gives the unit away if that member
/// lives. If nobody owns it, that member takes it before the others do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The unit.
    pub unit: UnitKey,
    /// The sequence of the record that the hint is about. It means nothing for an earlier or a later
    /// one.
    pub sequence: u64,
    /// The member's epoch.
    pub to: Epoch,
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
    /// The names of named units.
    pub fn names(&self) -> &[UnitName] {
        match self {
            Self::Shards(_) => &[],
            Self::Named(names) => names,
        }
    }

    /// Whether they are of this kind.
    pub const fn is_of(&self, kind: GroupKind) -> bool {
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

impl GroupContent {
    /// The key that it is under.
    pub(super) fn key(&self) -> GroupKey {
        match self {
            Self::Member(epoch, _) => GroupKey::Member(*epoch),
            Self::Group(name, _) => GroupKey::Group(name.clone()),
            Self::Unit { key, .. } => GroupKey::Unit(key.clone()),
        }
    }
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
        /// The last sequence of the stream, read when the watch had begun. All that stood there up
        /// to it was shown.
        last: u64,
        /// The members that have a record or a tombstone, read from the stream's leader after all that
        /// was shown. The watch may have lacked some: it leaves out what is written over before the
        /// server comes to it. `None` if they were not read: then a member that joins
        /// waits for the longest lease.
        members: Option<Vec<Epoch>>,
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
        /// How it ended.
        end: HandlerEnd,
    },
    /// The handler of a term fails its health checks. Its term is to end, and the unit to move.
    Unhealthy {
        /// The unit.
        unit: UnitKey,
        /// The sequence of the term's record.
        sequence: u64,
    },
    /// Another member's planner sent hints: see [`GroupEffect::Hint`](super::GroupEffect::Hint).
    /// Or an operator asks for moves.
    Hint {
        /// The hints.
        hints: Vec<Hint>,
    },
    /// Gives all units away at once, and takes none from now on. The member's record is to say so,
    /// by [`MemberInfo::cordoned`](super::MemberInfo::cordoned), before this step is told.
    Drain,
}
