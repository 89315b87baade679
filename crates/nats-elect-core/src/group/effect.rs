//! The effects of a member's machine.

use super::epoch::{Epoch, Identity};
use super::input::Hint;
use super::key::UnitKey;
use super::record::{GroupRecord, UnitRecord};
use crate::lease::OpId;
use crate::moment::Moment;
use crate::name::GroupName;

/// Something to do. The driver carries out the effects of a step in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupEffect {
    /// Publish a message, then step with [`GroupInput::WriteEnded`](super::GroupInput::WriteEnded).
    Write {
        /// The number that the answer bears.
        op: OpId,
        /// The message, and the sequence that it expects.
        write: GroupWrite,
    },
    /// Write the member's next heartbeat now.
    HeartbeatNow,
    /// Begin a new watch in place of the present one.
    Rewatch,
    /// The epoch is over. Claim a new one.
    NewEpoch,
    /// No handler of this epoch runs any more. Free it by a tombstone with its secret.
    Retire {
        /// The epoch.
        epoch: Epoch,
    },
    /// The deadline of all terms that run moves to this moment.
    Extend {
        /// The end of the lease.
        until: Moment,
    },
    /// A term begins: start the unit's handler.
    Start {
        /// The unit.
        unit: UnitKey,
        /// The sequence of its record, which is the term's fencing token.
        sequence: u64,
        /// The end of the lease.
        until: Moment,
    },
    /// Ask the handler to end.
    Cancel {
        /// The unit.
        unit: UnitKey,
        /// The sequence of the term's record.
        sequence: u64,
    },
    /// The term is over for good, whatever the clock says, and its handler is aborted.
    Revoke {
        /// The unit.
        unit: UnitKey,
        /// The sequence of the term's record.
        sequence: u64,
    },
    /// Send these hints to a member, to step it with
    /// [`GroupInput::Hint`](super::GroupInput::Hint). They may be lost. There are 1000 at most.
    Hint {
        /// The member that has to act.
        to: Epoch,
        /// The hints.
        hints: Vec<Hint>,
    },
}

/// A message to publish. Every one is a compare-and-set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum GroupWrite {
    /// The record of a unit.
    Unit {
        /// Its key.
        key: UnitKey,
        /// The sequence of the record that it replaces, or 0.
        over: u64,
        /// The record.
        record: UnitRecord,
        /// The epoch with whose key the driver signs it.
        sign: Option<Epoch>,
    },
    /// A tombstone over a member's last record.
    Depose {
        /// The epoch.
        epoch: Epoch,
        /// The sequence of its last record, or 0 if it is missing.
        over: u64,
        /// The proof that its name is, for those who join later. `None` if its record did not tell it.
        identity: Option<Identity>,
    },
    /// The record of a group.
    Group {
        /// The group.
        group: GroupName,
        /// The sequence of the record that it replaces, or 0.
        over: u64,
        /// The record.
        record: GroupRecord,
    },
}
