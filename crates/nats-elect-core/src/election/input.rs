//! What the state machine is told.

use std::time::Duration;

use crate::event::FailureKind;
use crate::peer::{PeerReply, PeerRequest};
use crate::record::Entry;
use crate::record::FenceEntry;
pub use crate::record::Snapshot;
use crate::release::ReleaseSecret;
use crate::token::{FencingToken, LeaseToken};

/// Chance for one step, drawn by the driver.
#[derive(Clone, Copy, Debug)]
pub struct Fresh {
    /// Never used before: for a claim made in this step.
    pub lease_token: LeaseToken,
    /// Random, and never used before: for a claim made in this step.
    pub release_secret: ReleaseSecret,
    /// Uniform in `0.0..1.0`: the jitter of delays set in this step.
    pub chance: f64,
}

/// One request to NATS, within one election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpId(pub u64);

/// One acquisition of the role by this instance, whether it came to a promotion or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TermId(pub u64);

/// A caller who waits for a [`Reply`](super::Reply).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(pub u64);

/// A question of ours to other instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerRequestId(pub u64);

/// A question of another instance to us, numbered by the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReplyId(pub u64);

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// Time has passed.
    Tick,
    /// The way to the bucket changed.
    Link(Link),
    /// The watch showed the last message of the role's key: a hint, never proof.
    Observed(Entry),
    /// The watch showed the last message of the role's fence key: a hint, too.
    ObservedFence(FenceEntry),
    /// A write ended. One that ended without an answer in time may end once more, with the answer that came late.
    WriteEnded { op: OpId, outcome: WriteOutcome },
    /// A read from the stream leader ended. It, too, may end once more.
    ReadEnded {
        op: OpId,
        outcome: Result<Snapshot, Failure>,
    },
    /// The handler of a term is over, but tasks that it spawned may still run.
    HandlerEnding { term: TermId, end: HandlerEnd },
    /// The handler of a term and all it spawned have ended.
    HandlerEnded { term: TermId, end: HandlerEnd },
    /// Somebody read the shared deadline after it had passed: it cannot be extended any more.
    LeaseOver { term: TermId },
    /// The server refused a fenced write of this term: its fence has moved, and moves back for nobody.
    Superseded { term: TermId },
    /// A health check ended.
    Health { term: TermId, healthy: bool },
    /// End the term, free the role, and stand again after the cool-down, and not before `hold_off` is over. If a successor
    /// is named, by its instance id, only if it is there and ready to take the role. If a term is expected, by its fencing
    /// token, only that one.
    StepDown {
        request: RequestId,
        to: Option<String>,
        expected: Option<FencingToken>,
        hold_off: Duration,
    },
    /// Another instance asks. What is answered to it comes as an effect, or not at all.
    PeerAsked {
        reply_to: ReplyId,
        question: PeerRequest,
    },
    /// A question of ours was answered; nothing if time is up.
    PeerReplied {
        question: PeerRequestId,
        answer: Option<PeerReply>,
    },
    /// Prove the lease by a compare-and-set that is sent after this.
    Validate {
        request: RequestId,
        term: Option<TermId>,
    },
    /// Stand for no new term until `Resume`; a term that is there goes on. What is asked twice changes nothing.
    Pause { request: RequestId },
    /// Stand again, after the cool-down if one runs.
    Resume { request: RequestId },
    /// As `Pause`, and end the term: free the role, for somebody who is ready if there is one. Answered when it has ended.
    Cordon { request: RequestId },
    /// An operator says that whoever wrote what stands at this revision of the role's key, 0 if it is missing, leads no more.
    EndLease { request: RequestId, revision: u64 },
    /// Leave the election.
    Stop { release: bool },
    /// Leave the election without a write; the lease runs out by itself.
    Abandon,
}

/// The way to the bucket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Link {
    /// No connection: nothing may be published, for it would be queued and sent later.
    Down,
    /// Connected, but the bucket can't be used.
    Unusable(Failure),
    /// The bucket can be used.
    Up(Bucket),
}

/// What matters of a bucket, read from the stream configuration that the server returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bucket {
    /// Creation time in nanoseconds since the Unix epoch: the bucket's identity.
    pub epoch: u64,
    /// After this time the server drops a key.
    pub max_age: Option<Duration>,
    /// Whether a recreated bucket would number on above this one's sequences.
    pub unique_sequences: bool,
}

/// How a write ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WriteOutcome {
    /// Written; the sequence of its last message.
    Acked { revision: u64 },
    /// Refused: the key was at another sequence, perhaps this one. A server that leads the stream no more may refuse what its successor
    /// stores.
    Conflict { current: Option<u64> },
    /// Not confirmed: it may have been written, or may yet be.
    Failed(Failure),
}

/// A request that failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Failure {
    pub kind: FailureKind,
    pub detail: String,
}

impl Failure {
    /// Whether trying again soon may help.
    pub const fn is_transient(&self) -> bool {
        matches!(
            self.kind,
            FailureKind::Timeout
                | FailureKind::Unavailable
                | FailureKind::Contended
                | FailureKind::BucketFull
        )
    }
}

/// How a handler ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandlerEnd {
    Returned,
    Failed,
    Panicked,
    /// It was aborted while the term was wound down.
    Aborted,
}
