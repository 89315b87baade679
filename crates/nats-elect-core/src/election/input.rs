//! The inputs of the state machine.

use std::time::Duration;

use crate::lease::{Failure, HandlerEnd, Link, OpId, TermId, WriteOutcome};
use crate::moment::Moment;
use crate::peer::{PeerReply, PeerRequest};
use crate::record::Entry;
use crate::record::FenceEntry;
pub use crate::record::Snapshot;
use crate::token::FencingToken;

/// A caller that waits for a [`Reply`](super::Reply), numbered by the driver from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(pub u64);

impl RequestId {
    /// Nobody waits for the answer.
    pub const NOBODY: Self = Self(0);
}

/// A peer request of this instance, unique within one election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerRequestId(pub u64);

/// A peer request of another instance to this one, numbered by the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReplyId(pub u64);

/// A wish of the application, or of an operator.
#[derive(Clone, Debug)]
pub enum Intent {
    /// It takes part in no election until `Resume`.
    ///
    /// A term that has begun goes on. A claim under way is given back. A second pause changes
    /// nothing.
    Pause,
    /// It takes part in elections again, after its cool-down if one runs, also if its terms kept
    /// failing. A higher priority can take again what an order gave it.
    Resume,
    /// It takes part in no election until `Resume`, and its term ends. The role goes to a candidate
    /// that is ready, if one is. The answer comes when the term has ended.
    Cordon,
    /// Its term ends. The role is freed, and the instance stays out for its cool-down.
    StepDown {
        /// The instance id of a named successor. The term ends only if it is ready to lead.
        to: Option<String>,
        /// The fencing token of the term to end. A request for another term changes nothing.
        expected: Option<FencingToken>,
        /// The least time for which the instance stays out, if the cool-down is shorter.
        hold_off: Duration,
    },
    /// It leaves the election, after the end of the term if there is one.
    Stop {
        /// Whether to free the role. Otherwise its lease runs out.
        release: bool,
    },
    /// It leaves the election without a write. The lease runs out by itself.
    Abandon,
}

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// Time has passed. The driver sends it at [`next_wakeup`](super::Election::next_wakeup).
    Tick,
    /// The link to the bucket changed.
    Link(Link),
    /// The connection has been down for the whole grace period.
    ///
    /// It ends a term whose last confirmed write was sent before the outage, once. A term also ends
    /// without it: this is a second trigger.
    GraceOver {
        /// When the connection was lost.
        since: Moment,
    },
    /// The watch showed the last message of the role's key. It is a hint, never proof.
    Observed(Entry),
    /// The watch showed the last message of the role's fence key. It is a hint, never proof.
    ObservedFence(FenceEntry),
    /// A write ended.
    ///
    /// A write without an answer in time ends with [`FailureKind::Timeout`](crate::event::FailureKind::Timeout). It may end once more,
    /// with the answer that came late.
    WriteEnded {
        /// The write.
        op: OpId,
        /// How it ended.
        outcome: WriteOutcome,
    },
    /// A read from the stream leader ended. Like a write it may end once more.
    ReadEnded {
        /// The read.
        op: OpId,
        /// Both keys, or the reason why they could not be read.
        outcome: Result<Snapshot, Failure>,
    },
    /// The handler of a term has ended, but tasks that it spawned may still run.
    HandlerEnding {
        /// The handler's term. The input has no effect if that term is over.
        term: TermId,
        /// How the handler ended.
        end: HandlerEnd,
    },
    /// The handler of a term and all tasks that it spawned have ended.
    HandlerEnded {
        /// The handler's term. The input has no effect if that term is over.
        term: TermId,
        /// How the handler ended.
        end: HandlerEnd,
    },
    /// A reader found the shared deadline passed. The deadline cannot be extended any more.
    LeaseOver {
        /// The term of that deadline.
        term: TermId,
    },
    /// The server refused a fenced write of this term, because the fence key has moved on.
    ///
    /// The fence key never comes back to an earlier sequence, so the term is over.
    Superseded {
        /// The term of that write.
        term: TermId,
    },
    /// A health check ended.
    Health {
        /// The term whose handler was checked.
        term: TermId,
        /// Whether the handler is healthy.
        healthy: bool,
    },
    /// A caller wants this of the instance. A `Stop` and an `Abandon` are not answered.
    Intend(RequestId, Intent),
    /// A peer request of another instance arrived.
    ///
    /// The answer comes as [`Effect::AnswerPeer`](super::Effect::AnswerPeer). Some requests get
    /// no answer.
    PeerAsked {
        /// The number that the answer bears.
        reply_to: ReplyId,
        /// The request.
        question: PeerRequest,
    },
    /// A peer replied to a request of this instance.
    PeerReplied {
        /// The request.
        question: PeerRequestId,
        /// The reply. `None` says that the time for replies is over.
        answer: Option<PeerReply>,
    },
    /// Asks for proof of the lease, by a compare-and-set that is sent after this input.
    Validate {
        /// The caller to answer.
        request: RequestId,
        /// The term to prove. `None` means the present one.
        term: Option<TermId>,
    },
    /// An operator says that the holder of the observed lease no longer leads.
    EndLease {
        /// The caller to answer.
        request: RequestId,
        /// The revision of the role's key that the operator saw, or 0 if the key is missing.
        revision: u64,
    },
}
