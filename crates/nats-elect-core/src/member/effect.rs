//! The effects of the state machine.

use std::time::Duration;

use super::planning::PlanRequest;
use super::unit::UnitId;
use crate::assignment::Key;
use crate::moment::Moment;
use crate::token::FencingToken;
use crate::{OpId, RequestId};

/// Something to do. The driver carries out the effects of a step in their order.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Publish a claim or a heartbeat, then step with [`Input::BeatEnded`](super::Input::BeatEnded),
    /// after `within` at the latest. It never waits for other writes.
    Beat {
        /// The number that the answer bears.
        op: OpId,
        /// The time for the answer.
        within: Duration,
        /// The key.
        key: Key,
        /// The condition of the write.
        over: Over,
        /// The value.
        value: Vec<u8>,
    },
    /// Read the own key and the map's from the stream's leader, and then the bucket's creation time.
    /// Then step with [`Input::Looked`](super::Input::Looked), after `within` at the latest.
    Look {
        /// The number that the answer bears.
        op: OpId,
        /// The time for the answer.
        within: Duration,
        /// The own key.
        own: Key,
    },
    /// Look at the bucket anew, then step with [`Input::Link`](super::Input::Link): it is another one.
    Reopen,
    /// Begin the watch anew: what it has shown is forgotten.
    Rewatch,
    /// Publish a value, then step with [`Input::Written`](super::Input::Written).
    Write {
        /// The number that the answer bears.
        op: OpId,
        /// The key.
        key: Key,
        /// The condition of the write.
        over: Over,
        /// The value.
        value: Vec<u8>,
        /// The time after which the server removes the value, if it has times to live. `None`: never.
        ttl: Option<Duration>,
    },
    /// Read a key from the stream's leader, then step with [`Input::Shown`](super::Input::Shown) or
    /// [`Input::Missing`](super::Input::Missing).
    Read(Key),
    /// Read all keys of the group's members from the stream's leader, in the order of their sequences,
    /// and then those that were written meanwhile. Then step with
    /// [`Input::Collected`](super::Input::Collected).
    Collect {
        /// The number that the answer bears.
        op: OpId,
        /// A sequence of the own key that the reads have to show, or a later one. Others fail.
        since: u64,
    },
    /// Make a plan beside this machine, then step with [`Input::Planned`](super::Input::Planned). A
    /// later request replaces an earlier one.
    Plan(Box<PlanRequest>),
    /// Start a handler.
    Start {
        /// The unit.
        unit: UnitId,
        /// The token of its term.
        token: FencingToken,
        /// Its deadline.
        until: Moment,
    },
    /// Ask a handler to end. Its deadline stands still from now on.
    Cancel {
        /// The handler's unit.
        unit: UnitId,
        /// The deadline.
        until: Moment,
    },
    /// The deadline of all handlers that were not asked to end is a later one.
    Extend {
        /// The deadline.
        until: Moment,
        /// When the heartbeat was sent that proves it.
        proved: Moment,
    },
    /// Answer an operator.
    Reply(RequestId, Reply),
    /// The member has left, and all its epochs are over.
    Left,
}

/// The condition of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Over {
    /// Whatever is under the key, nothing included.
    Anything,
    /// The value of this sequence. 0: nothing.
    Sequence(u64),
}

/// What became of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reply {
    /// A map that carries it out is followed.
    Done,
    /// There is no map, or it has no such unit.
    NoUnit,
    /// The member is unknown, leaves, waits, or can't run the unit.
    NoMember,
    /// The group can't have these units.
    BadUnits,
    /// The unit waits for too many epochs already.
    InChange,
    /// No unit may get its first owner in this bucket yet.
    OwnersWait,
}
