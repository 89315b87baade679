//! The messages between the actors.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, Subject};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::role::{GroupRequest, HandlerReport, Order, Request, RoleScope, SteppedDown};
use crate::store::{self, AssignmentDelivery, BucketInfo, Denied, StoreError};
use nats_elect_core::member::{self, UnitId};
use nats_elect_core::name::RoleName;
use nats_elect_core::peer::PeerRequest;
use nats_elect_core::record::Entry;
use nats_elect_core::{Failure, Input, Moment, TermId};

/// The link to the bucket, for all of its users.
#[derive(Clone)]
pub(crate) enum Link {
    /// There has been no connection since then.
    Down {
        since: Moment,
    },
    Unusable(Failure),
    Up {
        bucket: store::Bucket,
        info: nats_elect_core::Bucket,
    },
}

impl Link {
    /// The bucket and its creation time, while it is in reach.
    pub fn up(&self) -> Option<(store::Bucket, u64)> {
        match self {
            Self::Up { bucket, info } => Some((bucket.clone(), info.epoch)),
            Self::Down { .. } | Self::Unusable(_) => None,
        }
    }

    /// The link as the machines of the core take it.
    pub fn to_core(&self) -> nats_elect_core::Link {
        match self {
            Self::Down { since } => nats_elect_core::Link::Down { since: *since },
            Self::Unusable(failure) => nats_elect_core::Link::Unusable(failure.clone()),
            Self::Up { info, .. } => nats_elect_core::Link::Up(*info),
        }
    }
}

/// Messages to the supervisor.
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
    /// An order to all roles, and to those that are added later. It is answered when each role has
    /// followed, with the outcome of the terms that were ended.
    Order {
        order: Order,
        reply: oneshot::Sender<BTreeMap<String, SteppedDown>>,
    },
    /// The sender has reason to doubt that the bucket is still the same.
    LookAtBucket,
    /// This role's election cannot use the bucket as it was seen last. The election is to receive
    /// the present state, changed or not.
    Reopen(RoleName),
    #[cfg(test)]
    CrashAdmin,
    #[cfg(test)]
    CrashMember,
    /// Join the groups. Sent once.
    JoinGroups,
    /// Restart a crashed role's election: its handler has ended.
    RestartRole {
        role: RoleName,
    },
    /// Restart the crashed actor of this membership: all of its handlers have ended.
    RestartMember(usize),
    /// Restart the monitor, which crashed a while ago.
    ReplaceMonitor,
    /// Answer with a handler that outlives its lease, if there is one.
    Ping(oneshot::Sender<Option<String>>),
    /// Leave every election, and then end. `None` releases as each role is configured. It is
    /// answered when every role is left and every handler has ended.
    ///
    /// If that takes longer than `timeout`, it is answered with the roles that are not left, and
    /// they are abandoned. The time counts on this thread, because a handler that blocks can hold
    /// up the timers of its own runtime.
    Stop {
        release: Option<bool>,
        timeout: Duration,
        reply: oneshot::Sender<Result<(), Vec<String>>>,
    },
    /// The timeout of a stop is over.
    StopTimedOut,
    /// Leave every election without a write, and then end.
    Abandon,
    /// End.
    End,
}

/// Messages to the connection monitor.
pub(crate) enum MonitorMsg {
    Connected(Result<Client, async_nats::ConnectError>),
    ClientEvent(async_nats::Event),
    Poll,
    /// The sender has reason to doubt that the bucket is still the same.
    LookAtBucket,
    /// This role's election is to receive the state of the bucket, changed or not.
    Reopen(RoleName),
    /// The look with this number ended.
    Looked(u64, Result<(store::Bucket, BucketInfo), StoreError>),
    Retry,
    StartTimedOut,
}

/// Messages to an election.
pub(crate) enum ElectionMsg {
    /// The timer with this number fired.
    TimerFired(u64),
    LinkChanged(Link),
    /// An input of its machine. The actor first looks at what was read of the role's key.
    Input(Input),
    /// The watch showed the last message of the role's key.
    Observed {
        entry: Entry,
        /// Whether it came while the watch was running. Otherwise it may have stood there before.
        live: bool,
    },
    /// The server refused a publish to the data of the role's leader.
    DataDenied(Denied),
    /// Another instance asks, and waits for an answer at this subject.
    Asked(PeerRequest, Subject),
    Handler(HandlerReport),
    /// The handlers' runtime keeps a health check from being answered.
    HealthUnanswered,
    Ask(Request),
}

/// Messages to the actor of this instance as a member of one group.
pub(crate) enum GroupMsg {
    /// The timer with this number fired.
    TimerFired(u64),
    LinkChanged(Link),
    /// The units are to move away and none is to come, or no longer so.
    Cordon(bool),
    Stop {
        release: bool,
    },
    Abandon,
    #[cfg(test)]
    Crash,
    /// Tell the machine how the connection stands, once more.
    LinkAgain,
    /// The watch told this.
    Watched {
        /// The creation time of the bucket.
        bucket: u64,
        told: Vec<AssignmentDelivery>,
        /// Dropped when all of that is taken: then the watch tells more.
        taken: OwnedSemaphorePermit,
    },
    /// An answer to what the machine asked for.
    Answered(Box<member::Input>),
    /// A read of a key of the bucket with this creation time ended.
    Read(u64, Box<member::Input>),
    /// A plan is made. By so much the highest load is above its fair share before it, and after it.
    Planned(Box<member::Input>, (f64, f64)),
    Handler(UnitId, HandlerReport),
    /// The handler of this unit was asked whether it is well, or that of all shards.
    HealthChecked(Option<UnitId>, bool),
    /// A request of the handler of this unit, in this term.
    Ask(UnitId, TermId, Request),
    /// A request about the group.
    AskGroup(GroupRequest),
}
