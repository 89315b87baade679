//! What happens in a world, and what is on its way in it.

use std::time::Duration;

use nats_elect_core::event::FailureKind;
use nats_elect_core::peer::PeerReply;
use nats_elect_core::record::{Entry, FenceEntry, Snapshot};
use nats_elect_core::{
    Failure, HandlerEnd, Moment, OpId, PeerRequestId, TermId, Write, WriteOutcome,
};

use crate::fenced::Step;
use crate::node::Trouble;
use crate::peers::PeerMessage;
use crate::wills::Stage;

/// A request on its way.
#[derive(Clone, Debug)]
pub enum Request {
    Write(Box<Write>),
    Read,
}

#[derive(Clone, Debug)]
pub enum Answer {
    Write(WriteOutcome),
    Read(Box<Result<Snapshot, Failure>>),
}

impl Answer {
    /// The request failed; this is how its sender is told.
    pub fn failed(read: bool, kind: FailureKind) -> Self {
        let detail = kind.as_str().to_owned();
        let failure = Failure { kind, detail };
        if read {
            Self::Read(Box::new(Err(failure)))
        } else {
            Self::Write(WriteOutcome::Failed(failure))
        }
    }
}

/// What a watch brings.
#[derive(Clone, Debug)]
pub enum Shown {
    Role(Entry),
    Fence(FenceEntry),
}

/// One key's part of a read.
#[derive(Clone, Debug)]
pub enum Part<T> {
    Unread,
    Read(Option<T>),
}

impl<T> Part<T> {
    pub const fn is_unread(&self) -> bool {
        matches!(self, Self::Unread)
    }

    pub fn shown(self) -> Option<T> {
        match self {
            Self::Unread => None,
            Self::Read(shown) => shown,
        }
    }
}

/// A read under way: its parts are answered at moments of their own.
#[derive(Clone, Debug)]
pub struct Reading {
    pub node: usize,
    pub op: OpId,
    /// How long an answer takes.
    pub back: Duration,
    pub life: u64,
    pub role: Part<Entry>,
    pub fence: Part<FenceEntry>,
    pub epoch: Option<u64>,
}

/// Something that will happen.
#[derive(Clone, Debug)]
pub enum Happening {
    Wake {
        node: usize,
        wake: u64,
    },
    Arrive {
        node: usize,
        op: OpId,
        request: Request,
        answered: Option<Duration>,
        life: u64,
    },
    /// A key is read, or the bucket looked at.
    Reading(Reading),
    Answer {
        node: usize,
        op: OpId,
        answer: Answer,
    },
    TimedOut {
        node: usize,
        op: OpId,
        read: bool,
    },
    Watch {
        node: usize,
        shown: Shown,
    },
    Link {
        node: usize,
    },
    /// The election hears that its connection is lost,
    OutageHeard {
        node: usize,
    },
    /// the outage has lasted for the grace period,
    OutageLasts {
        node: usize,
        since: Moment,
    },
    /// and the election hears of that.
    GraceOver {
        node: usize,
        since: Moment,
    },
    HandlerEnds {
        node: usize,
        term: TermId,
        end: HandlerEnd,
    },
    Health {
        node: usize,
        term: TermId,
    },
    /// The process dies, and starts again soon.
    Dies {
        node: usize,
    },
    PeerMessage {
        node: usize,
        reply_to: PeerMessage,
    },
    PeerReplied {
        node: usize,
        id: PeerRequestId,
        answer: Option<PeerReply>,
    },
    Fenced(Step),
    /// Something happens to a companion.
    Will {
        companion: u64,
        stage: Stage,
    },
    Expire,
    Wipe {
        revision: u64,
    },
    Relief {
        node: usize,
        trouble: Trouble,
    },
    Calm,
    Return,
    /// The bucket's settings are put back.
    Fit,
    /// The operator goes on.
    Retire {
        retirement: u64,
    },
}

impl Happening {
    /// Whether it dies with this process.
    pub const fn is_within(&self, process: usize) -> bool {
        match self {
            Self::Arrive { .. }
            | Self::Reading(_)
            | Self::PeerMessage { .. }
            | Self::Fenced(_)
            | Self::Will { .. }
            | Self::Expire
            | Self::Wipe { .. }
            | Self::Relief { .. }
            | Self::Calm
            | Self::Fit
            | Self::Retire { .. }
            | Self::Return => false,
            Self::Wake { node, .. }
            | Self::Answer { node, .. }
            | Self::TimedOut { node, .. }
            | Self::Watch { node, .. }
            | Self::Link { node }
            | Self::OutageHeard { node }
            | Self::OutageLasts { node, .. }
            | Self::GraceOver { node, .. }
            | Self::Dies { node }
            | Self::PeerReplied { node, .. }
            | Self::HandlerEnds { node, .. }
            | Self::Health { node, .. } => *node == process,
        }
    }
}
