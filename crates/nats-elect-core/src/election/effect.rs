//! The effects of the state machine.

use std::time::Duration;

use super::input::{PeerRequestId, ReplyId, RequestId};
use crate::event::Event;
use crate::handoff::Handoff;
use crate::heirs::Heirs;
use crate::lease::{Failure, OpId, TermId};
use crate::moment::Moment;
use crate::peer::{PeerReply, PeerRequest, Refusal};
use crate::record::{FenceRecord, Nonce, Record, Release};
use crate::token::{FencingToken, LeaseToken};

/// Something to do. The driver carries out the effects of a step in their order.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Publish a message, then step with [`Input::WriteEnded`](super::Input::WriteEnded).
    Write(Write),
    /// Read both keys from the stream leader, and then the bucket's creation time.
    ///
    /// The answer is [`Input::ReadEnded`](super::Input::ReadEnded).
    Read {
        /// The number that the answer bears.
        op: OpId,
        /// After this time without an answer the read ends with a timeout.
        within: Duration,
        /// Whether other roles' reads may go first: no lease, claim or handoff depends on it. The
        /// time begins when it is sent.
        may_wait: bool,
    },
    /// A term began. The driver creates the shared deadlines and starts the handler.
    StartTerm(TermStart),
    /// A heartbeat is confirmed: the shared deadlines move to these moments.
    ///
    /// A deadline that was already seen to have passed stays passed. The driver then steps with
    /// [`Input::LeaseOver`](super::Input::LeaseOver).
    Extend {
        /// The term.
        term: TermId,
        /// The end of the lease.
        lease: Moment,
        /// Until when the instance may call itself leader. `None` if it has resigned.
        acting: Option<Moment>,
        /// When the confirmed heartbeat was sent.
        proved: Moment,
    },
    /// The connection is in doubt: the instance may call itself leader only until a moment.
    Suspend {
        /// The term.
        term: TermId,
        /// That moment.
        acting: Moment,
    },
    /// The instance is no longer leader. The lease may last on for the handler to finish.
    Resign {
        /// The term.
        term: TermId,
    },
    /// The lease is over, even if the clock says otherwise.
    Revoke {
        /// The term.
        term: TermId,
    },
    /// Ask the handler to end.
    Cancel {
        /// The handler's term.
        term: TermId,
    },
    /// Abort the handler.
    Abort {
        /// The handler's term.
        term: TermId,
    },
    /// Check the handler's health, then step with [`Input::Health`](super::Input::Health).
    CheckHealth {
        /// The handler's term.
        term: TermId,
    },
    /// Send a peer request. Each reply is an [`Input::PeerReplied`](super::Input::PeerReplied).
    ///
    /// Before a leader is asked to yield, the driver checks the health of this instance's handler.
    /// If that fails, nothing is sent, and the answer is [`Refusal::Unhealthy`].
    AskPeers {
        /// The number that the replies bear.
        id: PeerRequestId,
        /// The request, and its receivers.
        question: PeerRequest,
        /// These of the receivers are asked alone, by their incarnations. Nobody means all.
        among: Heirs,
        /// After this time the driver steps with a `PeerReplied` that has no answer.
        within: Duration,
    },
    /// Send a peer reply.
    ///
    /// Before the reply [`PeerReply::Ready`] the driver checks the handler's health.
    AnswerPeer {
        /// The request that is answered.
        reply_to: ReplyId,
        /// The answer.
        answer: PeerReply,
        /// How long it waits before it is sent.
        after: Duration,
    },
    /// Look at the bucket again, then step with [`Input::Link`](super::Input::Link), even if
    /// nothing has changed.
    Reopen,
    /// Answer a caller.
    Reply {
        /// The caller.
        request: RequestId,
        /// The answer.
        reply: Reply,
    },
    /// Publish an event to subscribers, logs and metrics.
    Event(Event),
}

/// A message to publish.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Write {
    /// The number that the answer bears.
    pub op: OpId,
    /// The acquisition or the term that the write is a part of.
    pub term: TermId,
    /// The nonce of this attempt.
    pub nonce: Nonce,
    /// After this time without an answer the write ends with a timeout.
    pub within: Duration,
    /// The message, and the sequence that it expects.
    pub kind: WriteKind,
}

/// The contents of a write. Every write is a compare-and-set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WriteKind {
    /// The record of a claim, under the role's key.
    Claim {
        /// The expected sequence of the role's key, or 0 if nothing was ever there.
        over: u64,
        /// The record.
        record: Record,
    },
    /// The fence record, under the fence key.
    Fence {
        /// The sequence of the fence key when the role was judged free.
        over: u64,
        /// The fence record.
        fence: FenceRecord,
    },
    /// A heartbeat, under the role's key.
    Renew {
        /// The sequence of the last confirmed write.
        over: u64,
        /// The record.
        record: Record,
    },
    /// A delete marker under the role's key, which frees the role.
    Release {
        /// The sequence of the record, or of the delete marker, that it replaces.
        over: u64,
        /// The release. It has the nonce of this attempt.
        release: Release,
    },
}

/// A term that begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TermStart {
    /// The term's number within this election.
    pub term: TermId,
    /// The term's secret.
    pub lease_token: LeaseToken,
    /// The term's place in the order of all terms of the role.
    pub fencing_token: FencingToken,
    /// The end of the lease.
    pub lease: Moment,
    /// When the confirmed claim was sent.
    pub proved: Moment,
}

/// The answer to a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The lease of the term with this token was proved.
    Proved(FencingToken),
    /// The term ended.
    SteppedDown {
        /// Whether the role was freed at once.
        released: bool,
        /// The outcome of a handoff, if the release named an heir.
        handoff: Option<Handoff>,
    },
    /// The request took effect, or changed nothing because it already had.
    Noted,
    /// The role's key has changed meanwhile, or this instance does not wait for the role.
    Changed,
    /// The named successor did not answer. The term goes on.
    SuccessorAbsent,
    /// The named successor cannot take the role now. The term goes on.
    SuccessorRefused(Refusal),
    /// This instance does not lead, or not in that term.
    NotLeader,
    /// The lease could not be proved, for this reason.
    Unproven(Failure),
}
