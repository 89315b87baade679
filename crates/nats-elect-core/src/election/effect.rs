//! What the state machine wants done.

use std::time::Duration;

use uuid::Uuid;

use super::input::{Failure, OpId, PeerRequestId, ReplyId, RequestId, TermId};
use crate::event::Event;
use crate::handoff::Handoff;
use crate::moment::Moment;
use crate::peer::{PeerReply, PeerRequest, Refusal};
use crate::record::{FenceRecord, Nonce, Record};
use crate::release::ReleaseSecret;
use crate::token::{FencingToken, LeaseToken};

/// Something to do, in the order given.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Publish, then answer with `WriteEnded`.
    Write(Write),
    /// Read both keys from the stream leader, then the bucket's creation time, and answer with `ReadEnded`.
    /// If no answer came within this time, say so.
    Read { op: OpId, within: Duration },
    /// A term began: create its shared deadlines and start its handler.
    StartTerm(TermStart),
    /// A heartbeat that was sent at `proved` is confirmed. The instance may call itself leader until `acting`, unless
    /// it resigned. If a shared deadline has already been seen over: answer with `LeaseOver`.
    Extend {
        term: TermId,
        lease: Moment,
        acting: Option<Moment>,
        proved: Moment,
    },
    /// The term has another lease token from now on.
    Rotate {
        term: TermId,
        lease_token: LeaseToken,
    },
    /// The instance may call itself leader no longer than this.
    Suspend { term: TermId, acting: Moment },
    /// The instance is no longer leader; the lease may last on for the handler to finish.
    Resign { term: TermId },
    /// The lease is over, whatever the clock says.
    Revoke { term: TermId },
    /// Ask the handler to end.
    Cancel { term: TermId },
    /// Abort the handler.
    Abort { term: TermId },
    /// Ask the handler how it is; answer with `Health`.
    CheckHealth { term: TermId },
    /// Ask the other instances. Each answer within this time is an `PeerReplied`; at its end comes one without an answer. Before
    /// asking a leader to yield the handler is asked how it is; if it is not well nothing is sent, and that is the answer.
    AskPeers {
        id: PeerRequestId,
        question: PeerRequest,
        within: Duration,
    },
    /// Answer another instance. Before saying that this one is ready, the handler is asked how it is.
    AnswerPeer {
        reply_to: ReplyId,
        answer: PeerReply,
    },
    /// Look at the bucket anew and answer with `Link`, also if nothing has changed.
    Reopen,
    /// Answer a caller.
    Reply { request: RequestId, reply: Reply },
    /// Tell whoever wants to know.
    Event(Event),
}

/// A message to publish.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Write {
    pub op: OpId,
    /// The acquisition or the term that it is a part of.
    pub term: TermId,
    pub nonce: Nonce,
    /// If no answer came within this time, say so.
    pub within: Duration,
    pub kind: WriteKind,
}

/// Every write is a compare-and-set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WriteKind {
    /// The record over the role key's sequence.
    Claim { over: u64, record: Record },
    /// The fence record over the fence key's sequence, as it was known when the role was judged free.
    Fence { over: u64, fence: FenceRecord },
    /// The record over the sequence of the last confirmed write.
    Renew { over: u64, record: Record },
    /// A delete marker that frees the role; the heir, if there is one, may claim it before the others.
    Release {
        over: u64,
        secret: ReleaseSecret,
        heir: Option<Uuid>,
    },
}

/// A term that begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TermStart {
    pub term: TermId,
    pub lease_token: LeaseToken,
    pub fencing_token: FencingToken,
    pub lease: Moment,
    pub proved: Moment,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The lease was proved.
    Proved(FencingToken),
    /// The term ended; whether the role was freed at once, and what its heir made of that.
    SteppedDown {
        released: bool,
        handoff: Option<Handoff>,
    },
    /// Whether this instance stands is as was asked.
    Noted,
    /// Something else stands in the role's key by now, or this instance does not wait for the role.
    Changed,
    /// The named successor did not answer; the term goes on.
    SuccessorAbsent,
    /// The named successor can't take the role now; the term goes on.
    SuccessorRefused(Refusal),
    /// This instance does not lead, or not in that term.
    NotLeader,
    /// The proof could not be had just now.
    Unproven(Failure),
}
