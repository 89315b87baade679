//! What the actors tell one another.

use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, Subject};
use tokio::sync::oneshot;

use super::children::Child;
use crate::model::leader_event::LeaderEvent;
use crate::role::{HandlerReport, Order, Request, RoleScope, SteppedDown};
use crate::store::{self, BucketInfo, Denied, StoreError};
use nats_elect_core::name::RoleName;
use nats_elect_core::peer::{PeerReply, PeerRequest};
use nats_elect_core::record::{Entry, FenceEntry};
use nats_elect_core::{self as core, Failure, OpId, PeerRequestId, Snapshot, TermId, WriteOutcome};

/// The way to the bucket, for everyone who uses it.
#[derive(Clone)]
pub(crate) enum Link {
    Down,
    Unusable(Failure),
    Up {
        bucket: store::Bucket,
        info: core::Bucket,
    },
}

/// What the supervisor is told.
pub(crate) enum SupervisorMsg {
    LinkChanged(Link),
    AddRole {
        scope: Arc<RoleScope>,
        reply: oneshot::Sender<bool>,
    },
    RemoveRole {
        role: RoleName,
        release: bool,
        reply: oneshot::Sender<()>,
    },
    /// To all roles, and to those that are added later. Answered when each has followed, with what became of the terms that
    /// were ended.
    Order {
        order: Order,
        reply: oneshot::Sender<Vec<(RoleName, SteppedDown)>>,
    },
    /// Somebody has reason to doubt that the bucket is what it was.
    LookAtBucket,
    /// This role's election can't use the bucket as it was seen last: it is to hear how it is now, changed or not.
    Reopen(RoleName),
    /// The server refused the admin service something.
    AdminDenied(Denied),
    #[cfg(test)]
    CrashAdmin,
    /// Start a crashed role's election anew: its handler has ended.
    RestartRole {
        role: RoleName,
    },
    /// Start one of those who work for all roles anew: it crashed a while ago.
    Replace(Child),
    /// Answer, with a role whose handler outlives its lease, if there is one.
    Ping(oneshot::Sender<Option<RoleName>>),
    /// Leave every election; then end. `None` releases as each role is configured. Answered when every role is left and
    /// every handler has ended. `late` is told when that takes longer than `timeout`, by this thread's timers: a handler
    /// that blocks can hold up those of its own runtime.
    Stop {
        release: Option<bool>,
        reply: oneshot::Sender<()>,
        timeout: Duration,
        late: oneshot::Sender<()>,
    },
    /// Leave every election without a write; then end.
    Abandon,
    /// A term began or ended here.
    Tell(LeaderEvent),
    /// Everything of this instance has ended: end when the publisher has told it.
    Finish,
    /// End.
    End,
}

/// What the connection monitor is told.
pub(crate) enum MonitorMsg {
    Connected(Result<Client, async_nats::ConnectError>),
    ClientEvent(async_nats::Event),
    Poll,
    /// Somebody has reason to doubt that the bucket is what it was.
    LookAtBucket,
    /// This role's election is to hear how the bucket is, changed or not.
    Reopen(RoleName),
    /// The look with this number ended.
    Looked(u64, Result<(store::Bucket, BucketInfo), StoreError>),
    Retry,
    StartTimedOut,
}

/// Messages to an actor that works on the bucket while there is a link to it.
pub(crate) enum LinkedMsg {
    LinkChanged(Link),
    /// The task with this number ended.
    Ended {
        number: u64,
        error: Option<StoreError>,
    },
    /// The pause before this task is over.
    Start {
        number: u64,
    },
    #[cfg(test)]
    Crash,
}

/// Messages to the event publisher.
pub(crate) enum PublisherMsg {
    LinkChanged(Link),
    /// Publish this.
    Tell(LeaderEvent),
    /// The attempt with this number ended.
    Told {
        number: u64,
        outcome: Result<(), StoreError>,
    },
    Retry {
        number: u64,
    },
    /// Say when everything is published.
    Finish(oneshot::Sender<()>),
}

/// What an election is told.
pub(crate) enum ElectionMsg {
    /// The timer with this number fired.
    TimerFired(u64),
    LinkChanged(Link),
    Observed(Entry),
    /// The watch showed the last message of the role's fence key.
    ObservedFence(FenceEntry),
    WriteEnded {
        op: OpId,
        outcome: WriteOutcome,
    },
    ReadEnded {
        op: OpId,
        outcome: Result<Snapshot, Failure>,
    },
    /// The server refused a publish to one of the role's keys, or the reading of keys.
    Denied(Denied),
    /// The server refused a publish to what the role's leader keeps.
    DataDenied(Denied),
    /// Another instance asks, and waits for an answer there.
    Asked {
        question: PeerRequest,
        reply: Subject,
    },
    /// A question of ours was answered; nothing if time is up.
    Answered {
        question: PeerRequestId,
        answer: Option<PeerReply>,
    },
    Handler(HandlerReport),
    HealthChecked {
        term: TermId,
        healthy: bool,
    },
    /// The runtime that runs handlers keeps a health check from being answered.
    HealthUnanswered,
    Ask(Request),
    Stop {
        release: bool,
    },
    Abandon,
}
